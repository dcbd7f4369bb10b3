//! Where agents come from: a person's own directory first, then those shipped
//! inside the program.

use std::fmt;
use std::path::{Path, PathBuf};

use super::lineage::{self, Generation, Lineage, Place, is_name, own_directory};
use super::shipped::{self, PEN, SHIPPED};
use super::version::Version;
use super::{AgentFile, profile};
use crate::error::Error;
use crate::files::read_plain;
use crate::output::shown;

/// The largest file of an agent's own; the shipped ones have 2 KiB.
pub(crate) const MOST: u64 = 1 << 20;

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
    let mut names: Vec<String> = SHIPPED.iter().map(|shipped| shipped.name.to_owned()).collect();
    for entry in std::fs::read_dir(own).into_iter().flatten().flatten() {
        // One with another name cannot be called.
        if entry.path().join("agent.toml").symlink_metadata().is_ok()
            && let Ok(name) = entry.file_name().into_string()
            && is_name(&name)
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
    load_at(place, own)
}

/// Loads the agent in `directory`; what it extends is looked for in `own` first.
///
/// # Errors
/// When it does not parse.
pub(crate) fn load_directory(directory: &Path, own: &Path) -> Result<Agent, Error> {
    load_at(Place::Own(directory.to_owned()), own)
}

/// What of the file in `directory` holds for any version, and what would for each
/// version that is named; whatever its policies are.
///
/// # Errors
/// When it does not parse.
pub(crate) fn variants(
    directory: &Path,
    own: &Path,
) -> Result<Vec<(Option<String>, AgentFile)>, Error> {
    let lineage = lineage(Place::Own(directory.to_owned()), own)?;
    lineage.check().map_err(|reason| lineage.unusable(reason))?;
    let (_, file) = lineage.file(None).map_err(|reason| lineage.unusable(reason))?;
    let named = lineage.variants().into_iter().map(|(name, file)| (Some(name), file));
    Ok([(None, file)].into_iter().chain(named).collect())
}

fn load_at(place: Place, own: &Path) -> Result<Agent, Error> {
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
    let shipped = || shipped::find(name).map(|shipped| Place::Shipped(shipped.name));
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
            Place::Shipped(name) => shipped(name, "agent.toml").unwrap_or_default().to_owned(),
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
                if let Some(text) = shipped(agent, name) {
                    used.push((format!("{agent}/{name}"), text.to_owned()));
                    return Ok(text.to_owned());
                }
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

/// A shipped file, where that agent has it.
fn shipped(agent: &str, file: &str) -> Option<&'static str> {
    shipped::find(agent)?.file(file)
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
mod tests;
