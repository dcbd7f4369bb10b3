//! What an action hands to the program of the pane that it opens: one variable of
//! the pane's environment, since the command is fixed in the manifest. And what
//! that program answers, in a file that the action made.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use confine::ProcessId;
use serde::{Deserialize, Serialize};

use super::result::{ErrorKind, Failure};
use crate::files::{open_plain, write_new};
use crate::keeper::REPORT;
use crate::launch::{Directories, LaunchId, private_directory};

/// The variable.
pub(crate) const ORDER: &str = "PADDOCK_PANE";
/// herdr's own.
pub(crate) const HINT: &str = "HERDR_AGENT";

/// What a pane's program is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Order {
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) directory: Option<PathBuf>,
    /// The agent, or the launch: what stands behind the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) what: Option<String>,
    /// What herdr is told that the agent is, by the first environment of its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// Where the action waits for the reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report: Option<PathBuf>,
    /// What is to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// What the pane runs next, should the person want that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) again: Option<String>,
}

impl Order {
    /// That of this process; without one, as a pane that was opened by hand has it.
    ///
    /// # Errors
    /// When there is one that cannot be read: what it asks for is not known then.
    pub(super) fn here() -> Result<Self, Failure> {
        Self::read(std::env::var_os(ORDER).as_deref())
    }

    fn read(text: Option<&OsStr>) -> Result<Self, Failure> {
        let Some(text) = text else { return Ok(Self::default()) };
        serde_json::from_slice(text.as_bytes()).map_err(|e| {
            Failure::new(ErrorKind::Config, format!("{ORDER} cannot be read: {e}"))
                .next("nothing was started; use the action again")
        })
    }

    /// For the environment of a pane.
    pub(super) fn variable(&self) -> (&'static str, String) {
        (ORDER, serde_json::to_string(self).unwrap_or_default())
    }

    /// The same, with the hint. Never for a shell, which herdr would take for the agent.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let hint = self.hint.iter().map(|hint| (HINT, hint.clone()));
        std::iter::once(self.variable()).chain(hint).collect()
    }
}

/// A file of the action's own, gone with it, for the reason of a failure.
#[derive(Debug)]
pub(super) struct Report {
    path: PathBuf,
    file: File,
}

impl Report {
    /// A new one among the sockets of launches, which go with the person's session.
    ///
    /// # Errors
    /// When there is no private directory for it.
    pub(super) fn make(directories: &Directories) -> Result<Self, Failure> {
        let name = || Ok(format!("{REPORT}{}", LaunchId::random()?));
        Self::make_named(name, directories)
    }

    /// One where that process finds it, which waits for a key and has its environment
    /// already.
    ///
    /// # Errors
    /// As [`Report::make`].
    pub(super) fn make_for(process: ProcessId, directories: &Directories) -> Result<Self, Failure> {
        let path = report_of(process, directories);
        // Left by an action that was killed.
        let _ = std::fs::remove_file(path);
        Self::make_named(|| Ok(name_for(process)), directories)
    }

    fn make_named(
        name: impl Fn() -> std::io::Result<String>,
        directories: &Directories,
    ) -> Result<Self, Failure> {
        let directory = &directories.runtime;
        private_directory(directory)?;
        let made = || {
            let path = directory.join(name()?);
            drop(write_new(&path, b"")?);
            let file = open_plain(File::options().read(true), &path)?;
            Ok(Self { path, file })
        };
        made().map_err(|e: std::io::Error| {
            let reason = e.to_string();
            crate::error::Error::DirectoryUnusable { path: directory.clone(), reason }.into()
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the pane's program wrote, once that is whole.
    pub(super) fn read(&mut self) -> Option<Failure> {
        let mut text = String::new();
        self.file.rewind().ok()?;
        self.file.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Where an action waits for what becomes of that process, if one does.
pub(super) fn report_of(process: ProcessId, directories: &Directories) -> PathBuf {
    directories.runtime.join(name_for(process))
}

fn name_for(process: ProcessId) -> String {
    format!("{REPORT}of-{}-{}", process.pid, process.start.0)
}

/// Tells the action that waits, if it still does: its file is not made again.
pub(super) fn report(path: &Path, failure: &Failure) -> std::io::Result<()> {
    let text = serde_json::to_vec(failure)?;
    open_plain(File::options().write(true), path)?.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_had_once_whole_and_is_gone_with_who_waits() {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories::below(root.path());
        let mut waiting = Report::make(&directories).unwrap();
        assert_eq!(waiting.read(), None);
        let path = waiting.path().to_owned();
        std::fs::write(&path, "{\"kind\":").unwrap();
        assert_eq!(waiting.read(), None);
        let failure = Failure::new(ErrorKind::PinMismatch, "not as recorded").next("accept it");
        report(&path, &failure).unwrap();
        assert_eq!(waiting.read(), Some(failure.clone()));
        drop(waiting);
        assert!(report(&path, &failure).is_err() && !path.exists());
    }

    #[test]
    fn an_order_survives_the_environment() {
        let order = Order {
            directory: Some("/a b".into()),
            what: Some("codex".into()),
            text: Some("two\nlines \"quoted\"".into()),
            ..Order::default()
        };
        let (name, text) = order.variable();
        assert_eq!(name, ORDER);
        assert_eq!(Order::read(Some(OsStr::new(&text))).unwrap(), order);
    }

    #[test]
    fn an_order_that_cannot_be_read_is_none_to_go_by() {
        assert_eq!(Order::read(None).unwrap(), Order::default());
        let unreadable = [&b""[..], b"{", b"{\"wat\":1}", b"{\"what\":\"\xff\"}"];
        for text in unreadable {
            let failure = Order::read(Some(OsStr::from_bytes(text))).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Config, "{text:?}");
        }
    }
}
