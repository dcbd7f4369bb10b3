//! The self-test: operations tried in earnest from inside a sandbox.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::time::Duration;

use confine::sys;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use crate::{Attempt, AttemptKind, Expected, Observation, Outcome};

/// A connection that gets no answer at all is no answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Tries each and tells what happened; judges nothing.
pub(crate) fn try_all(attempts: &[Attempt]) -> Vec<Outcome> {
    attempts
        .iter()
        .map(|attempt| Outcome { observed: observe(&attempt.kind), name: attempt.name.clone() })
        .collect()
}

/// Whether all that had to be refused was. What that means for the launch the
/// keeper decides; the warden needs it for what it does by itself.
pub(crate) fn nothing_got_through(attempts: &[Attempt], outcomes: &[Outcome]) -> bool {
    let got_through = |(attempt, outcome): (&Attempt, &Outcome)| {
        attempt.expected == Expected::Refused && outcome.observed == Observation::Worked
    };
    !attempts.is_empty()
        && attempts.len() == outcomes.len()
        && !attempts.iter().zip(outcomes).any(got_through)
}

/// Whether the kernel refused to let a signal through to a group outside: it asks
/// about each of its processes, as it does when all are meant.
pub(crate) fn signals_are_scoped(attempts: &[Attempt], outcomes: &[Outcome]) -> bool {
    let refused = Observation::Failed(rustix::io::Errno::PERM.raw_os_error());
    attempts.iter().zip(outcomes).any(|(attempt, outcome)| {
        matches!(attempt.kind, AttemptKind::SignalGroup(_)) && outcome.observed == refused
    })
}

/// What the kernel answers to one operation, wherever this is called.
pub fn observe(kind: &AttemptKind) -> Observation {
    match try_once(kind) {
        Ok(()) => Observation::Worked,
        // 0 where the library refused before the kernel was asked.
        Err(error) => Observation::Failed(error.raw_os_error().unwrap_or(0)),
    }
}

fn try_once(kind: &AttemptKind) -> io::Result<()> {
    match kind {
        AttemptKind::ReadFile(path) => std::fs::read(path).map(drop),
        AttemptKind::CreateFile(path) => {
            std::fs::File::create_new(path)?;
            std::fs::remove_file(path)
        }
        AttemptKind::ConnectStream(path) => UnixStream::connect(path).map(drop),
        AttemptKind::ConnectSeqpacket(path) => connect_seqpacket(path),
        AttemptKind::SendDatagram(path) => {
            UnixDatagram::unbound()?.send_to(b"canary", path).map(drop)
        }
        AttemptKind::ConnectAbstract(name) => {
            use std::os::linux::net::SocketAddrExt;
            UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
        }
        AttemptKind::ConnectTcp(address) => {
            TcpStream::connect_timeout(address, CONNECT_LIMIT).map(drop)
        }
        AttemptKind::FastOpen(port) => sys::attempt_fast_open(*port),
        AttemptKind::OpenUdp => UdpSocket::bind("127.0.0.1:0").map(drop),
        AttemptKind::IoUring => sys::attempt_io_uring_setup(),
        AttemptKind::Signal(pid) => Ok(rustix::process::test_kill_process((*pid).into())?),
        AttemptKind::SignalGroup(group) => {
            Ok(rustix::process::test_kill_process_group((*group).into())?)
        }
        AttemptKind::Trace(pid) => sys::attempt_trace(*pid),
        AttemptKind::Limit(pid) => {
            let none = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
            Ok(prlimit(Some((*pid).into()), Resource::Core, none).map(drop)?)
        }
        AttemptKind::ReadMemory(pid) => match sys::attempt_memory_read(*pid, 4096) {
            // Nothing is mapped there, but the kernel let the read through.
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::FAULT.raw_os_error()) => Ok(()),
            result => result,
        },
    }
}

fn connect_seqpacket(path: &Path) -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(path)?)?)
}
