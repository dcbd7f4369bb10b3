//! An agent is described by one file: `agent.toml`, with the two inner policies
//! beside it.

mod catalogue;
mod check;
mod file;
mod import;
mod keys;
mod lineage;
mod profile;
mod rule;
mod shipped;
mod template;
mod version;

pub(crate) use catalogue::{Agent, MOST, known_agents, load, load_directory, variants};
pub(crate) use check::{Wrong, check_text, line_of};
pub(crate) use file::{AgentFile, Half, HomeOf, LinkKind, LinkSettings};
pub(crate) use import::{Import, ImportHome, Imported, stays_below};
#[cfg(test)]
pub(crate) use keys::KEYS as AGENT_KEYS;
pub(crate) use profile::{blocks_network, check as check_profile, problems as profile_problems};
#[cfg(test)]
pub(crate) use rule::Sandbox;
pub(crate) use rule::{CallersProgram, GateRule, RequestKind};
pub(crate) use shipped::STANDIN;
#[cfg(test)]
pub(crate) use template::NAMES as TEMPLATE_NAMES;
pub(crate) use template::Values;
pub(crate) use version::Version;
