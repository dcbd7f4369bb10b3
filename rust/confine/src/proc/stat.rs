//! `/proc/P/stat`, for what `status` does not say: the start time, and whether
//! the task is ending.

use std::io;

use super::{is_gone, proc_path};
use crate::{Pid, ProcessId, StartTime};

/// The kernel's mark of a task that is ending (`PF_EXITING` in its
/// `include/linux/sched.h`).
const EXITING: u64 = 0x4;

/// When `pid` was started (`proc_pid_stat(5)`, field 22).
///
/// # Errors
/// `ENOENT` or `ESRCH` when it is gone, `InvalidData` when the file is not as
/// documented.
pub fn start_time(pid: Pid) -> io::Result<StartTime> {
    let stat = std::fs::read(proc_path(pid, "stat"))?;
    parse_start_time(&stat).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Whether `task` has ended, or is ending: it never returns to its program. On
/// the way the kernel takes its memory, files and namespaces from it one by one
/// while its state says still that it runs.
///
/// # Errors
/// `InvalidData` when the file is not as documented, or what else keeps it from
/// being read.
pub fn has_ended(task: ProcessId) -> io::Result<bool> {
    let stat = match std::fs::read(proc_path(task.pid, "stat")) {
        Ok(stat) => stat,
        Err(e) if is_gone(&e) => return Ok(true),
        Err(e) => return Err(e),
    };
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let began = parse_start_time(&stat).ok_or_else(invalid)?;
    let state = field(&stat, 3).ok_or_else(invalid)?;
    let flags: u64 = field(&stat, 9).and_then(|f| f.parse().ok()).ok_or_else(invalid)?;
    Ok(began != task.start || matches!(state, "Z" | "X") || flags & EXITING != 0)
}

fn parse_start_time(stat: &[u8]) -> Option<StartTime> {
    field(stat, 22)?.parse().ok().map(StartTime)
}

/// A field by its number in `proc_pid_stat(5)`, from 3 on.
///
/// The name in parentheses is chosen by the process and may hold anything, a
/// parenthesis too: only what follows the *last* one is fields.
fn field(stat: &[u8], number: usize) -> Option<&str> {
    let end_of_name = stat.iter().rposition(|&b| b == b')')?;
    let fields = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    fields.split_ascii_whitespace().nth(number.checked_sub(3)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_cannot_shift_the_fields() {
        let tail = " S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 100 10";
        for name in ["cat", "a) S 1", "x\ny", ")", "((", "\u{1b}[2J"] {
            let line = format!("7 ({name}){tail}");
            assert_eq!(parse_start_time(line.as_bytes()), Some(StartTime(4242)), "{name:?}");
        }
    }

    #[test]
    fn a_short_or_odd_file_is_no_start_time() {
        for line in [
            &b""[..],
            b"7 (cat",
            b"7 (cat) S 1 1",
            b"7 (cat) S 1 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 x",
        ] {
            assert_eq!(parse_start_time(line), None);
        }
    }

    #[test]
    fn a_zombie_has_ended_and_so_has_who_had_the_id_before() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid::new(child.id().cast_signed()).unwrap();
        let id = ProcessId { pid, start: start_time(pid).unwrap() };
        let earlier = ProcessId { pid, start: StartTime(id.start.0 - 1) };
        assert!(!has_ended(id).unwrap(), "control: it runs");
        assert!(has_ended(earlier).unwrap());
        drop(child.stdin.take());
        while !has_ended(id).unwrap() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(id).unwrap());
    }

    #[test]
    fn the_start_time_of_this_process_is_read() {
        assert!(start_time(Pid::of_self()).unwrap().0 > 0);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_field_or_none(bytes: Vec<u8>, number in 0..60_usize) {
            let _ = (field(&bytes, number), parse_start_time(&bytes));
        }

        /// Escaped or not: releases of the kernel differ.
        #[test]
        fn whatever_the_name_the_fields_are_found(
            name in crate::proc::status::tests::hostile_name(), start: u64, flags: u32,
        ) {
            let tail = format!(") S 1 1 1 0 -1 {flags} 1 0 0 0 0 0 0 0 20 0 1 0 {start} 100 10\n");
            let line = [b"7 (", &name[..], tail.as_bytes()].concat();
            proptest::prop_assert_eq!(parse_start_time(&line), Some(StartTime(start)));
            proptest::prop_assert_eq!(field(&line, 9).map(str::parse), Some(Ok(flags)));
            proptest::prop_assert_eq!(field(&line, 3), Some("S"));
        }
    }
}
