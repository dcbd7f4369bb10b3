//! The arguments of `paddock port`.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock port bcdf 3000                 what listens there, at http://127.0.0.1:3000\n  \
    paddock port bcdf 3000 --listen 8080   the same at http://127.0.0.1:8080\n  \
    paddock port bcdf 3000 --listen 0      at a port that is free\n\n\
    It ends with Ctrl-C, and with the launch. What the agent serves is a page of the agent's in \
    your browser.\n\
    Exit status: 0, or 125 when the port cannot be forwarded."
)]
pub(crate) struct Port {
    /// The launch, or the start of its id
    pub(crate) launch: String,
    /// The port that something in the launch listens on
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Where to listen on this host [default: 127.0.0.1 and the same port]
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Print JSON: one object, once it listens
    #[arg(long)]
    pub(crate) json: bool,
}

impl Port {
    /// Where to listen.
    pub(crate) fn listens(&self) -> SocketAddr {
        self.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, self.port).into())
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "it is PORT or ADDRESS:PORT, as 8080, 127.0.0.1:8080 or [::1]:8080".to_owned();
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let address: SocketAddr = text.parse().map_err(|_| wrong())?;
    if address.ip().is_multicast() { Err(wrong()) } else { Ok(address) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        for (text, address) in [
            ("8080", "127.0.0.1:8080"),
            ("0", "127.0.0.1:0"),
            ("127.0.0.2:80", "127.0.0.2:80"),
            ("[::1]:3000", "[::1]:3000"),
            ("0.0.0.0:3000", "0.0.0.0:3000"),
        ] {
            assert_eq!(listen(text), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", "x", "65536", "localhost:80", "127.0.0.1", ":80", "::1:80", "224.0.0.1:1"]
        {
            assert!(listen(text).is_err(), "{text}");
        }
    }
}
