//! What the verifier asks the wardens: which tasks are in their domains.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use confine::proc::{State, Status, TaskFiles, user_tasks_beside};
use confine::witness::Testimony;
use confine::{Layer, Pid, Role};

use super::roster::{Entries, Warden};
use super::verifier::{Sighting, ids_inside};

/// The most tasks in one query, so that a frame stays small.
const MOST_IN_QUERY: usize = 4096;
/// A witness that has not answered by then gives no testimony. Long enough for
/// a machine that swaps, short enough for a warden that is held.
const TESTIMONY_LIMIT: Duration = Duration::from_secs(2);

/// Layers whose warden is stopped. It will not answer, and to wait for that
/// would only put off saying so.
fn stopped(sightings: &[Sighting]) -> Vec<Layer> {
    sightings
        .iter()
        .filter(|s| matches!(s.status.state, State::Stopped | State::TracedStop))
        .filter_map(|s| match s.role {
            Role::Warden(layer) => Some(layer),
            _ => None,
        })
        .collect()
}

/// Puts the witness query to every warden about the tasks of its layer, all
/// wardens at once.
pub(super) fn ask_all(sightings: &[Sighting], entries: &Entries) -> HashMap<Pid, Testimony> {
    let mut questions: HashMap<Layer, Vec<(Pid, Pid)>> = HashMap::new();
    for sighting in sightings {
        let Some(as_inside) = sighting.status.id_at(entries.depth()) else {
            continue;
        };
        let Some(witness) = witness_for(sighting.role) else {
            continue;
        };
        questions.entry(witness).or_default().push((sighting.status.task, as_inside));
    }
    let mut pending = Vec::new();
    let stopped = stopped(sightings);
    for (layer, tasks) in &questions {
        let Some(warden) = entries.wardens.get(layer).filter(|_| !stopped.contains(layer)) else {
            continue;
        };
        for chunk in tasks.chunks(MOST_IN_QUERY) {
            let asked = warden.ask(chunk.iter().map(|(_, as_inside)| *as_inside).collect());
            pending.push((chunk, asked));
        }
    }
    let deadline = Instant::now() + TESTIMONY_LIMIT;
    let mut testimonies = HashMap::new();
    for (chunk, asked) in pending {
        let left = deadline.saturating_duration_since(Instant::now());
        if let Some(answers) = asked.wait(left) {
            testimonies.extend(chunk.iter().map(|(task, _)| *task).zip(answers));
        }
    }
    testimonies
}

/// What a refusal says, and whether the task is dumpable. A refusal counts only
/// with the dumpable flag that the task had when the kernel was asked, and the
/// flag can change meanwhile: the task's own doing, or its `exec`. So the flag is
/// read and the question put again: one look that finds it undumpable, or one
/// other answer, ends that; else it has been the same too often to be chance.
///
/// # Errors
/// When the task cannot be looked at; mostly it is gone then.
pub(super) fn confirm_refusal(
    files: &TaskFiles,
    role: Role,
    status: &Status,
    entries: &Entries,
) -> io::Result<(Option<Testimony>, bool)> {
    const TRIES: usize = 16;
    let warden = witness_for(role).and_then(|layer| entries.wardens.get(&layer));
    for _ in 0..TRIES {
        if !files.is_dumpable(status.uids[1])? {
            return Ok((Some(Testimony::Refused), false));
        }
        let asked = warden.zip(status.id_at(entries.depth())).map(|(w, id)| w.ask(vec![id]));
        let answer = asked.and_then(|a| a.wait(TESTIMONY_LIMIT)).and_then(|a| a.first().copied());
        if answer != Some(Testimony::Refused) {
            return Ok((answer, true));
        }
    }
    Ok((Some(Testimony::Refused), true))
}

/// Whose warden is asked about a task.
fn witness_for(role: Role) -> Option<Layer> {
    match role {
        Role::Agent(layer) => Some(layer),
        Role::Supervisor(Layer::Server | Layer::Client)
        | Role::Warden(Layer::Server | Layer::Client)
        | Role::Stray => Some(Layer::Pen),
        Role::Veil | Role::Supervisor(Layer::Pen) | Role::Warden(Layer::Pen) => None,
    }
}

/// Every task of the user that a witness has in its domain and that the walk has
/// not seen, by the id that the launch knows it by. Of a process that was seen
/// all tasks were. With a veil no member can be outside its pid namespace, so
/// only that is looked at; without one, the whole host.
pub(super) fn others_inside(
    entries: &Entries,
    uid: u32,
    sightings: &[Sighting],
) -> io::Result<Vec<(Layer, Pid)>> {
    let root = match entries.init() {
        Some(init) => format!("/proc/{}/root/proc", init.pid),
        None => "/proc".to_owned(),
    };
    let seen = ids_inside(sightings, entries);
    let stopped = stopped(sightings);
    let mut tasks = user_tasks_beside(Path::new(&root), uid, |process| seen.contains(&process))?;
    // Those of a process whose leader has ended are among them.
    tasks.retain(|task| !seen.contains(task));
    let ask = |warden: &Arc<Warden>| -> Vec<_> {
        tasks.chunks(MOST_IN_QUERY).map(|c| (c.to_vec(), warden.ask(c.to_vec()))).collect()
    };
    let pending: Vec<_> = entries
        .wardens
        .values()
        .filter(|warden| !stopped.contains(&warden.layer))
        .map(|warden| (warden.layer, ask(warden)))
        .collect();
    let deadline = Instant::now() + TESTIMONY_LIMIT;
    let mut inside = Vec::new();
    for (layer, chunks) in pending {
        for (chunk, asked) in chunks {
            let left = deadline.saturating_duration_since(Instant::now());
            let answers = asked.wait(left).ok_or_else(|| {
                let why = format!("the {layer} warden did not answer about other tasks");
                io::Error::new(io::ErrorKind::TimedOut, why)
            })?;
            for (task, answer) in chunk.into_iter().zip(answers) {
                if answer == Testimony::Inside {
                    inside.push((layer, task));
                }
            }
        }
    }
    Ok(inside)
}
