//! The files of one task, opened once and read at every pass.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::{Status, start_time};
use crate::{Pid, ProcessId};

/// A task's `status` and `children`, held open. An open file below `/proc`
/// stays with its task: after its end a read fails with `ESRCH`, also when the
/// id is in use again, so what is read is always of the task that was opened.
/// It also costs half of opening the path again.
#[derive(Debug)]
pub struct TaskFiles {
    id: ProcessId,
    status: File,
    children: File,
}

impl TaskFiles {
    /// Opens task `task` of process `process`.
    ///
    /// # Errors
    /// `ENOENT` or `ESRCH` when it is gone, `EMFILE` when no more files can be
    /// opened.
    pub fn open(process: Pid, task: Pid) -> io::Result<Self> {
        let directory = format!("/proc/{process}/task/{task}");
        let status = File::open(format!("{directory}/status"))?;
        let children = File::open(format!("{directory}/children"))?;
        let start = start_time(task)?;
        let opened = Self { id: ProcessId { pid: task, start }, status, children };
        // The start time was read by path: it is of this task if this task is
        // there still.
        opened.status.read_at(&mut [0; 1], 0)?;
        Ok(opened)
    }

    /// Which task this is.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Reads the status anew, with `buffer` as scratch space.
    ///
    /// # Errors
    /// `ESRCH` when the task is gone, `InvalidData` when it does not parse.
    pub fn status(&self, buffer: &mut Vec<u8>) -> io::Result<Status> {
        read(&self.status, buffer, ShortRead::IsEnd)?;
        Status::parse(buffer).or_else(|error| {
            // A task that is reaped while it is read has zeros in place of its
            // ids. Then the next read says that it is gone.
            self.status.read_at(&mut [0; 1], 0)?;
            Err(io::Error::new(io::ErrorKind::InvalidData, error))
        })
    }

    /// Whether the task is dumpable, that is, whether others may look into it
    /// at all: the kernel gives the files of the others to root
    /// (`proc_pid(5)`; `PR_SET_DUMPABLE`). It can change at any time, and the
    /// owner that the open file shows is that of the last look by path: so it
    /// is looked at by path, every time.
    ///
    /// # Errors
    /// `ENOENT` or `ESRCH` when the task is gone.
    pub fn is_dumpable(&self, effective_uid: u32) -> io::Result<bool> {
        let task = self.id.pid;
        let owner = std::fs::metadata(format!("/proc/{task}/task/{task}/status"))?.uid();
        // That was of this task if it is there still.
        self.status.read_at(&mut [0; 1], 0)?;
        Ok(owner == effective_uid)
    }

    /// The child processes that this task made and that still are its
    /// (`proc_tid_children(5)`). The list is not taken at one instant: a child
    /// may be missed once, never for long.
    ///
    /// # Errors
    /// `ESRCH` when the task is gone, `InvalidData` when the file is not as
    /// documented.
    pub fn children(&self, buffer: &mut Vec<u8>) -> io::Result<Vec<Pid>> {
        read(&self.children, buffer, ShortRead::MayGoOn)?;
        parse_children(buffer).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Ids with a space after each. What is no number is not left out: a child would be
/// missed.
fn parse_children(text: &[u8]) -> Option<Vec<Pid>> {
    let words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let numbers: Option<Vec<i32>> = words.map(|word| word.parse().ok()).collect();
    Some(numbers?.into_iter().filter_map(Pid::new).collect())
}

/// What a read of less than was asked for means (the kernel's
/// `Documentation/filesystems/seq_file.rst`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShortRead {
    /// The file is made as a whole and then handed out.
    IsEnd,
    /// The file is made in pieces, a page of records at a time.
    MayGoOn,
}

/// Reads a `/proc` file from its start.
fn read(file: &File, buffer: &mut Vec<u8>, short: ShortRead) -> io::Result<()> {
    const STEP: usize = 4096;
    let mut length = 0;
    loop {
        if buffer.len() < length + STEP {
            buffer.resize(length + STEP, 0);
        }
        let room = buffer.len() - length;
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => {
                length += read;
                if read < room && short == ShortRead::IsEnd {
                    break;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    buffer.truncate(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_ends_while_it_is_read_is_gone_and_never_malformed() {
        let mut buffer = Vec::new();
        for _ in 0..500 {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let pid = Pid::new(child.id().cast_signed()).unwrap();
            let files = TaskFiles::open(pid, pid).unwrap();
            let reaper = std::thread::spawn(move || child.wait());
            let error = loop {
                if let Err(error) = files.status(&mut buffer) {
                    break error;
                }
            };
            assert!(super::super::is_gone(&error), "{error}");
            reaper.join().unwrap().unwrap();
        }
    }

    #[test]
    fn children_are_found_and_a_dead_task_is_gone() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid::new(child.id().cast_signed()).unwrap();
        let mut buffer = Vec::new();
        // Children belong to the thread that made them: this one.
        let me = Pid::from(rustix::thread::gettid());
        let parent = TaskFiles::open(Pid::of_self(), me).unwrap();
        assert!(parent.children(&mut buffer).unwrap().contains(&pid));
        let files = TaskFiles::open(pid, pid).unwrap();
        assert_eq!(files.status(&mut buffer).unwrap().parent, Some(Pid::of_self()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(super::super::is_gone(&files.status(&mut buffer).unwrap_err()));
        assert!(!parent.children(&mut buffer).unwrap().contains(&pid));
    }

    #[test]
    fn the_dumpable_flag_is_seen_as_it_is_now() {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let (me, uid) = (Pid::of_self(), rustix::process::geteuid().as_raw());
        if uid == 0 {
            println!("SKIPPED: root owns the files of every task, dumpable or not");
            return;
        }
        let files = TaskFiles::open(me, me).unwrap();
        for (flag, dumpable) in [
            (DumpableBehavior::NotDumpable, false),
            (DumpableBehavior::Dumpable, true),
            (DumpableBehavior::NotDumpable, false),
            (DumpableBehavior::Dumpable, true),
        ] {
            set_dumpable_behavior(flag).unwrap();
            assert_eq!(files.is_dumpable(uid).unwrap(), dumpable);
        }
    }

    #[test]
    fn what_is_no_list_of_ids_is_no_list() {
        let ids = |text: &str| {
            let ids = parse_children(text.as_bytes())?;
            Some(ids.into_iter().map(Pid::get).collect::<Vec<_>>())
        };
        for (text, wanted) in [
            ("", Some(vec![])),
            ("7 ", Some(vec![7])),
            ("7 4194303 ", Some(vec![7, 4_194_303])),
            // A child that has no id where the reader is.
            ("0 7 ", Some(vec![7])),
            ("7 x ", None),
            ("7 99999999999 ", None),
        ] {
            assert_eq!(ids(text), wanted, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_list_of_children_or_none(
            bytes: Vec<u8>, ids in proptest::collection::vec(1..=i32::MAX, 0..20),
        ) {
            let _ = parse_children(&bytes);
            let words: Vec<String> = ids.iter().map(i32::to_string).collect();
            let text = words.join(" ") + " ";
            let wanted = ids.iter().copied().filter_map(Pid::new).collect::<Vec<_>>();
            proptest::prop_assert_eq!(parse_children(text.as_bytes()), Some(wanted));
        }
    }
}
