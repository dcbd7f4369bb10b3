//! Filters on system calls, and answering them in another process's stead.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{on_thread, without_new_privileges};
use crate::sys::check;

/// What a filtered call fails with: an error that it has of its own never.
pub const FILTERED_ERROR: i32 = libc::EDOM;
/// How long a notification may take to arrive.
const PATIENCE: Duration = Duration::from_secs(1);

/// The call that the filters here are about: it has no effect, and nothing in
/// the standard library makes it (`getsid(2)`).
///
/// # Errors
/// What the filter says.
pub fn filtered_call() -> io::Result<()> {
    // SAFETY: one integer; the call changes nothing.
    check(unsafe { libc::syscall(libc::SYS_getsid, 0) }).map(drop)
}

/// Puts a filter on the calling thread that answers [`filtered_call`] with
/// `action` and lets everything else through.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small numbers
fn install(action: u32, flags: libc::c_ulong) -> io::Result<libc::c_long> {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let number = libc::SYS_getsid as u32;
    // The number of the call is the first word of `struct seccomp_data`. The
    // architecture is not looked at: this filter protects nothing.
    let mut program = [
        libc::sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: number },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: action },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: `filter` is live and points at `len` live instructions, which the
    // kernel copies.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    })
}

/// Runs `operation` behind a filter that refuses [`filtered_call`] with
/// [`FILTERED_ERROR`].
///
/// # Errors
/// When there can be no filter. What the operation met is its result.
pub fn within_filter<T: Send>(operation: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_thread(|| {
        without_new_privileges()?;
        install(libc::SECCOMP_RET_ERRNO | FILTERED_ERROR.cast_unsigned(), 0)?;
        Ok(operation())
    })
}

/// Whether filters may ask another process (`SECCOMP_RET_USER_NOTIF`, by
/// `SECCOMP_GET_ACTION_AVAIL`, `seccomp(2)`; Linux 5.0).
///
/// # Errors
/// `EOPNOTSUPP` when not.
pub fn knows_notification() -> io::Result<()> {
    let action: u32 = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: the call reads one live 32-bit action.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    })
    .map(drop)
}

/// What came of a call that another thread was asked about.
#[derive(Debug)]
pub enum Notified {
    /// There can be no listener. `EBUSY`: there is one in the chain of filters
    /// already (`seccomp(2)`, `SECCOMP_FILTER_FLAG_NEW_LISTENER`).
    NoListener(io::Error),
    /// The listener got no notification.
    NotHeard(io::Error),
    /// The listener answered; this is what the call was told.
    Answered(io::Result<()>),
}

/// Makes [`filtered_call`] on a thread whose filter has a listener
/// (`seccomp_unotify(2)`), and answers it with [`FILTERED_ERROR`].
///
/// # Errors
/// When the thread cannot be made.
pub fn notified_call() -> io::Result<Notified> {
    let (sender, receiver) = channel::<io::Result<OwnedFd>>();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
            let listener = without_new_privileges().and_then(|()| {
                install(libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
            });
            let is_there = listener.is_ok();
            let _ = sender.send(listener.map(|fd| {
                #[allow(clippy::cast_possible_truncation)] // a descriptor is a c_int
                // SAFETY: the descriptor is new and owned by nobody else.
                unsafe {
                    OwnedFd::from_raw_fd(fd as libc::c_int)
                }
            }));
            // Once the listener is closed the kernel answers in its stead, so
            // this cannot hang.
            if is_there { filtered_call() } else { Ok(()) }
        })?;
        let listener = match receiver.recv() {
            Ok(Ok(listener)) => listener,
            Ok(Err(e)) => return Ok(Notified::NoListener(e)),
            Err(_) => return Err(io::Error::other("the trial panicked")),
        };
        let heard = answer(listener.as_fd());
        drop(listener);
        let told = thread.join().unwrap_or_else(|_| Err(io::Error::other("the trial panicked")));
        Ok(match heard {
            Ok(()) => Notified::Answered(told),
            Err(e) => Notified::NotHeard(e),
        })
    })
}

/// Waits for one notification and answers it.
fn answer(listener: BorrowedFd<'_>) -> io::Result<()> {
    let limit = Timespec::try_from(PATIENCE).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut fds = [PollFd::new(&listener, PollFlags::IN)];
    if poll(&mut fds, Some(&limit))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    // SAFETY: all zero is what the kernel asks for, and a value of this plain
    // structure.
    let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: `notification` is live and of the type that this request writes.
    check(libc::c_long::from(unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notification)
    }))?;
    let mut response =
        libc::seccomp_notif_resp { id: notification.id, val: 0, error: -FILTERED_ERROR, flags: 0 };
    // SAFETY: `response` is live and of the type that this request reads.
    check(libc::c_long::from(unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response)
    }))
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_of_the_thread_that_ends_with_the_trial() {
        assert!(filtered_call().is_ok(), "control: before");
        let refused = within_filter(filtered_call).unwrap().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(FILTERED_ERROR));
        assert!(filtered_call().is_ok(), "control: after");
    }

    #[test]
    fn a_call_is_answered_by_the_listener() {
        knows_notification().unwrap();
        let Notified::Answered(told) = notified_call().unwrap() else { panic!("no answer") };
        assert_eq!(told.unwrap_err().raw_os_error(), Some(FILTERED_ERROR));
        assert!(filtered_call().is_ok(), "control: after");
    }

    #[test]
    fn a_second_listener_in_the_chain_is_busy() {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let second = on_thread(|| {
            without_new_privileges()?;
            let first = install(libc::SECCOMP_RET_USER_NOTIF, flags)?;
            // A thread started by this one inherits its filters.
            let second = notified_call();
            #[allow(clippy::cast_possible_truncation)] // a descriptor is a c_int
            // SAFETY: the descriptor is new and owned by nobody else.
            drop(unsafe { OwnedFd::from_raw_fd(first as libc::c_int) });
            second
        });
        let Notified::NoListener(e) = second.unwrap() else { panic!("a second listener") };
        assert_eq!(e.raw_os_error(), Some(libc::EBUSY));
    }
}
