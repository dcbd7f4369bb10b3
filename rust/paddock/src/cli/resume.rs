//! `paddock resume`, as it is typed.

use std::ffi::OsString;

use clap::Args;

use super::How;
use crate::launch::Tier;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock resume                    the newest launch of this workspace that has ended\n  \
    paddock resume bcdf               the launch whose id starts so\n  \
    paddock resume bcdf --tier isolated\n  \
    paddock resume bcdf -- \"and now the tests\"\n\n\
    Exit status: as of paddock run."
)]
pub(crate) struct Resume {
    /// The launch, or the start of its id [default: the newest of this workspace that has ended]
    pub(crate) launch: Option<String>,
    /// How much must be in force [default: the launch's or that of `run`, whichever is stricter]
    #[arg(long, value_enum)]
    pub(crate) tier: Option<Tier>,
    #[command(flatten)]
    pub(crate) how: How,
    /// More arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}
