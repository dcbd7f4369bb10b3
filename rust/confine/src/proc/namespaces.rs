//! Which namespaces a task is in (`namespaces(7)`).

use std::io;
use std::os::unix::fs::MetadataExt;

use super::proc_path;
use crate::Pid;

/// One namespace: the inode of its `nsfs` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(pub u64);

/// The namespaces of a task that a sandbox layer may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Namespaces {
    /// User namespace.
    pub user: Namespace,
    /// Mount namespace.
    pub mount: Namespace,
    /// Network namespace.
    pub network: Namespace,
    /// Pid namespace of the task itself.
    pub pid: Namespace,
    /// System V IPC and POSIX message queues.
    pub ipc: Namespace,
}

impl Namespaces {
    /// Those of `pid`.
    ///
    /// # Errors
    /// `EACCES` where the reader may not look (`PTRACE_MODE_READ`), `ENOENT`
    /// when the process is gone.
    pub fn of(pid: Pid) -> io::Result<Self> {
        let one = |kind: &str| {
            std::fs::metadata(proc_path(pid, &format!("ns/{kind}"))).map(|m| Namespace(m.ino()))
        };
        Ok(Self {
            user: one("user")?,
            mount: one("mnt")?,
            network: one("net")?,
            pid: one("pid")?,
            ipc: one("ipc")?,
        })
    }
}
