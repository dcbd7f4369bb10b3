//! `paddock status` and `paddock overlay`.

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock status                    every launch that runs, a line each\n  \
    paddock status --short            for a prompt: 2 confined\n  \
    paddock status --watch --json     an object a line, whenever something changes\n\n\
    Exit status: 0 every launch is confirmed, 126 one is not, 125 it could not be told."
)]
pub(crate) struct Status {
    /// Those that have ended, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Only how many there are of each kind, for a prompt or bar
    #[arg(long, conflicts_with_all = ["json", "all"])]
    pub(crate) short: bool,
    /// Go on, and print anew when something changes
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Keys: ? shows them, q quits.\n\n\
    NO_COLOR=1 takes the colours away; every mark has a word or form of its own beside its colour.")]
pub(crate) struct Overlay {
    /// Draw with ASCII characters alone [default: unless the locale is UTF-8]
    #[arg(long)]
    pub(crate) ascii: bool,
}
