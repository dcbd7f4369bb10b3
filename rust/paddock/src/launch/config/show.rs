//! What is in force, and where each of it comes from.

use std::path::{Path, PathBuf};

use egress::Entry;
use serde_json::{Value, json};

use super::keys::{KEYS, Key};
use super::{Config, EgressProfile, Text, read_text};
use crate::agent::Agent;
use crate::error::Error;
use crate::launch::Directories;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the person's configuration.
    File(PathBuf, usize),
    /// A line of the project's file.
    Project(PathBuf, usize),
    /// A variable of the environment.
    Variable(&'static str),
    /// The agent's own file, or the one that is shipped.
    AgentFile(Option<PathBuf>),
}

/// One key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Nothing where it is not set and has no default.
    pub(crate) value: Option<Value>,
    /// What it would be if nobody set it, as it would be written.
    pub(crate) default: &'static str,
    pub(crate) origin: Origin,
    /// Where the project's file leaves fewer hosts than the value has.
    pub(crate) fewer_by: Option<Origin>,
}

/// A host that an agent's launch might reach.
#[derive(Clone, Debug)]
pub(crate) struct HostRow {
    pub(crate) host: String,
    pub(crate) origin: Origin,
    /// What the project's file leaves of it.
    pub(crate) remains: Vec<String>,
}

/// The configuration with its sources.
pub(crate) struct Sources {
    pub(crate) config: Config,
    pub(crate) file: PathBuf,
    text: Option<Text>,
}

impl Sources {
    /// Those of a launch in the current directory.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub(crate) fn here(directories: &Directories) -> Result<Self, Error> {
        let file = directories.config_file();
        let unusable = |reason: String| Error::Configuration { path: file.clone(), reason };
        let text =
            read_text(&file)?.map(|text| Text::parse(&text).map_err(unusable)).transpose()?;
        Ok(Self { config: Config::here(directories)?, text, file })
    }

    /// Whether the configuration file is there.
    pub(crate) fn is_there(&self) -> bool {
        self.text.is_some()
    }

    /// Every key: of `agent`, and of each agent that has settings.
    pub(crate) fn rows(&self, agent: &str) -> Vec<Row> {
        let mut agents: Vec<&str> = self.config.agents.keys().map(String::as_str).collect();
        agents.push(agent);
        agents.sort_unstable();
        agents.dedup();
        let general = KEYS.iter().filter(|key| !key.name.contains(".NAME."));
        let mut rows: Vec<Row> = general.map(|key| self.row(key, key.name.to_owned())).collect();
        for agent in agents {
            let of_agents = KEYS.iter().filter(|key| key.name.contains(".NAME."));
            rows.extend(of_agents.map(|key| self.row(key, key.name.replace("NAME", agent))));
        }
        rows
    }

    fn row(&self, key: &Key, name: String) -> Row {
        let default = key.default;
        let value = self.config.value(&name);
        let variable = match name.as_str() {
            "programs.nono" => "PADDOCK_NONO",
            "programs.bwrap" => "PADDOCK_BWRAP",
            _ => "",
        };
        let set = std::env::var_os(variable).filter(|_| !variable.is_empty() && value.is_none());
        if let Some(path) = set.filter(|path| !path.is_empty()) {
            let value = Some(json!(path.to_string_lossy()));
            let origin = Origin::Variable(variable);
            return Row { name, value, default, origin, fewer_by: None };
        }
        if !name.ends_with("hosts") {
            let origin = self.origin(&name);
            return Row { name, value, default, origin, fewer_by: None };
        }
        // The list is the person's still; what is left of it is told of each host.
        let fewer_by = self.origin_in_project(&name);
        let origin = self.origin_in_file(&name);
        Row { name, value, default, origin, fewer_by }
    }

    fn origin(&self, name: &str) -> Origin {
        if let Some(project) = self.origin_in_project(name) {
            return project;
        }
        // An agent that has no word of its own about it has everybody's.
        if let Some(agent) = name.strip_prefix("agents.").and_then(|n| n.strip_suffix(".unix"))
            && self.config.agents.get(agent).is_none_or(|settings| settings.unix.is_none())
        {
            return self.origin("unix");
        }
        self.origin_in_file(name)
    }

    fn origin_in_project(&self, name: &str) -> Option<Origin> {
        let project = self.config.project.as_ref()?;
        Some(Origin::Project(project.path.clone(), *project.lines.get(name)?))
    }

    fn origin_in_file(&self, name: &str) -> Origin {
        let line = self.text.as_ref().and_then(|text| text.line(name));
        line.map_or(Origin::Default, |line| Origin::File(self.file.clone(), line))
    }

    /// The hosts of a launch of `agent`, and those that were taken from it.
    ///
    /// # Errors
    /// As [`Config::hosts_of`].
    pub(crate) fn hosts(&self, name: &str, agent: &Agent) -> Result<Vec<HostRow>, Error> {
        let left = self.config.hosts_of(name, &agent.file.hosts)?;
        let left: Vec<Entry> = left.iter().filter_map(|entry| Entry::parse(entry).ok()).collect();
        let row = |host: &String, origin: Origin| {
            let entry = Entry::parse(host).ok();
            let met = left.iter().filter_map(|left| entry.as_ref()?.meet(left));
            HostRow { host: host.clone(), origin, remains: met.map(|e| e.to_string()).collect() }
        };
        let profile = self.config.egress.profile;
        let of_file = agent.file.hosts.iter().filter(|_| profile == EgressProfile::Agent);
        let of_file = of_file.map(|host| row(host, Origin::AgentFile(agent.source.clone())));
        let listed = self.config.egress.hosts.iter();
        let listed = listed.map(|host| row(host, self.origin_in_file("egress.hosts")));
        let own = self.config.agents.get(name).into_iter().flat_map(|settings| &settings.hosts);
        let key = format!("agents.{name}.hosts");
        let own = own.map(|host| row(host, self.origin_in_file(&key)));
        let listed = listed.chain(own).filter(|_| profile != EgressProfile::None);
        Ok(of_file.chain(listed).collect())
    }
}

impl Config {
    /// The value in force of the key with that whole name.
    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        let path = |path: &Option<PathBuf>| path.as_deref().map(text);
        let paths = |paths: &[PathBuf]| json!(paths.iter().map(|p| text(p)).collect::<Vec<_>>());
        if let Some((agent, key)) = name.strip_prefix("agents.").and_then(|n| n.rsplit_once('.')) {
            let settings = self.agents.get(agent).cloned().unwrap_or_default();
            return match key {
                "program" => path(&settings.program),
                "version" => Some(json!(settings.version?.text())),
                "unix" => Some(json!(self.unix_of(agent).to_string())),
                "hosts" => Some(json!(settings.hosts)),
                "read" => Some(paths(&settings.read)),
                "write" => Some(paths(&settings.write)),
                "arguments" => Some(json!(settings.arguments)),
                "state" => Some(json!(settings.state.to_string())),
                _ => None,
            };
        }
        Some(match name {
            "agent" => json!(self.agent.as_deref().unwrap_or("standin")),
            "tier" => json!(self.tier.unwrap_or_default()),
            "on-violation" => json!(self.on_violation.to_string()),
            "unix" => json!(self.unix.to_string()),
            "shell" => return path(&self.shell),
            "verify.every" => json!(self.verify.every.to_string()),
            "verify.descriptors-every" => json!(self.verify.descriptors_every.to_string()),
            "pins.on-program-change" => json!(self.pins.on_program_change.to_string()),
            "programs.nono" => return path(&self.programs.nono),
            "programs.bwrap" => return path(&self.programs.bwrap),
            "grants.read" => paths(&self.grants.read),
            "grants.write" => paths(&self.grants.write),
            "egress.profile" => json!(self.egress.profile.to_string()),
            "egress.hosts" => json!(self.egress.hosts),
            "egress.exceptions" => json!(self.egress.exceptions),
            "egress.ssh" => json!(self.egress.ssh),
            "git.settings" => json!(self.git.settings.to_string()),
            "herdr.open-in" => json!(self.herdr.open_in.name()),
            "herdr.direction" => json!(self.herdr.direction.name()),
            "herdr.ratio" => json!(self.herdr.ratio.get()),
            _ => return None,
        })
    }
}

fn text(path: &Path) -> Value {
    json!(path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_code() {
        let config = Config::default();
        for key in KEYS {
            let value = config.value(&key.name.replace("NAME", "codex"));
            if key.default.is_empty() {
                // Everybody's word, where an agent has none of its own.
                let everybodys = (key.name == "agents.NAME.unix").then(|| json!("mediated"));
                assert_eq!(value, everybodys, "{}", key.name);
                continue;
            }
            let written = format!("x = {}", key.default);
            let written: toml::Table = toml::from_str(&written).unwrap();
            let written = serde_json::to_value(&written["x"]).unwrap();
            assert_eq!(value, Some(written), "{}", key.name);
        }
    }

    #[test]
    fn every_key_is_read_and_shown() {
        for key in KEYS {
            let name = key.name.replace("NAME", "codex");
            let written = match (key.words, key.default) {
                (words @ [_, ..], default) => {
                    let other = words.iter().rfind(|word| !default.contains(*word)).unwrap();
                    format!("{other:?}")
                }
                _ if key.name.ends_with(".version") => "\"1.2.3\"".into(),
                (_, "{}") => "{ \"a.test\" = \"10.0.0.1\" }".into(),
                (_, "false") => "true".into(),
                (_, "0.5") => "0.3".into(),
                (_, "[]") => "[\"/a\"]".into(),
                (_, "\"250ms\"") => "\"300ms\"".into(),
                (_, "\"2s\"") => "\"1s\"".into(),
                _ => "\"/a\"".into(),
            };
            let config = Config::parse(&format!("{name} = {written}")).unwrap();
            let wanted: toml::Table = toml::from_str(&format!("x = {written}")).unwrap();
            let wanted = serde_json::to_value(&wanted["x"]).unwrap();
            assert_eq!(config.value(&name), Some(wanted), "{name}");
            assert_ne!(config.value(&name), Config::default().value(&name), "{name}");
        }
    }

    #[test]
    fn every_field_is_a_key() {
        // What serde says of a field that it does not know are those that it does.
        let mut fields = 0;
        for (table, above) in [
            ("", ""),
            ("verify", "verify."),
            ("pins", "pins."),
            ("programs", "programs."),
            ("grants", "grants."),
            ("egress", "egress."),
            ("git", "git."),
            ("herdr", "herdr."),
            ("agents.codex", "agents.NAME."),
        ] {
            let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
            let error = toml::from_str::<Config>(&format!("{header}zzz = 1")).unwrap_err();
            let expected = error.message().split_once("expected").unwrap().1;
            for field in expected.split('`').skip(1).step_by(2) {
                fields += 1;
                let whole = format!("{above}{field}");
                let is_known = KEYS
                    .iter()
                    .any(|key| key.name == whole || key.name.starts_with(&format!("{whole}.")));
                assert!(is_known, "{whole}");
            }
        }
        let tables = ["verify", "pins", "programs", "grants", "egress", "git", "herdr", "agents"];
        assert_eq!(fields, KEYS.len() + tables.len(), "and every key is a field");
    }
}
