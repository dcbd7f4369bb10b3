//! AF_UNIX, by every way to name an address.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with,
};

use crate::AttemptKind;

/// For the caller.
const CALLER_LIMIT: Duration = Duration::from_secs(1);

pub(super) fn attempt(kind: &AttemptKind) -> Option<io::Result<()>> {
    Some(match kind {
        AttemptKind::ConnectStream(path) => UnixStream::connect(path).map(drop),
        AttemptKind::ConnectSeqpacket(path) => connect_seqpacket(path),
        AttemptKind::SendDatagram(path) => {
            UnixDatagram::unbound().and_then(|socket| socket.send_to(b"canary", path).map(drop))
        }
        AttemptKind::SendMessage(path) => send_message(path),
        AttemptKind::SendMessages(path) => UnixDatagram::unbound()
            .and_then(|socket| confine::sys::attempt_sendmmsg(socket.as_fd(), path)),
        AttemptKind::ConnectAbstract(name) => connect_abstract(name),
        AttemptKind::BindSocket(path) => {
            UnixListener::bind(path).map(|_| drop(std::fs::remove_file(path)))
        }
        AttemptKind::AcceptCaller(path) => accept_caller(path),
        AttemptKind::UnixSocket => confine::sys::attempt_unix_socket(),
        AttemptKind::DatagramPair => confine::sys::attempt_datagram_pair(),
        AttemptKind::SocketPair => UnixStream::pair().map(drop),
        AttemptKind::PassDescriptor => pass_descriptor(),
        AttemptKind::RaceToConnect(forbidden, allowed, milliseconds) => {
            race_to_connect(forbidden, allowed, Duration::from_millis((*milliseconds).into()))
        }
        _ => return None,
    })
}

fn connect_seqpacket(path: &Path) -> io::Result<()> {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok(rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?)
}

fn connect_abstract(name: &[u8]) -> io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
}

/// The allowed one is where this place may listen itself, if it may.
fn race_to_connect(forbidden: &Path, allowed: &Path, limit: Duration) -> io::Result<()> {
    let listener = UnixListener::bind(allowed);
    let raced = confine::sys::attempt_race_to_connect(forbidden, allowed, limit);
    if listener.is_ok() {
        let _ = std::fs::remove_file(allowed);
    }
    raced
}

fn send_message(path: &Path) -> io::Result<()> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let address = SocketAddrUnix::new(path)?;
    let parts = [IoSlice::new(b"canary")];
    let mut nothing = SendAncillaryBuffer::default();
    rustix::net::sendmsg_addr(&socket, &address, &parts, &mut nothing, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// By a thread of this process, so the kernel must say that it is this one.
fn accept_caller(path: &Path) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let caller = std::thread::spawn({
        let path = path.to_owned();
        move || UnixStream::connect(path)
    });
    let accepted = accept_within(&listener);
    let result = caller.join();
    let _ = std::fs::remove_file(path);
    accepted.and_then(|()| result.map_err(|_| io::Error::other("the caller"))?.map(drop))
}

fn accept_within(listener: &UnixListener) -> io::Result<()> {
    let left = Timespec::try_from(CALLER_LIMIT).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    if poll(&mut fds, Some(&left))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (stream, _) = listener.accept()?;
    let caller = confine::pidfd::PidFd::of_peer(stream.as_fd())?;
    if caller.id().pid == confine::Pid::of_self() {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn pass_descriptor() -> io::Result<()> {
    let (one, other) = UnixStream::pair()?;
    let passed = [one.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&passed));
    rustix::net::sendmsg(&one, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(&other, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let arrived = ancillary.drain().any(|m| matches!(m, RecvAncillaryMessage::ScmRights(_)));
    if arrived { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
