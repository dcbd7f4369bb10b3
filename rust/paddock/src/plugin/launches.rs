//! Actions on launches that are there.

use serde_json::{Value, json};

use super::Desk;
use super::result::{Done, ErrorKind, Failure};
use super::target::{self, described};
use crate::commands::{end_launch, is_open, living_keepers, look, state_name};
use crate::error::status;
use crate::launch::Directories;
use crate::output::shown;
use crate::state::{KeeperLock, LEDGER, Record, Stored, stored_launches};

/// Ends the launch, every process of it.
pub(super) fn stop(desk: &Desk) -> Result<Done, Failure> {
    let launch = target::open_launch(desk)?;
    end(&launch, &desk.directories)?;
    let id = launch.record.launch.as_str();
    Ok(Done::told(format!("launch {id} has ended; nothing of it is left")).with("launch", id))
}

/// Ends a launch and says what is left otherwise.
pub(super) fn end(launch: &Stored, directories: &Directories) -> Result<(), Failure> {
    let id = launch.record.launch.as_str();
    let failed = |message: String| {
        Failure::new(ErrorKind::Unknown, message)
            .next(format!("paddock verify {id} shows what is left"))
            .with("launch", id)
    };
    match end_launch(launch, directories) {
        Ok(0) => Ok(()),
        Ok(left) => Err(failed(format!("{left} processes of launch {id} could not be ended"))
            .with("left", left)),
        Err(e) => Err(failed(format!("launch {id} could not be ended: {e}"))),
    }
}

/// Shows the launch.
pub(super) fn info(desk: &Desk) -> Result<Done, Failure> {
    let launch = target::launch(desk)?;
    let record = &launch.record;
    let (id, state) = (record.launch.as_str(), state_name(&launch));
    let mut lines = vec![
        format!("agent {} in the {} tier", record.agent, record.tier),
        format!("workspace {}", shown(&record.workspace)),
    ];
    if let Some(code) = record.status {
        let reason = record.reason.as_deref().unwrap_or("the agent ended by itself");
        lines.push(format!("status {code}: {reason}"));
    }
    lines.push(format!("ledger {}", shown(&launch.directory.join(LEDGER))));
    lines.push(format!("paddock log {id} shows what happened"));
    Ok(with_launch(Done::told(format!("launch {id}: {state}")).lines(lines), &launch)
        .with("status", json!(record.status))
        .with("reason", json!(record.reason))
        .with("started", record.started))
}

fn with_launch(done: Done, launch: &Stored) -> Done {
    let Value::Object(fields) = described(launch) else { return done };
    fields.into_iter().fold(done, |done, (name, value)| done.with(&name, value))
}

/// Looks at every process of the launch now.
pub(super) fn verify(desk: &Desk) -> Result<Done, Failure> {
    let launch = target::open_launch(desk)?;
    let id = launch.record.launch.as_str();
    let (code, seen) = look(&launch, &living_keepers(&desk.directories));
    let tasks = seen["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let next = format!("paddock verify {id} shows each");
    match code {
        0 => Ok(Done::told(format!("launch {id} is confined, {} tasks", tasks.len()))
            .lines([next])
            .with("launch", id)
            .with("verdict", "confined")
            .with("tasks", tasks.len())),
        status::UNCONFINED => {
            let reasons: Vec<&str> = tasks
                .iter()
                .flat_map(|task| task["reasons"].as_array().into_iter().flatten())
                .filter_map(|reason| reason["text"].as_str())
                .collect();
            let why = match (seen["left"].as_array(), reasons.first()) {
                (Some(left), _) => {
                    format!("its keeper is gone and {} processes run unwatched", left.len())
                }
                (None, Some(first)) => format!("{first} ({} reasons)", reasons.len()),
                (None, None) => "not every task is confirmed".into(),
            };
            let message = format!("launch {id} is not confirmed to be confined: {why}");
            Err(Failure::new(ErrorKind::Unconfined, message)
                .next(format!("{next}; paddock stop {id} ends it"))
                .with("launch", id))
        }
        _ => {
            let why = seen["error"].as_str().unwrap_or("its keeper is gone").to_owned();
            let message = format!("launch {id} could not be looked at: {why}");
            Err(Failure::new(ErrorKind::Unknown, message)
                .next(format!("paddock stop {id} ends what is left of it"))
                .with("launch", id))
        }
    }
}

/// Lists the launches, those that run first.
pub(super) fn list(desk: &Desk) -> Done {
    let (mut launches, errors) = stored_launches(&desk.directories);
    launches.sort_by_key(|launch| (!is_open(launch), std::cmp::Reverse(launch.record.started)));
    let open = launches.iter().filter(|launch| is_open(launch)).count();
    let lines = launches.iter().map(|launch| {
        let record = &launch.record;
        format!(
            "{}  {:<8} {:<9} {:<9} {}",
            record.launch,
            state_name(launch),
            record.agent,
            record.tier.name(),
            shown(&record.workspace)
        )
    });
    let unreadable = errors.iter().map(ToString::to_string);
    let lines: Vec<String> = lines.chain(unreadable.clone()).collect();
    Done::told(format!("{open} of {} launches not ended", launches.len()))
        .lines(lines)
        .with("launches", launches.iter().map(described).collect::<Vec<_>>())
        .with("errors", unreadable.collect::<Vec<_>>())
}

/// Takes the launch from its pane: `reconnect` there no longer finds it.
pub(super) fn forget(desk: &Desk) -> Result<Done, Failure> {
    let launch = target::launch(desk)?;
    let id = launch.record.launch.as_str();
    let runs = || {
        Failure::new(ErrorKind::Conflict, format!("launch {id} has not ended"))
            .next("the action stop ends it, then try again")
            .with("launch", id)
    };
    if is_open(&launch) {
        return Err(runs());
    }
    let unusable = |e: std::io::Error| {
        Failure::new(ErrorKind::Permission, format!("launch {id} cannot be written: {e}"))
            .next(format!("ls -l {}", crate::output::quoted(&shown(&launch.directory))))
            .with("launch", id)
    };
    let lock = KeeperLock::take(&launch.directory).map_err(unusable)?.ok_or_else(runs)?;
    // As it is now that nobody else writes it.
    let mut record = Record::load(&launch.directory)?;
    let was = record.pane.take();
    record.store(&lock)?;
    Ok(Done::told(format!("launch {id} is not of this pane any more"))
        .with("launch", id)
        .with("paneId", json!(was.map(|pane| pane.pane_id))))
}
