//! A tunnel through the proxy that nono names in the environment.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The longest line of an answer's head.
const MOST: u64 = 8192;

/// Has the proxy in `HTTPS_PROXY` make a tunnel to `target` (`host:port`), and gives
/// the tunnel.
///
/// # Errors
/// The system's error; `EDESTADDRREQ` where no proxy is named; the status line, with
/// no number, where the proxy answers something else than 200.
pub fn open_tunnel(target: &str, limit: Duration) -> io::Result<BufReader<TcpStream>> {
    let (user, address) = proxy().ok_or_else(|| {
        io::Error::from_raw_os_error(rustix::io::Errno::DESTADDRREQ.raw_os_error())
    })?;
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let user = base64(user.as_bytes());
    write!(
        stream,
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic {user}\r\n\r\n"
    )?;
    let mut answer = BufReader::new(stream);
    let status = read_line(&mut answer)?;
    if status.split(' ').nth(1) != Some("200") {
        return Err(io::Error::other(status));
    }
    while !read_line(&mut answer)?.is_empty() {}
    Ok(answer)
}

/// Its user part, and where it listens.
fn proxy() -> Option<(String, SocketAddr)> {
    let named = std::env::var("HTTPS_PROXY").ok()?;
    let (user, address) = named.strip_prefix("http://")?.trim_end_matches('/').rsplit_once('@')?;
    Some((user.to_owned(), address.parse().ok()?))
}

fn read_line(answer: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    io::Read::take(answer, MOST).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let value = (0..3).fold(0, |v, n| v << 8 | u32::from(*chunk.get(n).unwrap_or(&0)));
        for n in 0..4 {
            let at = (value >> (18 - 6 * n)) as usize & 63;
            text.push(if n <= chunk.len() { char::from(ALPHABET[at]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, wanted) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), wanted);
        }
    }
}
