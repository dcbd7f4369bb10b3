//! `paddock verify`.

use confine::ProcessId;
use serde_json::{Value, json};

use super::{chosen, is_suspended, living_keepers, state_name, tell_all};
use crate::cli::Which;
use crate::error::{Error, status};
use crate::keeper::{Request, ask_keeper, members_left};
use crate::launch::Directories;
use crate::output::print;
use crate::state::{Phase, Stored};

/// Looks at launches now. 0 when every task is confirmed, 126 when one is not,
/// 125 when it could not be told.
pub(crate) fn verify(which: &Which) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let (launches, unreadable) = chosen(which, &directories)?;
    let mut worst = if unreadable.is_empty() { 0 } else { status::FAILED };
    let mut values = Vec::new();
    let keepers = living_keepers(&directories);
    for launch in &launches {
        let (code, value) = look(launch, &keepers);
        worst = worst.max(code);
        if !which.json {
            show(launch, &value)?;
        }
        values.push(value);
    }
    tell_all(which, &values, &unreadable)?;
    Ok(worst)
}

/// Looks at one launch now, and tells the exit status and what was seen.
pub(crate) fn look(launch: &Stored, keepers: &[ProcessId]) -> (u8, Value) {
    if launch.is_kept { ask(launch) } else { left_behind(launch, keepers) }
}

/// Has a launch's keeper look at everything now: the exit status for what was found,
/// and the report.
pub(crate) fn ask(launch: &Stored) -> (u8, Value) {
    let socket = launch.record.launch_directory.join("control.sock");
    let failed = |error: String| json!({ "ok": false, "error": error });
    let mut value = if is_suspended(launch) {
        let keeper = launch.record.keeper.pid;
        failed(format!(
            "the keeper is stopped and watches nothing; fg or kill -CONT {keeper} continues it"
        ))
    } else {
        ask_keeper(&socket, &Request::Verify)
            .unwrap_or_else(|e| failed(format!("the keeper does not answer: {e}")))
    };
    let code = match (value["ok"].as_bool(), value["holds"].as_bool()) {
        (Some(true), Some(true)) => 0,
        (Some(true), _) => status::UNCONFINED,
        _ => status::FAILED,
    };
    value["launch"] = launch.record.launch.as_str().into();
    value["state"] = state_name(launch).into();
    (code, value)
}

/// The keeper is gone: what of the launch is left?
fn left_behind(launch: &Stored, keepers: &[ProcessId]) -> (u8, Value) {
    let left = members_left(&launch.record, keepers);
    let code = match (left.is_empty(), launch.record.phase) {
        (true, Phase::Ended) => 0,
        (true, _) => status::FAILED,
        (false, _) => status::UNCONFINED,
    };
    let value = json!({
        "ok": true,
        "holds": false,
        "launch": launch.record.launch.as_str(),
        "state": state_name(launch),
        "left": left,
    });
    (code, value)
}

fn show(launch: &Stored, value: &Value) -> Result<(), Error> {
    let id = &launch.record.launch;
    if let Some(left) = value["left"].as_array() {
        match (left.len(), launch.record.phase) {
            (0, Phase::Ended) => {
                print(format_args!("launch {id} has ended; nothing of it is left"))?;
            }
            (0, _) => print(format_args!(
                "launch {id}: its keeper is gone, and nothing of it is left running\n  \
                 paddock stop {id} tidies up"
            ))?,
            (n, _) => {
                print(format_args!(
                    "launch {id}: its keeper is gone and {n} of its processes run unwatched"
                ))?;
                for process in left {
                    print(format_args!("  process {}", process["pid"]))?;
                }
                print(format_args!("  paddock stop {id} ends them"))?;
            }
        }
        return Ok(());
    }
    if value["ok"] != json!(true) {
        print(format_args!("launch {id}: {}", value["error"].as_str().unwrap_or("no answer")))?;
        return Ok(());
    }
    let held = if value["holds"] == json!(true) { "confined" } else { "NOT CONFINED" };
    let tasks = value["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    print(format_args!(
        "launch {id} ({}, {}): {held}, {} tasks in {} us",
        launch.record.agent,
        launch.record.tier,
        tasks.len(),
        value["microseconds"]
    ))?;
    for task in tasks {
        let field = |key: &str| task[key].as_str().unwrap_or("-");
        let reasons: Vec<&str> = task["reasons"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|r| r["text"].as_str())
            .collect();
        print(format_args!(
            "  {:<7} {:<10} {:>7} {:<10} {:<2} {}",
            field("layer"),
            field("role"),
            task["task"],
            field("verdict"),
            if reasons.is_empty() { "-".to_owned() } else { reasons.join("; ") },
            shorten(field("command")),
        ))?;
    }
    Ok(())
}

/// The start of a command; the whole is in the JSON output.
fn shorten(command: &str) -> String {
    const MOST: usize = 100;
    if command.chars().count() <= MOST {
        return command.to_owned();
    }
    command.chars().take(MOST).chain("...".chars()).collect()
}
