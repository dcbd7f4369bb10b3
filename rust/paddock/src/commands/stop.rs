//! `paddock stop`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{chosen, living_keepers};
use crate::cli::Which;
use crate::error::{Error, status};
use crate::keeper::{Request, ask_keeper, end_processes, members_left, remove_tree};
use crate::launch::Directories;
use crate::state::{KeeperLock, Phase, Record, Stored};

/// For a keeper to end everything and itself.
const LIMIT: Duration = Duration::from_secs(20);

/// Ends launches; 0 when nothing of them is left.
pub(crate) fn stop(which: &Which) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let launches = chosen(which, &directories)?;
    let mut worst = 0;
    let mut values = Vec::new();
    for launch in &launches {
        let left = end(launch, &directories);
        let id = launch.record.launch.as_str();
        match (&left, which.json) {
            (_, true) => {}
            (Ok(0), _) => println!("launch {id} has ended; nothing of it is left"),
            (Ok(n), _) => eprintln!("paddock: {n} processes of launch {id} could not be ended"),
            (Err(e), _) => eprintln!("paddock: launch {id}: {e}"),
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
    if which.json {
        println!("{}", json!({ "schema": 1, "launches": values }));
    } else if launches.is_empty() {
        println!("no launch is running");
    }
    Ok(worst)
}

fn end(launch: &Stored, directories: &Directories) -> std::io::Result<usize> {
    if launch.is_kept {
        let socket = launch.record.launch_directory.join("control.sock");
        ask_keeper(&socket, Request::Stop)?;
    }
    let deadline = Instant::now() + LIMIT;
    let lock = loop {
        if let Some(lock) = KeeperLock::take(&launch.directory)? {
            break lock;
        }
        if Instant::now() >= deadline {
            return Err(std::io::Error::other("its keeper does not end"));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // Nobody keeps it now but this process, which therefore may write. Its
    // keeper may have written how it ended, just now.
    let record = Record::load(&launch.directory).map_err(std::io::Error::other)?;
    let members = || members_left(&record, &living_keepers(directories));
    let mut left = members();
    while !left.is_empty() && Instant::now() < deadline {
        end_processes(&left);
        std::thread::sleep(Duration::from_millis(5));
        left = members();
    }
    if left.is_empty() && record.phase != Phase::Ended {
        tidy(launch, record, &lock)?;
    }
    Ok(left.len())
}

/// What a keeper that was killed could not do.
fn tidy(launch: &Stored, mut record: Record, lock: &KeeperLock) -> std::io::Result<()> {
    remove_tree(&record.launch_directory)?;
    for half in ["server", "client"] {
        remove_tree(&launch.directory.join(format!("tmp-{half}")))?;
    }
    record.end(status::FAILED, Some("its keeper was gone".into()));
    record.network_namespace = None;
    record.store(lock).map_err(std::io::Error::other)
}
