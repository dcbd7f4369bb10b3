//! An agent is described by one file: `agent.toml`, with the two inner policies
//! beside it.

mod catalogue;
mod file;
mod lineage;
mod profile;
mod rule;
mod template;
mod version;

pub(crate) use catalogue::{Agent, STANDIN, known_agents, load};
pub(crate) use file::{AgentFile, Half, LinkKind, LinkSettings};
pub(crate) use profile::check as check_profile;
#[cfg(test)]
pub(crate) use rule::Sandbox;
pub(crate) use rule::{CallersProgram, GateRule, RequestKind};
pub(crate) use template::Values;
pub(crate) use version::Version;
