//! What each command does.

mod agents;
mod config;
mod doctor;
mod grant;
mod grant_path;
mod import;
mod info;
mod list;
mod log;
mod login;
mod pin;
mod port;
mod prune;
mod prune_caches;
mod resume;
mod run;
mod shell;
mod status;
mod stop;
mod verify;

pub(crate) use agents::agents;
pub(crate) use config::config;
pub(crate) use doctor::doctor;
pub(crate) use grant::{answer_question, grant};
pub(crate) use import::import;
pub(crate) use info::info;
pub(crate) use list::list;
pub(crate) use log::{Parts, Tone, bytes, log, parts, recorded, shown_time};
pub(crate) use login::login;
pub(crate) use pin::{lines as pin_lines, pin};
pub(crate) use port::port;
pub(crate) use prune::prune;
pub(crate) use resume::resume;
pub(crate) use run::run;
pub(crate) use shell::shell;
pub(crate) use status::status;
#[cfg(test)]
pub(crate) use status::to_json as status_of;
pub(crate) use stop::{KEEPER_GONE, end_launch, stop};
pub(crate) use verify::{ask as verify_now, look, verify};

use serde_json::{Value, json};

use crate::cli::Which;
use crate::error::Error;
use crate::launch::Directories;
use crate::output::{complain, print};
use crate::state::{Stored, find_launch, stored_launches};

/// The launches that a command is about, and what could not be read of others
/// that it is about, too.
fn chosen(which: &Which, directories: &Directories) -> Result<(Vec<Stored>, Vec<Error>), Error> {
    if which.all {
        let (launches, errors) = stored_launches(directories);
        for error in &errors {
            complain(format_args!("{error}"));
        }
        return Ok((launches.into_iter().filter(is_open).collect(), errors));
    }
    Ok((vec![find_launch(which.launch.as_deref(), directories)?], Vec::new()))
}

/// Tells what each launch that a command is about came to, as JSON, or that there was none.
fn tell_all(which: &Which, values: &[Value], unreadable: &[Error]) -> Result<(), Error> {
    if which.json {
        let errors = texts(unreadable);
        print(format_args!("{}", json!({ "schema": 1, "launches": values, "errors": errors })))?;
    } else if values.is_empty() && unreadable.is_empty() {
        print(format_args!("no launch is running"))?;
    }
    Ok(())
}

/// For the JSON output: what could not be read.
fn texts(errors: &[Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The keepers of all launches that run.
pub(crate) fn living_keepers(directories: &Directories) -> Vec<confine::ProcessId> {
    let (launches, _) = stored_launches(directories);
    launches.iter().filter(|launch| launch.is_kept).map(|launch| launch.record.keeper).collect()
}

/// Whether the launch's keeper was stopped, by Ctrl-Z or SIGSTOP: it hears
/// nothing then.
pub(crate) fn is_suspended(launch: &Stored) -> bool {
    use confine::proc::{State, TaskFiles};
    let keeper = launch.record.keeper;
    launch.is_kept
        && TaskFiles::open(keeper.pid, keeper.pid).is_ok_and(|files| {
            files.id() == keeper
                && files
                    .status(&mut Vec::new())
                    .is_ok_and(|s| matches!(s.state, State::Stopped | State::TracedStop))
        })
}

/// It runs, or its keeper went without ending it.
pub(crate) fn is_open(launch: &Stored) -> bool {
    launch.is_kept || launch.record.phase != crate::state::Phase::Ended
}

/// What a stored launch is doing.
pub(crate) fn state_name(launch: &Stored) -> &'static str {
    use crate::state::Phase;
    match (launch.record.phase, launch.is_kept) {
        (Phase::Ended, _) => "ended",
        (Phase::Starting, true) => "starting",
        (Phase::Running, true) => "running",
        (Phase::Starting | Phase::Running, false) => "stale",
    }
}
