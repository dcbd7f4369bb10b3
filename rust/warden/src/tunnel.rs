//! A tunnel through the proxy that the environment names.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;

/// The longest head of an answer, in bytes.
const LONGEST_HEAD: u64 = 16 * 1024;

/// Has the proxy in `HTTPS_PROXY` make a tunnel to `target` (`host:port`), and gives
/// the tunnel. Connecting, and each read and write, may take as long as the `limit`.
///
/// # Errors
/// As [`ask_for_tunnel`]; `EDESTADDRREQ` where no proxy is named; the status, with no
/// number of the system's, where the proxy answers something else than 200.
pub fn open_tunnel(target: &str, limit: Duration) -> io::Result<BufReader<TcpStream>> {
    let (user, address) =
        proxy().ok_or_else(|| io::Error::from_raw_os_error(Errno::DESTADDRREQ.raw_os_error()))?;
    match ask_for_tunnel(address, user.as_deref(), target, limit)? {
        (200, tunnel) => Ok(tunnel),
        (status, _) => Err(io::Error::other(format!("the proxy answers {status}"))),
    }
}

/// Asks the proxy at `address` for a tunnel: its status, and what follows the head.
///
/// # Errors
/// The system's error; `EPROTO` where what it answers is no HTTP.
pub(crate) fn ask_for_tunnel(
    address: SocketAddr,
    user: Option<&str>,
    target: &str,
    limit: Duration,
) -> io::Result<(u16, BufReader<TcpStream>)> {
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let user = user.map_or_else(String::new, |user| {
        format!("Proxy-Authorization: Basic {}\r\n", base64(user.as_bytes()))
    });
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{user}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = BufReader::new(stream);
    let mut left = LONGEST_HEAD;
    let status = read_line(&mut answer, &mut left)?;
    let status = status.split(|b| *b == b' ').nth(1).and_then(|word| str::from_utf8(word).ok());
    let status = status.and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| io::Error::from_raw_os_error(Errno::PROTO.raw_os_error()))?;
    while !read_line(&mut answer, &mut left)?.is_empty() {}
    Ok((status, answer))
}

/// Its user part, where it has one, and where it listens.
pub(crate) fn proxy() -> Option<(Option<String>, SocketAddr)> {
    let named = std::env::var("HTTPS_PROXY").ok()?;
    let named = named.strip_prefix("http://")?.trim_end_matches('/');
    let (user, address) = match named.rsplit_once('@') {
        Some((user, address)) => (Some(user.to_owned()), address),
        None => (None, named),
    };
    Some((user, address.parse().ok()?))
}

fn read_line(answer: &mut BufReader<TcpStream>, left: &mut u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let read = io::Read::take(answer, *left).read_until(b'\n', &mut line)?;
    *left -= read as u64;
    // What ends in the middle of a line, or is too long, is no head.
    if !line.ends_with(b"\n") {
        return Err(io::Error::from_raw_os_error(Errno::PROTO.raw_os_error()));
    }
    Ok(line.trim_ascii_end().to_owned())
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
