//! `paddock shell`, as it is typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::How;
use crate::launch::Tier;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  paddock shell codex               in this git worktree\n  \
    paddock shell bcdf                in the workspace of that launch, beside it\n  \
    paddock shell codex -- -c 'curl -sI https://example.com'\n\n\
    Exit status: the shell's own; 125 Paddock failed, 126 it is not confined and was stopped, \
    127 the shell was not found.")]
pub(crate) struct Shell {
    /// The agent whose server's policy it has, or a launch of it [default: the agent of `run`]
    #[arg(value_name = "AGENT|LAUNCH")]
    pub(crate) of: Option<String>,
    /// The directory it may write [default: the launch's, else as for `run`]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// How much must be in force [default: the launch's or that of `run`, whichever is stricter]
    #[arg(long, value_enum)]
    pub(crate) tier: Option<Tier>,
    #[command(flatten)]
    pub(crate) how: How,
    /// Arguments for the shell
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}
