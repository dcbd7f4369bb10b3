//! Actions that open a pane, and wait until it is clear whether what is to run in it
//! does.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use confine::Pid;

use super::Desk;
use super::api::{Opening, Pane, Place};
use super::launches::end;
use super::order::{Order, Report};
use super::pane::{AGAIN, HELD, own_program};
use super::result::{Done, ErrorKind, Failure};
use super::target::{self, own_pane};
use crate::agent;
use crate::cli::PaneKind;
use crate::commands::{is_open, state_name};
use crate::launch::{Config, Plan, Request};
use crate::state::{Phase, Record, Stored, now_ms, stored_launches};

/// From the opening of a pane to an agent that runs; every layer is proved before.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at the records of launches.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// Between two questions to herdr whether the pane is still there.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Launches the configured agent in a pane beside the focused one.
pub(super) fn start_agent(desk: &Desk) -> Result<Done, Failure> {
    let config = Config::load(&desk.directories.config_file())?;
    let directory = directory(desk)?;
    // What can be told without a pane is told without one.
    let plan = planned(None, &directory, &config, desk)?;
    let order = Order {
        directory: Some(plan.workspace.root.clone()),
        what: Some(plan.agent.file.name.clone()),
        ..Order::default()
    };
    open_and_wait(PaneKind::Agent, order, Some(plan.agent.file.herdr_kind()), beside(desk), desk)
}

/// Goes on with the agent's conversation in fresh sandboxes.
pub(super) fn reconnect(desk: &Desk) -> Result<Done, Failure> {
    let launch = target::launch(desk)?;
    let id = launch.record.launch.as_str();
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
        end(&launch, desk)?;
    }
    if let Some(pane) = &pane
        && is_held(pane, desk)
    {
        let since = now_ms();
        desk.herdr.type_into(&pane.id, &AGAIN.to_string())?;
        let _ = desk.herdr.focus(&pane.id);
        return wait(pane, since, None, desk).map(|done| done.with("resumed", id));
    }
    // A shell that is there now is the person's: nothing is typed into it.
    let place = match &pane {
        Some(pane) => Place::Beside(pane.id.clone(), "right"),
        None => beside(desk),
    };
    let kind = agent::load(&launch.record.agent, &desk.directories.agents())
        .map_or_else(|_| launch.record.agent.clone(), |agent| agent.file.herdr_kind().to_owned());
    let order = Order {
        directory: Some(launch.record.workspace.clone()),
        what: Some(id.into()),
        ..Order::default()
    };
    open_and_wait(PaneKind::Resume, order, Some(&kind), place, desk)
        .map(|done| done.with("resumed", id))
}

/// Opens a shell under the policy of the launch's agent, else of the configured one.
pub(super) fn open_shell(desk: &Desk) -> Result<Done, Failure> {
    let config = Config::load(&desk.directories.config_file())?;
    let order = match target::open_launch(desk) {
        Ok(launch) => Order {
            directory: Some(launch.record.workspace.clone()),
            what: Some(launch.record.launch.as_str().into()),
            ..Order::default()
        },
        Err(_) => {
            let directory = directory(desk)?;
            let plan = planned(None, &directory, &config, desk)?;
            Order {
                directory: Some(plan.workspace.root.clone()),
                what: Some(plan.agent.file.name.clone()),
                ..Order::default()
            }
        }
    };
    open_and_wait(PaneKind::Shell, order, None, beside(desk), desk)
}

/// Opens the overlay.
pub(super) fn sandboxes(desk: &Desk) -> Result<Done, Failure> {
    let opening = Opening {
        entrypoint: PaneKind::Sandboxes.id(),
        place: Place::Overlay,
        cwd: None,
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
fn beside(desk: &Desk) -> Place {
    match &desk.context.pane {
        Some(pane) => Place::Beside(pane.clone(), "right"),
        None => Place::Tab(desk.context.workspace.clone()),
    }
}

fn open_and_wait(
    kind: PaneKind,
    mut order: Order,
    hint: Option<&str>,
    place: Place,
    desk: &Desk,
) -> Result<Done, Failure> {
    let report = Report::make(&desk.directories)?;
    order.report = Some(report.path().to_owned());
    let mut environment = vec![order.variable()];
    // Never for a shell: herdr would take it for the agent.
    environment.extend(hint.map(|kind| ("HERDR_AGENT", kind.to_owned())));
    let opening = Opening {
        entrypoint: kind.id(),
        place,
        // Also where herdr puts a shell after its restart.
        cwd: order.directory.clone(),
        environment,
        focus: true,
    };
    let since = now_ms();
    let pane = desk.herdr.open(&opening)?.ok_or_else(|| {
        Failure::new(ErrorKind::Startup, "herdr opened no pane").next("try again")
    })?;
    wait(&pane, since, Some(report), desk)
}

/// Waits until a launch in that pane runs, or it is clear that none will.
fn wait(pane: &Pane, since: u64, mut report: Option<Report>, desk: &Desk) -> Result<Done, Failure> {
    let deadline = Instant::now() + START_LIMIT;
    let mut ask = Instant::now() + ASK_EVERY;
    loop {
        let launch = newest_in(pane, since, desk);
        if let Some(failure) = report.as_mut().and_then(Report::read) {
            return Err(in_pane(failure, pane, launch.as_ref()));
        }
        if let Some(launch) = &launch {
            match (launch.record.phase, launch.is_kept) {
                (Phase::Running, true) => return Ok(running(launch, pane)),
                (Phase::Ended, _) if launch.record.reason.is_none() => {
                    return Ok(running(launch, pane));
                }
                // Held, it is about to say why.
                (Phase::Ended, _) if report.is_none() => {
                    return Err(in_pane(ended(&launch.record), pane, Some(launch)));
                }
                _ => {}
            }
        }
        let now = Instant::now();
        if now >= ask {
            ask = now + ASK_EVERY;
            if desk.herdr.pane(&pane.id)?.is_none() {
                let failure = match newest_in(pane, since, desk) {
                    Some(launch) if launch.record.reason.is_none() && !launch.is_kept => {
                        return Ok(running(&launch, pane));
                    }
                    Some(launch) => ended(&launch.record),
                    None => Failure::new(ErrorKind::Startup, "the pane closed before anything ran")
                        .next("herdr plugin log list --plugin paddock tells more"),
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

fn newest_in(pane: &Pane, since: u64, desk: &Desk) -> Option<Stored> {
    let (launches, _) = stored_launches(&desk.directories);
    launches.into_iter().rfind(|launch| {
        launch.record.started >= since
            && own_pane(launch, &desk.context.socket).is_some_and(|own| own.pane_id == pane.id)
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

/// Whether the pane's program is Paddock's own that waits for a key: by the file that
/// it runs and its arguments, not by a name.
fn is_held(pane: &Pane, desk: &Desk) -> bool {
    let Ok((Some(first), foreground)) = desk.herdr.processes(&pane.id) else { return false };
    let (Some(pid), [only]) = (Pid::new(first), &*foreground) else { return false };
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let arguments = confine::proc::command_line(pid);
    let arguments: Vec<&[u8]> = arguments.split(|b| *b == 0).skip(1).take(HELD.len()).collect();
    *only == first
        && program.is_some()
        && program == own_program()
        && arguments == HELD.map(str::as_bytes)
}
