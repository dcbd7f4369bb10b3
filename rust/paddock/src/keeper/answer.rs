//! How a launch stands, as its keeper tells it at once: from what the watch found in
//! its last pass, and from what is counted anyway. No pass is made for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use confine::escape::{escape, escape_short};
use confine::{Layer, Pid};
use serde::{Deserialize, Serialize};

use super::calls::Desk;
use super::herdr_desk::standing;
use super::questions::Wanted;
use super::report::{Report, TaskReport};
use super::watch::describe_failure;
use crate::gate::herdr::Standing;
use crate::state::now_ms;

/// Of more tasks than this the others are counted.
const MOST_TASKS: usize = 512;
/// The longest command line that is told, in characters.
const MOST_OF_A_COMMAND: usize = 240;

/// The answer to [`super::Request::Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) ok: bool,
    /// No pass has been made yet.
    pub(crate) starting: bool,
    /// Whether every task was confirmed in the last pass; none before the first.
    pub(crate) holds: Option<bool>,
    /// What the last pass found, taken together; none before the first, and from
    /// keepers of a time when they told only whether it held.
    pub(crate) verdict: Option<Standing>,
    /// How many tasks there were.
    pub(crate) tasks: usize,
    /// How long ago the last pass ended, in milliseconds.
    pub(crate) pass_age: Option<u64>,
    /// The first task of the last pass that was not confirmed, or why there was none.
    pub(crate) failure: Option<Failure>,
    /// The same of the last pass that had one.
    pub(crate) last_violation: Option<Failure>,
    pub(crate) blocked: BlockedCounts,
    pub(crate) questions: Vec<Asked>,
    /// Where it was asked for.
    pub(crate) details: Option<Details>,
}

/// What was refused since the launch began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockedCounts {
    /// By the guard.
    pub(crate) egress: u64,
    /// At the gate.
    pub(crate) gate: u64,
}

impl BlockedCounts {
    pub(crate) fn sum(self) -> u64 {
        self.egress.saturating_add(self.gate)
    }
}

/// Something that is not as it has to be, with its evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Milliseconds since the epoch.
    pub(crate) time: u64,
    /// In a line for a person.
    pub(crate) what: String,
    pub(crate) task: Option<Task>,
}

/// A question that waits for the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) wanted: Wanted,
}

/// What is told of one launch where it is looked at closely.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Details {
    pub(crate) tasks: Vec<Task>,
    /// Tasks that are not in the list.
    pub(crate) tasks_left_out: usize,
    /// What the launch may reach now.
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) hosts: Vec<HostSums>,
    /// Of all hosts that are not in the list.
    pub(crate) other_hosts: HostSums,
    pub(crate) gate: Vec<GateCalls>,
}

/// One task, as the last pass found it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) layer: Option<Layer>,
    pub(crate) role: String,
    pub(crate) pid: i32,
    pub(crate) task: i32,
    pub(crate) start: u64,
    pub(crate) parent: Option<Pid>,
    pub(crate) verdict: String,
    pub(crate) reasons: Vec<Reason>,
    /// Its own word, escaped.
    pub(crate) command: String,
}

/// Why a task is not confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reason {
    pub(crate) code: String,
    pub(crate) text: String,
}

/// What went to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostSums {
    pub(crate) host: String,
    pub(crate) connections: u64,
    pub(crate) open: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
}

/// Requests of one kind to the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GateCalls {
    pub(crate) request: String,
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
}

/// What the watch found last.
#[derive(Clone, Default)]
pub(super) struct LastPass(Arc<Mutex<Found>>);

#[derive(Clone, Default)]
struct Found {
    pass: Option<(Arc<Report>, Instant)>,
    violation: Option<Failure>,
}

impl LastPass {
    /// A pass has been made. A violation is told with the first pass that had it.
    pub(super) fn set(&self, report: Arc<Report>, is_new_violation: bool) {
        let violation = is_new_violation.then(|| failure_of(&report));
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if violation.is_some() {
            found.violation = violation;
        }
        found.pass = Some((report, Instant::now()));
    }

    fn get(&self) -> Found {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tells how the launch stands.
pub(super) fn tell(last: &LastPass, desk: &Desk, with_details: bool) -> Status {
    let Found { pass, violation } = last.get();
    let report = pass.as_ref().map(|(report, _)| &**report);
    let asked = |(number, wanted)| Asked { number, wanted };
    Status {
        ok: true,
        starting: report.is_none(),
        holds: report.map(Report::holds),
        verdict: report.map(standing),
        tasks: report.map_or(0, |report| report.tasks.len()),
        pass_age: pass
            .as_ref()
            .map(|(_, at)| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX)),
        failure: report.filter(|report| !report.holds()).map(failure_of),
        last_violation: violation,
        blocked: desk.tally.blocked(),
        questions: desk.questions.waiting().into_iter().map(asked).collect(),
        details: with_details.then(|| details(report, desk)),
    }
}

fn details(report: Option<&Report>, desk: &Desk) -> Details {
    let all = report.map_or(&[][..], |report| &report.tasks);
    // What is wrong is told before what is not.
    let (good, bad): (Vec<_>, Vec<_>) = all.iter().partition(|task| task.verdict.holds());
    let told = bad.into_iter().chain(good).take(MOST_TASKS);
    let tasks: Vec<Task> = told.map(task_of).collect();
    let (hosts, other_hosts) = desk.tally.hosts();
    Details {
        tasks_left_out: all.len() - tasks.len(),
        tasks,
        allowed_hosts: desk.guard.hosts(),
        hosts,
        other_hosts,
        gate: desk.tally.gate(),
    }
}

fn failure_of(report: &Report) -> Failure {
    Failure {
        time: now_ms(),
        what: escape_short(describe_failure(report).as_bytes(), 2_000).to_string(),
        task: report.first_failure().map(task_of),
    }
}

fn task_of(task: &TaskReport) -> Task {
    // A thread shows its name: the command line is that of its process.
    let is_thread = task.task.pid != task.process;
    let command = if is_thread { task.name.clone() } else { task.command() };
    Task {
        layer: task.role.layer(),
        role: task.role.name().to_owned(),
        pid: task.process.get(),
        task: task.task.pid.get(),
        start: task.task.start.0,
        parent: task.parent,
        verdict: task.verdict.name().to_owned(),
        reasons: task
            .verdict
            .reasons()
            .iter()
            .map(|reason| Reason {
                code: reason.code().to_owned(),
                text: escape(reason.to_string().as_bytes()).to_string(),
            })
            .collect(),
        command: escape_short(&command, MOST_OF_A_COMMAND).to_string(),
    }
}
