//! The fence: every `unsafe` of the project is in this module, behind safe
//! functions. What rustix offers safely is called where it is needed instead.
#![allow(unsafe_code)]

mod attempt;
mod clock;
pub mod host;
mod leaders;
mod race;
mod spawn;
mod survey;

pub use attempt::{
    attempt_fast_open, attempt_io_uring_setup, attempt_keyring, attempt_memory_read,
    attempt_shared_memory, attempt_trace,
};
pub use clock::{LocalTime, local_time};
pub use leaders::{own_process_group, peer_of, process_group_of, session_of};
pub use race::{
    Tally, Way, attempt_datagram_pair, attempt_race_to_connect, attempt_unix_socket,
    race_for_sockets,
};
pub use spawn::{Room, SpawnSetup, ignore_signal, prepare_spawn, unblock_signals};
pub use survey::{
    attempt_32_bit_socket, attempt_change_root, attempt_console_paste, attempt_mount,
    attempt_pivot_root, attempt_sendmmsg, attempt_user_namespace, attempt_x32_socket,
};

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::Pid;

/// `SO_PEERPIDFD` from `asm-generic/socket.h` (kernel commit "net: core: add
/// getsockopt SO_PEERPIDFD", Linux 6.5).
const SO_PEERPIDFD: libc::c_int = 77;

/// `SIOCGSKNS` from `linux/sockios.h` (kernel commit "net: add an ioctl to get
/// a socket network namespace", Linux 4.10).
const SIOCGSKNS: libc::c_ulong = 0x894c;

/// `NS_GET_USERNS` from `linux/nsfs.h` (`ioctl_nsfs(2)`, Linux 4.9).
const NS_GET_USERNS: libc::c_ulong = 0xb701;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A pidfd of the process that connected, or made, the other end of `socket`.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.5; `EINVAL` or `ESRCH` when that process has
/// been reaped.
pub fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut fd: libc::c_int = -1;
    let mut length: libc::socklen_t = 4;
    // SAFETY: `fd` and `length` are live for the call and `length` is the size
    // of `fd`, so the kernel writes at most one `c_int`.
    check(libc::c_long::from(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    }))?;
    // SAFETY: on success the kernel has installed `fd` for this process, and
    // nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks the kernel whether the caller may read `task`, by `get_robust_list(2)`:
/// a `PTRACE_MODE_READ_REALCREDS` check (`ptrace(2)`, "Ptrace access mode
/// checking") that changes nothing. Landlock lets it pass only for tasks of the
/// caller's domain or of one nested in it (kernel commit "landlock: Add ptrace
/// restrictions"). A domain belongs to a thread: the answer is about this task
/// id alone.
///
/// # Errors
/// `EPERM` when the check refuses, `ESRCH` when there is no such task.
pub fn may_read(task: Pid) -> io::Result<()> {
    let mut head: *mut libc::c_void = std::ptr::null_mut();
    let mut length: libc::size_t = 0;
    // SAFETY: both pointers are to live locals of the types that the call
    // writes (`struct robust_list_head *` and `size_t`); `head` is not used.
    check(unsafe {
        libc::syscall(libc::SYS_get_robust_list, task.get(), &raw mut head, &raw mut length)
    })
    .map(drop)
}

/// Sends SIGKILL to every process that the caller may signal, itself and the
/// first process excepted, in one step: none of them can fork in between
/// (`kill(2)` with -1; the kernel holds its list of tasks meanwhile).
///
/// Only for a caller whose reach is known to be limited: outside a sandbox with
/// scoped signals that is every process of the user.
///
/// # Errors
/// `ESRCH` when there is no process but those two.
pub fn end_all_within_reach() -> io::Result<()> {
    // SAFETY: two integers.
    check(libc::c_long::from(unsafe { libc::kill(-1, libc::SIGKILL) })).map(drop)
}

/// Whether two tasks have the same table of descriptors (`kcmp(2)`, `KCMP_FILES`).
///
/// # Errors
/// `EPERM` when the caller may not read both, `ESRCH` when one is gone, `ENOSYS`
/// where the kernel was built without it.
pub fn same_descriptor_table(one: Pid, other: Pid) -> io::Result<bool> {
    const KCMP_FILES: libc::c_int = 2;
    // SAFETY: five integers, of which the last two are not used.
    let order =
        check(unsafe { libc::syscall(libc::SYS_kcmp, one.get(), other.get(), KCMP_FILES, 0, 0) })?;
    Ok(order == 0)
}

/// Gives the calling thread a table of descriptors of its own, a copy of the one
/// that it shared (`CLONE_FILES`, `unshare(2)`).
///
/// # Errors
/// `ENOMEM`.
pub fn leave_descriptor_table() -> io::Result<()> {
    // SAFETY: the call takes a flag and changes nothing but which table this
    // thread uses; every descriptor stays open in both.
    check(libc::c_long::from(unsafe { libc::unshare(libc::CLONE_FILES) })).map(drop)
}

/// The network namespace that `socket` was made in, as an `nsfs` descriptor.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` over that namespace: so the owner of a user
/// namespace gets an answer for the sockets in it and a refusal for the host's.
pub fn socket_net_namespace(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: SIOCGSKNS takes no argument (the kernel ignores it) and returns
    // a new descriptor or an error.
    let fd =
        check(libc::c_long::from(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS as _, 0) }))?;
    #[allow(clippy::cast_possible_truncation)] // a descriptor is a c_int
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// The user namespace that owns `namespace`, both as `nsfs` descriptors: who may
/// enter the one is decided in the other.
///
/// # Errors
/// `EPERM` when it is not the caller's or below the caller's.
pub fn owner_of_namespace(namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: NS_GET_USERNS takes no argument and returns a new descriptor or
    // an error.
    let fd = check(libc::c_long::from(unsafe {
        libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS as _, 0)
    }))?;
    #[allow(clippy::cast_possible_truncation)] // a descriptor is a c_int
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// The Landlock ABI that the running kernel offers
/// (`landlock_create_ruleset(2)`, `LANDLOCK_CREATE_RULESET_VERSION`).
///
/// # Errors
/// `ENOSYS` when it was not built in, `EOPNOTSUPP` when it is disabled.
pub fn landlock_abi() -> io::Result<i32> {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no ruleset: a null pointer and a
    // zero size are what it asks for.
    let abi = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    })?;
    Ok(i32::try_from(abi).unwrap_or(i32::MAX))
}

/// Numbers that a filter needs, of the architecture this is built for.
pub mod numbers {
    /// `prlimit64`.
    pub const PRLIMIT: i64 = libc::SYS_prlimit64;
    /// `setpriority`.
    pub const SETPRIORITY: i64 = libc::SYS_setpriority;
    /// `ioprio_set`.
    pub const IOPRIO_SET: i64 = libc::SYS_ioprio_set;
    /// `add_key`, `request_key` and `keyctl`.
    pub const KEYS: [i64; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
    /// What sends, and which argument has the flags.
    pub const SENDING: [(i64, u8); 3] =
        [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];
    /// `MSG_FASTOPEN`.
    pub const FAST_OPEN: u64 = libc::MSG_FASTOPEN as u64;
    /// `setsockopt`.
    pub const SETSOCKOPT: i64 = libc::SYS_setsockopt;
    /// Level and name of `TCP_FASTOPEN_CONNECT`.
    pub const FAST_OPEN_OPTION: (u64, u64) =
        (libc::IPPROTO_TCP as u64, libc::TCP_FASTOPEN_CONNECT as u64);
    /// System V shared memory, semaphores and message queues (`sysvipc(7)`), and
    /// POSIX message queues (`mq_overview(7)`).
    pub const IPC: [i64; 13] = [
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_semctl,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_msgctl,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
    ];
    /// `socket`, the x32 number included: a filter of 64-bit numbers lets through
    /// what has that bit (`__X32_SYSCALL_BIT`, `seccomp(2)`).
    pub const SOCKET: &[i64] = &with_x32(libc::SYS_socket);
    /// `socketpair`, the same.
    pub const SOCKETPAIR: &[i64] = &with_x32(libc::SYS_socketpair);
    /// The family of local sockets.
    pub const AF_UNIX: u64 = libc::AF_UNIX as u64;
    /// Of the type of a socket what is neither `SOCK_CLOEXEC` nor `SOCK_NONBLOCK`
    /// (`SOCK_TYPE_MASK`, `linux/net.h`).
    pub const SOCKET_TYPE_MASK: u64 = 0xf;
    /// Types of sockets that can reach any other without a connection; AF_UNIX
    /// takes a raw one for a datagram one (`unix_create`, `net/unix/af_unix.c`).
    pub const CONNECTIONLESS: [u64; 2] = [libc::SOCK_DGRAM as u64, libc::SOCK_RAW as u64];
    /// "Permission denied".
    pub const EACCES: u32 = libc::EACCES.cast_unsigned();
    /// "Operation not permitted".
    pub const EPERM: u32 = libc::EPERM.cast_unsigned();

    #[cfg(target_arch = "x86_64")]
    const fn with_x32(number: i64) -> [i64; 2] {
        [number, 0x4000_0000 | number]
    }

    #[cfg(not(target_arch = "x86_64"))]
    const fn with_x32(number: i64) -> [i64; 1] {
        [number]
    }
}
