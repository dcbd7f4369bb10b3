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
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let path = entry.path();
        // A descriptor may be closed between the two looks.
        let (target, metadata) = match (std::fs::read_link(&path), std::fs::metadata(&path)) {
            (Ok(target), Ok(metadata)) => (target, metadata),
            (Err(e), _) | (_, Err(e)) if is_gone(&e) => continue,
            (Err(e), _) | (_, Err(e)) => return Err(e),
        };
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
        found.push(Descriptor { number, target: target.into_os_string().into_vec(), kind });
    }
    Ok(found)
}
