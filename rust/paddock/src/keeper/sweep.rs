//! What starts left that were killed before they had a record.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::remove_tree;
use super::stage::take;
use crate::error::Error;
use crate::launch::{Directories, LaunchId};
use crate::state::KeeperLock;

/// A start comes to its record, or ends, in far less.
const AGE: Duration = Duration::from_mins(1);

/// An action waits for less.
const REPORT_AGE: Duration = Duration::from_mins(10);
/// How the names of those files begin.
pub(crate) const REPORT: &str = "pane-";

/// The ending of a launch's directory that is being removed.
pub(super) const GOING: &str = "going";

/// Removes the directories of launches that have no record, no keeper, and are older
/// than any start; and what is left of those that somebody began to remove. Tells what
/// could not be removed: no list has it, so nobody else does. A launch goes
/// on all the same; the next sweep tries again.
pub(crate) fn sweep_abandoned(directories: &Directories) -> Vec<Error> {
    let mut left = Vec::new();
    let mut remove = |path: PathBuf| match remove_tree(&path) {
        Ok(()) => {}
        // Somebody else, who sweeps at the same time, has done it.
        Err(_) if std::fs::symlink_metadata(&path).is_err() => {}
        Err(e) => left.push(Error::DirectoryUnusable {
            reason: format!("it is left of a launch, and cannot be removed: {e}"),
            path,
        }),
    };
    for going in half_removed(&directories.launches()) {
        remove(going);
    }
    for state in old_launches(&directories.launches()) {
        let has_record = std::fs::symlink_metadata(state.join("record.json")).is_ok();
        if has_record || !matches!(KeeperLock::take(&state), Ok(Some(_))) {
            continue;
        }
        if let Some(id) = state.file_name() {
            remove(directories.runtime.join(id));
        }
        remove(state);
    }
    for report in old_reports(&directories.runtime) {
        let _ = std::fs::remove_file(&report);
    }
    for launch in old_launches(&directories.runtime) {
        let state = launch.file_name().map(|id| directories.launches().join(id));
        // Its record may be kept elsewhere: another `XDG_STATE_HOME`, the same sockets.
        if state.is_some_and(|state| std::fs::symlink_metadata(state).is_err())
            && let Ok(Some(_free)) = take(&launch)
        {
            remove(launch);
        }
    }
    left
}

fn half_removed(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path());
    paths.filter(|path| {
        path.extension().is_some_and(|ending| ending == GOING)
            && path
                .file_stem()
                .and_then(std::ffi::OsStr::to_str)
                .is_some_and(|name| LaunchId::try_from(name.to_owned()).is_ok())
    })
}

/// The directories in `directory` that have a launch's name and are old.
fn old_launches(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let is_launch = |name: String| LaunchId::try_from(name).is_ok();
    old(directory, AGE, std::fs::FileType::is_dir, is_launch)
}

/// The files by which the plugin's actions are told why a launch failed, older than any
/// action waits: what is there still was left by one that was killed.
fn old_reports(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let is_report = |name: String| name.starts_with(REPORT);
    old(directory, REPORT_AGE, std::fs::FileType::is_file, is_report)
}

fn old(
    directory: &Path,
    least: Duration,
    is_kind: fn(&std::fs::FileType) -> bool,
    is_name: fn(String) -> bool,
) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let is_wanted = entry.file_name().into_string().is_ok_and(is_name);
        let metadata = entry.metadata().ok().filter(|m| is_wanted && is_kind(&m.file_type()))?;
        let age = SystemTime::now().duration_since(metadata.modified().ok()?).ok()?;
        (age >= least).then(|| entry.path())
    })
}

#[cfg(test)]
mod tests {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

    use super::*;

    #[test]
    fn only_old_launches_without_a_record_or_a_keeper_go() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let age = |path: &Path| {
            let time = Timespec { tv_sec: 1, tv_nsec: 0 };
            let times = Timestamps { last_access: time, last_modification: time };
            utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
        };
        let make = |id: &str, with_state: bool| {
            let (state, launch) = (own.launches().join(id), own.runtime.join(id));
            std::fs::create_dir_all(launch.join("in")).unwrap();
            if with_state {
                std::fs::create_dir_all(&state).unwrap();
            }
            (state, launch)
        };
        let kept = make("bbbbbbbbbbbb", true);
        let _lock = KeeperLock::take(&kept.0).unwrap().unwrap();
        let recorded = make("cccccccccccc", true);
        std::fs::write(recorded.0.join("record.json"), "{}").unwrap();
        let gone = make("dddddddddddd", true);
        let half_gone = make("ffffffffffff", false);
        let other = make("paddock-doctor-x", false);
        for (state, launch) in [&kept, &recorded, &gone, &half_gone, &other] {
            for path in [state, launch].into_iter().filter(|path| path.exists()) {
                age(path);
            }
        }
        // Of a keeper whose records are elsewhere.
        let elsewhere = make("hhhhhhhhhhhh", false);
        age(&elsewhere.1);
        let _in_use = take(&elsewhere.1).unwrap().unwrap();
        let starting = make("gggggggggggg", true);
        let [left, waiting, directory] =
            ["pane-left", "pane-waiting", "pane-x"].map(|name| own.runtime.join(name));
        std::fs::create_dir(&directory).unwrap();
        for report in [&left, &waiting] {
            std::fs::write(report, "").unwrap();
        }
        age(&left);
        age(&directory);
        assert!(sweep_abandoned(&own).is_empty());
        for (state, launch) in [&kept, &recorded, &starting] {
            assert!(state.exists() && launch.exists(), "{}", state.display());
        }
        assert!(!gone.0.exists() && !gone.1.exists() && !half_gone.1.exists());
        assert!(other.1.exists() && elsewhere.1.exists());
        assert!(!left.exists() && waiting.exists() && directory.exists());
    }
}
