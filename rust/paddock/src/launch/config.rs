//! `config.toml` in Paddock's configuration directory. Every key is optional.

mod herdr;
mod interval;
mod keys;
mod project;
mod show;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

#[cfg(test)]
pub(crate) use herdr::Direction;
pub(crate) use herdr::{HerdrSettings, OpenIn};
pub(crate) use interval::VerifySettings;
pub(crate) use keys::nearest;
#[cfg(test)]
pub(crate) use keys::{KEYS, Project};
pub(crate) use project::ProjectFile;
pub(crate) use show::{HostRow, Origin, Row, Sources};
use text::Text;

use super::{GitRules, StateMode, Tier, UnixMode};
use crate::agent::Version;
use crate::error::Error;
use crate::files::read_plain;
use crate::output::shown;

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
    /// The program of a shell that is opened beside an agent.
    pub(crate) shell: Option<PathBuf>,
    /// How often a launch is looked at.
    pub(crate) verify: VerifySettings,
    /// What is done about what changed since it was recorded.
    pub(crate) pins: PinSettings,
    /// Where programs are.
    pub(crate) programs: ProgramPaths,
    /// Paths that every agent's server may use.
    pub(crate) grants: PathGrants,
    /// What every agent may reach.
    pub(crate) egress: Egress,
    /// What agents may do with a workspace's repository.
    pub(crate) git: GitRules,
    /// Where in herdr an agent is opened.
    pub(crate) herdr: HerdrSettings,
    /// Settings of single agents.
    pub(crate) agents: BTreeMap<String, AgentSettings>,
    /// The project's file, where one has tightened all this.
    #[serde(skip)]
    pub(crate) project: Option<ProjectFile>,
}

/// What the keeper does when a task is not confined; the earlier, the stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
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

/// What a launch does when a program is not the one that was recorded; the earlier,
/// the stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnProgramChange {
    /// Refuse, until `paddock pin --accept`.
    Refuse,
    /// Say so, record the new one and go on.
    #[default]
    Notice,
}

impl fmt::Display for OnViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::Warn => "warn",
        })
    }
}

impl fmt::Display for OnProgramChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "refuse",
            Self::Notice => "notice",
        })
    }
}

/// Paths of programs that come before every other way to find them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProgramPaths {
    pub(crate) nono: Option<PathBuf>,
    pub(crate) bwrap: Option<PathBuf>,
}

/// Paths that every agent's server may use, beside what it may anyway.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PathGrants {
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
}

/// Which hosts a launch may reach; the earlier, the fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EgressProfile {
    /// None, until a person grants one.
    None,
    /// Those of the configuration alone.
    Listed,
    /// Those of the agent's file and those of the configuration.
    #[default]
    Agent,
}

impl fmt::Display for EgressProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Listed => "listed",
            Self::None => "none",
        })
    }
}

/// Hosts, and names that stand for a private address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Egress {
    /// Whose hosts count.
    pub(crate) profile: EgressProfile,
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
    /// The program's version, where it cannot be told or is told wrong.
    pub(crate) version: Option<Version>,
    /// More hosts.
    pub(crate) hosts: Vec<String>,
    /// Paths that its server may read, beside what it may anyway.
    pub(crate) read: Vec<PathBuf>,
    /// Paths that it may write.
    pub(crate) write: Vec<PathBuf>,
    /// What it may do with AF_UNIX, if not what all may.
    pub(crate) unix: Option<UnixMode>,
    /// Its arguments, before those of the command line.
    pub(crate) arguments: Vec<String>,
    /// Whose state it works with.
    pub(crate) state: StateMode,
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
        match read_text(path)? {
            Some(text) => Self::parse(&text).map_err(unusable),
            None => Ok(Self::default()),
        }
    }

    /// What that text says.
    ///
    /// # Errors
    /// Why it says nothing usable.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::read(&Text::parse(text)?)
    }

    /// What a text says whose keys are known.
    fn read(text: &Text) -> Result<Self, String> {
        let config: Self = text.read()?;
        config
            .check()
            .map_err(|(key, reason)| text.locate_key(key, &format!("{key}: {reason}")))?;
        Ok(config)
    }

    /// What the types of the keys do not say: which key, and why.
    fn check(&self) -> Result<(), (&'static str, String)> {
        self.verify.check()?;
        match &self.shell {
            Some(shell) if !shell.is_absolute() => {
                Err(("shell", format!("{} is no absolute path", shown(shell))))
            }
            _ => Ok(()),
        }
    }
}

/// A configuration that is larger is none.
pub(super) const MOST: u64 = 1 << 20;

/// The text of a person's configuration, which may be linked to elsewhere; `None`
/// where there is none.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, Error> {
    let unusable = |reason: String| Error::Configuration { path: path.to_owned(), reason };
    let bytes = match path.canonicalize().and_then(|real| read_plain(&real, MOST)) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return match path.symlink_metadata() {
                Ok(_) => Err(unusable("it is a link that leads nowhere".into())),
                Err(_) => Ok(None),
            };
        }
        Err(e) => return Err(unusable(e.to_string())),
    };
    String::from_utf8(bytes).map(Some).map_err(|_| unusable("it is not UTF-8".into()))
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

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.verify.turns(), 8);
        assert_eq!(config.herdr.ratio, herdr::Ratio::default());
        assert_eq!(
            (config.herdr.open_in, config.herdr.direction),
            (OpenIn::Split, Direction::Right)
        );
        assert_eq!(config.egress.profile, EgressProfile::Agent);
        for (text, wanted) in [
            ("shell = \"bash\"", "shell: bash is no absolute path"),
            ("verify.every = \"3s\"", "verify.every: 3s is too long"),
            ("verify.every = \"1ms\"", "verify.every: 1ms is too short"),
            ("verify.descriptors-every = \"1m\"", "is no time"),
            ("verify.descriptors-every = \"11s\"", "verify.descriptors-every: 11s is too long"),
            ("verify.descriptors-every = \"100ms\"", "shorter than verify.every"),
            ("herdr.ratio = 0.95", "0.95 is not between 0.1 and 0.9"),
            ("herdr.ratio = nan", "is not between 0.1 and 0.9"),
            ("herdr.open-in = \"popup\"", "popup"),
        ] {
            let refused = Config::parse(text).unwrap_err();
            assert!(refused.contains(wanted), "{text}: {refused}");
        }
        let text = "shell = \"/bin/bash\"\n[verify]\nevery = \"100ms\"\ndescriptors-every = \"1s\"\n\
            [grants]\nread = [\"/a\"]\nwrite = [\"/b\"]\n[egress]\nprofile = \"none\"\n\
            [herdr]\nopen-in = \"tab\"\ndirection = \"down\"\nratio = 0.3\n\
            [agents.codex]\narguments = [\"--model\", \"x\"]\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.verify.turns(), 10);
        assert_eq!(config.agents["codex"].arguments, ["--model", "x"]);
        assert_eq!(config.egress.profile, EgressProfile::None);
    }
}
