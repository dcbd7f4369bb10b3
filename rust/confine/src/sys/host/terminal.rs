//! Terminals.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sys::check;

/// Pushes one line end into the input of `terminal` (`TIOCSTI`, `ioctl_tty(2)`).
///
/// # Errors
/// `EIO` where the kernel lets nobody do so without `CAP_SYS_ADMIN`
/// (`dev.tty.legacy_tiocsti` is 0; kernel commit "tty: Allow TIOCSTI to be
/// disabled", Linux 6.2). It looks at that first: `EPERM` means that it would be
/// done for a process that has this as its controlling terminal.
pub fn push_input(terminal: BorrowedFd<'_>) -> io::Result<()> {
    let byte: libc::c_char = b'\n'.cast_signed() as libc::c_char;
    // SAFETY: the request reads one live byte.
    check(libc::c_long::from(unsafe {
        libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, &raw const byte)
    }))
    .map(drop)
}
