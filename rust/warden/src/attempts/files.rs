//! Files, and what Landlock does not see of them.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, MemfdFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags};

use crate::AttemptKind;

pub(super) fn attempt(kind: &AttemptKind) -> Option<io::Result<()>> {
    Some(match kind {
        // What is in it is nobody's business.
        AttemptKind::ReadFile(path) => File::open(path).map(drop),
        AttemptKind::WriteFile(path) => OpenOptions::new().append(true).open(path).map(drop),
        AttemptKind::CreateFile(path) => {
            // Whether it can be removed again is another matter, as below.
            File::create_new(path).map(|_| drop(std::fs::remove_file(path)))
        }
        AttemptKind::ListDirectory(path) => std::fs::read_dir(path).map(drop),
        AttemptKind::ChangeMode(path) => std::fs::metadata(path)
            .and_then(|found| std::fs::set_permissions(path, Permissions::from_mode(found.mode()))),
        AttemptKind::ChangeOwner(path) => std::fs::metadata(path)
            .and_then(|found| std::os::unix::fs::chown(path, None, Some(found.gid()))),
        AttemptKind::ChangeTimes(path) => change_times(path),
        AttemptKind::SetAttribute(path) => {
            rustix::fs::setxattr(path, "user.paddock", b"1", XattrFlags::empty())
                .map(|()| rustix::fs::removexattr(path, "user.paddock").unwrap_or_default())
                .map_err(Into::into)
        }
        AttemptKind::HardLink(from, to) => {
            std::fs::hard_link(from, to).map(|()| drop(std::fs::remove_file(to)))
        }
        AttemptKind::Rename(from, to) => {
            std::fs::rename(from, to).map(|()| drop(std::fs::rename(to, from)))
        }
        AttemptKind::ReadThroughPlace(path) => read_through_place(path),
        AttemptKind::ReadThroughRoot(path) => {
            let below = path.strip_prefix("/").unwrap_or(path);
            std::fs::read(Path::new("/proc/self/root").join(below)).map(drop)
        }
        AttemptKind::OpenDevice(path) => open_device(path),
        AttemptKind::Mount(path) => confine::sys::attempt_mount(path),
        AttemptKind::PivotRoot(path) => confine::sys::attempt_pivot_root(path),
        AttemptKind::ChangeRoot => confine::sys::attempt_change_root(Path::new("/")),
        AttemptKind::MemoryFile => {
            rustix::fs::memfd_create("paddock", MemfdFlags::CLOEXEC).map(drop).map_err(Into::into)
        }
        _ => return None,
    })
}

fn change_times(path: &PathBuf) -> io::Result<()> {
    let found = std::fs::metadata(path)?;
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?)
}

fn read_through_place(path: &Path) -> io::Result<()> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let through = format!("/proc/self/fd/{}", place.as_raw_fd());
    File::open(through)?.read_to_end(&mut Vec::new()).map(drop)
}

/// Not waiting for who is at the other end.
fn open_device(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty()).map(drop)?)
}
