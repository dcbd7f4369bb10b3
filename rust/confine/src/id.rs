//! Who a task is: an id alone is reused, an id with its start time is not.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process or task id as the reader's pid namespace numbers it; never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub struct Pid(std::num::NonZeroI32);

/// The number is not a process id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a process id")]
pub struct NotAPid(pub i32);

impl Pid {
    /// The id with this number, unless it is zero or negative (those name
    /// groups or "everything" in `kill(2)`, never one process).
    pub fn new(raw: i32) -> Option<Self> {
        if raw > 0 { std::num::NonZeroI32::new(raw).map(Self) } else { None }
    }

    /// The calling process.
    pub fn of_self() -> Self {
        Self::from(rustix::process::getpid())
    }

    /// The number.
    pub fn get(self) -> i32 {
        self.0.get()
    }
}

impl TryFrom<i32> for Pid {
    type Error = NotAPid;
    fn try_from(raw: i32) -> Result<Self, NotAPid> {
        Self::new(raw).ok_or(NotAPid(raw))
    }
}

impl From<Pid> for i32 {
    fn from(pid: Pid) -> i32 {
        pid.get()
    }
}

impl From<rustix::process::Pid> for Pid {
    fn from(pid: rustix::process::Pid) -> Self {
        Self(pid.as_raw_nonzero())
    }
}

impl From<Pid> for rustix::process::Pid {
    fn from(pid: Pid) -> Self {
        // Total: a `Pid` is positive, which is all that rustix asks for.
        rustix::process::Pid::from_raw(pid.get()).unwrap_or(rustix::process::Pid::INIT)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When a task was started, in clock ticks since boot (`proc_pid_stat(5)`,
/// field 22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartTime(pub u64);

/// One process, for good: its id and when it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// The id in the reader's pid namespace.
    pub pid: Pid,
    /// When that process was started.
    pub start: StartTime,
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_name_groups_are_not_process_ids() {
        assert_eq!(Pid::new(0), None);
        assert_eq!(Pid::new(-1), None);
        assert_eq!(Pid::new(1).map(Pid::get), Some(1));
    }
}
