//! One verification pass: reads every task of the launch from outside, asks the
//! wardens to bear witness, and has each task judged. Acts on nothing.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use confine::evidence::ProgramCheck;
use confine::proc::{
    Namespaces, State, Status, TaskFiles, executable, has_ended, is_gone, maps_users_otherwise,
    tasks_of, user_tasks,
};
use confine::verdict::judge;
use confine::witness::Testimony;
use confine::{Evidence, Expectation, Layer, Pid, ProcessId, Reason, Role, Verdict};

use super::descriptors;
use super::report::{Report, TaskReport};
use super::roster::{Entries, Roster};
use super::witnesses::{ask_all, confirm_refusal, others_inside};
use crate::launch::Plan;

/// A chain of parents longer than this is taken for one that leads nowhere.
const MOST_ANCESTORS: usize = 10_000;

/// How much a pass looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// What is due.
    InTurn,
    /// Everything, whoever's turn it is.
    Everything,
}

/// Keeps the files of known tasks open between passes.
pub(super) struct Verifier {
    roster: Arc<Roster>,
    known: HashMap<Pid, KnownTask>,
    /// The keeper's own threads.
    own: HashMap<Pid, TaskFiles>,
    buffer: Vec<u8>,
    /// A pass looks at every task. What costs more, and changes less easily, it looks
    /// at for one task in so many, each in its turn: namespaces, programs, what is
    /// held open; and once in so many passes it looks for tasks of the launch that
    /// are not among the keeper's descendants.
    turns: u64,
    /// How many passes there have been.
    passes: u64,
    /// Since when there has always been some task of an agent's in the layer whose
    /// namespaces are unreadable: not of one task, which could have itself
    /// replaced by its child in time.
    unreadable_since: HashMap<Layer, Instant>,
}

struct KnownTask {
    files: TaskFiles,
    /// Looked at when first seen, in its turn, and whenever the task holds
    /// capabilities: changing a namespace takes some.
    namespaces: Option<Namespaces>,
    program: ProgramCheck,
    /// What it held from outside when that was looked at last.
    holds: Option<Reason>,
    /// The pass that saw it last.
    seen: u64,
}

/// One living task, read in this pass.
pub(super) struct Sighting {
    pub(super) process: Pid,
    /// The first living task of its process, which shows what the process holds
    /// open: the leader may have ended, and shows nothing then.
    pub(super) is_first: bool,
    pub(super) role: Role,
    pub(super) status: Status,
    pub(super) task: ProcessId,
}

impl Verifier {
    pub(super) fn new(roster: Arc<Roster>, turns: u64) -> Self {
        Self {
            roster,
            turns: turns.max(1),
            known: HashMap::new(),
            own: HashMap::new(),
            buffer: Vec::new(),
            passes: 0,
            unreadable_since: HashMap::new(),
        }
    }

    /// Whether it is the turn of what has this number.
    fn is_due(&self, number: u64, pass: u64, depth: Depth) -> bool {
        depth == Depth::Everything || number % self.turns == pass % self.turns
    }

    /// Time in which the launch was suspended counts for nothing.
    pub(super) fn was_suspended(&mut self) {
        self.unreadable_since.clear();
    }

    /// Makes one pass.
    ///
    /// # Errors
    /// When the keeper's own descendants cannot be listed.
    pub(super) fn pass(&mut self, depth: Depth) -> io::Result<Report> {
        let started = Instant::now();
        let entries = self.roster.entries();
        self.passes += 1;
        let round = self.passes;
        let mut sightings = self.walk(&entries, round)?;
        let mut hidden = Vec::new();
        if self.is_due(0, round, depth) {
            let inside = others_inside(&entries, self.roster.uid, &sightings)?;
            if !inside.is_empty() {
                // Born since the walk, or outside the tree: walking again tells.
                sightings = self.walk(&entries, round)?;
                hidden = self.outside_the_tree(&inside, &sightings, &entries)?;
            }
        }
        self.known.retain(|_, known| known.seen == round);

        let testimonies = ask_all(&sightings, &entries);
        let members: HashMap<Pid, Option<Layer>> =
            sightings.iter().map(|s| (s.status.task, s.role.layer())).collect();
        let mut tasks = Vec::with_capacity(sightings.len());
        for sighting in sightings {
            let testimony = testimonies.get(&sighting.status.task).copied();
            if let Some(report) = self.judge_one(sighting, testimony, &members, &entries, depth)? {
                tasks.push(report);
            }
        }
        self.forget_readable_layers(&tasks);
        tasks.append(&mut hidden);
        Ok(Report {
            tasks,
            took: started.elapsed(),
            depth_everything: depth == Depth::Everything,
            last_in_turn: None,
            failure: None,
        })
    }

    /// All living tasks that descend from the keeper, with their roles.
    fn walk(&mut self, entries: &Entries, round: u64) -> io::Result<Vec<Sighting>> {
        let mut sightings = Vec::new();
        let mut pending: Vec<(Pid, Option<Role>)> = Vec::new();
        // The keeper's own threads; its children are the launch.
        let own = tasks_of(self.roster.keeper.pid)?;
        self.own.retain(|task, _| own.contains(task));
        for task in own {
            match self.own_children(task) {
                Ok(children) => pending.extend(children.into_iter().map(|pid| (pid, None))),
                Err(e) if is_gone(&e) => {}
                Err(e) => return Err(e),
            }
        }
        let mut visited = HashSet::new();
        while let Some((process, parent_role)) = pending.pop() {
            if !visited.insert(process) {
                continue;
            }
            self.sight_process(process, parent_role, entries, round, &mut sightings, &mut pending)?;
        }
        Ok(sightings)
    }

    /// The children of one of the keeper's own threads.
    fn own_children(&mut self, task: Pid) -> io::Result<Vec<Pid>> {
        for may_be_stale in [true, false] {
            let files = match self.own.entry(task) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    entry.insert(TaskFiles::open(self.roster.keeper.pid, task)?)
                }
            };
            match files.children(&mut self.buffer) {
                Err(e) if is_gone(&e) => {
                    self.own.remove(&task);
                    if !may_be_stale {
                        return Err(e);
                    }
                }
                read => return read,
            }
        }
        Ok(Vec::new())
    }

    fn sight_process(
        &mut self,
        process: Pid,
        parent_role: Option<Role>,
        entries: &Entries,
        round: u64,
        sightings: &mut Vec<Sighting>,
        pending: &mut Vec<(Pid, Option<Role>)>,
    ) -> io::Result<()> {
        let mut role = None;
        let mut tasks = vec![process];
        let mut at = 0;
        while let Some(task) = tasks.get(at).copied() {
            at += 1;
            let (id, status, children) = match self.sight_task(process, task, round) {
                Ok(sighted) => sighted,
                Err(e) if is_gone(&e) => continue,
                Err(e) => return Err(e),
            };
            if task == process {
                role = Some(role_of(id, parent_role, entries));
                // A leader that ended may leave other threads running.
                if status.threads > 1 || status.state == State::Dead {
                    match tasks_of(process) {
                        Ok(all) => tasks.extend(all.into_iter().filter(|t| *t != process)),
                        Err(e) if is_gone(&e) => {}
                        Err(e) => return Err(e),
                    }
                }
            }
            let role = role.unwrap_or(Role::Stray);
            pending.extend(children.into_iter().map(|child| (child, Some(role))));
            if status.state != State::Dead {
                let is_first = sightings.last().is_none_or(|last| last.process != process);
                sightings.push(Sighting { process, is_first, role, status, task: id });
            }
        }
        Ok(())
    }

    fn sight_task(
        &mut self,
        process: Pid,
        task: Pid,
        round: u64,
    ) -> io::Result<(ProcessId, Status, Vec<Pid>)> {
        for may_be_stale in [true, false] {
            let known = match self.known.entry(task) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(KnownTask {
                    files: TaskFiles::open(process, task)?,
                    namespaces: None,
                    program: ProgramCheck::NotAsked,
                    holds: None,
                    seen: 0,
                }),
            };
            let read = known
                .files
                .status(&mut self.buffer)
                .and_then(|status| Ok((status, known.files.children(&mut self.buffer)?)));
            match read {
                Ok((status, children)) => {
                    known.seen = round;
                    return Ok((known.files.id(), status, children));
                }
                // The task whose files were kept is gone; the id may be of a
                // new one by now, whose files have to be opened.
                Err(e) if is_gone(&e) && may_be_stale => {
                    self.known.remove(&task);
                }
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()))
    }

    fn judge_one(
        &mut self,
        sighting: Sighting,
        testimony: Option<Testimony>,
        members: &HashMap<Pid, Option<Layer>>,
        entries: &Entries,
        depth: Depth,
    ) -> io::Result<Option<TaskReport>> {
        let Sighting { process, is_first, role, status, task } = sighting;
        let is_due = self.is_due(task.pid.get().unsigned_abs().into(), self.passes, depth);
        let Some(known) = self.known.get_mut(&task.pid) else { return Ok(None) };
        let looked = match testimony {
            Some(Testimony::Inside) => Ok((testimony, true)),
            Some(Testimony::Refused) => confirm_refusal(&known.files, role, &status, entries),
            _ => known.files.is_dumpable(status.uids[1]).map(|dumpable| (testimony, dumpable)),
        };
        let (testimony, dumpable) = match looked {
            Ok(found) => found,
            Err(e) if is_gone(&e) => return Ok(None),
            Err(e) => return Err(e),
        };
        if known.namespaces.is_none() || is_due || status.capabilities != 0 {
            // The task's own: each may leave a namespace by itself, and those
            // of a leader that has ended are gone.
            known.namespaces = Namespaces::of(task.pid).ok();
            known.program = self.roster.check_program(process, role);
        }
        let unreadable_for = match (known.namespaces, role.layer()) {
            (None, Some(layer)) => {
                self.unreadable_since.entry(layer).or_insert_with(Instant::now).elapsed()
            }
            _ => Duration::ZERO,
        };
        let tracer_is_inside = status.tracer.is_some_and(|tracer| {
            role.layer().is_some() && members.get(&tracer) == Some(&role.layer())
        });
        let evidence = Evidence {
            task,
            process,
            role,
            testimony,
            dumpable,
            namespaces: known.namespaces,
            maps_users_otherwise: known.namespaces.is_none()
                && status.capabilities != 0
                && maps_users_otherwise(task.pid).unwrap_or(false),
            unreadable_for,
            program: known.program,
            tracer_is_inside,
            status,
        };
        let mut verdict = match &entries.expectation {
            Some(expectation) => judge(&evidence, expectation),
            None => Verdict::Unknown(vec![Reason::NoPlace]),
        };
        if is_due {
            // Who holds in spite of unreadable namespaces may be unreadable a while.
            let may_look = evidence.namespaces.is_some() || expects_no_namespaces(entries);
            let may_look = may_look && matches!(role, Role::Agent(_)) && verdict.holds();
            let is_own = is_first || !descriptors::share_a_table(task.pid, process);
            known.holds =
                (may_look && is_own).then(|| descriptors::check(task.pid, entries)).flatten();
        }
        if let Some(reason) = known.holds.clone().filter(|_| verdict.holds()) {
            verdict = if reason.is_ignorance() {
                Verdict::Unknown(vec![reason])
            } else {
                Verdict::Unconfined(vec![reason])
            };
        }
        // Between reading and judging a task may end; what ended is no threat
        // and no evidence.
        if !verdict.holds() && has_ended(task).unwrap_or(false) {
            return Ok(None);
        }
        let Status { parent, name, .. } = evidence.status;
        Ok(Some(TaskReport { task, process, role, verdict, parent, name }))
    }

    /// The clock of a layer stops once every task in it can be looked into.
    fn forget_readable_layers(&mut self, tasks: &[TaskReport]) {
        let is_unreadable = |task: &TaskReport| {
            self.known.get(&task.task.pid).is_some_and(|known| known.namespaces.is_none())
        };
        let unreadable: HashSet<Layer> =
            tasks.iter().filter(|t| is_unreadable(t)).filter_map(|t| t.role.layer()).collect();
        self.unreadable_since.retain(|layer, _| unreadable.contains(layer));
    }

    /// Members of a domain that do not descend from the keeper.
    fn outside_the_tree(
        &self,
        inside: &[(Layer, Pid)],
        sightings: &[Sighting],
        entries: &Entries,
    ) -> io::Result<Vec<TaskReport>> {
        let seen = ids_inside(sightings, entries);
        let unseen: HashSet<Pid> =
            inside.iter().map(|(_, task)| *task).filter(|task| !seen.contains(task)).collect();
        if unseen.is_empty() {
            return Ok(Vec::new());
        }
        // Rare, so a look at the whole host is affordable: ids inside the veil
        // have to be found again by `NSpid`.
        let mut buffer = Vec::new();
        let mut found = Vec::new();
        for task in user_tasks(Path::new("/proc"), self.roster.uid)? {
            let Ok(files) = TaskFiles::open(task, task) else { continue };
            let Ok(status) = files.status(&mut buffer) else { continue };
            let is_named = status.id_at(entries.depth()).is_some_and(|id| unseen.contains(&id));
            if is_named
                && status.state != State::Dead
                && is_in_launchs_namespace(status.tgid, entries)
                && !self.descends_from_keeper(task, &mut buffer)
            {
                found.push(TaskReport {
                    task: files.id(),
                    process: status.tgid,
                    role: Role::Stray,
                    verdict: Verdict::Unconfined(vec![Reason::NoPlace]),
                    parent: status.parent,
                    name: status.name,
                });
            }
        }
        Ok(found)
    }

    /// Whether the task is in the tree after all: a list of children may miss
    /// one while others end. The next pass sees it.
    fn descends_from_keeper(&self, task: Pid, buffer: &mut Vec<u8>) -> bool {
        /// An ancestor that ends meanwhile leaves its children to another.
        const TRIES: usize = 8;
        let mut parent_of = |pid: Pid| {
            TaskFiles::open(pid, pid).and_then(|files| files.status(buffer)).map(|s| s.parent)
        };
        for _ in 0..TRIES {
            let mut pid = task;
            for _ in 0..MOST_ANCESTORS {
                match parent_of(pid) {
                    Ok(Some(parent)) if parent == self.roster.keeper.pid => return true,
                    Ok(Some(parent)) => pid = parent,
                    Ok(None) => return false,
                    Err(_) => break,
                }
            }
        }
        false
    }
}

/// Whether the launch has no namespace of its own to compare with.
fn expects_no_namespaces(entries: &Entries) -> bool {
    entries.expectation.as_ref().is_some_and(|e| !e.network_isolated && !e.veiled)
}

/// Ids inside a veil say nothing outside it: another veil has the same ones.
fn is_in_launchs_namespace(process: Pid, entries: &Entries) -> bool {
    if entries.depth() == 0 {
        return true;
    }
    let wanted = entries.expectation.as_ref().map(|expectation| expectation.inside.pid);
    Namespaces::of(process).is_ok_and(|found| Some(found.pid) == wanted)
}

/// The tasks seen, as the launch's own pid namespace numbers them.
pub(super) fn ids_inside(sightings: &[Sighting], entries: &Entries) -> HashSet<Pid> {
    sightings.iter().filter_map(|sighting| sighting.status.id_at(entries.depth())).collect()
}

/// A process's part, by its place: who it is, or else whose child.
fn role_of(id: ProcessId, parent: Option<Role>, entries: &Entries) -> Role {
    if entries.veil.contains(&id) {
        return Role::Veil;
    }
    if let Some((layer, _)) = entries.supervisors.iter().find(|(_, process)| **process == id) {
        return Role::Supervisor(*layer);
    }
    if let Some(warden) = entries.wardens.values().find(|warden| warden.process == id) {
        return Role::Warden(warden.layer);
    }
    match parent {
        Some(Role::Warden(layer) | Role::Agent(layer)) if layer != Layer::Pen => Role::Agent(layer),
        _ => Role::Stray,
    }
}

impl Roster {
    /// Whether a part of the launch runs the program that was recorded for it.
    fn check_program(&self, process: Pid, role: Role) -> ProgramCheck {
        let wanted = match role {
            Role::Veil => self.bwrap,
            Role::Supervisor(_) => Some(self.nono),
            // Looked at when it was admitted; it is unreadable ever since.
            Role::Warden(_) | Role::Agent(_) | Role::Stray => return ProgramCheck::NotAsked,
        };
        match (executable(process), role) {
            (Ok(found), _) if Some(found) == wanted => ProgramCheck::Same,
            (Ok(_), _) => ProgramCheck::Different,
            // Undumpable, and in no user namespace of ours: what was checked
            // before it was started, and its place, have to do.
            (Err(_), Role::Supervisor(_)) => ProgramCheck::NotAsked,
            (Err(_), _) => ProgramCheck::Unreadable,
        }
    }
}

/// What the launch must look like, read from its wardens once they stand.
pub(super) fn expectation(
    entries: &Entries,
    roster: &Roster,
    plan: &Plan,
) -> io::Result<Expectation> {
    let (network_isolated, veiled) = (plan.tier.isolates_network(), plan.tier.has_veil());
    let mut buffer = Vec::new();
    let mut filters = |layer: Layer| -> io::Result<u32> {
        let missing = || io::Error::other(format!("the {layer} warden is gone"));
        let warden = entries.wardens.get(&layer).ok_or_else(missing)?;
        let pid = warden.process.pid;
        let status = TaskFiles::open(pid, pid)?.status(&mut buffer)?;
        Ok(status.seccomp_filters.unwrap_or(0))
    };
    let filters = confine::verdict::LayerFilters {
        pen: filters(Layer::Pen)?,
        server: filters(Layer::Server)?,
        // Where there is no client's sandbox nothing is in it.
        client: plan.client.as_ref().map_or(Ok(u32::MAX), |_| filters(Layer::Client))?,
    };
    let pen = entries
        .wardens
        .get(&Layer::Pen)
        .ok_or_else(|| io::Error::other("the pen warden is gone"))?
        .process
        .pid;
    let host = Namespaces::of(Pid::of_self())?;
    // In the ported tier an undumpable warden cannot be looked into, and there
    // is no namespace of its own to compare with.
    let inside = match Namespaces::of(pen) {
        Ok(inside) => inside,
        Err(_) if !network_isolated && !veiled => host,
        Err(e) => return Err(e),
    };
    Ok(Expectation { uid: roster.uid, filters, inside, host, network_isolated, veiled })
}
