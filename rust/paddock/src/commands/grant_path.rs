//! A person grants an agent a path: checked as a launch checks it, kept in the
//! configuration, and told to whoever asked.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::grant::{Granted, ask, keep};
use crate::error::Error;
use crate::keeper::{Request, Scope, Wanted};
use crate::launch::{Access, Config, Directories, Kept, real};
use crate::output::{quoted, shown};
use crate::state::{Stored, stored_launches};

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
    // Between what the person was shown and this, an agent may have put a link there.
    if real != without_links_of_agents(path, &agents_own(&config, directories)) {
        let (was, is) = (shown(path), shown(&real));
        let reason = format!(
            "the path {was} has a link in it that an agent may have made, and leads to {is}; if \
             you mean that: paddock grant {} path {}{} --always",
            launch.record.launch,
            quoted(&is),
            if write { " --write" } else { "" },
        );
        return Err(Error::Grant { reason });
    }
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

/// Where agents may write, links included.
fn agents_own(config: &Config, directories: &Directories) -> Vec<PathBuf> {
    let workspaces = stored_launches(directories).0.into_iter().map(|l| l.record.workspace);
    let of_agents = config.agents.values().flat_map(|agent| &agent.write);
    let granted = config.grants.write.iter().chain(of_agents).cloned();
    workspaces.chain(granted).chain([real(&directories.data)]).collect()
}

/// Where the absolute `path` leads, had no agent made a link: one that lies where
/// agents may write is taken for what it seems.
fn without_links_of_agents(path: &Path, agents_own: &[PathBuf]) -> PathBuf {
    let mut led_to = PathBuf::from("/");
    for part in path.components().skip(1) {
        let is_an_agents = agents_own.iter().any(|own| led_to.starts_with(own));
        led_to.push(part);
        if !is_an_agents && let Ok(real) = led_to.canonicalize() {
            led_to = real;
        }
    }
    led_to
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_of_a_persons_is_followed_and_one_of_an_agents_is_not() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for directory in ["ws/there", "secret/below"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        symlink(root.join("secret"), root.join("ws/link")).unwrap();
        symlink(root.join("ws"), root.join("mine")).unwrap();
        let own = [root.join("ws")];
        for (path, led_to) in [
            ("secret/below", "secret/below"),
            ("mine/there", "ws/there"),
            ("ws/link", "ws/link"),
            ("ws/link/below", "ws/link/below"),
            ("mine/link/below", "ws/link/below"),
            ("ws/there/../link", "ws/there/../link"),
        ] {
            assert_eq!(without_links_of_agents(&root.join(path), &own), root.join(led_to));
        }
    }
}
