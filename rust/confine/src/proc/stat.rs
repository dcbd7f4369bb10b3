//! `/proc/P/stat`, of which only the start time is needed.

use std::io;

use super::proc_path;
use crate::{Pid, StartTime};

/// When `pid` was started (`proc_pid_stat(5)`, field 22).
///
/// # Errors
/// `ENOENT` or `ESRCH` when it is gone, `InvalidData` when the file is not as
/// documented.
pub fn start_time(pid: Pid) -> io::Result<StartTime> {
    let stat = std::fs::read(proc_path(pid, "stat"))?;
    parse_start_time(&stat).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The name in parentheses is chosen by the process and may hold anything, a
/// parenthesis too: only what follows the *last* one is fields.
fn parse_start_time(stat: &[u8]) -> Option<StartTime> {
    let end_of_name = stat.iter().rposition(|&b| b == b')')?;
    let fields = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    // The first field after the name is number 3.
    fields.split_ascii_whitespace().nth(22 - 3)?.parse().ok().map(StartTime)
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
    fn the_start_time_of_this_process_is_read() {
        assert!(start_time(Pid::of_self()).unwrap().0 > 0);
    }
}
