//! `paddock stop`.

use std::time::{Duration, Instant};

use confine::ProcessId;
use serde_json::json;

use super::{chosen, is_suspended, living_keepers, tell_all};
use crate::cli::Which;
use crate::error::{Error, status};
use crate::keeper::{
    Request, ask_keeper, end_processes, members_left, remove_leftovers, sweep_abandoned,
};
use crate::launch::Directories;
use crate::output::{complain, print};
use crate::state::{KeeperLock, Phase, Record, Stored};

/// For a keeper to end everything and itself.
const LIMIT: Duration = Duration::from_secs(20);
/// For one that does not answer any more because it is at its end already.
const LAST_STEPS: Duration = Duration::from_secs(2);
/// Why a launch ended whose keeper had not written it down.
pub(crate) const KEEPER_GONE: &str = "its keeper was gone";

/// Ends launches; 0 when nothing of them is left.
pub(crate) fn stop(which: &Which) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let left = if which.all { sweep_abandoned(&directories) } else { Vec::new() };
    for error in &left {
        complain(format_args!("{error}"));
    }
    let (launches, mut unreadable) = chosen(which, &directories)?;
    unreadable.extend(left);
    let mut worst = if unreadable.is_empty() { 0 } else { status::FAILED };
    let mut values = Vec::new();
    // What cannot be told must not keep the next launch from being ended.
    let mut told = Ok(());
    for launch in &launches {
        let left = end_launch(launch, &directories);
        let id = launch.record.launch.as_str();
        match (&left, which.json) {
            (_, true) => {}
            (Ok(0), _) => {
                let printed = print(format_args!("launch {id} has ended; nothing of it is left"));
                told = told.and(printed);
            }
            (Ok(n), _) => complain(format_args!("{n} processes of launch {id} could not be ended")),
            (Err(e), _) => complain(format_args!("launch {id}: {e}")),
        }
        if !matches!(left, Ok(0)) {
            worst = status::FAILED;
        }
        values.push(json!({
            "launch": id,
            "left": left.as_ref().ok(),
            "error": left.as_ref().err().map(ToString::to_string),
        }));
    }
    tell_all(which, &values, &unreadable)?;
    told.map(|()| worst)
}

/// Ends a launch, and tells how many of its processes are left.
///
/// # Errors
/// When its keeper does not end, or what it left cannot be removed.
pub(crate) fn end_launch(launch: &Stored, directories: &Directories) -> std::io::Result<usize> {
    let lock = take_over(launch)?;
    // Nobody keeps it now but this process, which therefore may write. Its
    // keeper may have written how it ended, just now.
    let deadline = Instant::now() + LIMIT;
    let record = Record::load(&launch.directory).map_err(std::io::Error::other)?;
    let members = || members_left(&record, &living_keepers(directories));
    // What is orphaned meanwhile becomes a warden's child: with the wardens
    // gone first, it would be nobody's that the record knows.
    let is_warden = |process: &ProcessId| {
        record.parts.iter().any(|part| part.process == *process && part.name.ends_with("-warden"))
    };
    let mut rounds_with_wardens_alone = 0;
    let mut left = members();
    while !left.is_empty() && Instant::now() < deadline {
        let others: Vec<ProcessId> = left.iter().copied().filter(|p| !is_warden(p)).collect();
        if others.is_empty() {
            rounds_with_wardens_alone += 1;
        } else {
            rounds_with_wardens_alone = 0;
            end_processes(&others);
        }
        if rounds_with_wardens_alone >= 2 {
            end_processes(&left);
        }
        std::thread::sleep(Duration::from_millis(5));
        left = members();
    }
    if left.is_empty() && record.phase != Phase::Ended {
        tidy(launch, record, &lock)?;
    }
    Ok(left.len())
}

/// Has the keeper end the launch and itself. One that is stopped, does not
/// answer or does not come to an end is ended: what is left then is dealt with
/// as after any keeper that was killed.
fn take_over(launch: &Stored) -> std::io::Result<KeeperLock> {
    let socket = launch.record.launch_directory.join("control.sock");
    let patience = if launch.is_kept && is_suspended(launch) {
        None
    } else if !launch.is_kept || ask_keeper(&socket, &Request::Stop).is_ok() {
        Some(LIMIT)
    } else {
        Some(LAST_STEPS)
    };
    if let Some(limit) = patience
        && let Some(lock) = KeeperLock::take_within(&launch.directory, limit)?
    {
        return Ok(lock);
    }
    // Of an earlier boot the number says nothing.
    if launch.record.is_of_this_boot() {
        end_processes(&[launch.record.keeper]);
    }
    KeeperLock::take_within(&launch.directory, LIMIT)?
        .ok_or_else(|| std::io::Error::other("its keeper does not end"))
}

/// What a keeper that was killed could not do.
fn tidy(launch: &Stored, mut record: Record, lock: &KeeperLock) -> std::io::Result<()> {
    remove_leftovers(&record, &launch.directory)?;
    record.end(status::FAILED, Some(KEEPER_GONE.into()));
    record.namespaces = None;
    record.store(lock).map_err(std::io::Error::other)
}
