//! `paddock import`, as it is typed.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock import codex              shows what would be copied, and asks\n  \
    paddock import codex --dry-run\n  \
    paddock import codex --yes --follow-links\n  \
    paddock import codex --from /mnt/backup/home/ann\n\n\
    Credentials that are renewed as they are used are never copied: paddock login signs in.\n\
    Exit status: 0 done, or nothing to do; 125 not so."
)]
pub(crate) struct Import {
    /// The agent
    pub(crate) agent: String,
    /// The directory that takes the place of your home
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// Copy what links lead to
    #[arg(long)]
    pub(crate) follow_links: bool,
    /// Give what is there another name, and copy in its place
    #[arg(long)]
    pub(crate) replace: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print what would be copied, and copy nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
