//! What a process holds open (`proc_pid_fd(5)`).

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

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
    let mut found = Vec::new();
    for entry in std::fs::read_dir(proc_path(pid, "fd"))? {
        let Some(number) = entry?.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        match descriptor(pid, number) {
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
    let path = proc_path(pid, &format!("fd/{number}"));
    let target = std::fs::read_link(&path)?.into_os_string().into_vec();
    let metadata = std::fs::metadata(&path)?;
    let file_type = metadata.file_type();
    let kind = if file_type.is_dir() {
        DescriptorKind::Directory
    } else if file_type.is_char_device() || file_type.is_block_device() {
        DescriptorKind::Device(metadata.rdev())
    } else if file_type.is_socket() {
        DescriptorKind::Socket
    } else {
        DescriptorKind::Other
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
    status
        .split(|b| *b == b'\n')
        .find_map(|line| {
            std::str::from_utf8(line.strip_prefix(b"FDSize:")?).ok()?.trim().parse().ok()
        })
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
