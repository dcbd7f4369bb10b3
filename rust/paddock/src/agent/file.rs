//! The form of `agent.toml`. Unknown keys are refused: a misspelt restriction
//! must not pass for one that is in force.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::GateRule;

/// One agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AgentFile {
    /// The name to call it by.
    pub(crate) name: String,
    /// One line on what it is.
    pub(crate) title: String,
    /// How its program is found.
    pub(crate) program: Program,
    /// Where client and server meet.
    pub(crate) link: LinkSettings,
    /// The half that runs the model loop and the tools.
    pub(crate) server: Half,
    /// The half that has the terminal.
    pub(crate) client: Half,
    /// Hosts that the server may reach, as `name` or `name:port`.
    #[serde(default)]
    pub(crate) hosts: Vec<String>,
    /// Who may ask the gate for what.
    #[serde(default)]
    pub(crate) gate: Vec<GateRule>,
    /// The name that herdr knows it by, where it does.
    #[serde(default)]
    pub(crate) herdr: Option<String>,
}

impl AgentFile {
    /// What herdr is told that the agent is.
    pub(crate) fn herdr_kind(&self) -> &str {
        self.herdr.as_deref().unwrap_or(&self.name)
    }
}

/// How the agent's program is found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Program {
    /// Names to look up on `PATH`, or templates (`{paddock}`).
    pub(crate) names: Vec<String>,
    /// Paths below the package that a found launcher script belongs to, with
    /// `*` for one component: the native program behind it.
    #[serde(default)]
    pub(crate) native: Vec<String>,
}

/// The link between the halves.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LinkSettings {
    /// What kind of socket the server listens on.
    pub(crate) kind: LinkKind,
    /// How long the client waits for the server, in seconds.
    #[serde(default = "half_a_minute")]
    pub(crate) patience: u64,
}

fn half_a_minute() -> u64 {
    30
}

/// The kinds of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LinkKind {
    /// A port of the pen's own loopback.
    Tcp,
    /// An AF_UNIX socket in the link folder.
    Unix,
}

/// One half of the agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Half {
    /// Its arguments, as templates. The person's own arguments follow.
    pub(crate) argv: Vec<String>,
    /// Other arguments when the person's first argument is this word, which is
    /// then part of them.
    #[serde(default)]
    pub(crate) when: BTreeMap<String, Vec<String>>,
    /// The variable that carries the launch's password.
    #[serde(default)]
    pub(crate) password_variable: Option<String>,
    /// Directories to make in its home before it starts.
    #[serde(default)]
    pub(crate) directories: Vec<PathBuf>,
    /// Variables to set, as templates.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, String>,
    /// Variables of the caller's to pass on, by exact name.
    #[serde(default)]
    pub(crate) pass: Vec<String>,
}
