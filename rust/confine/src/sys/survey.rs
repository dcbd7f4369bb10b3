//! Operations of the doctor's survey that the standard library and rustix do not
//! offer safely. Each returns what the kernel said, and leaves nothing behind.

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::check;

/// An address of `path`, and its length.
#[allow(clippy::cast_possible_truncation)] // 1 and 110
fn address_of(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all zeroes is a valid `sockaddr_un`.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast)] // signed on some
        {
            *to = *from as libc::c_char;
        }
    }
    Ok((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

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

/// An address that one thread changes while another connects to it.
struct Swapped(UnsafeCell<libc::sockaddr_un>);

// SAFETY: the fields are written and read by volatile accesses to raw pointers
// alone, and a torn address is what the race is about.
unsafe impl Sync for Swapped {}

/// Connects again and again while another thread swaps the path of the address
/// between `allowed` and `forbidden`, for at most `limit`. What inspects the
/// address before the kernel does may have seen the other one.
///
/// # Errors
/// `EACCES` when only `allowed` was reached, `ETIMEDOUT` when neither was.
pub fn attempt_race_to_connect(
    forbidden: &Path,
    allowed: &Path,
    limit: Duration,
) -> io::Result<()> {
    let (wanted, length) = address_of(forbidden)?;
    let (harmless, _) = address_of(allowed)?;
    let shared = Swapped(UnsafeCell::new(harmless));
    let over = AtomicBool::new(false);
    let deadline = Instant::now() + limit;
    std::thread::scope(|scope| {
        let (shared, over) = (&shared, &over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for address in [&wanted, &harmless] {
                    // SAFETY: the cell is live, and nobody holds a reference
                    // into it.
                    unsafe { shared.0.get().write_volatile(*address) };
                }
            }
        });
        // Until the allowed one is reached the race has not begun.
        let mut result = Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        while Instant::now() < deadline {
            match connect_once(shared, length) {
                Ok(peer) if same_path(&peer, &wanted) => {
                    result = Ok(());
                    break;
                }
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                    result = Err(error);
                    break;
                }
                Ok(_) => result = Err(io::Error::from_raw_os_error(libc::EACCES)),
                Err(_) => {}
            }
        }
        over.store(true, Ordering::Relaxed);
        result
    })
}

/// Whom one connection reached.
fn connect_once(shared: &Swapped, length: libc::socklen_t) -> io::Result<libc::sockaddr_un> {
    // SAFETY: three integers.
    let socket = check(libc::c_long::from(unsafe {
        libc::socket(
            libc::AF_UNIX,
            // A full backlog must not hold it up.
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            0,
        )
    }))?;
    #[allow(clippy::cast_possible_truncation)] // a descriptor is a c_int
    // SAFETY: the descriptor is new and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket as libc::c_int) };
    // SAFETY: the address is live and `length` is its size; the kernel copies it.
    check(libc::c_long::from(unsafe {
        libc::connect(socket.as_raw_fd(), shared.0.get().cast(), length)
    }))?;
    // SAFETY: all zeroes is a valid `sockaddr_un`.
    let mut peer: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let mut length = length;
    // SAFETY: both are live locals, and `length` is the size of `peer`.
    check(libc::c_long::from(unsafe {
        libc::getpeername(socket.as_raw_fd(), (&raw mut peer).cast(), &raw mut length)
    }))?;
    Ok(peer)
}

fn same_path(one: &libc::sockaddr_un, other: &libc::sockaddr_un) -> bool {
    one.sun_path == other.sun_path
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
