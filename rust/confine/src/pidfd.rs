//! Signals that can only reach the process that was meant.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::{Pid, ProcessId, proc};

/// A handle on one process. A signal sent through it reaches that process or
/// nobody, however often its id is used again (`pidfd_open(2)`).
#[derive(Debug)]
pub struct PidFd {
    id: ProcessId,
    fd: OwnedFd,
}

impl PidFd {
    /// Opens the process `pid`, whoever it is now, and notes its start time.
    ///
    /// # Errors
    /// `ESRCH` when it is gone.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let fd = pidfd_open(pid.into(), PidfdFlags::empty())?;
        let start = proc::start_time(pid)?;
        let opened = Self { id: ProcessId { pid, start }, fd };
        // Still alive after reading: so the start time read was of this
        // process and not of a later one with the same id.
        opened.signal_zero()?;
        Ok(opened)
    }

    /// Opens the process that `id` names, if it is that one still.
    ///
    /// # Errors
    /// `ESRCH` when it is gone, also when its id belongs to another by now.
    pub fn open_exact(id: ProcessId) -> io::Result<Self> {
        let opened = Self::open(id.pid)?;
        if opened.id.start == id.start { Ok(opened) } else { Err(gone()) }
    }

    /// The process that connected the other end of `socket`.
    ///
    /// # Errors
    /// When the kernel has no such record, the process is gone, or it is in an outer pid
    /// namespace.
    pub fn of_peer(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let pid = crate::sys::peer_of(socket)?.ok_or_else(gone)?;
        match crate::sys::peer_pidfd(socket) {
            Ok(fd) => {
                let start = proc::start_time(pid)?;
                let opened = Self { id: ProcessId { pid, start }, fd };
                opened.signal_zero()?;
                Ok(opened)
            }
            // Before Linux 6.5: the id is the kernel's, the handle is opened
            // after the fact; a peer that died in between is refused later,
            // when its place in the launch is checked.
            Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => Self::open(pid),
            Err(e) => Err(e),
        }
    }

    /// Which process this is.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Sends `signal`.
    ///
    /// # Errors
    /// `ESRCH` when the process is gone, `EPERM` when it may not be signalled.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.fd, signal)?)
    }

    fn signal_zero(&self) -> io::Result<()> {
        // rustix has no "signal 0"; polling says as much: readable means dead.
        if self.has_ended()? { Err(gone()) } else { Ok(()) }
    }

    /// Whether the process has ended (a zombie has).
    ///
    /// # Errors
    /// When the kernel refuses the poll.
    pub fn has_ended(&self) -> io::Result<bool> {
        self.wait_ended(Duration::ZERO)
    }

    /// Waits until the process has ended, at most for `limit`. For the first
    /// process of a pid namespace that is after every other process in it
    /// (`pid_namespaces(7)`).
    ///
    /// # Errors
    /// When the kernel refuses the poll.
    pub fn wait_ended(&self, limit: Duration) -> io::Result<bool> {
        let deadline = std::time::Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(n) => return Ok(n > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StartTime;

    #[test]
    fn a_reused_id_is_not_opened() {
        let me = PidFd::open(Pid::of_self()).unwrap();
        assert!(PidFd::open_exact(me.id()).is_ok(), "control: the true identity opens");
        let other = ProcessId { start: StartTime(me.id().start.0 + 1), ..me.id() };
        let refused = PidFd::open_exact(other).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn a_zombie_has_ended() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let handle = PidFd::open(Pid::new(child.id().cast_signed()).unwrap()).unwrap();
        assert!(!handle.has_ended().unwrap(), "control: it runs");
        drop(child.stdin.take());
        assert!(handle.wait_ended(Duration::from_secs(10)).unwrap());
        child.wait().unwrap();
    }

    #[test]
    fn the_peer_of_a_socket_is_the_one_that_connected() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(PidFd::of_peer(a.as_fd()).unwrap().id().pid, Pid::of_self());
    }
}
