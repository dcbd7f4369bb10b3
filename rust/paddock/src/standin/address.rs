//! Where the two halves meet.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest path that fits a socket address, its final NUL aside.
const LONGEST_SOCKET_PATH: usize = 107;

/// A loopback port or a Unix socket: `tcp:127.0.0.1:PORT` or `unix:/ABSOLUTE/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A port of a loopback address.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Why a text is no [`Address`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    /// Neither of the two kinds.
    #[error("an address starts with `tcp:` or `unix:`")]
    Kind,
    /// A host name, or no port. Names would need a resolver, which a sandbox may not have.
    #[error("`{0}` is not a loopback address and port such as 127.0.0.1:4096")]
    Tcp(String),
    /// The stand-in runs whatever it is asked to: never where another machine can ask.
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
    /// Relative to what would differ between the two halves.
    #[error("the socket path `{0}` is not absolute")]
    Relative(String),
    /// The kernel has no room for it.
    #[error("the socket path is {0} bytes long, more than the {LONGEST_SOCKET_PATH} that fit")]
    TooLong(usize),
}

impl Address {
    /// Connects once.
    pub(super) fn connect(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                // While nobody listens, the kernel may choose the port being called as the
                // caller's own; TCP then connects the socket to itself, and keeps the
                // server from ever binding the port.
                if stream.local_addr()? == stream.peer_addr()? {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Ok(stream.into())
            }
            Self::Unix(path) => Ok(UnixStream::connect(path)?.into()),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(rest) = text.strip_prefix("tcp:") {
            let address: SocketAddr =
                rest.parse().map_err(|_| AddressError::Tcp(rest.to_owned()))?;
            if !address.ip().is_loopback() {
                return Err(AddressError::NotLoopback(address));
            }
            Ok(Self::Tcp(address))
        } else if let Some(rest) = text.strip_prefix("unix:") {
            if !rest.starts_with('/') {
                return Err(AddressError::Relative(rest.to_owned()));
            }
            if rest.len() > LONGEST_SOCKET_PATH {
                return Err(AddressError::TooLong(rest.len()));
            }
            Ok(Self::Unix(rest.into()))
        } else {
            Err(AddressError::Kind)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_was_written() {
        for text in ["tcp:127.0.0.1:4096", "tcp:127.8.9.10:1", "tcp:[::1]:80", "unix:/run/a b"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_reason() {
        let outside: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let any: SocketAddr = "0.0.0.0:80".parse().unwrap();
        let long = format!("unix:/{}", "x".repeat(LONGEST_SOCKET_PATH));
        let cases = [
            ("", AddressError::Kind),
            ("127.0.0.1:80", AddressError::Kind),
            ("tcp:localhost:80", AddressError::Tcp("localhost:80".into())),
            ("tcp:127.0.0.1", AddressError::Tcp("127.0.0.1".into())),
            ("tcp:127.0.0.1:65536", AddressError::Tcp("127.0.0.1:65536".into())),
            ("tcp:192.0.2.1:80", AddressError::NotLoopback(outside)),
            ("tcp:0.0.0.0:80", AddressError::NotLoopback(any)),
            ("unix:", AddressError::Relative(String::new())),
            ("unix:run/s", AddressError::Relative("run/s".into())),
            (long.as_str(), AddressError::TooLong(LONGEST_SOCKET_PATH + 1)),
        ];
        for (text, reason) in cases {
            assert_eq!(text.parse::<Address>(), Err(reason), "{text}");
        }
        let longest = format!("unix:/{}", "x".repeat(LONGEST_SOCKET_PATH - 1));
        assert!(longest.parse::<Address>().is_ok());
    }
}
