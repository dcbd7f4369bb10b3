//! After a start of herdr: panes come back as plain shells, and what ran in them does
//! not. What was left of launches is ended, and each such pane says that its agent
//! does not run and how to go on. Nothing is resumed by itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Desk;
use super::api::{ApiError, Pane};
use super::launches::end;
use super::notice::is_notified;
use super::result::Failure;
use super::target::own_pane;
use crate::commands::is_open;
use crate::files::{open_plain, replace};
use crate::launch::LaunchId;
use crate::output::complain;
use crate::state::{Stored, now_ms, stored_launches};

/// For herdr to answer: it starts this while it starts.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the time of the last start is kept, in the plugin's state directory.
const LAST: &str = "last-start";

/// Looks at what a start of herdr found.
pub(super) fn run() -> Result<(), Failure> {
    let desk = Desk::here()?;
    let now = now_ms();
    let last = last_start();
    wait_for_herdr(&desk)?;
    let mut gone = Vec::new();
    for launch in stored_launches(&desk.directories).0 {
        let Some(own) = own_pane(&launch, &desk.context.socket) else { continue };
        let pane = desk.herdr.pane(&own.pane_id)?;
        if is_open(&launch) {
            if pane.as_ref().is_some_and(|pane| runs_in(&launch, pane, &desk)) {
                // herdr handed its panes over to a new server: nothing has ended.
                continue;
            }
            if let Err(failure) = end(&launch, &desk) {
                complain(&failure.message);
            }
        } else if launch.record.ended.is_none_or(|ended| ended <= last) || !was_cut(&launch) {
            continue;
        }
        gone.push((launch, pane));
    }
    keep_start(now);
    tell(&gone, &desk)
}

/// Whether it was ended from outside, as herdr's own end does.
fn was_cut(launch: &Stored) -> bool {
    launch.record.reason.is_some() && matches!(launch.record.status, Some(129 | 143 | 125))
}

fn wait_for_herdr(desk: &Desk) -> Result<(), ApiError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match desk.herdr.ping() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            result => return result,
        }
    }
}

/// Whether the launch's keeper is a process of that pane: of the session that the
/// pane's first process leads.
fn runs_in(launch: &Stored, pane: &Pane, desk: &Desk) -> bool {
    let keeper = launch.record.keeper;
    let session = rustix::process::Pid::from_raw(keeper.pid.get())
        .and_then(|pid| rustix::process::getsid(Some(pid)).ok());
    let first = desk.herdr.processes(&pane.id).ok().and_then(|(first, _)| first);
    launch.is_kept && first.is_some() && session.map(|pid| pid.as_raw_nonzero().get()) == first
}

/// Says in each pane, and once to the person, what does not run any more.
fn tell(gone: &[(Stored, Option<Pane>)], desk: &Desk) -> Result<(), Failure> {
    let mut outcome = Ok(());
    for (launch, pane) in gone {
        let record = &launch.record;
        let Some(pane) = pane else { continue };
        let title =
            format!("{} has ended; reconnect, or: paddock resume {}", record.agent, record.launch);
        if let Err(error) = desk.herdr.set_title(&pane.id, &title) {
            outcome = Err(error.into());
        }
        if let Some(agent) = &pane.agent {
            complain(format_args!(
                "herdr shows {agent} in pane {}, where launch {} was: that one is not in a sandbox of Paddock's",
                pane.id, record.launch
            ));
        }
    }
    let ids: Vec<&str> = gone.iter().map(|(launch, _)| launch.record.launch.as_str()).collect();
    let unboxed = gone.iter().filter(|(_, pane)| pane.as_ref().is_some_and(|p| p.agent.is_some()));
    let title = match (ids.len(), unboxed.count()) {
        (0, _) => return outcome,
        (_, 1..) => "Paddock: an agent runs without its sandbox".to_owned(),
        (n, 0) => format!("Paddock: {n} launches ended with herdr"),
    };
    let body = format!(
        "{}; the action reconnect goes on in a fresh sandbox, as does: paddock resume {}",
        ids.join(", "),
        ids.last().unwrap_or(&"")
    );
    // A pane would be in the way of whoever comes back.
    is_notified(&title, &body, desk);
    outcome
}

fn state_directory() -> Option<PathBuf> {
    let directory = std::env::var_os("HERDR_PLUGIN_STATE_DIR").map(PathBuf::from)?;
    directory.is_absolute().then_some(directory)
}

/// When herdr was started before, in milliseconds since the epoch.
fn last_start() -> u64 {
    let read = |directory: PathBuf| {
        let mut text = String::new();
        let file = open_plain(File::options().read(true), &directory.join(LAST)).ok()?;
        std::io::Read::read_to_string(&mut std::io::Read::take(file, 32), &mut text).ok()?;
        text.trim().parse().ok()
    };
    state_directory().and_then(read).unwrap_or(0)
}

/// What ended before is not told again.
fn keep_start(now: u64) {
    let keep = |directory: &Path| {
        let temporary = directory.join(format!("{LAST}.{}", LaunchId::random()?));
        replace(&directory.join(LAST), &temporary, now.to_string().as_bytes())
    };
    if let Some(Err(error)) = state_directory().as_deref().map(keep) {
        complain(format_args!("the time of this start cannot be kept: {error}"));
    }
}
