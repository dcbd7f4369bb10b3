//! Errors of the kernel as its documents name them (`errno(3)`).

use std::io;

use rustix::io::Errno;

/// Those that refusals have.
const NAMES: [(Errno, &str); 28] = [
    (Errno::TOOBIG, "E2BIG"),
    (Errno::ACCESS, "EACCES"),
    (Errno::ADDRINUSE, "EADDRINUSE"),
    (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::BUSY, "EBUSY"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::EXIST, "EEXIST"),
    (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    (Errno::INVAL, "EINVAL"),
    (Errno::IO, "EIO"),
    (Errno::NETUNREACH, "ENETUNREACH"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOENT, "ENOENT"),
    (Errno::NOPROTOOPT, "ENOPROTOOPT"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::NOTTY, "ENOTTY"),
    (Errno::NXIO, "ENXIO"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::PERM, "EPERM"),
    (Errno::PROTONOSUPPORT, "EPROTONOSUPPORT"),
    (Errno::ROFS, "EROFS"),
    (Errno::SRCH, "ESRCH"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
    (Errno::USERS, "EUSERS"),
    (Errno::XDEV, "EXDEV"),
];

/// The name of an error number.
pub(super) fn name(number: i32) -> Option<&'static str> {
    let known = NAMES.iter().find(|(errno, _)| errno.raw_os_error() == number);
    known.map(|(_, name)| *name)
}

/// An error's name, or its own words.
pub(super) fn named(error: &io::Error) -> String {
    let name = error.raw_os_error().and_then(name);
    name.map_or_else(|| error.to_string(), str::to_owned)
}
