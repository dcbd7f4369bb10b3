//! What a warden does when its keeper is gone, or tells it to end everything.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use confine::Pid;
use confine::pidfd::PidFd;
use confine::proc::{TaskFiles, user_tasks};
use confine::witness::{Testimony, testify};
use rustix::process::Signal;

use crate::serve::Reach;

/// How long to go on; what is left then is left to the veil, where there is one.
const LIMIT: Duration = Duration::from_secs(5);

/// Ends every process of the sandbox below this warden: those that the kernel
/// says are in its domain, and its descendants. Two empty rounds in a row mean
/// that nothing is left that could fork.
///
/// The pen's warden is the one that counts: it stands above all others and
/// cannot be reached from below. The inner ones do the same for their own
/// sandbox, should it have died together with the keeper.
pub(crate) fn end_everything_below(reach: Reach) {
    let deadline = Instant::now() + LIMIT;
    if reach == Reach::Scoped {
        // At once, so that nothing can fork faster than it is ended.
        let _ = confine::sys::end_all_within_reach();
    }
    let mut empty_rounds = 0;
    while empty_rounds < 2 && Instant::now() < deadline {
        let victims = below();
        if victims.is_empty() {
            empty_rounds += 1;
        } else {
            empty_rounds = 0;
            for pid in victims {
                // The kernel refuses whoever is outside the domain.
                let _ = PidFd::open(pid).and_then(|process| process.signal(Signal::KILL));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
    }
}

fn below() -> Vec<Pid> {
    let me = Pid::of_self();
    let tasks =
        user_tasks(Path::new("/proc"), rustix::process::getuid().as_raw()).unwrap_or_default();
    let mut buffer = Vec::new();
    let mut parents = HashMap::new();
    for task in &tasks {
        let Ok(status) = TaskFiles::open(*task, *task).and_then(|f| f.status(&mut buffer)) else {
            continue;
        };
        if status.state != confine::proc::State::Dead {
            parents.insert(status.tgid, status.parent);
        }
    }
    let inside: HashSet<Pid> = tasks
        .iter()
        .zip(testify(&tasks))
        .filter(|(_, answer)| *answer == Testimony::Inside)
        .map(|(task, _)| *task)
        .collect();
    let descends = |mut pid: Pid| {
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                Some(Some(parent)) if *parent == me => return true,
                Some(Some(parent)) => pid = *parent,
                _ => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|p| *p != me && (inside.contains(p) || descends(*p))).collect()
}
