//! Where agents come from: a person's own directory first, then those shipped
//! inside the program.

use std::path::{Path, PathBuf};

use super::{AgentFile, profile};
use crate::error::Error;
use crate::files::read_plain;

/// The largest file of an agent's own; the shipped ones have 2 KiB.
const MOST: u64 = 1 << 20;

/// The pen's policy; the same for every agent.
const PEN: &str = include_str!("../../../../profiles/pen.json");

/// Shipped agents: name, `agent.toml`, `server.json`, `client.json`.
const SHIPPED: [(&str, &str, &str, &str); 2] = [
    (
        "codex",
        include_str!("../../../../profiles/codex/agent.toml"),
        include_str!("../../../../profiles/codex/server.json"),
        include_str!("../../../../profiles/codex/client.json"),
    ),
    (
        "standin",
        include_str!("../../../../profiles/standin/agent.toml"),
        include_str!("../../../../profiles/standin/server.json"),
        include_str!("../../../../profiles/standin/client.json"),
    ),
];

/// The policies of the three sandboxes, as text for nono.
#[derive(Clone, Debug)]
pub(crate) struct Profiles {
    pub(crate) pen: String,
    pub(crate) server: String,
    pub(crate) client: String,
}

/// An agent with its policies, and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) file: AgentFile,
    pub(crate) profiles: Profiles,
    /// The text of `agent.toml`.
    pub(crate) adapter: String,
    /// The directory, or `None` for a shipped one.
    pub(crate) source: Option<PathBuf>,
}

impl Agent {
    /// The name that it is called by on the command line: letters, digits and
    /// dashes.
    pub(crate) fn called(&self) -> &str {
        let directory = self.source.as_ref().and_then(|path| path.file_name());
        directory.and_then(std::ffi::OsStr::to_str).unwrap_or(&self.file.name)
    }
}

/// The names of all agents: a person's own and the shipped ones.
pub(crate) fn known_agents(own: &Path) -> Vec<String> {
    let mut names: Vec<String> = SHIPPED.iter().map(|(name, ..)| (*name).to_owned()).collect();
    for entry in std::fs::read_dir(own).into_iter().flatten().flatten() {
        if entry.path().join("agent.toml").is_file()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Loads the agent `name`, looking in `own` first.
///
/// # Errors
/// When there is none of that name, or its file does not parse.
pub(crate) fn load(name: &str, own: &Path) -> Result<Agent, Error> {
    let is_plain = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if is_plain {
        let directory = own.join(name);
        // A link that leads nowhere is not passed over for the shipped one.
        if directory.join("agent.toml").symlink_metadata().is_ok() {
            return load_own(&directory);
        }
        if let Some((_, agent, server, client)) = SHIPPED.iter().find(|(n, ..)| *n == name) {
            let file = parse(agent, Path::new("(shipped)"))?;
            return Ok(Agent {
                file,
                profiles: profiles(server, client),
                adapter: (*agent).to_owned(),
                source: None,
            });
        }
    }
    Err(Error::AgentUnknown { name: name.to_owned(), known: known_agents(own).join(", ") })
}

/// Each file is opened once: what is checked and hashed is the text that is used.
fn load_own(directory: &Path) -> Result<Agent, Error> {
    let read = |name: &str| {
        let path = directory.join(name);
        let text = read_plain(&path, MOST).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8"))
        });
        text.map_err(|e| Error::AgentFile { path, reason: e.to_string() })
    };
    let adapter = read("agent.toml")?;
    let file = parse(&adapter, &directory.join("agent.toml"))?;
    let policy = |name: &str| {
        let text = read(name)?;
        let unusable = |reason| Error::AgentFile { path: directory.join(name), reason };
        profile::check(&text).map_err(unusable)?;
        Ok(text)
    };
    let profiles = profiles(&policy("server.json")?, &policy("client.json")?);
    Ok(Agent { file, profiles, adapter, source: Some(directory.to_owned()) })
}

fn profiles(server: &str, client: &str) -> Profiles {
    Profiles { pen: PEN.to_owned(), server: server.to_owned(), client: client.to_owned() }
}

fn parse(text: &str, path: &Path) -> Result<AgentFile, Error> {
    toml::from_str(text)
        .map_err(|e| Error::AgentFile { path: path.to_owned(), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_agent_parses_and_bears_its_name() {
        for (name, ..) in SHIPPED {
            let agent = load(name, Path::new("/nonexistent")).unwrap();
            assert_eq!(agent.file.name, name);
            for text in [&agent.profiles.pen, &agent.profiles.server, &agent.profiles.client] {
                serde_json::from_str::<serde_json::Value>(text).unwrap();
            }
        }
    }

    /// nono's own list has `/dev/pts`: whoever may read a terminal there takes
    /// what is typed.
    #[test]
    fn every_shipped_policy_reads_the_same_of_the_system_and_no_terminal() {
        let policy = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let wanted = policy(PEN)["filesystem"]["read"].clone();
        assert!(wanted.as_array().unwrap().len() > 10);
        for (name, _, server, client) in SHIPPED {
            for text in [PEN, server, client] {
                let policy = policy(text);
                assert_eq!(policy["filesystem"]["read"], wanted, "{name}");
                let excluded = policy["groups"]["exclude"].as_array().unwrap().clone();
                assert!(excluded.contains(&"system_read_linux_core".into()), "{name}");
            }
            for text in [server, client] {
                assert!(!text.contains("/dev/pts") && !text.contains("ptmx"), "{name}");
            }
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let shipped = SHIPPED[0].1;
        assert!(parse(shipped, Path::new("x")).is_ok(), "control");
        assert!(parse(&format!("readonly = true\n{shipped}"), Path::new("x")).is_err());
    }

    #[test]
    fn a_name_cannot_be_a_path() {
        for name in ["../codex", "a/b", "", ".", "Codex"] {
            assert!(matches!(
                load(name, Path::new("/nonexistent")),
                Err(Error::AgentUnknown { .. })
            ));
        }
    }
}
