//! A person grants an agent a path: checked as a launch checks it, kept in the
//! configuration, and told to whoever asked.

use std::path::Path;

use serde_json::{Value, json};

use super::grant::{Granted, ask, keep};
use crate::error::Error;
use crate::keeper::{Request, Scope, Wanted};
use crate::launch::{Access, Config, Directories, Kept};
use crate::output::shown;
use crate::state::Stored;

/// Refuses what a path cannot be granted for.
///
/// # Errors
/// When that was asked for.
pub(super) fn check_scope(is_for_later: bool) -> Result<(), Error> {
    if is_for_later {
        return Ok(());
    }
    let reason = "a path is granted with --always or not at all: a sandbox that runs cannot be \
        widened (Landlock), so only later launches have it";
    Err(Error::Grant { reason: reason.into() })
}

/// Grants what the absolute `path` leads to.
///
/// # Errors
/// When a launch would not have it, or it cannot be kept.
pub(super) fn grant_path(
    path: &Path,
    write: bool,
    launch: &Stored,
    directories: &Directories,
) -> Result<Granted, Error> {
    let agent = &launch.record.agent;
    let config = Config::load(&directories.config_file())?;
    let kept = Kept::of_agent(agent, launch.record.tier, &config, directories)?;
    let access = if write { Access::ReadWrite } else { Access::Read };
    let real = kept
        .check(path, access)
        .map_err(|reason| Error::Grant { reason: format!("the path {}: {reason}", shown(path)) })?;
    let key = if write { "write" } else { "read" };
    keep(key, &real.to_string_lossy(), launch, directories)
        .map_err(|e| Error::Grant { reason: e.to_string() })?;
    let wanted = Wanted::Path { path: real.clone(), write };
    let told = ask(launch, &Request::Grant { wanted, scope: Scope::Always });
    let leads = if real == path { String::new() } else { format!("{} leads to ", shown(path)) };
    let access = if write { "read and written" } else { "read" };
    let mut text = format!(
        "{leads}{}: may be {access} by {agent}'s later launches, until it is removed from \
         config.toml; a sandbox that runs cannot be widened\n  next: paddock run {agent}",
        shown(&real)
    );
    let mut answer = match told {
        Ok(answer) => answer,
        Err(e) => {
            let why = if let Error::Grant { reason } = e { reason } else { e.to_string() };
            text = format!("{text}\n  whoever asked for it was not told: {why}");
            json!({ "ok": true, "asked": 0 })
        }
    };
    answer["path"] = Value::from(real.to_string_lossy());
    Ok(Granted { text, answer, is_done: true })
}
