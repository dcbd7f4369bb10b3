//! Landlock, right by right.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{on_thread, without_new_privileges};
use crate::sys::check;

/// What a ruleset handles: refused but for what rules allow (`struct
/// landlock_ruleset_attr`, `landlock_create_ruleset(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rights {
    /// `LANDLOCK_ACCESS_FS_*`.
    pub files: u64,
    /// `LANDLOCK_ACCESS_NET_*`, since ABI 4.
    pub network: u64,
    /// `LANDLOCK_SCOPE_*`, since ABI 6.
    pub scopes: u64,
}

impl Rights {
    /// Reading directories: `LANDLOCK_ACCESS_FS_READ_DIR`, ABI 1 (`landlock(7)`).
    pub const READ_DIRECTORY: Self = Self { files: 1 << 3, network: 0, scopes: 0 };
    /// `LANDLOCK_ACCESS_NET_BIND_TCP`, ABI 4 (kernel commit "landlock: Support
    /// network rules with TCP bind and connect").
    pub const BIND_TCP: Self = Self { files: 0, network: 1 << 0, scopes: 0 };
    /// `LANDLOCK_ACCESS_NET_CONNECT_TCP`, of the same commit.
    pub const CONNECT_TCP: Self = Self { files: 0, network: 1 << 1, scopes: 0 };
    /// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET`, ABI 6 (kernel commit "landlock: Add
    /// abstract UNIX socket scoping").
    pub const ABSTRACT_UNIX: Self = Self { files: 0, network: 0, scopes: 1 << 0 };
    /// `LANDLOCK_SCOPE_SIGNAL`, ABI 6 (kernel commit "landlock: Add signal
    /// scoping").
    pub const SIGNAL: Self = Self { files: 0, network: 0, scopes: 1 << 1 };
    /// `LANDLOCK_ACCESS_FS_RESOLVE_UNIX`, ABI 9 (kernel commit "landlock: Control
    /// pathname UNIX domain socket resolution by path").
    pub const RESOLVE_UNIX: Self = Self { files: 1 << 16, network: 0, scopes: 0 };

    /// The size of the structure that has these rights: a kernel that is older
    /// than a part of it refuses that part only where it is not zero, and the
    /// oldest knows nothing but the first (`landlock_create_ruleset(2)`, `E2BIG`).
    fn size(&self) -> usize {
        match self {
            Self { scopes: 1.., .. } => 24,
            Self { network: 1.., .. } => 16,
            _ => 8,
        }
    }
}

fn create_ruleset(rights: Rights) -> io::Result<OwnedFd> {
    // SAFETY: `rights` is live and laid out as the kernel's structure, of which
    // `size` names no more than there is; no flag is set.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const rights, rights.size(), 0)
    })?;
    #[allow(clippy::cast_possible_truncation)] // a descriptor is a c_int
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Whether a ruleset may handle `rights`.
///
/// # Errors
/// `EINVAL` or `E2BIG` when this kernel does not know them, `EOPNOTSUPP` when
/// Landlock is disabled, `ENOSYS` when it is not there.
pub fn landlock_knows(rights: Rights) -> io::Result<()> {
    create_ruleset(rights).map(drop)
}

/// Which of the known faults of Landlock are put right: bit N-1 for erratum N
/// (`landlock_create_ruleset(2)`, `LANDLOCK_CREATE_RULESET_ERRATA`; kernel commit
/// "landlock: Add the errata interface", Linux 6.15).
///
/// # Errors
/// `EINVAL` before that, otherwise as [`landlock_knows`].
pub fn landlock_errata() -> io::Result<u32> {
    const CREATE_RULESET_ERRATA: libc::c_uint = 1 << 1;
    // SAFETY: with this flag the call takes no ruleset: a null pointer and a
    // zero size are what it asks for.
    let errata = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            CREATE_RULESET_ERRATA,
        )
    })?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a mask of 32 bits
    Ok(errata as u32)
}

/// Whether a domain can be put on all threads of a process at once
/// (`LANDLOCK_RESTRICT_SELF_TSYNC`, `landlock_restrict_self(2)`, ABI 8). Asked
/// with a descriptor that is none, so that nothing is restricted: the kernel
/// looks at flags before descriptors (`security/landlock/syscalls.c`).
///
/// # Errors
/// `EINVAL` when this kernel does not know it, otherwise as [`landlock_knows`].
pub fn landlock_knows_thread_sync() -> io::Result<()> {
    const RESTRICT_SELF_TSYNC: libc::c_uint = 1 << 3;
    on_thread(|| {
        without_new_privileges()?;
        // SAFETY: two integers; -1 is no ruleset, so the call cannot succeed.
        match check(unsafe {
            libc::syscall(libc::SYS_landlock_restrict_self, -1, RESTRICT_SELF_TSYNC)
        }) {
            Err(e) if e.raw_os_error() == Some(libc::EBADF) => Ok(()),
            other => other.map(drop),
        }
    })
}

/// Puts the calling thread into a domain. What is refused in it is expected, and
/// no news for the host's log (`LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF`,
/// `landlock_restrict_self(2)`, ABI 7).
fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    const LOG_SAME_EXEC_OFF: libc::c_uint = 1 << 0;
    let restrict_with = |flags: libc::c_uint| {
        // SAFETY: two integers, of which the first is a live descriptor.
        check(unsafe {
            libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), flags)
        })
        .map(drop)
    };
    match restrict_with(LOG_SAME_EXEC_OFF) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => restrict_with(0),
        other => other,
    }
}

/// Runs `operation` in a domain that refuses `rights` and has no rule.
///
/// # Errors
/// When there can be no such domain. What the operation met is its result.
pub fn within_landlock<T: Send>(
    rights: Rights,
    operation: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    on_thread(|| {
        without_new_privileges()?;
        let ruleset = create_ruleset(rights)?;
        restrict(ruleset.as_fd())?;
        Ok(operation())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_root() -> io::Result<()> {
        std::fs::read_dir("/").map(drop)
    }

    #[test]
    fn a_domain_is_of_the_thread_that_ends_with_the_trial() {
        assert!(read_root().is_ok(), "control: before");
        let refused = within_landlock(Rights::READ_DIRECTORY, read_root).unwrap().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        assert!(read_root().is_ok(), "control: after");
        let other = within_landlock(Rights::SIGNAL, read_root).unwrap();
        assert!(other.is_ok(), "what is not handled is not refused");
    }

    #[test]
    fn a_right_that_no_kernel_has_is_unknown() {
        let none = Rights { files: 1 << 63, network: 0, scopes: 0 };
        assert!(landlock_knows(Rights::READ_DIRECTORY).is_ok(), "control");
        assert_eq!(landlock_knows(none).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert!(within_landlock(none, || ()).is_err());
    }

    #[test]
    fn asking_for_thread_sync_restricts_nothing() {
        let known = landlock_knows_thread_sync();
        let abi = crate::sys::landlock_abi().unwrap();
        match known {
            Ok(()) => assert!(abi >= 8),
            Err(e) => assert_eq!((abi < 8, e.raw_os_error()), (true, Some(libc::EINVAL))),
        }
        assert!(!rustix::thread::no_new_privs().unwrap());
    }

    #[test]
    fn errata_are_known_or_the_question_is_not() {
        match landlock_errata() {
            Ok(errata) => assert_eq!(errata & 0xffff_0000, 0, "{errata:#x}"),
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::EINVAL)),
        }
    }
}
