//! The form of `agent.toml`. Unknown keys are refused: a misspelt restriction
//! must not pass for one that is in force.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::GateRule;
use super::import::{Import, stays_below};
use super::lineage::is_name;
use super::version::Requirement;
use crate::output::shown;

/// One agent. It has a pair of halves, one process, or both forms.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct AgentFile {
    /// The name to call it by.
    pub(crate) name: String,
    /// One line on what it is.
    pub(crate) title: String,
    /// How its program is found.
    pub(crate) program: Program,
    /// The agent as a server and a client.
    pub(crate) pair: Option<Pair>,
    /// The agent as one process, which runs the tools and has the terminal.
    pub(crate) solo: Option<Half>,
    /// Directories right below `/tmp` in which it makes sockets wherever it is told to,
    /// as templates.
    pub(crate) sockets: Vec<String>,
    /// How a person signs in.
    pub(crate) login: Option<Login>,
    /// What of a person's own configuration of it can be copied.
    pub(crate) import: Option<Import>,
    /// Directories below a person's home that are the agent's state there: those that can
    /// be shared with its launches.
    pub(crate) state: Vec<PathBuf>,
    /// Hosts that it may reach, as `name` or `name:port`.
    pub(crate) hosts: Vec<String>,
    /// Paths of the host that all of its sandboxes may read, beside the system.
    pub(crate) read: Vec<String>,
    /// Names (`comm`) of the processes that the agent itself is expected to have. For
    /// readers only: a process can call itself anything.
    pub(crate) processes: Vec<String>,
    /// Who may ask the gate for what.
    pub(crate) gate: Vec<GateRule>,
    /// The name that herdr knows it by, where it does.
    pub(crate) herdr: Option<String>,
}

/// Two halves, and where they meet.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) link: LinkSettings,
    /// The half that runs the model loop and the tools.
    pub(crate) server: Half,
    /// The half that has the terminal.
    pub(crate) client: Half,
}

impl Pair {
    fn check(&self) -> Result<(), String> {
        if (self.link.kind == LinkKind::Own) != self.link.at.is_some() {
            return Err("at is said of a [link] of kind \"own\", and of no other".into());
        }
        if self.server.home.is_some() {
            return Err("home is said of a [client]".into());
        }
        if !(self.server.instead_for.is_empty() && self.client.instead_for.is_empty()) {
            return Err("instead-for is said of [solo] beside a pair".into());
        }
        Ok(())
    }
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Written {
    // Of a person's own, the directory's.
    #[serde(default)]
    name: String,
    title: String,
    program: Program,
    link: Option<LinkSettings>,
    server: Option<Half>,
    client: Option<Half>,
    solo: Option<Half>,
    login: Option<Login>,
    import: Option<Import>,
    #[serde(default)]
    state: Vec<PathBuf>,
    #[serde(default)]
    sockets: Vec<String>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    processes: Vec<String>,
    #[serde(default)]
    gate: Vec<GateRule>,
    herdr: Option<String>,
    // What these say is worked in before.
    #[serde(rename = "extends")]
    _extends: Option<serde::de::IgnoredAny>,
    #[serde(rename = "versions")]
    _versions: Option<serde::de::IgnoredAny>,
}

impl TryFrom<Written> for AgentFile {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { name, title, program, link, server, client, solo, .. } = written;
        let Written { login, import, state, sockets, hosts, read, processes, gate, herdr, .. } =
            written;
        // A directory has it.
        if !is_name(&name) {
            return Err("name is made of small letters, digits and dashes".into());
        }
        let pair = match (link, server, client) {
            (Some(link), Some(server), Some(client)) => Some(Pair { link, server, client }),
            (None, None, None) if solo.is_some() => None,
            (None, None, None) => {
                return Err("it has neither [solo] nor [link], [server] and [client]".into());
            }
            (link, server, client) => {
                let named = [
                    ("link", link.is_some()),
                    ("server", server.is_some()),
                    ("client", client.is_some()),
                ];
                let missing: Vec<_> = named
                    .iter()
                    .filter(|(_, is)| !is)
                    .map(|(name, _)| format!("[{name}]"))
                    .collect();
                let missing = missing.join(" and ");
                return Err(format!(
                    "[link], [server] and [client] go together; {missing} is missing"
                ));
            }
        };
        if let Some(pair) = &pair {
            pair.link.check()?;
        }
        let has_own_password = |half: &Half| half.password_variable.is_some();
        if let Some(Pair { link, server, client }) = &pair
            && link.kind == LinkKind::Stdio
            && (has_own_password(server) || has_own_password(client))
        {
            return Err("with a link of the kind stdio the password is the bridge's; \
                        password-variable goes"
                .into());
        }
        if pair.as_ref().is_some_and(|pair| pair.server.resume.is_some()) {
            return Err("resume is said of who has the terminal: [client] or [solo]".into());
        }
        let halves = pair.iter().flat_map(|pair| [&pair.server, &pair.client]);
        let is_alone = pair.is_none() && solo.iter().any(|solo| !solo.without_git.is_empty());
        if is_alone || halves.into_iter().any(|half| !half.without_git.is_empty()) {
            return Err("without-git is for the [solo] of an agent that is a pair, too".into());
        }
        if let Some(pair) = &pair {
            pair.check()?;
        }
        if let Some(solo) = &solo {
            if solo.home.is_some() {
                return Err("home is said of a [client]".into());
            }
            if !solo.instead_for.is_empty() && pair.is_none() {
                return Err("instead-for is said of [solo] beside a pair".into());
            }
        }
        if let Some(import) = &import {
            import.check(pair.is_some())?;
        }
        if let Some(path) = state.iter().find(|path| !stays_below(path)) {
            return Err(format!("state: {} is not a path below the home", shown(path)));
        }
        Ok(Self {
            name,
            title,
            program,
            pair,
            solo,
            sockets,
            login,
            import,
            state,
            hosts,
            read,
            processes,
            gate,
            herdr,
        })
    }
}

impl AgentFile {
    /// What runs under the server's policy: the server, else the one process.
    pub(crate) fn under_server_policy(&self) -> Option<&Half> {
        self.pair.as_ref().map(|pair| &pair.server).or(self.solo.as_ref())
    }

    /// What runs when a person signs in: in the home of what runs under the server's policy,
    /// as that finds it, but with none of the caller's variables.
    pub(crate) fn to_sign_in(&self) -> Option<Half> {
        let (login, server) = (self.login.as_ref()?, self.under_server_policy()?);
        let mut set = server.set.clone();
        set.extend(login.set.clone());
        Some(Half {
            argv: login.argv.clone(),
            when: login.when.clone(),
            resume: None,
            password_variable: None,
            set,
            pass: Vec::new(),
            ..server.clone()
        })
    }

    /// What herdr is told that the agent is.
    pub(crate) fn herdr_kind(&self) -> &str {
        self.herdr.as_deref().unwrap_or(&self.name)
    }
}

/// How a person signs in, in the private home of what runs under the server's policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Login {
    /// The arguments, as templates. The person's own follow.
    pub(crate) argv: Vec<String>,
    /// Other arguments when the person's first one is this word, which is then part of them.
    #[serde(default)]
    pub(crate) when: BTreeMap<String, Vec<String>>,
    /// Hosts that are reached for this alone, beside the agent's.
    #[serde(default)]
    pub(crate) hosts: Vec<String>,
    /// Variables to set, as templates, after those of the server.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, String>,
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
    /// The versions that this file is known to work with.
    #[serde(default)]
    pub(crate) versions: Option<Requirement>,
}

/// The link between the halves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LinkSettings {
    /// What kind of socket the server listens on.
    pub(crate) kind: LinkKind,
    /// A path that the server answers by HTTP once it is ready, whatever the answer; else
    /// it is ready when it listens.
    pub(crate) ready: Option<String>,
    /// The agent's own socket at which it is known to listen, as a template; a part that
    /// is `*` stands for any name.
    #[serde(default)]
    pub(crate) at: Option<String>,
    /// How long the client waits for the server, in seconds.
    #[serde(default = "half_a_minute")]
    pub(crate) patience: u64,
}

impl LinkSettings {
    fn check(&self) -> Result<(), String> {
        let Some(path) = &self.ready else { return Ok(()) };
        if self.kind != LinkKind::Tcp {
            return Err("[link] ready asks by HTTP, which is for kind = \"tcp\" alone".into());
        }
        // It becomes a part of a request's first line (RFC 9112, section 3.2.1).
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "[link] ready: {path:?} is no path as \"/health\" is, of printable ASCII"
            ));
        }
        Ok(())
    }
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
    /// The agent's own sockets, at places that are wired into it.
    Own,
    /// A socket in the link folder, kept by Paddock: the server speaks on its standard
    /// input and output.
    Stdio,
}

impl LinkKind {
    /// As agent files have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Own => "own",
            Self::Stdio => "stdio",
        }
    }
}

/// Whose private home a client has that has none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HomeOf {
    /// The server's: each can then change what the other reads there.
    Server,
}

/// One half of the agent, or its one process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Half {
    /// Its arguments, as templates. The person's own arguments follow.
    pub(crate) argv: Vec<String>,
    /// Other arguments when the person's first argument is this word, which is
    /// then part of them.
    #[serde(default)]
    pub(crate) when: BTreeMap<String, Vec<String>>,
    /// Where the workspace is no git repository, the person's first arguments with which
    /// the one process is started, though there is a pair.
    #[serde(default)]
    pub(crate) without_git: Vec<String>,
    /// The arguments with which it goes on where its last conversation ended.
    #[serde(default)]
    pub(crate) resume: Option<Vec<String>>,
    /// The first arguments of the person's that only the one process knows: with one of
    /// them it is started in place of the pair.
    #[serde(default)]
    pub(crate) instead_for: Vec<String>,
    /// Whose home it has, where that is not its own.
    #[serde(default)]
    pub(crate) home: Option<HomeOf>,
    /// The variable that carries the launch's password.
    #[serde(default)]
    pub(crate) password_variable: Option<String>,
    /// Directories to make in its home before it starts.
    #[serde(default)]
    pub(crate) directories: Vec<PathBuf>,
    /// Files to write in its home before it starts, where there is nothing yet.
    #[serde(default)]
    pub(crate) seed: Vec<Seed>,
    /// Variables to set, as templates.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, String>,
    /// Variables of the caller's to pass on, by exact name.
    #[serde(default)]
    pub(crate) pass: Vec<String>,
    /// Variables that are neither passed on nor set, whoever would.
    #[serde(default)]
    pub(crate) drop: Vec<String>,
}

/// A file that a half finds in its home at its first start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Seed {
    /// Below the home.
    pub(crate) path: PathBuf,
    /// What is in it, as a template.
    pub(crate) text: String,
}
