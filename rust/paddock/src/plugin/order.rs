//! What an action hands to the program of the pane that it opens: one variable of
//! the pane's environment, since the command is fixed in the manifest. And what
//! that program answers, in a file that the action made.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::result::Failure;
use crate::files::{open_plain, write_new};
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
    /// That of this process; one that cannot be read is none.
    pub(super) fn here() -> Self {
        let text = std::env::var(ORDER).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
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
        let directory = &directories.runtime;
        private_directory(directory)?;
        let made = || {
            let path = directory.join(format!("pane-{}", LaunchId::random()?));
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

/// Tells the action that waits, if it still does: its file is not made again.
pub(super) fn report(path: &Path, failure: &Failure) -> std::io::Result<()> {
    let text = serde_json::to_vec(failure)?;
    open_plain(File::options().write(true), path)?.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::result::ErrorKind;

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
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
    }
}
