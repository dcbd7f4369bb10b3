//! `paddock config`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show what is in force here, and where each value comes from
    #[command(after_help = "Examples:\n  paddock config show\n  \
        paddock config show codex         its settings and hosts, too\n  \
        paddock config show --json | jq -r '.keys[] | select(.from != \"default\") | .name'")]
    Show(Show),
    /// Print the path of the configuration file that is in force
    Path,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The agent whose settings and hosts are shown [default: the configured one, else standin]
    pub(crate) agent: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
