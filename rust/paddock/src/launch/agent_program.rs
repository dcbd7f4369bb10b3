//! Which program an agent runs.

use std::ffi::OsString;
use std::path::PathBuf;

use super::agent_version::version_of;
use super::config::AgentSettings;
use super::programs::find_agent;
use super::{Config, Directories, Found, find_self};
use crate::agent::{self, Agent, Values, Version};
use crate::error::Error;

/// The program of `agent`: as configured, or as its file says.
///
/// # Errors
/// When it is not there or cannot be run.
pub(crate) fn agent_program(
    agent: &Agent,
    paddock: &Found,
    settings: Option<&AgentSettings>,
) -> Result<Found, Error> {
    let mut values = Values::default();
    values.set("paddock", &paddock.path);
    let names = &agent.file.program.names;
    let names: Vec<OsString> = names
        .iter()
        .map(|name| values.fill(name).map_err(|reason| unusable(agent, reason)))
        .collect::<Result<_, _>>()?;
    let configured = settings.and_then(|settings| settings.program.as_deref());
    let mut found = find_agent(&agent.file.name, &names, &agent.file.program.native, configured)?;
    let version = version_of(&found.path, settings).map(|(version, _)| version.text().to_owned());
    found.version =
        version.or_else(|| (found.file == paddock.file).then(|| paddock.version.clone())?);
    Ok(found)
}

/// The agent `name` as it is with the program that is here; where there is none, as it is
/// with any.
///
/// # Errors
/// When there is no such agent, or its file is not usable.
pub(crate) fn load_agent(
    name: &str,
    config: &Config,
    directories: &Directories,
) -> Result<Agent, Error> {
    let agent = agent::load(name, &directories.agents())?;
    let program = agent_program(&agent, &find_self()?, config.agents.get(name));
    let version = program.ok().and_then(|found| Version::parse(&found.version?));
    agent.at(version)
}

/// The program that the agent `name` would run here.
///
/// # Errors
/// When there is no such agent, or no program of it.
pub(crate) fn find_named_agent(
    name: &str,
    config: &Config,
    directories: &Directories,
) -> Result<Found, Error> {
    let agent = agent::load(name, &directories.agents())?;
    agent_program(&agent, &find_self()?, config.agents.get(name))
}

/// The agent's file is not usable.
pub(super) fn unusable(agent: &Agent, reason: String) -> Error {
    let path = agent.source.as_ref().map_or_else(
        || PathBuf::from(format!("{} (shipped)", agent.file.name)),
        |directory| directory.join("agent.toml"),
    );
    Error::AgentFile { path, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_what_holds_for_the_version_that_is_here() {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories::below(&root.path().canonicalize().unwrap());
        let directory = directories.agents().join("own");
        std::fs::create_dir_all(&directory).unwrap();
        let text = "title = \"own\"\nprogram = { names = [\"own\"], versions = \"<2\" }\n\
            solo.argv = [\"one\"]\n[versions.\">=2\".solo]\nargv = [\"two\"]\n";
        std::fs::write(directory.join("agent.toml"), text).unwrap();
        std::fs::write(directory.join("server.json"), "{}").unwrap();
        for (settings, wanted, known) in [
            ("program = \"/bin/sh\"\nversion = \"1.9\"\n", "one", Some(true)),
            ("program = \"/bin/sh\"\nversion = \"2.0.0-beta\"\n", "two", Some(false)),
            ("program = \"/bin/sh\"\n", "one", None),
            // It is not there: what holds is what holds for any.
            ("version = \"2\"\n", "one", None),
        ] {
            let config = Config::parse(&format!("[agents.own]\n{settings}")).unwrap();
            let agent = load_agent("own", &config, &directories).unwrap();
            assert_eq!(agent.file.solo.as_ref().unwrap().argv, [wanted], "{settings}");
            assert_eq!(agent.is_known_to_work(), known, "{settings}");
        }
    }
}
