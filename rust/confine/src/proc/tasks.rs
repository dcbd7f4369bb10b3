//! Listing tasks and what they run.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{FileId, is_gone, proc_path};
use crate::Pid;

/// The task ids of process `pid`.
///
/// # Errors
/// `ENOENT` or `ESRCH` when it is gone.
pub fn tasks_of(pid: Pid) -> io::Result<Vec<Pid>> {
    numbered(Path::new(&proc_path(pid, "task")))
}

/// Every task id below `root` (a mount of procfs) that belongs to `uid`. With
/// `root` below `/proc/I/root`, I being the first process of a pid namespace,
/// those are the tasks of that namespace and no others, numbered as there.
///
/// # Errors
/// When `root` cannot be listed. Tasks that end meanwhile are left out.
pub fn user_tasks(root: &Path, uid: u32) -> io::Result<Vec<Pid>> {
    user_tasks_beside(root, uid, |_| false)
}

/// The same without the tasks of the processes that `is_known` tells.
///
/// # Errors
/// As [`user_tasks`].
pub fn user_tasks_beside(
    root: &Path,
    uid: u32,
    is_known: impl Fn(Pid) -> bool,
) -> io::Result<Vec<Pid>> {
    let mut tasks = Vec::new();
    for process in numbered(root)? {
        if is_known(process) {
            continue;
        }
        let directory = root.join(process.to_string());
        match std::fs::metadata(&directory).map(|m| m.uid()) {
            Ok(owner) if owner == uid => {}
            Ok(_) => continue,
            Err(e) if is_gone(&e) => continue,
            Err(e) => return Err(e),
        }
        match numbered(&directory.join("task")) {
            Ok(mut of_process) => tasks.append(&mut of_process),
            Err(e) if is_gone(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(tasks)
}

fn numbered(directory: &Path) -> io::Result<Vec<Pid>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(id) = name.to_str().and_then(|n| n.parse().ok()).and_then(Pid::new) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// The file that process `pid` executes.
///
/// # Errors
/// `EACCES` where the reader may not look, `ENOENT` when it is gone.
pub fn executable(pid: Pid) -> io::Result<FileId> {
    FileId::of_path(Path::new(&proc_path(pid, "exe")))
}

/// The arguments that process `pid` shows, NUL-separated: its own word, for
/// display only. At most 4,096 bytes.
pub fn command_line(pid: Pid) -> Vec<u8> {
    use std::io::Read;
    let mut line = Vec::new();
    if let Ok(file) = std::fs::File::open(proc_path(pid, "cmdline")) {
        let _ = file.take(4096).read_to_end(&mut line);
    }
    while line.last() == Some(&0) {
        line.pop();
    }
    line
}
