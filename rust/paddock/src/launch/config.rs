//! `config.toml` in Paddock's configuration directory. Every key is optional.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Tier, UnixMode};
use crate::error::Error;

/// The configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Config {
    /// The agent when none is named.
    pub(crate) agent: Option<String>,
    /// The tier when none is named; `sealed` otherwise.
    pub(crate) tier: Option<Tier>,
    /// What agents may do with AF_UNIX.
    pub(crate) unix: UnixMode,
    /// What the keeper does when a task is not confined.
    pub(crate) on_violation: OnViolation,
    /// What is done about what changed since it was recorded.
    pub(crate) pins: PinSettings,
    /// Where programs are.
    pub(crate) programs: ProgramPaths,
    /// What every agent may reach.
    pub(crate) egress: Egress,
    /// Settings of single agents.
    pub(crate) agents: BTreeMap<String, AgentSettings>,
}

/// What the keeper does when a task is not confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnViolation {
    /// Stop the launch.
    #[default]
    Stop,
    /// Say so and go on.
    Warn,
}

/// What is done about what changed since it was recorded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct PinSettings {
    pub(crate) on_program_change: OnProgramChange,
}

/// What a launch does when a program is not the one that was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnProgramChange {
    /// Say so, record the new one and go on.
    #[default]
    Notice,
    /// Refuse, until `paddock pin --accept`.
    Refuse,
}

/// Paths of programs that come before every other way to find them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProgramPaths {
    pub(crate) nono: Option<PathBuf>,
    pub(crate) bwrap: Option<PathBuf>,
}

/// Hosts, and names that stand for a private address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Egress {
    /// `name` (ports 443 and 80) or `name:port`.
    pub(crate) hosts: Vec<String>,
    /// `name = "address"`: that name is not looked up, and the address may be
    /// a private one. `name = "network"`: it is, and may be an address in there.
    pub(crate) exceptions: BTreeMap<String, String>,
    /// Whether git may use SSH, through the guard, to hosts that are granted with its port.
    pub(crate) ssh: bool,
}

/// What a person sets for one agent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentSettings {
    /// The agent's program.
    pub(crate) program: Option<PathBuf>,
    /// More hosts.
    pub(crate) hosts: Vec<String>,
    /// Paths that its server may read, beside what it may anyway.
    pub(crate) read: Vec<PathBuf>,
    /// Paths that it may write.
    pub(crate) write: Vec<PathBuf>,
    /// What it may do with AF_UNIX, if not what all may.
    pub(crate) unix: Option<UnixMode>,
}

impl Config {
    /// What `agent` may do with AF_UNIX.
    pub(crate) fn unix_of(&self, agent: &str) -> UnixMode {
        self.agents.get(agent).and_then(|settings| settings.unix).unwrap_or(self.unix)
    }

    /// Reads `path`; a file that is not there is an empty one.
    ///
    /// # Errors
    /// When it cannot be read or does not parse.
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Configuration { path: path.to_owned(), reason };
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).map_err(|e| unusable(e.to_string())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(unusable(e.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_own_word_about_unix_sockets_comes_first() {
        use UnixMode::{Mediated, Strict};
        let of = |text: &str| -> [UnixMode; 2] {
            let config: Config = toml::from_str(text).unwrap();
            ["codex", "other"].map(|agent| config.unix_of(agent))
        };
        assert_eq!(of(""), [Mediated, Mediated]);
        assert_eq!(of("unix = \"strict\"\n[agents.codex]\n"), [Strict, Strict]);
        assert_eq!(of("[agents.codex]\nunix = \"strict\"\n"), [Strict, Mediated]);
        let both = "unix = \"strict\"\n[agents.codex]\nunix = \"mediated\"\n";
        assert_eq!(of(both), [Mediated, Strict]);
        assert!(toml::from_str::<Config>("unix = \"none\"").is_err());
    }

    #[test]
    fn a_misspelt_key_is_refused_and_a_full_file_is_read() {
        let text = "agent = \"codex\"\ntier = \"isolated\"\non-violation = \"warn\"\n\
            [egress]\nhosts = [\"a.test:8080\"]\nexceptions = { \"a.test\" = \"127.0.0.1\" }\n\
            [agents.codex]\nprogram = \"/opt/codex\"\n[programs]\nnono = \"/opt/nono\"\n\
            [pins]\non-program-change = \"refuse\"\n";
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.tier, Some(Tier::Isolated));
        assert_eq!(config.on_violation, OnViolation::Warn);
        assert_eq!(config.pins.on_program_change, OnProgramChange::Refuse);
        assert!(toml::from_str::<Config>("on_violation = \"warn\"").is_err());
        assert!(toml::from_str::<Config>("[egress]\nhost = []").is_err());
    }
}
