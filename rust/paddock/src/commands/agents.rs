//! `paddock agents`. Of what an agent file names nothing is run.

use std::path::{Path, PathBuf};

use confine::escape::escape;
use serde_json::{Value, json};

use crate::agent::{self, Agent};
use crate::cli::{Agents, AgentsCommand, CheckAgent, ListAgents, ShowAgent};
use crate::error::{Error, status};
use crate::launch::{
    Config, Directories, Found, Problem, VersionFrom, agent_program, check_agent, find_self,
    load_agent, version_of,
};
use crate::output::{print, shown};

/// Lists agents, shows one, or looks for what is wrong with one.
pub(crate) fn agents(options: &Agents) -> Result<u8, Error> {
    let directories = Directories::find()?;
    match &options.command {
        None => list(&options.list, &directories),
        Some(AgentsCommand::List(options)) => list(options, &directories),
        Some(AgentsCommand::Show(options)) => show(options, &directories),
        Some(AgentsCommand::Check(options)) => check(options, &directories),
    }
}

/// An agent with the program that it has here.
struct Here {
    agent: Agent,
    program: Result<Found, Error>,
    version_from: Option<VersionFrom>,
}

impl Here {
    fn find(name: &str, config: &Config, directories: &Directories) -> Result<Self, Error> {
        let agent = load_agent(name, config, directories)?;
        let settings = config.agents.get(name);
        let program = find_self().and_then(|own| agent_program(&agent, &own, settings));
        let version_from = program
            .as_ref()
            .ok()
            .and_then(|found| version_of(&found.path, settings))
            .map(|(_, from)| from);
        Ok(Self { agent, program, version_from })
    }

    fn source(&self) -> String {
        self.agent.source.as_ref().map_or("shipped".into(), |path| shown(path))
    }

    fn version(&self) -> Option<&str> {
        self.agent.version.as_ref().map(agent::Version::text)
    }

    fn path(&self) -> Option<&Path> {
        self.program.as_ref().ok().map(|found| found.path.as_path())
    }

    /// What forms it has.
    fn forms(&self) -> Vec<&'static str> {
        let file = &self.agent.file;
        let forms = [("pair", file.pair.is_some()), ("solo", file.solo.is_some())];
        forms.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    /// Its version, and whether it is known to work with it.
    fn described_version(&self) -> String {
        let Some(version) = self.version() else { return "version unknown".into() };
        let known = match self.agent.is_known_to_work() {
            Some(true) => ", known to work",
            Some(false) => ", not known to work",
            None => "",
        };
        format!("{}{known}", safe(version))
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.agent.called(),
            "title": self.agent.file.title,
            "forms": self.forms(),
            "source": self.source(),
            "extends": self.agent.extends(),
            "program": self.path().map(Path::to_string_lossy),
            "version": self.version(),
            "versionFrom": self.version_from.map(VersionFrom::name),
            "knownToWork": self.agent.is_known_to_work(),
            "error": self.program.as_ref().err().map(ToString::to_string),
        })
    }
}

fn list(options: &ListAgents, directories: &Directories) -> Result<u8, Error> {
    let config = Config::load(&directories.config_file())?;
    let names = agent::known_agents(&directories.agents());
    let found: Vec<(String, Result<Here, Error>)> = names
        .into_iter()
        .map(|name| {
            let here = Here::find(&name, &config, directories);
            (name, here)
        })
        .collect();
    if options.json {
        let rows: Vec<Value> = found
            .iter()
            .map(|(name, here)| match here {
                Ok(here) => here.to_json(),
                Err(error) => json!({ "name": name, "error": error.to_string() }),
            })
            .collect();
        print(json!({ "schema": 1, "agents": rows }))?;
    } else {
        let width = found.iter().map(|(name, _)| name.len()).max().unwrap_or(0).min(24);
        for (name, here) in &found {
            let name = safe(name);
            match here {
                Ok(here) => {
                    let (title, forms) = (safe(&here.agent.file.title), here.forms().join(", "));
                    print(format_args!("{name:<width$}  {title} ({forms}; {})", here.source()))?;
                    let program = match here.path() {
                        Some(path) => format!("{} {}", shown(path), here.described_version()),
                        None => "its program was not found".into(),
                    };
                    print(format_args!("{:<width$}  {program}", ""))?;
                }
                Err(error) => print(format_args!("{name:<width$}  not usable: {error}"))?,
            }
        }
    }
    let is_good = found.iter().all(|(_, here)| here.is_ok());
    Ok(if is_good { 0 } else { status::FAILED })
}

fn show(options: &ShowAgent, directories: &Directories) -> Result<u8, Error> {
    let config = Config::load(&directories.config_file())?;
    let configured = config.agent.as_deref();
    let name = options.agent.as_deref().or(configured).unwrap_or(agent::STANDIN);
    let here = Here::find(name, &config, directories)?;
    let text = here.agent.adapter.trim_end();
    if options.json {
        let unreadable = |reason: String| Error::AgentFile { path: PathBuf::from(name), reason };
        let file: toml::Table = toml::from_str(text).map_err(|e| unreadable(e.to_string()))?;
        let mut value = here.to_json();
        value["schema"] = json!(1);
        value["file"] = serde_json::to_value(file).map_err(|e| unreadable(e.to_string()))?;
        print(value)?;
        return Ok(0);
    }
    // Comments of TOML, so that what is printed is an agent file.
    print(format_args!("# {}: {}", safe(here.agent.called()), here.source()))?;
    for base in here.agent.extends() {
        print(format_args!("# extends {base}"))?;
    }
    match here.path() {
        Some(path) => {
            let from = here.version_from.map_or("", VersionFrom::name);
            let from = if from.is_empty() { String::new() } else { format!(" (from {from})") };
            print(format_args!("# {}: {}{from}", shown(path), here.described_version()))?;
        }
        None => print("# its program was not found; what follows holds for any version")?,
    }
    print(format_args!("\n{text}"))?;
    Ok(0)
}

fn check(options: &CheckAgent, directories: &Directories) -> Result<u8, Error> {
    let directory = directory_of(&options.path)?;
    let problems = check_agent(&directory, directories);
    let code = if problems.is_empty() { 0 } else { status::FAILED };
    if options.json {
        let told = |problem: &Problem| json!({ "path": problem.path.to_string_lossy(), "line": problem.line, "what": problem.what });
        let problems: Vec<Value> = problems.iter().map(told).collect();
        print(json!({ "schema": 1, "ok": code == 0, "problems": problems }))?;
        return Ok(code);
    }
    for problem in &problems {
        let line = problem.line.map_or(String::new(), |line| format!(":{line}"));
        // Errors of TOML have several lines.
        let what = problem.what.lines().map(safe).collect::<Vec<_>>().join("\n  ");
        print(format_args!("{}{line}: {what}", shown(&problem.path)))?;
    }
    match problems.len() {
        0 => print(format_args!("{}: nothing is wrong", shown(&directory)))?,
        1 => print("1 problem")?,
        count => print(format_args!("{count} problems"))?,
    }
    Ok(code)
}

/// The directory that is meant: its name is the agent's.
fn directory_of(path: &Path) -> Result<PathBuf, Error> {
    let unusable = |reason: &str| Error::AgentFile { path: path.to_owned(), reason: reason.into() };
    let whole = std::path::absolute(path).map_err(|e| unusable(&e.to_string()))?;
    if whole.is_dir() {
        return Ok(whole);
    }
    match (whole.file_name(), whole.parent()) {
        (Some(name), Some(directory)) if name == "agent.toml" => Ok(directory.to_owned()),
        _ if whole.symlink_metadata().is_err() => Err(unusable("it is not there")),
        _ => Err(unusable("name the agent's directory, or the agent.toml in it")),
    }
}

fn safe(text: &str) -> String {
    escape(text.as_bytes()).to_string()
}
