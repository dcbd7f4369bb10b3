//! What a process holds open (`proc_pid_fd(5)`).

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, open, readlinkat, statat};
use rustix::path::Arg;

use super::{is_gone, proc_path};
use crate::Pid;

/// One open descriptor of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub number: i32,
    /// What the link below `fd/` says: a path, or `socket:[N]` and the like.
    pub target: Vec<u8>,
    /// What kind of file it is.
    pub kind: DescriptorKind,
}

/// The kinds that can lead out of a sandbox, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorKind {
    /// A directory: everything below it can be opened through it.
    Directory,
    /// A character or block device, with its device number.
    Device(u64),
    /// A socket.
    Socket,
    /// Files, pipes, anonymous inodes.
    Other,
}

/// The descriptors of process `pid`.
///
/// # Errors
/// `EACCES` where the reader may not look, `ENOENT` when the process is gone.
pub fn descriptors(pid: Pid) -> io::Result<Vec<Descriptor>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(proc_path(pid, "fd"), flags, Mode::empty())?;
    let mut found = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(number) = name.to_str().ok().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match look(&directory, name, number) {
            Ok(held) => found.push(held),
            // It may be closed between the two looks.
            Err(e) if is_gone(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// Descriptor `number` of process `pid`.
///
/// # Errors
/// `EACCES` where the reader may not look, `ENOENT` when it is not open.
pub fn descriptor(pid: Pid, number: i32) -> io::Result<Descriptor> {
    look(CWD, proc_path(pid, &format!("fd/{number}")).as_str(), number)
}

fn look(directory: impl AsFd, path: impl Arg + Copy, number: i32) -> io::Result<Descriptor> {
    let target = readlinkat(&directory, path, Vec::new())?.into_bytes();
    // The link of a file that has a path begins with a slash; those of files
    // without one are the kernel's own words.
    let kind = if target.starts_with(b"socket:[") {
        DescriptorKind::Socket
    } else if target.starts_with(b"pipe:[") || target.starts_with(b"anon_inode:") {
        DescriptorKind::Other
    } else {
        let status = statat(&directory, path, AtFlags::empty())?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => DescriptorKind::Directory,
            FileType::CharacterDevice | FileType::BlockDevice => {
                DescriptorKind::Device(status.st_rdev)
            }
            FileType::Socket => DescriptorKind::Socket,
            _ => DescriptorKind::Other,
        }
    };
    Ok(Descriptor { number, target, kind })
}

/// A number that is above every descriptor of process `pid`: the size of its
/// table (`FDSize` in `proc_pid_status(5)`).
///
/// # Errors
/// `ENOENT` or `ESRCH` when the process is gone, `InvalidData` when the kernel
/// does not say.
pub fn descriptor_limit(pid: Pid) -> io::Result<i32> {
    let status = std::fs::read(proc_path(pid, "status"))?;
    size_of_table(&status).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn size_of_table(status: &[u8]) -> Option<i32> {
    status.split(|b| *b == b'\n').find_map(|line| {
        std::str::from_utf8(line.strip_prefix(b"FDSize:")?).ok()?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_size_or_none(status: Vec<u8>, size in 0..i32::MAX) {
            let _ = size_of_table(&status);
            let status = format!("Name:\tFDSize:\t1\nUmask:\t0022\nFDSize:\t{size}\nGroups:\t \n");
            proptest::prop_assert_eq!(size_of_table(status.as_bytes()), Some(size));
        }
    }
}
