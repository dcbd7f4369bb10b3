//! Who is above a process, by the kernel's records.

use std::io;

use confine::proc::TaskFiles;
use confine::{Pid, ProcessId};

/// A chain of parents longer than this leads nowhere.
const MOST_ANCESTORS: usize = 1000;

/// The parents of `process`, the nearest first, up to the one that `is_last` tells,
/// which is in it, or to the one that has no parent here: the first of a pid namespace
/// (`pid_namespaces(7)`). A chain in which something changes while it is read is an
/// error, never a shorter chain.
///
/// # Errors
/// When one of them cannot be read or is another by now, or there are too many.
pub(super) fn ancestors_up_to(
    process: ProcessId,
    is_last: impl Fn(ProcessId) -> bool,
) -> io::Result<Vec<ProcessId>> {
    let changed = || io::Error::other("its parents changed while they were read");
    let open = |pid: Pid| TaskFiles::open(pid, pid);
    let mut buffer = Vec::new();
    let mut above = Vec::new();
    let mut child = open(process.pid)?;
    if child.id() != process {
        return Err(changed());
    }
    while let Some(pid) = child.status(&mut buffer)?.parent {
        if above.len() == MOST_ANCESTORS {
            return Err(io::Error::other("it has too many parents"));
        }
        let parent = open(pid)?;
        // Whoever loses its parent has another before that one's id is free. So this
        // is its parent, if it has that still.
        let is_same = child.status(&mut buffer)?.parent == Some(pid);
        if !is_same || parent.id().start > child.id().start {
            return Err(changed());
        }
        above.push(parent.id());
        if is_last(parent.id()) {
            break;
        }
        child = parent;
    }
    // One that is just removed shows no parent, either; then this says that it is gone.
    child.status(&mut buffer)?;
    Ok(above)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use confine::StartTime;

    use super::*;

    fn own() -> ProcessId {
        let pid = Pid::of_self();
        ProcessId { pid, start: confine::proc::start_time(pid).unwrap() }
    }

    #[test]
    fn the_chain_leads_from_a_child_to_the_one_that_is_looked_for_or_to_the_first() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::new(child.id().cast_signed()).unwrap();
        let id = ProcessId { pid, start: confine::proc::start_time(pid).unwrap() };
        assert_eq!(ancestors_up_to(id, |above| above == own()).unwrap(), [own()]);
        let all = ancestors_up_to(id, |_| false).unwrap();
        assert!(all.len() > 1 && all[0] == own(), "control: there are more above");
        assert!(!all.contains(&id));
        let other = ProcessId { start: StartTime(id.start.0 + 1), ..id };
        assert!(ancestors_up_to(other, |_| false).is_err(), "another has that id");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ancestors_up_to(id, |_| false).is_err(), "it is gone");
    }
}
