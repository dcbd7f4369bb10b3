//! After a start of herdr: panes come back as plain shells, and what ran in them does
//! not. What was left of launches is ended, and each such pane says that its agent
//! does not run and how to go on. Nothing is resumed by itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use confine::Pid;

use super::Desk;
use super::api::{ApiError, Pane};
use super::launches::end;
use super::notice::is_notified;
use super::result::Failure;
use super::target::own_pane;
use crate::commands::{KEEPER_GONE, is_open};
use crate::files::{open_plain, replace};
use crate::launch::LaunchId;
use crate::output::complain;
use crate::state::{Stored, now_ms, stored_launches};

/// For herdr to answer: it starts this while it starts.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the time of the last start is kept, in the plugin's state directory.
const LAST: &str = "last-start";
/// Why a launch ended that ended with its pane or its keeper. herdr closes a pane with
/// SIGHUP, and SIGTERM a moment later.
const CUT: [&str; 3] = ["stopped by SIGHUP", "stopped by SIGTERM", KEEPER_GONE];

/// For all that herdr is asked then.
const LIMIT: Duration = Duration::from_mins(1);
/// How often what herdr could not say is asked.
const TIMES: u32 = 3;
/// Between two times.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// What ended with herdr, and its pane where that came back.
type Gone = (Stored, Option<Pane>);

/// Looks at what a start of herdr found. What cannot be found out of one launch is told
/// in the end: it is no reason to leave another as it is.
pub(super) fn run() -> Result<(), Failure> {
    let mut desk = Desk::here()?;
    desk.herdr = desk.herdr.patient(LIMIT);
    let now = now_ms();
    let last = last_start();
    wait_for_herdr(&desk)?;
    let mut gone = Vec::new();
    let mut failures = Vec::new();
    for launch in stored_launches(&desk.directories).0 {
        look_at(launch, last, &desk, &mut gone, &mut failures);
    }
    keep_start(now);
    failures.extend(tell(&gone, &desk).err());
    let last = failures.pop();
    for failure in &failures {
        complain(&failure.message);
    }
    last.map_or(Ok(()), Err)
}

/// Ends what herdr's end left of a launch.
fn look_at(
    launch: Stored,
    last: Option<u64>,
    desk: &Desk,
    gone: &mut Vec<Gone>,
    failures: &mut Vec<Failure>,
) {
    let Some(own) = own_pane(&launch, &desk.context.socket) else { return };
    let was_open = is_open(&launch);
    if !was_open && !is_news(&launch, last) {
        return;
    }
    let of_launch = |failure: Failure| Failure {
        message: format!("launch {}: {}", launch.record.launch, failure.message),
        ..failure
    };
    let pane = match insist(|| desk.herdr.pane(&own.pane_id)) {
        Ok(pane) => pane,
        Err(error) => {
            failures.push(of_launch(error.into()));
            // What is not known to be gone goes on, as long as somebody keeps it.
            if launch.is_kept {
                return;
            }
            None
        }
    };
    if was_open {
        match pane.as_ref().map_or(Ok(false), |pane| runs_in(&launch, pane, desk)) {
            // herdr handed its panes over to a new server: nothing has ended.
            Ok(true) => return,
            Ok(false) => failures.extend(end(&launch, &desk.directories).err()),
            Err(error) => return failures.push(of_launch(error.into())),
        }
    }
    gone.push((launch, pane));
}

/// Whether a launch that has ended did so with its pane since the last start, or was
/// left by its keeper. What was stopped, or did not start, is known already.
fn is_news(launch: &Stored, last: Option<u64>) -> bool {
    let record = &launch.record;
    // At the first start everything is old.
    let is_since = last.is_some_and(|last| record.ended.is_some_and(|ended| ended > last));
    is_since && record.reason.as_deref().is_some_and(|reason| CUT.contains(&reason))
}

/// What is asked again when herdr gives no answer.
fn insist<T>(mut ask: impl FnMut() -> Result<T, ApiError>) -> Result<T, ApiError> {
    for _ in 1..TIMES {
        if let Ok(answer) = ask() {
            return Ok(answer);
        }
        std::thread::sleep(ASK_EVERY);
    }
    ask()
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
/// pane's first process leads. One that was started elsewhere may be of a session that
/// has no number here.
fn runs_in(launch: &Stored, pane: &Pane, desk: &Desk) -> Result<bool, ApiError> {
    if !launch.is_kept {
        return Ok(false);
    }
    let first = insist(|| desk.herdr.first_process(&pane.id))?;
    let session = confine::sys::session_of(launch.record.keeper.pid).ok().flatten();
    Ok(session.map(Pid::get) == Some(first))
}

/// Says in each pane, and once to the person, what does not run any more.
fn tell(gone: &[Gone], desk: &Desk) -> Result<(), Failure> {
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

/// When herdr was started before, in milliseconds since the epoch; `None` where this is
/// the first start, as far as is known.
fn last_start() -> Option<u64> {
    let read = |directory: PathBuf| {
        let mut text = String::new();
        let file = open_plain(File::options().read(true), &directory.join(LAST)).ok()?;
        std::io::Read::read_to_string(&mut std::io::Read::take(file, 32), &mut text).ok()?;
        text.trim().parse().ok()
    };
    state_directory().and_then(read)
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
