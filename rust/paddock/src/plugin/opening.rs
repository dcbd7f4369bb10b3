//! Actions that open a pane, and wait until it is clear whether what is to run in it
//! does.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use confine::{Pid, ProcessId};
use serde_json::Value;

use super::Desk;
use super::api::{ApiError, Opening, Pane, Place};
use super::launches::end;
use super::notice;
use super::order::{Order, Report};
use super::pane::{AGAIN, HELD, own_program};
use super::result::{Done, ErrorKind, Failure};
use super::target::{self, own_pane};
use crate::agent;
use crate::cli::PaneKind;
use crate::commands::{is_open, state_name};
use crate::launch::{
    Config, Directories, Form, HerdrSettings, OpenIn, Plan, Request, find_named_agent,
};
use crate::output::shown;
use crate::state::{Phase, Record, Stored, known_launches, launches_beside};

/// From the opening of a pane to an agent that runs; every layer is proved before.
const START_LIMIT: Duration = Duration::from_secs(45);
/// Between two looks at the records of launches.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// Between two questions to herdr whether the pane is still there.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Launches the configured agent in a pane beside the focused one.
pub(super) fn start_agent(desk: &Desk) -> Result<Done, Failure> {
    let config = Config::load(&desk.directories.config_file())?;
    let directory = directory(desk)?;
    // What can be told without a pane is told without one.
    let found = match &config.agent {
        Some(_) => None,
        None => Some(only_installed(&config, &desk.directories)?),
    };
    let plan = planned(found.clone(), &directory, &config, desk)?;
    let order = Order {
        directory: Some(plan.workspace.root.clone()),
        what: Some(plan.agent.called().to_owned()),
        ..Order::default()
    };
    let hint = plan.agent.file.herdr_kind();
    let place = beside(desk, config.herdr);
    let done = open_and_wait(PaneKind::Agent, order, Some(hint), place, config.herdr, desk)?;
    Ok(done.lines(found.map(|agent| {
        let what = format!("no agent is named, and {agent} is the only one that is installed");
        if !desk.context.is_typed {
            // Where none is shown, its pane says which it is.
            notice::is_notified(&format!("Paddock: {agent} is started"), &what, desk);
        }
        what
    })))
}

/// The agent to start where none is named: nobody presses a key for the stand-in.
fn only_installed(config: &Config, directories: &Directories) -> Result<String, Failure> {
    let mut known = agent::known_agents(&directories.agents());
    known.retain(|name| name != agent::STANDIN);
    let mut installed = known.clone();
    installed.retain(|name| find_named_agent(name, config, directories).is_ok());
    let file = shown(&directories.config_file());
    let (message, next) = match &*installed {
        [only] => return Ok(only.clone()),
        [] => (
            format!("no agent is named, and none is installed of: {}", known.join(", ")),
            format!("install one, or name it in {file}, as agent = \"codex\""),
        ),
        [first, ..] => (
            format!("no agent is named, and several are installed: {}", installed.join(", ")),
            format!("name the one that is meant in {file}, as agent = \"{first}\""),
        ),
    };
    Err(Failure::new(ErrorKind::Config, message).next(next).with("agents", installed))
}

/// Goes on with the agent's conversation in fresh sandboxes.
pub(super) fn reconnect(desk: &Desk) -> Result<Done, Failure> {
    let launch = target::launch(desk)?;
    let id = launch.record.launch.as_str();
    let what = match launch.record.form {
        Form::Pair | Form::Solo => None,
        Form::Shell => Some(("a shell", "the action open-shell opens another")),
        Form::Login => Some(("a sign-in", "the action start-agent starts the agent")),
    };
    if let Some((what, next)) = what {
        return Err(Failure::new(ErrorKind::Target, format!("launch {id} is {what}"))
            .next(next)
            .with("launch", id));
    }
    let pane = match own_pane(&launch, &desk.context.socket) {
        Some(own) => desk.herdr.pane(&own.pane_id)?,
        None => None,
    };
    if launch.is_kept {
        if let Some(pane) = &pane {
            let _ = desk.herdr.focus(&pane.id);
        }
        return Err(Failure::new(ErrorKind::Conflict, format!("launch {id} is still running"))
            .next("the action stop ends it, then try again")
            .with("launch", id)
            .with("paneId", pane.map(|pane| pane.id)));
    }
    if is_open(&launch) {
        // Its keeper is gone: nothing of it may run beside the new one.
        end(&launch, &desk.directories)?;
    }
    if let Some(pane) = &pane
        && let Some(process) = held_in(pane, desk)
    {
        let awaited = Awaited {
            known: known_launches(&desk.directories),
            report: Some(Report::make_for(process, &desk.directories)?),
            is_typed: true,
        };
        desk.herdr.type_into(&pane.id, &AGAIN.to_string())?;
        let _ = desk.herdr.focus(&pane.id);
        return wait(pane, awaited, desk).map(|done| done.with("resumed", id));
    }
    // A shell that is there now is the person's: nothing is typed into it.
    let settings = Config::load(&desk.directories.config_file())?.herdr;
    let place = match &pane {
        Some(pane) => Place::Beside(pane.id.clone(), settings.direction.name()),
        None => beside(desk, settings),
    };
    let kind = agent::load(&launch.record.agent, &desk.directories.agents())
        .map_or_else(|_| launch.record.agent.clone(), |agent| agent.file.herdr_kind().to_owned());
    let order = Order {
        directory: Some(launch.record.workspace.clone()),
        what: Some(id.into()),
        ..Order::default()
    };
    open_and_wait(PaneKind::Resume, order, Some(&kind), place, settings, desk)
        .map(|done| done.with("resumed", id))
}

/// Opens a shell under the policy of the launch's agent, else of the configured one.
pub(super) fn open_shell(desk: &Desk) -> Result<Done, Failure> {
    let config = Config::load(&desk.directories.config_file())?;
    let order = if let Some(launch) = target::open_launch_if_any(desk)? {
        shell_beside(&launch)
    } else {
        let directory = directory(desk)?;
        let plan = planned(None, &directory, &config, desk)?;
        Order {
            directory: Some(plan.workspace.root.clone()),
            what: Some(plan.agent.called().to_owned()),
            ..Order::default()
        }
    };
    open_and_wait(PaneKind::Shell, order, None, beside(desk, config.herdr), config.herdr, desk)
}

/// Opens one beside that launch. No report is made: whoever waits may end meanwhile, and
/// would leave it.
pub(super) fn open_shell_beside(launch: &Stored, desk: &Desk) -> Result<Done, Failure> {
    let settings = Config::load(&desk.directories.config_file())?.herdr;
    let order = shell_beside(launch);
    // The plugin's own overlay lies over the other panes: a split would take that away and
    // squeeze it in between them.
    let place = if desk.context.is_typed {
        beside(desk, settings)
    } else {
        Place::Tab(desk.context.workspace.clone())
    };
    open_and_wait_with(PaneKind::Shell, &order, place, settings, None, desk)
}

fn shell_beside(launch: &Stored) -> Order {
    Order {
        directory: Some(launch.record.workspace.clone()),
        what: Some(launch.record.launch.as_str().into()),
        ..Order::default()
    }
}

/// Opens the overlay.
pub(super) fn sandboxes(desk: &Desk) -> Result<Done, Failure> {
    let opening = Opening {
        entrypoint: PaneKind::Sandboxes.id(),
        place: Place::Overlay,
        cwd: desk.context.directories.iter().find(|path| path.is_dir()).cloned(),
        environment: vec![Order::default().variable()],
        focus: true,
    };
    let pane = desk.herdr.open(&opening)?;
    Ok(Done::shown().with("paneId", pane.map(|pane| pane.id)))
}

/// The directory that is meant.
fn directory(desk: &Desk) -> Result<PathBuf, Failure> {
    let found = desk.context.directories.iter().find(|path| path.is_dir());
    found.cloned().ok_or_else(|| {
        Failure::new(ErrorKind::Target, "herdr names no directory to work in")
            .next("focus a pane that is in one, then try again")
    })
}

/// What would be launched there, found out as `paddock run` does.
fn planned(
    agent: Option<String>,
    directory: &Path,
    config: &Config,
    desk: &Desk,
) -> Result<Plan, Failure> {
    std::env::set_current_dir(directory).map_err(|e| {
        let message = format!("the directory of the pane cannot be used: {e}");
        Failure::new(ErrorKind::Target, message).next("focus another pane, then try again")
    })?;
    let request = Request { agent, ..Request::default() };
    let mut failure = match Plan::make(&request, config, &desk.directories) {
        Ok(plan) => return Ok(plan),
        Err(error) => Failure::from(error),
    };
    if failure.kind == ErrorKind::Target {
        failure.next = Some("focus a pane in the directory that is meant, then try again".into());
    }
    Err(failure)
}

/// Beside the focused pane, else a tab.
fn beside(desk: &Desk, settings: HerdrSettings) -> Place {
    match (&desk.context.pane, settings.open_in) {
        (Some(pane), OpenIn::Split) => Place::Beside(pane.clone(), settings.direction.name()),
        _ => Place::Tab(desk.context.workspace.clone()),
    }
}

/// Gives a new pane the share of its split that is configured. Without it herdr halves.
fn share(pane: &Pane, settings: HerdrSettings, desk: &Desk) -> Result<(), ApiError> {
    let kept = settings.ratio.get();
    if (kept - 0.5).abs() < f64::EPSILON {
        return Ok(());
    }
    let root = desk.herdr.layout(&pane.id)?;
    match path_to_split(&root, &pane.id) {
        Some(path) => desk.herdr.set_ratio(&pane.id, &path, kept),
        None => Ok(()),
    }
}

/// The way from the root of a layout to the split whose second half is that pane: at
/// each split whether the second half is taken.
fn path_to_split(node: &Value, pane: &str) -> Option<Vec<bool>> {
    if node["type"] != "split" {
        return None;
    }
    if node["second"]["pane_id"] == pane {
        return Some(Vec::new());
    }
    [("first", false), ("second", true)].into_iter().find_map(|(half, is_second)| {
        let mut path = path_to_split(&node[half], pane)?;
        path.insert(0, is_second);
        Some(path)
    })
}

fn open_and_wait(
    kind: PaneKind,
    mut order: Order,
    hint: Option<&str>,
    place: Place,
    settings: HerdrSettings,
    desk: &Desk,
) -> Result<Done, Failure> {
    let report = Report::make(&desk.directories)?;
    order.report = Some(report.path().to_owned());
    order.hint = hint.map(str::to_owned);
    open_and_wait_with(kind, &order, place, settings, Some(report), desk)
}

fn open_and_wait_with(
    kind: PaneKind,
    order: &Order,
    place: Place,
    settings: HerdrSettings,
    report: Option<Report>,
    desk: &Desk,
) -> Result<Done, Failure> {
    let mut opening = Opening {
        entrypoint: kind.id(),
        place,
        // Also where herdr puts a shell after its restart.
        cwd: order.directory.clone(),
        environment: order.variables(),
        focus: true,
    };
    let known = known_launches(&desk.directories);
    let opened = match desk.herdr.open(&opening) {
        // The pane that had the focus has been closed meanwhile.
        Err(error) if error.is_no_pane() => {
            opening.place = Place::Tab(desk.context.workspace.clone());
            desk.herdr.open(&opening)
        }
        opened => opened,
    };
    let pane = opened?.ok_or_else(|| {
        Failure::new(ErrorKind::Startup, "herdr opened no pane").next("try again")
    })?;
    let shared = match opening.place {
        Place::Beside(..) => share(&pane, settings, desk),
        _ => Ok(()),
    };
    let done = wait(&pane, Awaited { known, report, is_typed: false }, desk)?;
    Ok(done.lines(shared.err().map(|error| error.to_string())))
}

/// What an action knows before it has a launch started.
struct Awaited {
    /// The launches that there were.
    known: BTreeSet<OsString>,
    /// Why none came up.
    report: Option<Report>,
    /// By a key that was typed into a pane that waited for one.
    is_typed: bool,
}

/// Waits until a launch in that pane runs, or it is clear that none will.
fn wait(pane: &Pane, mut awaited: Awaited, desk: &Desk) -> Result<Done, Failure> {
    let deadline = Instant::now() + START_LIMIT;
    let mut ask = Instant::now() + ASK_EVERY;
    let mut times_held = 0;
    let is_told_by_holding = awaited.is_typed || awaited.report.is_none();
    loop {
        let launch = newest_in(pane, &awaited, desk);
        if let Some(failure) = awaited.report.as_mut().and_then(Report::read) {
            return Err(in_pane(failure, pane, launch.as_ref()));
        }
        if let Some(launch) = &launch {
            match (launch.record.phase, launch.is_kept) {
                (Phase::Running, true) => return Ok(running(launch, pane)),
                (Phase::Ended, _) if launch.record.reason.is_none() => {
                    return Ok(running(launch, pane));
                }
                // Else it is about to say why.
                (Phase::Ended, _) if awaited.report.is_none() => {
                    return Err(in_pane(ended(&launch.record), pane, Some(launch)));
                }
                _ => {}
            }
        }
        let now = Instant::now();
        if now >= ask {
            ask = now + ASK_EVERY;
            if desk.herdr.pane(&pane.id)?.is_none() {
                let failure = match newest_in(pane, &awaited, desk) {
                    Some(launch) if launch.record.reason.is_none() && !launch.is_kept => {
                        return Ok(running(&launch, pane));
                    }
                    Some(launch) => ended(&launch.record),
                    None => Failure::new(ErrorKind::Startup, "the pane closed before anything ran")
                        .next("herdr plugin log list --plugin paddock tells more"),
                };
                return Err(in_pane(failure, pane, launch.as_ref()));
            }
            // At the first time the key that was typed may be still to come, or the reason.
            times_held += u32::from(is_told_by_holding && held_in(pane, desk).is_some());
            if times_held > 1 {
                let failure = match &launch {
                    Some(launch) if launch.record.phase == Phase::Ended => ended(&launch.record),
                    _ => Failure::new(ErrorKind::Startup, "it did not start")
                        .next("look at its pane, which says why"),
                };
                return Err(in_pane(failure, pane, launch.as_ref()));
            }
        }
        if now >= deadline {
            let message = format!("nothing runs after {} s", START_LIMIT.as_secs());
            let failure = Failure::new(ErrorKind::Startup, message).next("look at its pane");
            return Err(in_pane(failure, pane, launch.as_ref()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn newest_in(pane: &Pane, awaited: &Awaited, desk: &Desk) -> Option<Stored> {
    launches_beside(&awaited.known, &desk.directories).into_iter().rfind(|launch| {
        own_pane(launch, &desk.context.socket).is_some_and(|own| own.pane_id == pane.id)
    })
}

fn running(launch: &Stored, pane: &Pane) -> Done {
    Done::shown()
        .with("launch", launch.record.launch.as_str())
        .with("agent", launch.record.agent.as_str())
        .with("state", state_name(launch))
        .with("paneId", pane.id.as_str())
}

fn ended(record: &Record) -> Failure {
    let why = record.reason.as_deref().unwrap_or("its keeper is gone");
    let kind = match record.status {
        Some(crate::error::status::UNCONFINED) => ErrorKind::Unconfined,
        Some(crate::error::status::NOT_FOUND) => ErrorKind::NotFound,
        _ => ErrorKind::Startup,
    };
    Failure::new(kind, why).next(format!("paddock log {} shows what happened", record.launch))
}

fn in_pane(failure: Failure, pane: &Pane, launch: Option<&Stored>) -> Failure {
    let failure = failure.with("paneId", pane.id.as_str());
    match launch {
        Some(launch) => failure.with("launch", launch.record.launch.as_str()),
        None => failure,
    }
}

/// The pane's program, where that is Paddock's own that waits for a key: by the file that
/// it runs and its arguments, not by a name.
fn held_in(pane: &Pane, desk: &Desk) -> Option<ProcessId> {
    let (first, foreground) = desk.herdr.processes(&pane.id).ok()?;
    let (pid, [only]) = (Pid::new(first?)?, &*foreground) else { return None };
    let start = confine::proc::start_time(pid).ok()?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let arguments = confine::proc::command_line(pid);
    let arguments: Vec<&[u8]> = arguments.split(|b| *b == 0).skip(1).take(HELD.len()).collect();
    let is_it = *only == pid.get()
        && program.is_some()
        && program == own_program()
        && arguments == HELD.map(str::as_bytes);
    is_it.then_some(ProcessId { pid, start })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_way_to_the_split_of_a_new_pane_is_found() {
        let pane = |id: &str| json!({ "type": "pane", "pane_id": id });
        let split = |first: Value, second: Value| json!({ "type": "split", "direction": "right", "ratio": 0.5, "first": first, "second": second });
        let root = split(pane("a"), split(split(pane("b"), pane("c")), pane("d")));
        assert_eq!(path_to_split(&root, "c"), Some(vec![true, false]));
        assert_eq!(path_to_split(&root, "d"), Some(vec![true]));
        assert_eq!(path_to_split(&split(pane("a"), pane("b")), "b"), Some(vec![]));
        // What was there before is nobody's new pane.
        assert_eq!(path_to_split(&root, "a"), None);
        assert_eq!(path_to_split(&pane("a"), "a"), None);
    }
}
