//! How a launch is asked for, by whichever command.

use clap::Args;

// No doc comment: clap would take it for what the command does.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct How {
    /// Print what would be started, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Tell what happens as JSON, a line each, on standard error
    #[arg(long)]
    pub(crate) json: bool,
}
