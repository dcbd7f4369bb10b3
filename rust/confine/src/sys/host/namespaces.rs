//! Namespaces, for a process with one thread that is made to try them.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

use crate::sys::check;

/// A kind of namespace (`namespaces(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// `CLONE_NEWUSER` (`user_namespaces(7)`).
    User,
    /// `CLONE_NEWNS` (`mount_namespaces(7)`).
    Mount,
    /// `CLONE_NEWPID`: of the children that follow (`pid_namespaces(7)`).
    Pid,
    /// `CLONE_NEWNET` (`network_namespaces(7)`).
    Network,
    /// `CLONE_NEWIPC` (`ipc_namespaces(7)`).
    Ipc,
    /// `CLONE_NEWUTS` (`uts_namespaces(7)`).
    Uts,
}

impl Namespace {
    fn flag(self) -> libc::c_int {
        match self {
            Self::User => libc::CLONE_NEWUSER,
            Self::Mount => libc::CLONE_NEWNS,
            Self::Pid => libc::CLONE_NEWPID,
            Self::Network => libc::CLONE_NEWNET,
            Self::Ipc => libc::CLONE_NEWIPC,
            Self::Uts => libc::CLONE_NEWUTS,
        }
    }
}

/// Leaves the caller's namespace of that kind for a new one (`unshare(2)`).
///
/// # Errors
/// `EPERM` without the privilege or where a rule of the host forbids it,
/// `ENOSPC` where a limit in `/proc/sys/user` is reached, `EINVAL` where the
/// kernel has no such namespaces or, for a user namespace, where the caller has
/// another thread.
pub fn leave_namespace(kind: Namespace) -> io::Result<()> {
    // SAFETY: one integer; none of these flags changes which descriptors or
    // memory the caller has.
    check(libc::c_long::from(unsafe { libc::unshare(kind.flag()) })).map(drop)
}

fn mount(kind: Option<&CStr>, target: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the strings are live and end with NUL; source and data may be null.
    check(libc::c_long::from(unsafe {
        libc::mount(kind, target.as_ptr(), kind, flags, std::ptr::null())
    }))
    .map(drop)
}

/// Keeps mounts made from here on from the namespace that the caller came from
/// (`MS_PRIVATE`, `mount(2)`).
///
/// # Errors
/// `EPERM` without the privilege, `EACCES` where a security module refuses.
pub fn take_mounts_private() -> io::Result<()> {
    mount(None, c"/", libc::MS_REC | libc::MS_PRIVATE)
}

/// Mounts an empty file system (`tmpfs(5)`) on `target`.
///
/// # Errors
/// As [`take_mounts_private`].
pub fn mount_empty(target: &CStr) -> io::Result<()> {
    mount(Some(c"tmpfs"), target, libc::MS_NOSUID | libc::MS_NODEV)
}

/// Mounts a `proc` file system on `target` (`proc(5)`).
///
/// # Errors
/// `EPERM` also where the one that is there is partly covered, as in most
/// containers: a new one would show what is covered (`mount_too_revealing` in
/// the kernel's `fs/namespace.c`).
pub fn mount_proc(target: &CStr) -> io::Result<()> {
    mount(Some(c"proc"), target, libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
}

/// Brings up the loopback interface of the caller's network namespace
/// (`SIOCSIFFLAGS`, `netdevice(7)`).
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` over that namespace.
pub fn raise_loopback() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all zero is a value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed() as libc::c_char;
    }
    #[allow(clippy::cast_possible_truncation)] // two small flags
    {
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    }
    // SAFETY: `request` is live, names an interface and holds the flags that
    // this request reads.
    check(libc::c_long::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request)
    }))
    .map(drop)
}
