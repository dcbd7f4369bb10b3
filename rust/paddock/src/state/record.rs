//! The record of one launch: one JSON file, replaced as a whole. Who may write it
//! is settled by the launch's lock.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use confine::ProcessId;
use confine::escape::escape_short;
use serde::{Deserialize, Serialize};

use super::ledger::now_ms;
use super::lock::KeeperLock;
use crate::error::Error;
use crate::files::open_plain;
use crate::launch::{Directories, Form, LaunchId, Tier};

/// The version of the record's form.
const SCHEMA: u32 = 2;

/// Where a launch is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    Starting,
    Running,
    Ended,
}

/// One launch, as stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) schema: u32,
    pub(crate) launch: LaunchId,
    pub(crate) agent: String,
    /// The name of its private homes, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) homes: Option<String>,
    pub(crate) tier: Tier,
    /// What of the agent was launched; a pair, before there was anything else.
    #[serde(default)]
    pub(crate) form: Form,
    pub(crate) workspace: PathBuf,
    /// Directories of the person's that it works in, by the person's choice.
    #[serde(default)]
    pub(crate) shared: Vec<PathBuf>,
    pub(crate) launch_directory: PathBuf,
    pub(crate) phase: Phase,
    /// The kernel's id of the boot in which process ids are meant.
    pub(crate) boot: String,
    pub(crate) keeper: ProcessId,
    /// Processes that build and hold the launch, with their parts.
    pub(crate) parts: Vec<Part>,
    /// Namespaces of the pen's, where it has its own.
    pub(crate) namespaces: Option<PenNamespaces>,
    /// The pane of herdr's that it was started in.
    #[serde(default)]
    pub(crate) pane: Option<HerdrPane>,
    /// Milliseconds since the epoch.
    pub(crate) started: u64,
    pub(crate) ended: Option<u64>,
    /// The exit status of `paddock run`.
    pub(crate) status: Option<u8>,
    /// Why it ended, when not by itself.
    pub(crate) reason: Option<String>,
}

/// What is in both of these is in the pen. The kernel gives a number again once
/// it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PenNamespaces {
    pub(crate) ipc: u64,
    pub(crate) network: u64,
}

impl PenNamespaces {
    pub(crate) fn of(namespaces: &confine::proc::Namespaces) -> Self {
        Self { ipc: namespaces.ipc.0, network: namespaces.network.0 }
    }
}

/// A pane of herdr's. Its id is good for as long as the herdr at that socket lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HerdrPane {
    pub(crate) socket: PathBuf,
    pub(crate) pane_id: String,
}

/// One process of a launch that is not the agent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) process: ProcessId,
}

impl Record {
    /// The name of the agent's private homes.
    pub(crate) fn homes(&self) -> &str {
        self.homes.as_deref().unwrap_or(&self.agent)
    }

    pub(crate) fn new(
        launch: LaunchId,
        agent: String,
        tier: Tier,
        workspace: PathBuf,
        launch_directory: PathBuf,
        keeper: ProcessId,
    ) -> Self {
        Self {
            schema: SCHEMA,
            launch,
            agent,
            homes: None,
            tier,
            form: Form::default(),
            workspace,
            shared: Vec::new(),
            launch_directory,
            phase: Phase::Starting,
            boot: boot_id(),
            keeper,
            parts: Vec::new(),
            namespaces: None,
            pane: None,
            started: now_ms(),
            ended: None,
            status: None,
            reason: None,
        }
    }

    /// Marks the launch as ended.
    pub(crate) fn end(&mut self, status: u8, reason: Option<String>) {
        self.phase = Phase::Ended;
        self.ended = Some(now_ms());
        self.status = Some(status);
        self.reason = reason;
    }

    /// Replaces the stored record. Only the holder of the lock can ask for it.
    pub(crate) fn store(&self, lock: &KeeperLock) -> Result<(), Error> {
        // An agent may close the directory at that very moment.
        const TRIES: usize = 5;
        let mut stored = Ok(());
        for _ in 0..TRIES {
            stored = self.store_once(lock);
            if !matches!(&stored, Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied) {
                break;
            }
            let directories = [lock.directory.parent(), Some(&*lock.directory)];
            directories.into_iter().flatten().for_each(|directory| restore(directory, 0o700));
        }
        stored.map_err(|e| Error::DirectoryUnusable {
            path: lock.directory.clone(),
            reason: e.to_string(),
        })
    }

    fn store_once(&self, lock: &KeeperLock) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        let temporary = lock.directory.join("record.json.new");
        // A file left by a crash in the middle of this is in the way.
        let _ = std::fs::remove_file(&temporary);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&text)?;
        // Waiting for the disk is a good part of a start; and of a start that the
        // machine's end cut short there is nothing to tell.
        if self.phase != Phase::Starting {
            file.sync_data()?;
        }
        std::fs::rename(&temporary, lock.directory.join("record.json"))
    }

    /// Whether process ids in the record are of this boot.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot == boot_id()
    }

    /// Reads the record of the launch whose state is in `directory`.
    pub(crate) fn load(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("record.json");
        let unusable = |reason: String| Error::Record {
            path: path.clone(),
            reason: escape_short(reason.as_bytes(), 200).to_string(),
            keeper: KeeperLock::holder(directory),
        };
        let file =
            open_plain(File::options().read(true), &path).map_err(|e| unusable(e.to_string()))?;
        let value: serde_json::Value =
            serde_json::from_reader(file).map_err(|e| unusable(e.to_string()))?;
        let found = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if found != u64::from(SCHEMA) {
            return Err(Error::StateVersion { path: path.clone(), found, known: SCHEMA });
        }
        let record: Self = serde_json::from_value(value).map_err(|e| unusable(e.to_string()))?;
        // What is ended and removed by a record has to be of its launch.
        let id = std::ffi::OsStr::new(record.launch.as_str());
        if directory.file_name() != Some(id) || record.launch_directory.file_name() != Some(id) {
            return Err(unusable("it is of another launch".into()));
        }
        // It is shown as it stands, and becomes part of paths.
        if !record.agent.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(unusable("its agent has no name of an agent's".into()));
        }
        if record.parts.iter().any(|part| part.process.start < record.keeper.start) {
            return Err(unusable("it names processes that are older than its launch".into()));
        }
        Ok(record)
    }
}

/// A stored launch, and whether its keeper lives.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    pub(crate) directory: PathBuf,
    /// Its keeper holds the lock.
    pub(crate) is_kept: bool,
}

impl Stored {
    /// Whether its keeper still holds the lock.
    ///
    /// # Errors
    /// When the lock cannot be read.
    pub(crate) fn is_still_kept(&self) -> std::io::Result<bool> {
        KeeperLock::is_held(&self.directory)
    }
}

/// Every stored launch, oldest first, and what could not be read.
pub(crate) fn stored_launches(directories: &Directories) -> (Vec<Stored>, Vec<Error>) {
    launches_that("", &BTreeSet::new(), directories)
}

/// The ids that have something stored.
pub(crate) fn known_launches(directories: &Directories) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(directories.launches()).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// The stored launches that are none of those, oldest first. Of those nothing is read.
pub(crate) fn launches_beside(
    known: &BTreeSet<OsString>,
    directories: &Directories,
) -> Vec<Stored> {
    launches_that("", known, directories).0
}

/// Gives Paddock's own file back the rights that it was made with: without a veil
/// an agent can change the mode of every file of the user, and a launch that
/// cannot be found cannot be ended.
fn restore(path: &Path, mode: u32) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let Ok(found) = std::fs::symlink_metadata(path) else { return };
    let is_own = found.uid() == rustix::process::getuid().as_raw() && !found.is_symlink();
    if is_own && found.mode() & mode != mode {
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    }
}

/// The stored launches whose ids start with `prefix` and are none of `known`.
fn launches_that(
    prefix: &str,
    known: &BTreeSet<OsString>,
    directories: &Directories,
) -> (Vec<Stored>, Vec<Error>) {
    let mut launches = Vec::new();
    let mut errors = Vec::new();
    let all = directories.launches();
    for directory in [&directories.state, &all] {
        restore(directory, 0o700);
    }
    let entries = match std::fs::read_dir(&all) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            errors.push(Error::DirectoryUnusable { path: all, reason: e.to_string() });
            return (launches, errors);
        }
        entries => entries.into_iter().flatten().flatten(),
    };
    for entry in entries {
        let name = entry.file_name();
        let is_wanted = !known.contains(&name)
            && name
                .into_string()
                .is_ok_and(|name| name.starts_with(prefix) && LaunchId::try_from(name).is_ok());
        let directory = entry.path();
        if !is_wanted {
            continue;
        }
        restore(&directory, 0o700);
        restore(&directory.join("record.json"), 0o600);
        restore(&directory.join("lock"), 0o600);
        let is_there = |name: &str| std::fs::symlink_metadata(directory.join(name)).is_ok();
        // A start that has not come to its record, or failed before.
        if !is_there("record.json") && KeeperLock::holder(&directory).is_none() {
            continue;
        }
        let unusable = |e: std::io::Error| Error::Record {
            path: directory.join("lock"),
            reason: e.to_string(),
            keeper: KeeperLock::holder(&directory),
        };
        let loaded = Record::load(&directory)
            .and_then(|record| Ok((record, KeeperLock::is_held(&directory).map_err(unusable)?)));
        match loaded {
            Ok((record, is_kept)) => launches.push(Stored { record, directory, is_kept }),
            Err(e) => errors.push(e),
        }
    }
    launches.sort_by_key(|launch| launch.record.started);
    (launches, errors)
}

/// The one launch whose id starts with `prefix`; without a prefix, the one that
/// is kept.
pub(crate) fn find_launch(
    prefix: Option<&str>,
    directories: &Directories,
) -> Result<Stored, Error> {
    let (mut matching, mut errors) =
        launches_that(prefix.unwrap_or_default(), &BTreeSet::new(), directories);
    if prefix.is_none() {
        matching.retain(|launch| launch.is_kept);
    }
    match (matching.len(), matching.pop()) {
        (1, Some(only)) => Ok(only),
        (_, None) => Err(errors.pop().unwrap_or_else(|| match prefix {
            Some(prefix) => Error::LaunchUnknown { prefix: prefix.to_owned() },
            None => Error::LaunchesNone,
        })),
        (_, Some(last)) => {
            matching.push(last);
            let ids: Vec<&str> = matching.iter().map(|l| l.record.launch.as_str()).collect();
            let ids = ids.join(", ");
            Err(match prefix {
                Some(prefix) => Error::LaunchAmbiguous { prefix: prefix.to_owned(), matches: ids },
                None => Error::LaunchesSeveral { ids, advice: "name one, or say --all" },
            })
        }
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use confine::{Pid, StartTime};

    use super::*;

    fn store_one(directories: &Directories, id: &str) -> (PathBuf, KeeperLock) {
        let launch = LaunchId::try_from(id.to_owned()).unwrap();
        let directory = directories.launches().join(id);
        std::fs::create_dir_all(&directory).unwrap();
        let lock = KeeperLock::take(&directory).unwrap().unwrap();
        let keeper = ProcessId { pid: Pid::of_self(), start: StartTime(1) };
        let paths = (PathBuf::from("/w"), PathBuf::from("/r").join(id));
        Record::new(launch, "standin".into(), Tier::Sealed, paths.0, paths.1, keeper)
            .store(&lock)
            .unwrap();
        (directory, lock)
    }

    #[test]
    fn a_prefix_names_a_launch_when_it_is_the_only_one() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let _one = store_one(&own, "bcdfbcdfbcdf");
        let _two = store_one(&own, "bcggbcdfbcdf");
        assert_eq!(find_launch(Some("bcd"), &own).unwrap().record.launch.as_str(), "bcdfbcdfbcdf");
        assert!(matches!(find_launch(Some("bc"), &own), Err(Error::LaunchAmbiguous { .. })));
        assert!(matches!(find_launch(Some("z"), &own), Err(Error::LaunchUnknown { .. })));
        assert!(matches!(find_launch(None, &own), Err(Error::LaunchesSeveral { .. })));
    }

    #[test]
    fn the_lock_says_whether_a_keeper_lives() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (directory, lock) = store_one(&own, "bcdfbcdfbcdf");
        assert!(find_launch(Some("b"), &own).unwrap().is_kept);
        assert!(KeeperLock::take(&directory).unwrap().is_none(), "there is one keeper");
        drop(lock);
        assert!(!find_launch(Some("b"), &own).unwrap().is_kept);
    }

    #[test]
    fn what_is_not_of_the_launch_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (directory, _lock) = store_one(&own, "bcdfbcdfbcdf");
        let path = directory.join("record.json");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(find_launch(Some("b"), &own).is_ok(), "control");
        let part = "\"parts\": [{\"name\": \"veil\", \"process\": {\"pid\": 7, \"start\": 0}}]";
        for (from, to) in [
            ("/r/bcdfbcdfbcdf", "/r/precious"),
            ("\"launch\": \"bcdfbcdfbcdf\"", "\"launch\": \"bcggbcdfbcdf\""),
            ("\"parts\": []", part),
        ] {
            assert!(text.contains(from), "{from}");
            std::fs::write(&path, text.replace(from, to)).unwrap();
            let found = find_launch(Some("b"), &own);
            assert!(matches!(found, Err(Error::Record { .. })), "{to}: {found:?}");
        }
    }

    #[test]
    fn a_launch_whose_modes_were_changed_is_found() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (directory, _lock) = store_one(&own, "bcdfbcdfbcdf");
        let closed = std::fs::Permissions::from_mode(0o000);
        let files = [directory.join("record.json"), directory.join("lock"), directory];
        for path in files.iter().chain([&own.launches(), &own.state]) {
            std::fs::set_permissions(path, closed.clone()).unwrap();
            assert!(find_launch(Some("b"), &own).unwrap().is_kept, "{}", path.display());
        }
    }

    #[test]
    fn who_keeps_a_launch_without_a_record_is_told() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (directory, lock) = store_one(&own, "bcdfbcdfbcdf");
        std::fs::remove_file(directory.join("record.json")).unwrap();
        let Err(Error::Record { keeper, .. }) = find_launch(Some("b"), &own) else { panic!() };
        assert_eq!(keeper, Some(Pid::of_self()));
        drop(lock);
        assert!(matches!(find_launch(Some("b"), &own), Err(Error::LaunchUnknown { .. })));
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_blocks_nobody() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (directory, lock) = store_one(&own, "bcdfbcdfbcdf");
        drop(lock);
        for name in ["lock", "record.json"] {
            let path = directory.join(name);
            std::fs::remove_file(&path).unwrap();
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            assert!(KeeperLock::take(&directory).is_err());
            let found = find_launch(Some("b"), &own);
            assert!(matches!(found, Err(Error::Record { .. })), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_record_that_would_draw_is_none_and_its_error_draws_nothing() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (directory, _lock) = store_one(&own, "bcdfbcdfbcdf");
        let path = directory.join("record.json");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(find_launch(Some("b"), &own).is_ok(), "control");
        for (was, is) in [("\"standin\"", "\"\\u001b[31m\""), ("\"sealed\"", "\"\\u001b[31m\"")] {
            assert!(text.contains(was));
            std::fs::write(&path, text.replace(was, is)).unwrap();
            let error = find_launch(Some("b"), &own).unwrap_err();
            assert!(matches!(&error, Error::Record { .. }), "{error:?}");
            assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
        }
    }

    #[test]
    fn an_unknown_version_and_a_link_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let (directory, _lock) = store_one(&own, "bcdfbcdfbcdf");
        let path = directory.join("record.json");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"schema\": 2", "\"schema\": 9")).unwrap();
        assert!(matches!(find_launch(Some("b"), &own), Err(Error::StateVersion { found: 9, .. })));
        std::fs::rename(&path, directory.join("real")).unwrap();
        std::os::unix::fs::symlink(directory.join("real"), &path).unwrap();
        assert!(matches!(find_launch(Some("b"), &own), Err(Error::Record { .. })));
    }
}
