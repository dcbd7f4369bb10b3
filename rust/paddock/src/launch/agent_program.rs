//! The program of an agent that is named.

use super::{Config, Directories, Found, find_agent, find_self};
use crate::agent::{self, Values};
use crate::error::Error;

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
    let mut values = Values::default();
    values.set("paddock", find_self()?.path);
    let names: Vec<_> =
        agent.file.program.names.iter().filter_map(|n| values.fill(n).ok()).collect();
    let configured = config.agents.get(name).and_then(|a| a.program.as_deref());
    find_agent(name, &names, &agent.file.program.native, configured)
}
