//! Launches that are over, removed: their records and ledgers, and whatever of
//! them is left on disk. Private homes and pins are not a launch's and stay.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use confine::ProcessId;

use super::{members_left, remove_tree, sweep_abandoned};
use crate::error::Error;
use crate::launch::Directories;
use crate::state::{
    KeeperLock, LEDGER, Phase, Record, Stored, find_launch, now_ms, stored_launches,
};

/// Who asks whether a launch has a keeper holds its lock for a moment, too.
const LOCK_LIMIT: Duration = Duration::from_millis(500);

/// What to remove.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prune<'a> {
    /// Launches, or the starts of their ids; every one that is over where none is
    /// named.
    pub(crate) launches: &'a [String],
    /// Only what has been over for so long.
    pub(crate) older_than: Option<Duration>,
    /// Only tell what would be removed.
    pub(crate) dry_run: bool,
}

/// What became of the launches, and what could not be read.
#[derive(Debug, Default)]
pub(crate) struct Pruning {
    pub(crate) launches: Vec<Pruned>,
    /// Nothing of these was touched, or of what was begun to be removed something is
    /// there still.
    pub(crate) errors: Vec<Error>,
}

/// One launch.
#[derive(Debug)]
pub(crate) struct Pruned {
    pub(crate) record: Record,
    pub(crate) outcome: PruneOutcome,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum PruneOutcome {
    /// Nothing of it is left; or, where it is only to be told, would be.
    Removed,
    /// It has not been over for long enough.
    TooYoung,
    /// Its keeper lives.
    Running,
    /// So many processes of it live. Nothing was touched.
    ProcessesLeft(usize),
    /// It is over, and something of it could not be removed.
    Failed(io::Error),
}

impl PruneOutcome {
    /// For scripts.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::TooYoung => "too-young",
            Self::Running => "running",
            Self::ProcessesLeft(_) => "processes-left",
            Self::Failed(_) => "failed",
        }
    }
}

/// Removes launches that are over. One that runs, or of which a process is left,
/// is not touched.
pub(crate) fn prune_ended(directories: &Directories, what: Prune<'_>) -> Pruning {
    let mut pruning = Pruning::default();
    if !what.dry_run {
        pruning.errors = sweep_abandoned(directories);
    }
    let (all, unreadable) = stored_launches(directories);
    let keepers: Vec<ProcessId> =
        all.iter().filter(|launch| launch.is_kept).map(|launch| launch.record.keeper).collect();
    let chosen = if what.launches.is_empty() {
        pruning.errors.extend(unreadable);
        all
    } else {
        let mut chosen: Vec<Stored> = Vec::new();
        for prefix in what.launches {
            match find_launch(Some(prefix), directories) {
                Ok(found) if chosen.iter().any(|c| c.directory == found.directory) => {}
                Ok(found) => chosen.push(found),
                Err(e) => pruning.errors.push(e),
            }
        }
        chosen
    };
    for launch in chosen {
        let outcome = prune(&launch, &keepers, what).unwrap_or_else(PruneOutcome::Failed);
        pruning.launches.push(Pruned { record: launch.record, outcome });
    }
    pruning
}

/// Removes what a launch has on disk but for its record and ledger. Nothing of it
/// may run any more.
pub(crate) fn remove_leftovers(record: &Record, directory: &Path) -> io::Result<()> {
    remove_tree(&record.launch_directory)?;
    for half in ["server", "client"] {
        remove_tree(&directory.join(format!("tmp-{half}")))?;
    }
    Ok(())
}

fn prune(launch: &Stored, keepers: &[ProcessId], what: Prune<'_>) -> io::Result<PruneOutcome> {
    if launch.is_kept {
        return Ok(PruneOutcome::Running);
    }
    if what.older_than.is_some_and(|age| over_for(launch) < age) {
        return Ok(PruneOutcome::TooYoung);
    }
    if what.dry_run {
        let left = members_left(&launch.record, keepers).len();
        return Ok(if left == 0 {
            PruneOutcome::Removed
        } else {
            PruneOutcome::ProcessesLeft(left)
        });
    }
    let lock = match KeeperLock::take_within(&launch.directory, LOCK_LIMIT) {
        // Somebody else removed it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(PruneOutcome::Removed),
        taken => taken?,
    };
    let Some(_lock) = lock else { return Ok(PruneOutcome::Running) };
    // Its keeper may have written how it ended, just now.
    let record = Record::load(&launch.directory).map_err(io::Error::other)?;
    let left = members_left(&record, keepers).len();
    if left > 0 {
        return Ok(PruneOutcome::ProcessesLeft(left));
    }
    remove_leftovers(&record, &launch.directory)?;
    // Under a name that no launch has, so that nobody finds a part of it.
    let going = launch.directory.with_extension(super::sweep::GOING);
    std::fs::rename(&launch.directory, &going)?;
    remove_tree(&going)?;
    Ok(PruneOutcome::Removed)
}

/// For how long. When a launch without a keeper was over nobody wrote down: no
/// sooner than the last line of its ledger.
fn over_for(launch: &Stored) -> Duration {
    let record = &launch.record;
    let ended = record.ended.filter(|_| record.phase == Phase::Ended);
    let ended = ended.map_or_else(
        || last_line(&launch.directory).unwrap_or(Duration::from_millis(record.started)),
        Duration::from_millis,
    );
    Duration::from_millis(now_ms()).saturating_sub(ended)
}

fn last_line(directory: &Path) -> Option<Duration> {
    let metadata = std::fs::symlink_metadata(directory.join(LEDGER)).ok()?;
    let written: SystemTime = metadata.modified().ok()?;
    written.duration_since(UNIX_EPOCH).ok()
}

#[cfg(test)]
mod tests {
    use confine::{Pid, StartTime};

    use super::*;
    use crate::launch::{LaunchId, Tier};

    const LAUNCHES: [&str; 3] = ["bcdfbcdfbcdf", "cdfgcdfgcdfg", "dfghdfghdfgh"];

    /// A launch that is over, with leftovers, and its lock.
    fn store(own: &Directories, id: &str, phase: Phase) -> (std::path::PathBuf, KeeperLock) {
        let directory = own.launches().join(id);
        std::fs::create_dir_all(directory.join("tmp-server/deep")).unwrap();
        std::fs::create_dir_all(own.runtime.join(id).join("in")).unwrap();
        std::fs::write(directory.join(LEDGER), "{}\n").unwrap();
        let lock = KeeperLock::take(&directory).unwrap().unwrap();
        let mut record = Record::new(
            LaunchId::try_from(id.to_owned()).unwrap(),
            "standin".into(),
            Tier::Sealed,
            "/w".into(),
            own.runtime.join(id),
            ProcessId { pid: Pid::of_self(), start: StartTime(1) },
        );
        record.phase = phase;
        if phase == Phase::Ended {
            record.end(0, None);
        }
        record.store(&lock).unwrap();
        (directory, lock)
    }

    fn removed(pruning: &Pruning) -> Vec<&str> {
        let is_removed = |p: &&Pruned| matches!(p.outcome, PruneOutcome::Removed);
        pruning.launches.iter().filter(is_removed).map(|p| p.record.launch.as_str()).collect()
    }

    #[test]
    fn what_is_over_goes_and_what_runs_stays() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (ended, lock) = store(&own, LAUNCHES[0], Phase::Ended);
        drop(lock);
        let (stale, lock) = store(&own, LAUNCHES[1], Phase::Running);
        drop(lock);
        let (running, _lock) = store(&own, LAUNCHES[2], Phase::Running);
        let only_told = prune_ended(&own, Prune { dry_run: true, ..Prune::default() });
        assert_eq!(removed(&only_told), LAUNCHES[..2]);
        assert!(ended.exists() && stale.exists(), "control: nothing is removed by that");
        let pruning = prune_ended(&own, Prune::default());
        assert_eq!(removed(&pruning), LAUNCHES[..2]);
        assert!(matches!(pruning.launches[2].outcome, PruneOutcome::Running));
        let names = |directory: &Path| -> Vec<_> {
            std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name()).collect()
        };
        assert_eq!(names(&own.launches()), [LAUNCHES[2]]);
        assert_eq!(names(&own.runtime), [LAUNCHES[2]]);
        assert!(running.join("tmp-server/deep").exists());
        assert!(removed(&prune_ended(&own, Prune::default())).is_empty());
    }

    #[test]
    fn only_what_has_been_over_for_so_long_goes() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        for (id, phase) in LAUNCHES.into_iter().zip([Phase::Ended, Phase::Running]) {
            drop(store(&own, id, phase));
        }
        let hour = Some(Duration::from_hours(1));
        let pruning = prune_ended(&own, Prune { older_than: hour, ..Prune::default() });
        let is_young = |p: &Pruned| matches!(p.outcome, PruneOutcome::TooYoung);
        assert!(pruning.launches.len() == 2 && pruning.launches.iter().all(is_young));
        let moment = Some(Duration::ZERO);
        let pruning = prune_ended(&own, Prune { older_than: moment, ..Prune::default() });
        assert_eq!(removed(&pruning), LAUNCHES[..2]);
    }

    #[test]
    fn named_ones_alone_go_and_unknown_ones_are_told() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        for id in LAUNCHES {
            drop(store(&own, id, Phase::Ended));
        }
        let launches = ["cdf", "cdfgcdfgcdfg", "zz"].map(str::to_owned);
        let pruning = prune_ended(&own, Prune { launches: &launches, ..Prune::default() });
        assert_eq!(removed(&pruning), [LAUNCHES[1]]);
        assert!(matches!(&pruning.errors[..], [Error::LaunchUnknown { .. }]));
        assert!(own.launches().join(LAUNCHES[0]).exists());
    }

    #[test]
    fn links_in_the_place_of_leftovers_are_removed_and_not_followed() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let precious = root.path().join("precious");
        std::fs::create_dir_all(precious.join("deep")).unwrap();
        let (directory, lock) = store(&own, LAUNCHES[0], Phase::Running);
        drop(lock);
        for path in [directory.join("tmp-server"), own.runtime.join(LAUNCHES[0])] {
            remove_tree(&path).unwrap();
            symlink(&precious, &path).unwrap();
        }
        symlink(&precious, directory.join("more")).unwrap();
        assert_eq!(removed(&prune_ended(&own, Prune::default())), [LAUNCHES[0]]);
        assert!(precious.join("deep").exists());
        assert!(
            !directory.exists()
                && std::fs::symlink_metadata(own.runtime.join(LAUNCHES[0])).is_err()
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_and_stays() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (directory, lock) = store(&own, LAUNCHES[0], Phase::Ended);
        drop(lock);
        std::fs::write(directory.join("record.json"), "{").unwrap();
        let pruning = prune_ended(&own, Prune::default());
        assert!(pruning.launches.is_empty());
        assert!(matches!(&pruning.errors[..], [Error::Record { .. }]), "{:?}", pruning.errors);
        assert!(directory.join(LEDGER).exists());
    }

    #[test]
    fn what_a_killed_removal_left_goes_with_the_next() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let going = own.launches().join(format!("{}.going", LAUNCHES[0]));
        let other = own.launches().join("other.going");
        for directory in [&going, &other] {
            std::fs::create_dir_all(directory.join("tmp-server")).unwrap();
        }
        prune_ended(&own, Prune::default());
        assert!(!going.exists() && other.exists());
    }

    #[test]
    fn what_a_removal_left_is_told_until_it_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let going = own.launches().join(format!("{}.going", LAUNCHES[0]));
        std::fs::create_dir_all(own.launches()).unwrap();
        // What is no directory cannot be removed as one, by no user.
        std::fs::write(&going, "").unwrap();
        let named = [LAUNCHES[1].to_owned()];
        drop(store(&own, LAUNCHES[1], Phase::Ended));
        for what in [Prune { launches: &named, ..Prune::default() }, Prune::default()] {
            let pruning = prune_ended(&own, what);
            assert!(
                matches!(&pruning.errors[..], [Error::DirectoryUnusable { path, .. }] if *path == going),
                "{:?}",
                pruning.errors
            );
        }
        std::fs::remove_file(&going).unwrap();
        std::fs::create_dir(&going).unwrap();
        assert!(prune_ended(&own, Prune::default()).errors.is_empty());
        assert!(!going.exists());
    }
}
