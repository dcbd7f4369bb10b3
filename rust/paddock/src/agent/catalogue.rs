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

/// The agent that there is without anything being installed.
pub(crate) const STANDIN: &str = "standin";

/// Shipped agents: name, `agent.toml`, `server.json`, `client.json`.
const SHIPPED: [(&str, &str, &str, &str); 2] = [
    (
        "codex",
        include_str!("../../../../profiles/codex/agent.toml"),
        include_str!("../../../../profiles/codex/server.json"),
        include_str!("../../../../profiles/codex/client.json"),
    ),
    (
        STANDIN,
        include_str!("../../../../profiles/standin/agent.toml"),
        include_str!("../../../../profiles/standin/server.json"),
        include_str!("../../../../profiles/standin/client.json"),
    ),
];

/// The policies of the sandboxes, as text for nono.
#[derive(Clone, Debug)]
pub(crate) struct Profiles {
    pub(crate) pen: String,
    pub(crate) server: String,
    /// Of an agent that has a client.
    pub(crate) client: Option<String>,
}

impl Profiles {
    /// Each with the layer that it is of.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let client = self.client.as_deref().map(|text| ("client", text));
        [("pen", self.pen.as_str()), ("server", &self.server)].into_iter().chain(client)
    }
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
                profiles: profiles(server, Some(client)),
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
    let client = file.pair.is_some().then(|| policy("client.json")).transpose()?;
    let profiles = profiles(&policy("server.json")?, client.as_deref());
    Ok(Agent { file, profiles, adapter, source: Some(directory.to_owned()) })
}

fn profiles(server: &str, client: Option<&str>) -> Profiles {
    Profiles {
        pen: PEN.to_owned(),
        server: server.to_owned(),
        client: client.map(ToOwned::to_owned),
    }
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
            for (_, text) in agent.profiles.all() {
                serde_json::from_str::<serde_json::Value>(text).unwrap();
            }
            assert_eq!(agent.profiles.all().count(), 3);
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
    fn an_agent_is_a_pair_or_solo_or_both_and_no_part_of_a_pair() {
        let head = "name = \"x\"\ntitle = \"x\"\nprogram.names = [\"x\"]\n";
        let (link, server) = ("link.kind = \"unix\"\n", "[server]\nargv = [\"s\"]\n");
        let (client, solo) = ("[client]\nargv = [\"c\"]\n", "[solo]\nargv = [\"o\"]\n");
        let of = |parts: &[&str]| parse(&[&[head], parts].concat().concat(), Path::new("x"));
        let forms = |file: AgentFile| (file.pair.is_some(), file.solo.is_some());
        assert_eq!(forms(of(&[link, server, client]).unwrap()), (true, false));
        assert_eq!(forms(of(&[solo]).unwrap()), (false, true));
        let both = of(&[link, server, client, solo]).unwrap();
        assert_eq!(both.under_server_policy().unwrap().argv, ["s"]);
        assert_eq!(forms(both), (true, true));
        let resume = "resume = [\"r\"]\n";
        assert!(of(&[solo, resume]).unwrap().solo.unwrap().resume.is_some());
        for (parts, reason) in [
            (&[][..], "neither"),
            (&[link][..], "[server] and [client] is missing"),
            (&[server, client][..], "[link] is missing"),
            (&[link, server, solo][..], "[client] is missing"),
            (&[link, server, resume, client][..], "[client] or [solo]"),
        ] {
            let error = of(parts).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
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
