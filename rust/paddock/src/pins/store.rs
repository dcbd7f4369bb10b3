//! What was recorded, on disk: a JSON file per agent and tier, replaced as a
//! whole.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::program::PinnedProgram;
use crate::error::Error;
use crate::files::{read_plain, replace};
use crate::launch::{Directories, LaunchId, Tier, private_directory};

/// The version of the file's form.
const SCHEMA: u32 = 1;

/// The largest file that is read; a usual one has 20 KiB.
const MOST: u64 = 8 << 20;

/// Everything that was recorded of one agent in one tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pins {
    pub(crate) schema: u32,
    pub(crate) agent: String,
    pub(crate) tier: Tier,
    /// By layer; `agent` for what the agent file grants.
    pub(crate) policies: BTreeMap<String, PinnedPolicy>,
    pub(crate) programs: BTreeMap<String, PinnedProgram>,
}

/// A policy, as its author wrote it and as nono reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinnedPolicy {
    /// The sha256 of the text.
    pub(crate) text: String,
    /// The sha256 of the facts.
    pub(crate) resolved: String,
    pub(crate) facts: Facts,
}

impl Pins {
    pub(super) fn new(agent: &str, tier: Tier) -> Self {
        Self {
            schema: SCHEMA,
            agent: agent.to_owned(),
            tier,
            policies: BTreeMap::new(),
            programs: BTreeMap::new(),
        }
    }

    /// Reads what is recorded; `None` when nothing is.
    ///
    /// # Errors
    /// When that file is not usable, or others can use its directory.
    pub(crate) fn load(
        directories: &Directories,
        agent: &str,
        tier: Tier,
    ) -> Result<Option<Self>, Error> {
        directory(directories)?;
        let path = file(directories, agent, tier);
        match read_plain(&path, MOST) {
            Ok(text) => parse(&path, &text, agent, tier).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(unusable(&path, agent, tier, e.to_string())),
        }
    }

    /// Records this in the place of what was.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn store(&self, directories: &Directories) -> Result<(), Error> {
        let directory = directories.pins();
        let path = file(directories, &self.agent, self.tier);
        let written = serde_json::to_vec(self)
            .map_err(io::Error::from)
            .and_then(|text| Ok((text, LaunchId::random()?)))
            // Launches may start side by side: each writes a file of its own.
            .and_then(|(text, id)| replace(&path, &directory.join(format!("new-{id}")), &text));
        written.map_err(|e| Error::DirectoryUnusable { path, reason: e.to_string() })
    }
}

fn parse(path: &Path, text: &[u8], agent: &str, tier: Tier) -> Result<Pins, Error> {
    #[derive(Deserialize)]
    struct Form {
        schema: Option<u64>,
    }
    let bad = |reason: String| unusable(path, agent, tier, reason);
    match serde_json::from_slice::<Pins>(text) {
        Ok(pins) if pins.schema == SCHEMA => {
            if pins.agent != agent || pins.tier != tier {
                return Err(bad(format!("it is of {} ({})", pins.agent, pins.tier)));
            }
            if pins.policies.values().any(|policy| policy.resolved != policy.facts.hash()) {
                return Err(bad("a policy in it does not have the hash beside it".into()));
            }
            Ok(pins)
        }
        parsed => {
            let form: Form = serde_json::from_slice(text).map_err(|e| bad(e.to_string()))?;
            let found = form.schema.unwrap_or(0);
            match parsed {
                Err(e) if found == u64::from(SCHEMA) => Err(bad(e.to_string())),
                _ => Err(Error::StateVersion { path: path.to_owned(), found, known: SCHEMA }),
            }
        }
    }
}

/// The file of one agent in one tier.
pub(crate) fn file(directories: &Directories, agent: &str, tier: Tier) -> PathBuf {
    directories.pins().join(format!("{agent}-{tier}.json"))
}

/// The directory of all of them, made where it is missing.
fn directory(directories: &Directories) -> Result<(), Error> {
    private_directory(&directories.state)?;
    private_directory(&directories.pins())
}

fn unusable(path: &Path, agent: &str, tier: Tier, reason: String) -> Error {
    Error::PinFile { path: path.to_owned(), reason, accept: super::accept_command(agent, tier) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    fn example() -> Pins {
        let mut pins = Pins::new("own", Tier::Sealed);
        let mut facts = Facts::default();
        facts.add("reads", "/usr");
        let policy = PinnedPolicy { text: "t".into(), resolved: facts.hash(), facts };
        pins.policies.insert("server".into(), policy);
        pins
    }

    #[test]
    fn what_is_stored_is_read_again_and_is_nobody_elses() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        assert_eq!(Pins::load(&own, "own", Tier::Sealed).unwrap(), None);
        let pins = example();
        assert_eq!(mode(&own.pins()), 0o700);
        pins.store(&own).unwrap();
        pins.store(&own).unwrap();
        assert_eq!(Pins::load(&own, "own", Tier::Sealed).unwrap(), Some(pins));
        assert_eq!(Pins::load(&own, "own", Tier::Ported).unwrap(), None);
        assert_eq!(mode(&file(&own, "own", Tier::Sealed)), 0o600);
        assert_eq!(std::fs::read_dir(own.pins()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_not_what_was_stored_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        assert_eq!(Pins::load(&own, "own", Tier::Sealed).unwrap(), None);
        example().store(&own).unwrap();
        let path = file(&own, "own", Tier::Sealed);
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("{", ""),
            ("\"agent\":\"own\"", "\"agent\":\"other\""),
            ("\"sealed\"", "\"ported\""),
            ("/usr", "/"),
            ("\"programs\"", "\"programmes\""),
            ("\"policies\"", "\"more\":1,\"policies\""),
        ] {
            assert!(text.contains(from), "{from}");
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let loaded = Pins::load(&own, "own", Tier::Sealed);
            assert!(matches!(loaded, Err(Error::PinFile { .. })), "{to}: {loaded:?}");
        }
        for (from, found) in [("\"schema\":9", 9), ("\"version\":1", 0)] {
            std::fs::write(&path, text.replace("\"schema\":1", from)).unwrap();
            match Pins::load(&own, "own", Tier::Sealed) {
                Err(Error::StateVersion { found: told, .. }) => assert_eq!(told, found),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_link_and_a_pipe_are_refused_and_replaced() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        assert_eq!(Pins::load(&own, "own", Tier::Sealed).unwrap(), None);
        example().store(&own).unwrap();
        let path = file(&own, "own", Tier::Sealed);
        let refused =
            || matches!(Pins::load(&own, "own", Tier::Sealed), Err(Error::PinFile { .. }));
        std::fs::rename(&path, root.path().join("real")).unwrap();
        std::os::unix::fs::symlink(root.path().join("real"), &path).unwrap();
        assert!(refused());
        std::fs::remove_file(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(refused());
        example().store(&own).unwrap();
        assert!(!refused());
    }
}
