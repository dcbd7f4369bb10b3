//! Every other kind of socket, and the proxy.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use crate::AttemptKind;

/// A connection that gets no answer at all is no answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

pub(super) fn attempt(kind: &AttemptKind) -> Option<io::Result<()>> {
    Some(match kind {
        AttemptKind::ConnectTcp(address) => {
            TcpStream::connect_timeout(address, CONNECT_LIMIT).map(drop)
        }
        AttemptKind::ConnectNotation(notation) => connect_notation(notation),
        AttemptKind::FastOpen(port) => confine::sys::attempt_fast_open(*port),
        AttemptKind::OpenUdp => UdpSocket::bind("127.0.0.1:0").map(drop),
        AttemptKind::SendUdp(address) => send_udp(*address),
        AttemptKind::RawSocket => open_raw(),
        // Protocol 0 is NETLINK_ROUTE (`netlink(7)`).
        AttemptKind::Netlink => open(AddressFamily::NETLINK, SocketType::RAW),
        AttemptKind::Vsock => open(AddressFamily::VSOCK, SocketType::STREAM),
        AttemptKind::IoUring => confine::sys::attempt_io_uring_setup(),
        AttemptKind::SocketBy32BitCall => confine::sys::attempt_32_bit_socket(),
        AttemptKind::SocketByX32Call => confine::sys::attempt_x32_socket(),
        AttemptKind::Tunnel(target) => tunnel(target),
        _ => return None,
    })
}

fn open(family: AddressFamily, kind: SocketType) -> io::Result<()> {
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, None).map(drop)?)
}

fn open_raw() -> io::Result<()> {
    let (family, kind) = (AddressFamily::INET, SocketType::RAW);
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, Some(ipproto::ICMP)).map(drop)?)
}

fn connect_notation(notation: &str) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in notation.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn send_udp(to: SocketAddr) -> io::Result<()> {
    let from = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    UdpSocket::bind(from)?.send_to(b"canary", to).map(drop)
}

/// Has the proxy that nono names in the environment make a tunnel.
fn tunnel(target: &str) -> io::Result<()> {
    let missing = || io::Error::from_raw_os_error(rustix::io::Errno::DESTADDRREQ.raw_os_error());
    let proxy = std::env::var("HTTPS_PROXY").map_err(|_| missing())?;
    let (user, proxy) = proxy
        .strip_prefix("http://")
        .and_then(|rest| rest.trim_end_matches('/').rsplit_once('@'))
        .ok_or_else(missing)?;
    let address = proxy.parse().map_err(|_| missing())?;
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
    stream.set_read_timeout(Some(CONNECT_LIMIT))?;
    let user = base64(user.as_bytes());
    write!(
        stream,
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic {user}\r\n\r\n"
    )?;
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status)?;
    match status.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error())),
    }
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
