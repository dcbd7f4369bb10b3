//! Operations that a sandbox must refuse, tried in earnest by a self-test.
//!
//! Each returns what the kernel said. None changes its target when it is let
//! through: what was opened is closed again at once.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::check;
use crate::Pid;

fn owned(fd: libc::c_long) -> OwnedFd {
    #[allow(clippy::cast_possible_truncation)] // a descriptor is a c_int
    // SAFETY: the callers pass a descriptor that a system call just made for
    // them and that nothing else owns.
    unsafe {
        OwnedFd::from_raw_fd(fd as libc::c_int)
    }
}

/// Sets up an `io_uring` with one entry (`io_uring_setup(2)`).
///
/// # Errors
/// What the kernel or a filter answers; `ENOSYS` where the kernel has none.
pub fn attempt_io_uring_setup() -> io::Result<()> {
    // struct io_uring_params is 120 bytes; zero means "no options".
    let mut params = [0u64; 15];
    // SAFETY: `params` is live, zeroed and exactly as large as the struct that
    // the kernel reads and writes.
    let fd = check(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) })?;
    drop(owned(fd));
    Ok(())
}

/// Attaches to `target` as a tracer without stopping it (`PTRACE_SEIZE`), and
/// detaches.
///
/// # Errors
/// `EPERM` when the check refuses, `ESRCH` when there is no such task.
pub fn attempt_trace(target: Pid) -> io::Result<()> {
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: PTRACE_SEIZE takes no pointer that the kernel dereferences; the
    // options are zero.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, target.get(), null, null) })?;
    // Detaching needs a stopped tracee; interrupt it and wait for the stop.
    // SAFETY: as above, no memory is passed.
    check(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, target.get(), null, null) })?;
    let mut status = 0;
    // SAFETY: `status` is a live local of the type that waitpid writes.
    check(libc::c_long::from(unsafe {
        libc::waitpid(target.get(), &raw mut status, libc::__WALL)
    }))?;
    // SAFETY: no memory is passed; signal 0 injects none.
    check(unsafe { libc::ptrace(libc::PTRACE_DETACH, target.get(), null, null) })?;
    Ok(())
}

/// Reads one byte at `address` in `target` (`process_vm_readv(2)`).
///
/// # Errors
/// `EPERM` when the check refuses; `EFAULT` when it passes but nothing is
/// mapped there: that is access, not refusal.
pub fn attempt_memory_read(target: Pid, address: usize) -> io::Result<()> {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 1 };
    // SAFETY: `local` points at one live byte; `remote` is an address in the
    // other process, which the kernel checks.
    let read = unsafe {
        libc::process_vm_readv(target.get(), &raw const local, 1, &raw const remote, 1, 0)
    };
    if read < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Looks up the calling thread's keyring, making it when there is none
/// (`keyctl_get_keyring_ID(3)`, `KEY_SPEC_THREAD_KEYRING`); it goes with the
/// thread.
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_keyring() -> io::Result<()> {
    const THREAD_KEYRING: libc::c_long = -1;
    // SAFETY: three integers; the operation is KEYCTL_GET_KEYRING_ID (0), and
    // the third lets the kernel make the keyring.
    check(unsafe { libc::syscall(libc::SYS_keyctl, 0, THREAD_KEYRING, 1) }).map(drop)
}

/// Opens a TCP connection to a port of loopback by sending (`MSG_FASTOPEN`,
/// `send(2)`).
///
/// # Errors
/// What the kernel or a filter answers; `EOPNOTSUPP` where the host has that
/// turned off.
pub fn attempt_fast_open(port: u16) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: three integers.
    let socket = owned(check(libc::c_long::from(unsafe {
        libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)
    }))?);
    // SAFETY: all zeroes is a valid `sockaddr_in`.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    #[allow(clippy::cast_possible_truncation)] // 2
    {
        address.sin_family = libc::AF_INET as libc::sa_family_t;
    }
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from(std::net::Ipv4Addr::LOCALHOST).to_be();
    let byte = b'x';
    // SAFETY: the byte and the address are live locals of the sizes given.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            (&raw const byte).cast(),
            1,
            libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL,
            (&raw const address).cast(),
            16,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a System V shared memory segment and removes it (`shmget(2)`).
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_shared_memory() -> io::Result<()> {
    // SAFETY: three integers; a private key makes a new segment.
    let segment = check(libc::c_long::from(unsafe {
        libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600)
    }))?;
    let segment = libc::c_int::try_from(segment).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the segment is this call's own, and IPC_RMID takes no pointer.
    check(libc::c_long::from(unsafe {
        libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut())
    }))
    .map(drop)
}
