//! `.paddock.toml` at the root of a workspace. Whoever can write the workspace can
//! write it, the agent included: so it is read with care, and it only tightens.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use confine::escape::{escape, escape_short};
use egress::Entry;
use toml_edit::Item;

use super::keys::{Key, Project, known, nearest};
use super::text::Text;
use super::{Config, EgressProfile};
use crate::agent::known_agents;
use crate::error::Error;
use crate::files::read_plain;
use crate::launch::{Directories, Tier, UnixMode, Workspace};

/// Its name.
pub(crate) const PROJECT_FILE: &str = ".paddock.toml";
/// A larger one is none.
const MOST: u64 = 64 << 10;
/// One that sets more is none: each host is compared with each that is allowed.
const MOST_KEYS: usize = 256;
const MOST_HOSTS: usize = 256;
/// So many of its keys are told of.
const MOST_TOLD: usize = 8;

/// The project's file that was applied to a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProjectFile {
    pub(crate) path: PathBuf,
    /// What it sets, each with its line.
    pub(crate) lines: BTreeMap<String, usize>,
    /// Of the hosts that an agent may reach those that remain for every agent.
    hosts: Option<Vec<String>>,
    /// And those that remain for single agents.
    hosts_of_agents: BTreeMap<String, Vec<String>>,
    /// Where what it may not say would go.
    persons: PathBuf,
}

impl Config {
    /// As a launch would have it that is started in the current directory.
    ///
    /// # Errors
    /// When a file of it cannot be used.
    pub(crate) fn here(directories: &Directories) -> Result<Self, Error> {
        let config = Self::load(&directories.config_file())?;
        match Workspace::find(None, directories) {
            Ok(workspace) => config.in_workspace(&workspace.root, directories),
            // What is no workspace has no launch, and no project.
            Err(_) => Ok(config),
        }
    }

    /// Tightened by the project's file of the workspace `root`, if there is one.
    ///
    /// # Errors
    /// When it is not usable, or would widen anything.
    pub(crate) fn in_workspace(
        &self,
        root: &Path,
        directories: &Directories,
    ) -> Result<Self, Error> {
        self.in_no_workspace(directories)?;
        let known = known_agents(&directories.agents());
        let path = root.join(PROJECT_FILE);
        let unusable = |reason: String| Error::ProjectFile { path: path.clone(), reason };
        let bytes = match read_plain(&path, MOST) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(self.clone()),
            Err(e) => return Err(unusable(e.to_string())),
        };
        let text = String::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8".into()))?;
        let text = Text::parse(&text).map_err(unusable)?;
        let config = self.tightened(&text, &path, &directories.config_file())?;
        config.check_agents(&known).map_err(unusable)?;
        Ok(config)
    }

    /// For what is about no workspace: the person's alone.
    ///
    /// # Errors
    /// When it is not usable.
    pub(crate) fn in_no_workspace(&self, directories: &Directories) -> Result<Self, Error> {
        let known = known_agents(&directories.agents());
        self.check_agents(&known)
            .map_err(|reason| Error::Configuration { path: directories.config_file(), reason })?;
        Ok(self.clone())
    }

    /// Refuses settings for an agent that there is not, if one with nearly that name
    /// is: they would be without effect, and nobody told. Others may be for an agent
    /// that the person has elsewhere.
    fn check_agents(&self, known: &[String]) -> Result<(), String> {
        let of_project = self.project.iter().flat_map(|project| project.hosts_of_agents.keys());
        for name in self.agents.keys().chain(of_project) {
            let meant = nearest(name, known.iter().map(String::as_str));
            if let Some(meant) = meant.filter(|meant| meant != name && !known.contains(name)) {
                let name = escape(name.as_bytes());
                return Err(format!(
                    "[agents.{name}]: there is no agent {name}: did you mean {meant}?"
                ));
            }
        }
        Ok(())
    }

    fn tightened(&self, text: &Text, path: &Path, persons: &Path) -> Result<Self, Error> {
        let unusable = |reason: String| Error::ProjectFile { path: path.to_owned(), reason };
        let file = ProjectFile {
            path: path.to_owned(),
            lines: text.keys().into_iter().collect(),
            persons: persons.to_owned(),
            ..ProjectFile::default()
        };
        if file.lines.len() > MOST_KEYS {
            return Err(unusable(format!("it sets more than {MOST_KEYS} keys")));
        }
        let set = Set { text, file: &file };
        set.refuse_others()?;
        let theirs: Self = text.read().map_err(unusable)?;
        let lists = theirs.agents.values().map(|agent| &agent.hosts);
        if lists.chain([&theirs.egress.hosts]).map(Vec::len).sum::<usize>() > MOST_HOSTS {
            return Err(unusable(format!("it names more than {MOST_HOSTS} hosts")));
        }
        let mut ours = self.clone();

        let tier = ours.tier.get_or_insert_default();
        set.put("tier", theirs.tier.unwrap_or_default(), tier)?;
        set.put("on-violation", theirs.on_violation, &mut ours.on_violation)?;
        let (theirs_of, ours_of) =
            (theirs.pins.on_program_change, &mut ours.pins.on_program_change);
        set.put("pins.on-program-change", theirs_of, ours_of)?;
        set.put("verify.every", theirs.verify.every, &mut ours.verify.every)?;
        let (theirs_of, ours_of) = (&theirs.verify, &mut ours.verify.descriptors_every);
        set.put("verify.descriptors-every", theirs_of.descriptors_every, ours_of)?;
        set.put("egress.profile", theirs.egress.profile, &mut ours.egress.profile)?;
        set.put("egress.ssh", theirs.egress.ssh, &mut ours.egress.ssh)?;
        set.put("git.settings", theirs.git.settings, &mut ours.git.settings)?;
        for (agent, theirs_of) in &theirs.agents {
            let state = &mut ours.agents.entry(agent.clone()).or_default().state;
            set.put(&format!("agents.{agent}.state"), theirs_of.state, state)?;
            let mut mode = ours.unix_of(agent);
            let Some(wanted) = theirs_of.unix else { continue };
            set.put(&format!("agents.{agent}.unix"), wanted, &mut mode)?;
            ours.agents.entry(agent.clone()).or_default().unix = Some(mode);
        }
        set.put("unix", theirs.unix, &mut ours.unix)?;
        if theirs.unix == UnixMode::Strict {
            // Of every agent, whatever its own settings say.
            ours.agents.values_mut().for_each(|agent| agent.unix = None);
        }
        ours.check().map_err(|(name, reason)| {
            unusable(text.locate_key(name, &format!("{name}: {reason}")))
        })?;
        let hosts_of_agents = theirs.agents.into_iter();
        let hosts_of_agents = hosts_of_agents
            .filter(|(agent, _)| set.has(&format!("agents.{agent}.hosts")))
            .map(|(agent, settings)| (agent, settings.hosts))
            .collect();
        let hosts = set.has("egress.hosts").then_some(theirs.egress.hosts);
        ours.project = Some(ProjectFile { hosts, hosts_of_agents, ..file });
        Ok(ours)
    }

    /// The tier of a launch: what is asked for, else what is in force, or that of the
    /// launch it comes after where that is stricter.
    ///
    /// # Errors
    /// When what is asked for is less than the project's file wants.
    pub(crate) fn tier_of(
        &self,
        asked: Option<Tier>,
        recorded: Option<Tier>,
    ) -> Result<Tier, Error> {
        let configured = self.tier.unwrap_or_default();
        let project = self.project.as_ref().filter(|project| project.lines.contains_key("tier"));
        match (asked, project) {
            (Some(asked), Some(project)) if asked > configured => {
                Err(Error::ProjectTier { path: project.path.clone(), asked, wanted: configured })
            }
            // What was asked for once is no wish for later; the strictest tier is the least.
            (None, _) => Ok(recorded.map_or(configured, |recorded| recorded.min(configured))),
            (Some(asked), _) => Ok(asked),
        }
    }

    /// The hosts that the agent `name` may reach, as they are written, where its own
    /// file says `of_file`.
    ///
    /// # Errors
    /// When one of them is none, or the project's file has one that is not among them.
    pub(crate) fn hosts_of(&self, name: &str, of_file: &[String]) -> Result<Vec<String>, Error> {
        let own = self.agents.get(name).into_iter().flat_map(|settings| &settings.hosts);
        let listed = self.egress.hosts.iter().chain(own);
        let allowed: Vec<String> = match self.egress.profile {
            EgressProfile::Agent => of_file.iter().chain(listed).cloned().collect(),
            EgressProfile::Listed => listed.cloned().collect(),
            EgressProfile::None => Vec::new(),
        };
        match &self.project {
            Some(project) => project.hosts_that_remain(name, allowed),
            None => Ok(allowed),
        }
    }
}

/// What a project's file sets.
struct Set<'a> {
    text: &'a Text,
    file: &'a ProjectFile,
}

impl Set<'_> {
    fn has(&self, name: &str) -> bool {
        self.file.lines.contains_key(name)
    }

    /// Refuses every key that no project file may have.
    fn refuse_others(&self) -> Result<(), Error> {
        for (name, _) in self.text.keys() {
            if let Some(Key { project: Project::Refused(why), .. }) = known(&name) {
                return Err(self.refused(&name, &format!("is not for a project file: {why}")));
            }
        }
        Ok(())
    }

    /// Puts what it sets in the place of what holds, unless that is stricter; of all
    /// these types the earlier value is the stricter one.
    fn put<T: Ord + Display>(&self, name: &str, theirs: T, ours: &mut T) -> Result<(), Error> {
        if !self.has(name) {
            return Ok(());
        }
        if theirs > *ours {
            let reason = format!("would allow more than {ours}, which holds without it");
            return Err(self.refused(name, &reason));
        }
        *ours = theirs;
        Ok(())
    }

    fn refused(&self, name: &str, reason: &str) -> Error {
        let value = self.text.value(name).map_or_else(String::new, |item| match item {
            Item::Table(table) => {
                let lines = table.to_string();
                format!("{{ {} }}", lines.trim().replace('\n', ", "))
            }
            item => item.to_string(),
        });
        let value = escape_short(value.trim().as_bytes(), 80);
        self.file.widens(name, &format!("{} = {value} {reason}", escape(name.as_bytes())))
    }
}

impl ProjectFile {
    /// Of those hosts the ones that the file leaves to that agent.
    fn hosts_that_remain(&self, agent: &str, allowed: Vec<String>) -> Result<Vec<String>, Error> {
        let of_agent = self.hosts_of_agents.get(agent);
        if self.hosts.is_none() && of_agent.is_none() {
            return Ok(allowed);
        }
        let read: Vec<Entry> = allowed
            .iter()
            .map(|entry| Entry::parse(entry))
            .collect::<Result<_, _>>()
            .map_err(|e| Error::Hosts { reason: e.to_string() })?;
        let everybodys = self.hosts.iter().flatten().map(|entry| ("egress.hosts".into(), entry));
        let own = of_agent.into_iter().flatten();
        let own = own.map(|entry| (format!("agents.{agent}.hosts"), entry));
        let mut remaining = Vec::new();
        for (name, text) in everybodys.chain(own) {
            let entry = Entry::parse(text).map_err(|e| Error::ProjectFile {
                path: self.path.clone(),
                reason: format!("{}: {e}", self.at(&name)),
            })?;
            let mut met = read.iter().filter_map(|allowed| allowed.meet(&entry)).peekable();
            if met.peek().is_none() {
                let what = "is none of the hosts that this launch may reach without it";
                return Err(
                    self.widens(&name, &format!("{text:?} in {} {what}", escape(name.as_bytes())))
                );
            }
            remaining.extend(met.map(|entry| entry.to_string()));
        }
        let mut seen = std::collections::HashSet::new();
        remaining.retain(|entry| seen.insert(entry.clone()));
        Ok(remaining)
    }

    /// Its keys, for a person.
    pub(crate) fn told(&self) -> String {
        let names = self.lines.keys().take(MOST_TOLD);
        let mut names: Vec<String> =
            names.map(|name| escape_short(name.as_bytes(), 80).to_string()).collect();
        let more = self.lines.len() - names.len();
        if more > 0 {
            names.push(format!("and {more} more"));
        }
        names.join(", ")
    }

    fn at(&self, name: &str) -> String {
        self.lines.get(name).map_or_else(|| name.to_owned(), |line| format!("line {line}: {name}"))
    }

    fn widens(&self, name: &str, what: &str) -> Error {
        let line = self.lines.get(name).map_or(String::new(), |line| format!("line {line}: "));
        Error::ProjectWidens {
            path: self.path.clone(),
            what: format!("{line}{what}"),
            persons: self.persons.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
