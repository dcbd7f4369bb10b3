//! Process groups and sessions by who leads them (`credentials(7)`). A leader in an
//! outer pid namespace has no number here: the kernel says 0 then, which rustix takes
//! for a process id.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;
use crate::Pid;

/// The caller's process group; `None` when who leads it is in an outer pid
/// namespace, and it has no number here (`getpgrp(2)`).
pub fn own_process_group() -> Option<Pid> {
    // SAFETY: no argument, and it cannot fail.
    Pid::new(unsafe { libc::getpgrp() })
}

/// The process group of `process`, as [`own_process_group`] (`getpgid(2)`).
///
/// # Errors
/// `ESRCH` when it is gone.
pub fn process_group_of(process: Pid) -> io::Result<Option<Pid>> {
    // SAFETY: one integer.
    numbered(unsafe { libc::getpgid(process.get()) })
}

/// The session of `process`; `None` when who leads it has no number here (`getsid(2)`).
///
/// # Errors
/// `ESRCH` when it is gone.
pub fn session_of(process: Pid) -> io::Result<Option<Pid>> {
    // SAFETY: one integer.
    numbered(unsafe { libc::getsid(process.get()) })
}

/// The process that connected, or made, the other end of `socket`; `None` when it is in
/// an outer pid namespace (`SO_PEERCRED`, `unix(7)`).
///
/// # Errors
/// When `socket` is of another kind.
pub fn peer_of(socket: BorrowedFd<'_>) -> io::Result<Option<Pid>> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    #[allow(clippy::cast_possible_truncation)] // three integers
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` and `length` are live for the call and `length` is the size of
    // `peer`, so the kernel writes at most that.
    check(libc::c_long::from(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    }))?;
    Ok(Pid::new(peer.pid))
}

fn numbered(leader: libc::pid_t) -> io::Result<Option<Pid>> {
    check(libc::c_long::from(leader)).map(|_| Pid::new(leader))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn this_process_has_leaders_and_what_is_gone_has_none() {
        let own = Pid::of_self();
        assert_eq!(process_group_of(own).unwrap(), own_process_group());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = Pid::new(child.id().cast_signed()).unwrap();
        assert_eq!(session_of(gone).unwrap(), session_of(own).unwrap(), "control");
        child.wait().unwrap();
        assert_eq!(session_of(gone).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert_eq!(process_group_of(gone).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn the_peer_of_a_socket_is_who_made_it() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_of(one.as_fd()).unwrap(), Some(Pid::of_self()));
        let tcp = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        // The kernel has no such record of it.
        assert_eq!(peer_of(tcp.as_fd()).ok().flatten(), None);
    }
}
