//! Where agents come from: a person's own directory first, then those shipped
//! inside the program.

use std::fmt;
use std::path::{Path, PathBuf};

use super::lineage::{self, Generation, Lineage, Place, is_name, own_directory};
use super::version::Version;
use super::{AgentFile, profile};
use crate::error::Error;
use crate::files::read_plain;
use crate::output::shown;

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
    /// What holds for its version.
    pub(crate) file: AgentFile,
    pub(crate) profiles: Profiles,
    /// The text of what holds: `agent.toml` itself, where nothing else is in it.
    pub(crate) adapter: String,
    /// The directory, or `None` for a shipped one.
    pub(crate) source: Option<PathBuf>,
    /// The version of its program, where it is known.
    pub(crate) version: Option<Version>,
    /// The shipped files that it is made of, by their paths below `profiles/`.
    pub(crate) shipped: Vec<(String, String)>,
    lineage: Lineage,
}

impl Agent {
    /// The name that it is called by on the command line: letters, digits and
    /// dashes.
    pub(crate) fn called(&self) -> &str {
        let directory = self.source.as_ref().and_then(|path| path.file_name());
        directory.and_then(std::ffi::OsStr::to_str).unwrap_or(&self.file.name)
    }

    /// The same for that version of its program.
    ///
    /// # Errors
    /// When what holds for it is not of the form.
    pub(crate) fn at(self, version: Option<Version>) -> Result<Self, Error> {
        let made = self.lineage.file(version.as_ref());
        let (adapter, file) = made.map_err(|reason| self.lineage.unusable(reason))?;
        Ok(Self { file, adapter, version, ..self })
    }

    /// The names of what it extends, the nearest first.
    pub(crate) fn extends(&self) -> Vec<String> {
        self.lineage.places().skip(1).map(Place::to_string).collect()
    }

    /// Whether it is known to work with its version; `None` where one of the two is
    /// not said.
    pub(crate) fn is_known_to_work(&self) -> Option<bool> {
        let known = self.file.program.versions.as_ref()?;
        Some(known.matches(self.version.as_ref()?))
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

/// Loads the agent `name`, looking in `own` first. What holds is what holds for any
/// version.
///
/// # Errors
/// When there is none of that name, or its file does not parse.
pub(crate) fn load(name: &str, own: &Path) -> Result<Agent, Error> {
    let place = find(name, own, None).ok_or_else(|| Error::AgentUnknown {
        name: name.to_owned(),
        known: known_agents(own).join(", "),
    })?;
    let lineage = lineage(place, own)?;
    lineage.check().map_err(|reason| lineage.unusable(reason))?;
    let (adapter, file) = lineage.file(None).map_err(|reason| lineage.unusable(reason))?;
    let mut shipped: Vec<(String, String)> =
        lineage.0.iter().filter_map(Generation::shipped).collect();
    let mut policy = |name| policy(&lineage, name, &mut shipped);
    let client = file.pair.is_some().then(|| policy("client.json")).transpose()?;
    let profiles = Profiles { pen: PEN.to_owned(), server: policy("server.json")?, client };
    let source = match &lineage.own().place {
        Place::Own(directory) => Some(directory.clone()),
        Place::Shipped(_) => None,
    };
    Ok(Agent { file, profiles, adapter, source, version: None, shipped, lineage })
}

/// Where the agent `name` is. What extends an agent of its own name extends the
/// shipped one.
fn find(name: &str, own: &Path, extended_by: Option<&Place>) -> Option<Place> {
    if !is_name(name) {
        return None;
    }
    let directory = own_directory(name, own).map(Place::Own);
    let shipped = || SHIPPED.iter().find(|(n, ..)| *n == name).map(|(n, ..)| Place::Shipped(n));
    match extended_by {
        // What is shipped is the same for everybody.
        Some(Place::Shipped(_)) => shipped(),
        extended_by => directory.filter(|place| Some(place) != extended_by).or_else(shipped),
    }
}

/// The file at `place`, and all that it extends. Each file is opened once: what is
/// checked and hashed is the text that is used.
fn lineage(place: Place, own: &Path) -> Result<Lineage, Error> {
    let mut found: Vec<Generation> = Vec::new();
    let mut next = Some(place);
    while let Some(place) = next {
        let unusable = |reason| Error::AgentFile { path: place.file("agent.toml"), reason };
        let text = match &place {
            Place::Own(directory) => read_text(directory, "agent.toml")?,
            Place::Shipped(name) => shipped(name, "agent.toml").to_owned(),
        };
        let (generation, extends) = lineage::read(&text, place.clone()).map_err(unusable)?;
        found.push(generation);
        next = match extends {
            None => None,
            Some(name) => {
                let place = find(&name, own, Some(&place)).ok_or_else(|| {
                    let known = known_agents(own).join(", ");
                    unusable(format!("it extends {name:?}, which there is not; known: {known}"))
                })?;
                if found.iter().any(|generation| generation.place == place) {
                    let reason = format!("it extends {name:?}, which extends it: a circle");
                    return Err(unusable(reason));
                }
                Some(place)
            }
        };
    }
    Ok(Lineage(found))
}

/// The policy that is the nearest: of the own directory, else of what it extends.
fn policy(
    lineage: &Lineage,
    name: &'static str,
    used: &mut Vec<(String, String)>,
) -> Result<String, Error> {
    for place in lineage.places() {
        match place {
            Place::Shipped(agent) => {
                let text = shipped(agent, name);
                used.push((format!("{agent}/{name}"), text.to_owned()));
                return Ok(text.to_owned());
            }
            Place::Own(directory) if directory.join(name).symlink_metadata().is_ok() => {
                let text = read_text(directory, name)?;
                let unusable = |reason| Error::AgentFile { path: directory.join(name), reason };
                profile::check(&text).map_err(unusable)?;
                return Ok(text);
            }
            Place::Own(_) => {}
        }
    }
    let path = lineage.own().place.file(name);
    let reason = "it is not there; write one, or extend an agent that has one".into();
    Err(Error::AgentFile { path, reason })
}

fn read_text(directory: &Path, name: &str) -> Result<String, Error> {
    let path = directory.join(name);
    let text = read_plain(&path, MOST).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8"))
    });
    text.map_err(|e| Error::AgentFile { path, reason: e.to_string() })
}

/// A shipped file.
fn shipped(agent: &str, file: &str) -> &'static str {
    let found = SHIPPED.iter().find(|(name, ..)| *name == agent);
    let (_, adapter, server, client) = found.unwrap_or(&("", "", "", ""));
    match file {
        "agent.toml" => adapter,
        "server.json" => server,
        _ => client,
    }
}

impl Place {
    fn file(&self, name: &str) -> PathBuf {
        match self {
            Self::Own(directory) => directory.join(name),
            Self::Shipped(agent) => PathBuf::from(format!("{agent}/{name} (shipped)")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(directory) => f.write_str(&shown(directory)),
            Self::Shipped(name) => write!(f, "{name} (shipped)"),
        }
    }
}

impl Generation {
    fn shipped(&self) -> Option<(String, String)> {
        match self.place {
            Place::Shipped(name) => Some((format!("{name}/agent.toml"), self.text.clone())),
            Place::Own(_) => None,
        }
    }
}

impl Lineage {
    fn unusable(&self, reason: String) -> Error {
        Error::AgentFile { path: self.own().place.file("agent.toml"), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, path: &Path) -> Result<AgentFile, Error> {
        toml::from_str(text)
            .map_err(|e| Error::AgentFile { path: path.to_owned(), reason: e.to_string() })
    }

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

    /// Own agents below a directory, each with its text and its policies.
    fn own(agents: &[(&str, &str, &[&str])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text, policies) in agents {
            let directory = root.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("agent.toml"), text).unwrap();
            for policy in *policies {
                let text = format!(r#"{{ "meta": {{ "name": "{name}" }} }}"#);
                std::fs::write(directory.join(policy), text).unwrap();
            }
        }
        root
    }

    #[test]
    fn an_agent_extends_another_with_its_policies() {
        let root = own(&[
            ("mine", "extends = \"codex\"\nhosts = [\"model.test\"]\n", &["client.json"]),
            ("mine-too", "extends = \"mine\"\ntitle = \"two\"\n[server]\npass = []\n", &[]),
            ("codex", "extends = \"codex\"\ntitle = \"of my own\"\n", &[]),
        ]);
        let shipped = load("codex", Path::new("/nonexistent")).unwrap();
        let load = |name| load(name, root.path()).unwrap();
        let mine = load("mine-too");
        assert_eq!((mine.called(), mine.file.name.as_str()), ("mine-too", "mine-too"));
        assert_eq!(
            (mine.file.title.as_str(), &mine.file.hosts[..]),
            ("two", &["model.test".into()][..])
        );
        let halves = |agent: &Agent| {
            let pair = agent.file.pair.clone().unwrap();
            (pair.server, pair.client)
        };
        assert_eq!(halves(&mine).0.argv, halves(&shipped).0.argv);
        assert_eq!(halves(&mine).0.pass, Vec::<String>::new());
        assert_eq!(halves(&mine).1.when, halves(&shipped).1.when);
        assert_eq!(mine.profiles.server, shipped.profiles.server);
        assert!(mine.profiles.client.as_ref().unwrap().contains("\"mine\""));
        let of = |agent: &Agent| agent.shipped.iter().map(|(f, _)| f.clone()).collect::<Vec<_>>();
        assert_eq!(of(&mine), ["codex/agent.toml", "codex/server.json"], "no client.json of it");
        let codex = load("codex");
        assert_eq!((codex.file.title.as_str(), codex.source.is_some()), ("of my own", true));
        assert_eq!(load("mine").extends().len(), 2, "the own codex, and the shipped one");
        assert!(mine.adapter.contains("app-server") && mine.adapter.contains("model.test"));
    }

    #[test]
    fn a_circle_and_a_gap_are_refused() {
        let root = own(&[
            ("a", "extends = \"b\"\n", &[]),
            ("b", "extends = \"a\"\n", &[]),
            ("c", "extends = \"c\"\n", &[]),
            ("d", "extends = \"../a\"\n", &[]),
            ("e", "solo.argv = []\ntitle = \"e\"\nprogram.names = [\"e\"]\n", &[]),
            ("f", "extends = \"codex\"\nhosst = []\n", &[]),
        ]);
        for (name, reason) in [
            ("a", "a circle"),
            ("c", "which there is not"),
            ("d", "which there is not"),
            ("e", "server.json"),
            ("f", "hosst"),
        ] {
            let refused = load(name, root.path()).unwrap_err().to_string();
            assert!(refused.contains(reason), "{name}: {refused}");
        }
    }
}
