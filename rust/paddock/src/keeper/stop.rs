//! The end of a launch: every process of it, and no other.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use confine::pidfd::PidFd;
use confine::proc::{Namespaces, State, Status, TaskFiles, is_gone, tasks_of, user_tasks};
use confine::witness::Testimony;
use confine::{Layer, Pid, ProcessId};
use rustix::process::{Signal, WaitOptions, wait};
use warden::ToWarden;

use super::roster::{Entries, Roster, Warden};
use crate::state::PenNamespaces;

/// How long to go on. What cannot be ended by then is told to the person.
const LIMIT: Duration = Duration::from_secs(10);
/// How long the kernel may take to empty a pid namespace.
const VEIL_LIMIT: Duration = Duration::from_secs(5);
/// For one answer of the pen's warden; it is one of those to be ended.
const WITNESS_LIMIT: Duration = Duration::from_millis(500);

/// Ends the launch and returns how many of its processes are left.
///
/// With a veil its first process goes first: the kernel then ends every process
/// in it and allows no new one (`pid_namespaces(7)`), so nothing can outrun the
/// stop. Without one, the pen's warden ends all that is in its reach, in one
/// step of the kernel's; then members are enumerated and ended until two
/// enumerations in a row are empty. That warden, which finds those outside the
/// tree, goes last.
pub(super) fn end_launch(roster: &Roster) -> usize {
    let entries = roster.entries();
    if let Some(init) = entries.init()
        && let Ok(process) = PidFd::open_exact(init)
    {
        let _ = process.signal(Signal::KILL);
        let _ = process.wait_ended(VEIL_LIMIT);
    }
    // A stopped witness is of no use, and nothing of the agent's hears this.
    if let Some(warden) = entries.wardens.get(&Layer::Pen) {
        let _ = PidFd::open_exact(warden.process).and_then(|p| p.signal(Signal::CONT));
        if entries.init().is_none() && warden.is_proved() {
            // What forks faster than it is enumerated is ended all the same.
            let _ = warden.channel.send(&ToWarden::EndAll, &[]);
        }
    }
    let witness: HashSet<ProcessId> = entries
        .wardens
        .get(&Layer::Pen)
        .map(|warden| warden.process)
        .into_iter()
        .chain(entries.supervisors.get(&Layer::Pen).copied())
        .collect();
    end_until_empty(roster, |process| !witness.contains(&process));
    end_until_empty(roster, |_| true);
    reap_children();
    members(roster).known.len()
}

/// Each call has its own time: on a host with very many processes one look can
/// take seconds, and whoever is ended last must not miss its turn.
fn end_until_empty(roster: &Roster, may_end: impl Fn(ProcessId) -> bool) {
    let deadline = Instant::now() + LIMIT;
    let mut empty_rounds = 0;
    loop {
        reap_children();
        let found = members(roster);
        let victims: Vec<ProcessId> = found.known.into_iter().filter(|p| may_end(*p)).collect();
        if victims.is_empty() && !found.are_all {
            empty_rounds = 0;
        } else if victims.is_empty() {
            empty_rounds += 1;
        } else {
            empty_rounds = 0;
            end_processes(&victims);
            std::thread::sleep(Duration::from_millis(1));
        }
        if empty_rounds >= 2 || Instant::now() >= deadline {
            return;
        }
    }
}

/// Sends SIGKILL to each, if it still is the process that was meant.
pub(crate) fn end_processes(processes: &[ProcessId]) {
    for process in processes {
        let _ = PidFd::open_exact(*process).and_then(|handle| handle.signal(Signal::KILL));
    }
}

/// The living processes of a launch.
pub(super) struct Members {
    pub(super) known: Vec<ProcessId>,
    /// False when the pen's warden lives and did not say whom else it knows.
    are_all: bool,
}

/// The keeper's descendants, and whatever else the pen's warden says is in its
/// domain. Without that warden there is nobody else: what it had below it is the
/// keeper's now, since the keeper is a subreaper (`PR_SET_CHILD_SUBREAPER`).
pub(super) fn members(roster: &Roster) -> Members {
    let mut known: HashSet<ProcessId> = descendants(roster.keeper.pid).into_iter().collect();
    let entries = roster.entries();
    let mut are_all = true;
    if entries.init().is_none() {
        let others = in_domain(roster, &entries);
        are_all = others.is_some();
        known.extend(others.into_iter().flatten());
    }
    Members { known: known.into_iter().collect(), are_all }
}

/// Living descendants of `root`, itself left out.
pub(super) fn descendants(root: Pid) -> Vec<ProcessId> {
    let mut found = Vec::new();
    let mut pending = vec![root];
    let mut seen = HashSet::from([root]);
    let mut buffer = Vec::new();
    while let Some(process) = pending.pop() {
        for task in tasks_of(process).unwrap_or_default() {
            let Ok(files) = TaskFiles::open(process, task) else {
                continue;
            };
            for child in files.children(&mut buffer).unwrap_or_default() {
                if seen.insert(child) {
                    pending.push(child);
                }
            }
            let is_alive = files.status(&mut buffer).is_ok_and(|s| s.state != State::Dead);
            if is_alive && process != root && !found.iter().any(|p: &ProcessId| p.pid == process) {
                // A thread's start time is its own; the process has its leader's.
                if let Ok(start) = confine::proc::start_time(process) {
                    found.push(ProcessId { pid: process, start });
                }
            }
        }
    }
    found
}

/// Whom the pen's warden has in its domain; `None` when it lives and does not say.
fn in_domain(roster: &Roster, entries: &Entries) -> Option<Vec<ProcessId>> {
    // One that has not proved its sandbox may be in none, and then every
    // process of the user is within its reach.
    let Some(warden) = entries.wardens.get(&Layer::Pen).filter(|warden| warden.is_proved()) else {
        return Some(Vec::new());
    };
    if confine::proc::has_ended(warden.process).unwrap_or(false) {
        return Some(Vec::new());
    }
    let tasks = user_tasks(Path::new("/proc"), roster.uid).ok()?;
    let inside = inside_of(warden, &tasks)?;
    // The answer is about who had the id when the kernel was asked: only who had
    // it before a second question and after it is meant.
    let before: Vec<(Pid, ProcessId)> =
        inside.into_iter().filter_map(|task| Some((task, process_of(task)?))).collect();
    let again: Vec<Pid> = before.iter().map(|(task, _)| *task).collect();
    let confirmed: HashSet<Pid> = inside_of(warden, &again)?;
    Some(
        before
            .into_iter()
            .filter(|(task, id)| confirmed.contains(task) && process_of(*task) == Some(*id))
            .map(|(_, id)| id)
            .collect(),
    )
}

/// Which of `tasks` are in the warden's domain.
fn inside_of(warden: &Warden, tasks: &[Pid]) -> Option<HashSet<Pid>> {
    let mut found = HashSet::new();
    for chunk in tasks.chunks(4096) {
        let answers = warden.ask(chunk.to_vec()).wait(WITNESS_LIMIT)?;
        let answers = chunk.iter().zip(answers);
        found.extend(answers.filter(|(_, a)| *a == Testimony::Inside).map(|(task, _)| *task));
    }
    Some(found)
}

fn process_of(task: Pid) -> Option<ProcessId> {
    let mut buffer = Vec::new();
    let status = TaskFiles::open(task, task).and_then(|f| f.status(&mut buffer)).ok()?;
    let start = confine::proc::start_time(status.tgid).ok()?;
    (status.state != State::Dead).then_some(ProcessId { pid: status.tgid, start })
}

/// Reaps every child that has ended, and tells how many.
pub(super) fn reap_children() -> usize {
    let mut reaped = 0;
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {
        reaped += 1;
    }
    reaped
}

/// Processes that a launch without a keeper has left: its recorded parts that
/// live still, what descends from them, and what is in the pen's own namespaces.
///
/// The number of a namespace is given again as soon as it is free, so it counts only for what could be of this launch: restricted, not older than
/// the launch, and below none of `other_keepers`, those of the launches that
/// run now.
pub(crate) fn members_left(
    record: &crate::state::Record,
    other_keepers: &[ProcessId],
) -> Vec<ProcessId> {
    if !record.is_of_this_boot() {
        return Vec::new();
    }
    let mut buffer = Vec::new();
    let mut all: HashMap<Pid, (ProcessId, Status)> = HashMap::new();
    let uid = rustix::process::getuid().as_raw();
    for task in user_tasks(Path::new("/proc"), uid).unwrap_or_default() {
        let files = match TaskFiles::open(task, task) {
            Ok(files) => files,
            Err(e) if is_gone(&e) => continue,
            Err(_) => continue,
        };
        if let Ok(status) = files.status(&mut buffer)
            && status.state != State::Dead
            && status.tgid == task
        {
            all.insert(task, (files.id(), status));
        }
    }
    let parts: HashSet<ProcessId> = record.parts.iter().map(|part| part.process).collect();
    let others: HashSet<ProcessId> = other_keepers.iter().copied().collect();
    let descends = |mut pid: Pid, from: &HashSet<ProcessId>| {
        for _ in 0..all.len() {
            if all.get(&pid).is_some_and(|(id, _)| from.contains(id)) {
                return true;
            }
            match all.get(&pid).and_then(|(_, status)| status.parent) {
                Some(parent) => pid = parent,
                None => return false,
            }
        }
        false
    };
    // Whoever reads this is on the host: its network is never the pen's,
    // whatever the record says.
    let own = Namespaces::of(Pid::of_self()).ok();
    // With a veil nothing is left once its first process is gone.
    let has_veil = record.parts.iter().any(|part| part.name == "veil-init");
    let wanted = record
        .namespaces
        .filter(|wanted| !has_veil && own.is_some_and(|own| own.network.0 != wanted.network));
    let in_network = |pid: Pid, id: ProcessId, status: &Status| {
        status.no_new_privs
            && status.seccomp_mode == 2
            && id.start >= record.keeper.start
            && wanted.is_some_and(|wanted| {
                Namespaces::of(pid).is_ok_and(|found| PenNamespaces::of(&found) == wanted)
            })
            && !descends(pid, &others)
    };
    let mut left: Vec<ProcessId> = all
        .iter()
        .filter(|(pid, (id, status))| {
            **pid != Pid::of_self() && (descends(**pid, &parts) || in_network(**pid, *id, status))
        })
        .map(|(_, (id, _))| *id)
        .collect();
    left.sort();
    left
}
