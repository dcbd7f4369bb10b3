//! `paddock login`, as it is typed.

use std::ffi::OsString;

use clap::Args;

use super::How;
use crate::launch::Tier;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock login codex               prints a link and a code to sign in with\n  \
    paddock login codex -- --with-api-key <key.txt\n  \
    paddock login codex -- status     is it signed in?\n\n\
    What it leaves is in the agent's private home, never in yours: paddock info --paths.\n\
    Exit status: that of the agent's program; 125 Paddock failed, 126 it is not confined and was \
    stopped, 127 it was not found."
)]
pub(crate) struct Login {
    /// The agent
    pub(crate) agent: String,
    /// How much must be in force [default: that of `run`]
    #[arg(long, value_enum)]
    pub(crate) tier: Option<Tier>,
    #[command(flatten)]
    pub(crate) how: How,
    /// Arguments for the agent's own sign-in
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}
