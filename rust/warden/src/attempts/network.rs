//! Every other kind of socket, and the proxy.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use crate::AttemptKind;
use crate::tunnel::ask_for_tunnel;

/// A connection that gets no answer at all is no answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// The guard always answers; on a busy machine not at once.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

pub(super) fn attempt(kind: &AttemptKind) -> Option<io::Result<()>> {
    Some(match kind {
        AttemptKind::ConnectTcp(address) => {
            TcpStream::connect_timeout(address, CONNECT_LIMIT).map(drop)
        }
        AttemptKind::ConnectNotation(notation) => connect_notation(notation),
        AttemptKind::FastOpen(port) => confine::sys::attempt_fast_open(*port),
        AttemptKind::ListenTcp => listen(),
        AttemptKind::OpenUdp => UdpSocket::bind("127.0.0.1:0").map(drop),
        AttemptKind::SendUdp(address) => send_udp(*address),
        AttemptKind::RawSocket => open_raw(),
        // Protocol 0 is NETLINK_ROUTE (`netlink(7)`).
        AttemptKind::Netlink => open(AddressFamily::NETLINK, SocketType::RAW),
        AttemptKind::Vsock => open(AddressFamily::VSOCK, SocketType::STREAM),
        AttemptKind::IoUring => confine::sys::attempt_io_uring_setup(),
        AttemptKind::SocketBy32BitCall => confine::sys::attempt_32_bit_socket(),
        AttemptKind::SocketByX32Call => confine::sys::attempt_x32_socket(),
        AttemptKind::Tunnel { port, user, target } => tunnel(*port, user.as_deref(), target),
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

fn listen() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    TcpStream::connect_timeout(&listener.local_addr()?, CONNECT_LIMIT)?;
    // It is in the queue already.
    listener.accept().map(drop)
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

/// Whether the proxy makes a tunnel: 403 is a refusal, all else that is not 200 a
/// failure.
fn tunnel(port: u16, user: Option<&str>, target: &str) -> io::Result<()> {
    let guard = SocketAddr::from(([127, 0, 0, 1], port));
    let errno = match ask_for_tunnel(guard, user, target, ANSWER_LIMIT)? {
        (200, _) => return Ok(()),
        (403, _) => Errno::ACCESS,
        (407, _) => Errno::PERM,
        _ => Errno::HOSTUNREACH,
    };
    Err(io::Error::from_raw_os_error(errno.raw_os_error()))
}
