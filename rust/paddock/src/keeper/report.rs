//! What a pass found.

use std::time::Duration;

use confine::proc::{command_line, start_time};
use confine::{Pid, ProcessId, Role, Verdict};

/// What one pass found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) tasks: Vec<TaskReport>,
    pub(crate) took: Duration,
    pub(crate) depth_everything: bool,
    /// What the watch's last pass took, which looked at what was due.
    pub(crate) last_in_turn: Option<Duration>,
    /// Why the pass could not be made.
    pub(crate) failure: Option<String>,
}

impl Report {
    /// Every task is where it belongs, and there is at least one to say it of.
    pub(crate) fn holds(&self) -> bool {
        !self.tasks.is_empty() && self.tasks.iter().all(|task| task.verdict.holds())
    }

    /// The first task that is not.
    pub(crate) fn first_failure(&self) -> Option<&TaskReport> {
        self.tasks
            .iter()
            .find(|task| matches!(task.verdict, Verdict::Unconfined(_)))
            .or_else(|| self.tasks.iter().find(|task| !task.verdict.holds()))
    }
}

/// What was found about one task.
#[derive(Clone, Debug)]
pub(crate) struct TaskReport {
    pub(crate) task: ProcessId,
    pub(crate) process: Pid,
    pub(crate) role: Role,
    pub(crate) verdict: Verdict,
    /// Whose child its process is.
    pub(crate) parent: Option<Pid>,
    /// The name it gave itself, as bytes.
    pub(crate) name: Vec<u8>,
}

impl TaskReport {
    /// The command line it shows, or its name: its own word.
    pub(crate) fn command(&self) -> Vec<u8> {
        let mut line = command_line(self.process);
        // The number may be another process's by now. One look, afterwards, is enough: a
        // task that is there still had its number, and that of its process, all the time.
        if start_time(self.task.pid).ok() != Some(self.task.start) {
            return self.name.clone();
        }
        for byte in &mut line {
            if *byte == 0 {
                *byte = b' ';
            }
        }
        if line.is_empty() { self.name.clone() } else { line }
    }
}

#[cfg(test)]
mod tests {
    use confine::{Reason, StartTime};

    use super::*;

    #[test]
    fn a_number_that_is_another_processs_by_now_shows_no_arguments_of_it() {
        let pid = Pid::of_self();
        let start = start_time(pid).unwrap();
        let report = |start| TaskReport {
            task: ProcessId { pid, start },
            process: pid,
            role: Role::Stray,
            verdict: Verdict::Unknown(vec![Reason::NoPlace]),
            parent: None,
            name: b"name".to_vec(),
        };
        let program = std::env::args().next().unwrap();
        let shown = report(start).command();
        assert!(shown.starts_with(program.as_bytes()), "control: {shown:?}");
        assert_eq!(report(StartTime(start.0 - 1)).command(), b"name");
    }
}
