//! Operations of the doctor's survey that the standard library and rustix do not
//! offer safely. Each returns what the kernel said, and leaves nothing behind.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::check;
use super::race::address_of;

/// Runs `operation` in a child that has only this thread, and gives the error
/// number that it returns. It may only make system calls that are safe after a
/// fork (`signal-safety(7)`).
fn in_child(operation: impl Fn() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: the child calls nothing but `operation`, which keeps to
    // async-signal-safe calls, and `_exit`.
    let child = check(libc::c_long::from(unsafe { libc::fork() }))?;
    if child == 0 {
        let code = operation().err().and_then(|error| error.raw_os_error()).unwrap_or(0);
        // SAFETY: ends this process without running anything else.
        unsafe { libc::_exit(code & 0xff) }
    }
    let child = libc::pid_t::try_from(child).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live local of the type that waitpid writes.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Ok(()),
        (true, code) => Err(io::Error::from_raw_os_error(code)),
        // A filter that kills is a refusal, too.
        (false, _) => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: an integer; the child that calls this has one thread.
    check(libc::c_long::from(unsafe { libc::unshare(flags) })).map(drop)
}

/// Makes a user namespace, in a child (`user_namespaces(7)`).
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_user_namespace() -> io::Result<()> {
    in_child(|| unshare(libc::CLONE_NEWUSER))
}

/// Mounts a directory on itself, in a mount namespace of a child's own.
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_mount(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    in_child(|| mount_on_itself(&path))
}

/// As above, and makes that the root of the mount namespace (`pivot_root(2)`).
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_pivot_root(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    in_child(|| {
        mount_on_itself(&path)?;
        let here = c".";
        // SAFETY: all are live, terminated strings.
        check(libc::c_long::from(unsafe { libc::chdir(path.as_ptr()) }))?;
        // SAFETY: as above.
        check(unsafe { libc::syscall(libc::SYS_pivot_root, here.as_ptr(), here.as_ptr()) })
            .map(drop)
    })
}

fn mount_on_itself(path: &CStr) -> io::Result<()> {
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
    let null = std::ptr::null();
    // SAFETY: `path` is a terminated string; the other pointers may be null for a
    // bind mount (mount(2)).
    check(libc::c_long::from(unsafe {
        libc::mount(path.as_ptr(), path.as_ptr(), null, libc::MS_BIND, null.cast())
    }))
    .map(drop)
}

/// Makes another directory the root, in a user namespace of a child's own.
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_change_root(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    in_child(|| {
        unshare(libc::CLONE_NEWUSER)?;
        // SAFETY: `path` is a live, terminated string.
        check(libc::c_long::from(unsafe { libc::chroot(path.as_ptr()) })).map(drop)
    })
}

/// Sends one datagram to `path` by `sendmmsg(2)`.
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_sendmmsg(socket: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let (mut address, length) = address_of(path)?;
    let mut byte = [b'x'];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: all zeroes is a valid `mmsghdr`.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_name = (&raw mut address).cast();
    message.msg_hdr.msg_namelen = length;
    message.msg_hdr.msg_iov = &raw mut part;
    message.msg_hdr.msg_iovlen = 1;
    // SAFETY: `message` and all that it points to are live locals of the sizes
    // that it gives.
    check(libc::c_long::from(unsafe {
        libc::sendmmsg(socket.as_raw_fd(), &raw mut message, 1, libc::MSG_NOSIGNAL)
    }))
    .map(drop)
}

/// Makes an AF_UNIX socket by the system call interface of 32-bit programs
/// (`int 0x80`), whose numbers a filter may have forgotten.
///
/// # Errors
/// `ENOSYS` on another architecture or without that interface.
#[cfg(target_arch = "x86_64")]
pub fn attempt_32_bit_socket() -> io::Result<()> {
    /// `socket` in `arch/x86/entry/syscalls/syscall_32.tbl`.
    const SOCKET: i64 = 359;
    in_child(|| {
        let mut result = SOCKET;
        // SAFETY: the call takes three integers and touches no memory; `rbx`,
        // which the compiler keeps for itself, is put back.
        unsafe {
            std::arch::asm!(
                "xchg rbx, {family}",
                "int 0x80",
                "xchg rbx, {family}",
                family = inout(reg) i64::from(libc::AF_UNIX) => _,
                inout("rax") result,
                in("rcx") i64::from(libc::SOCK_STREAM),
                in("rdx") 0,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        // Errors are small negative numbers, 32 bits wide.
        #[allow(clippy::cast_possible_truncation)]
        let result = result as i32;
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    })
}

/// As above.
///
/// # Errors
/// `ENOSYS`.
#[cfg(not(target_arch = "x86_64"))]
pub fn attempt_32_bit_socket() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Makes an AF_UNIX socket by the x32 numbers (`__X32_SYSCALL_BIT`).
///
/// # Errors
/// `ENOSYS` on another architecture or without that interface.
pub fn attempt_x32_socket() -> io::Result<()> {
    const X32: libc::c_long = 0x4000_0000;
    if cfg!(not(target_arch = "x86_64")) {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    in_child(|| {
        // SAFETY: three integers.
        check(unsafe { libc::syscall(X32 | libc::SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM, 0) })
            .map(drop)
    })
}

/// Pastes what is selected on a console (`TIOCLINUX`, `ioctl_console(2)`).
///
/// # Errors
/// `ENOTTY` for what is no console, `EPERM` without `CAP_SYS_ADMIN`.
pub fn attempt_console_paste(terminal: BorrowedFd<'_>) -> io::Result<()> {
    let paste = 3u8;
    // SAFETY: the argument points to one live byte, which says what to do.
    check(libc::c_long::from(unsafe {
        libc::ioctl(terminal.as_raw_fd(), libc::TIOCLINUX, &raw const paste)
    }))
    .map(drop)
}
