//! `paddock resume`, as it is typed.

use std::ffi::OsString;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock resume                    the newest launch of this workspace that has ended\n  \
    paddock resume bcdf               the launch whose id starts so\n  \
    paddock resume bcdf -- \"and now the tests\"\n\n\
    Exit status: as of paddock run."
)]
pub(crate) struct Resume {
    /// The launch, or the start of its id [default: the newest of this workspace that has ended]
    pub(crate) launch: Option<String>,
    /// Print what would be started, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Tell what happens as JSON, a line each, on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// More arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}
