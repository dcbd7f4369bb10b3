//! `paddock agents`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  paddock agents                    all that there are, a line each\n  \
        paddock agents show codex         its file, as it holds for the version that is here\n  \
        paddock agents check ./my-agent   is it usable? all that is wrong, not only the first\n\n\
        Exit status: 0, or 125 when one is not usable. None of them is run."
)]
pub(crate) struct Agents {
    #[command(subcommand)]
    pub(crate) command: Option<AgentsCommand>,
    #[command(flatten)]
    pub(crate) list: ListAgents,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List the agents that there are
    #[command(after_help = "Examples:\n  paddock agents list\n  \
        paddock agents list --json | jq -r '.agents[] | select(.program) | .name'")]
    List(ListAgents),
    /// Show an agent's file as it holds here: with what it extends, for its program's version
    #[command(after_help = "Examples:\n  paddock agents show codex\n  \
        paddock agents show codex --json | jq .file.hosts")]
    Show(ShowAgent),
    /// Tell all that is wrong with an agent file and its policies
    #[command(after_help = "Examples:\n  paddock agents check ~/.config/paddock/agents/mine\n  \
        paddock agents check mine/agent.toml --json\n\n\
        Exit status: 0 nothing is wrong, 125 something is.")]
    Check(CheckAgent),
}

#[derive(Debug, Args)]
pub(crate) struct ListAgents {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowAgent {
    /// The agent [default: the configured one, else standin]
    pub(crate) agent: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckAgent {
    /// An agent's directory, or the agent.toml in it
    #[arg(value_name = "FILE|DIR")]
    pub(crate) path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
