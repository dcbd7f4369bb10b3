//! Reading `/proc`: bytes in, typed facts out, nothing judged.

mod descriptors;
mod maps;
mod namespaces;
mod reader;
mod sockets;
mod stat;
mod status;
mod tasks;

pub use descriptors::{Descriptor, DescriptorKind, descriptor, descriptor_limit, descriptors};
pub use maps::foreign_code;
pub use namespaces::{Namespace, Namespaces, maps_users_otherwise};
pub use reader::TaskFiles;
pub use sockets::unix_socket_paths;
pub use stat::{has_ended, start_time};
pub use status::{ParseError, State, Status};
pub use tasks::{command_line, executable, tasks_of, user_tasks, user_tasks_beside};

use std::io;

use crate::Pid;

/// The device and inode of a file: which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number (`st_dev`).
    pub device: u64,
    /// Inode number (`st_ino`).
    pub inode: u64,
}

impl FileId {
    /// The file at `path`, links followed.
    ///
    /// # Errors
    /// Those of `stat(2)`.
    pub fn of_path(path: &std::path::Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// Whether an error says that the task is gone (`ENOENT` from a path below
/// `/proc`, `ESRCH` from an open file there).
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

fn proc_path(pid: Pid, rest: &str) -> String {
    format!("/proc/{pid}/{rest}")
}
