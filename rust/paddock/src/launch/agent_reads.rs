//! The paths that an agent file has its sandboxes read: which of them may be.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use super::directories::real;
use super::granted::Kept;
use super::plan::Access;
use super::workspace::{SECRET, SYSTEM};
use super::{Directories, agent_program::unusable};
use crate::agent::Agent;
use crate::error::Error;
use crate::output::shown;

/// Directories of which no part is anybody's to read: devices, sockets, processes.
const NO_PART: [&str; 5] = ["/dev", "/proc", "/root", "/run", "/sys"];

impl Kept {
    /// What of the agent's paths is there, each with whether it is a file.
    ///
    /// # Errors
    /// The first that no agent may read, or that leads elsewhere.
    pub(super) fn reads_of(
        &self,
        agent: &Agent,
        directories: &Directories,
    ) -> Result<Vec<(PathBuf, bool)>, Error> {
        let mut found = Vec::new();
        for text in &agent.file.read {
            let refused = |reason| unusable(agent, format!("read: {text}: {reason}"));
            let path = expand(text, &directories.home).map_err(refused)?;
            refuse_too_much(&path, directories).map_err(refused)?;
            match path.symlink_metadata() {
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                _ => {
                    let there = self.check(&path, Access::Read).map_err(refused)?;
                    if there != path {
                        let reason = format!("it leads to {}", shown(&there));
                        return Err(refused(reason));
                    }
                    let is_file = !path.is_dir();
                    found.push((path, is_file));
                }
            }
        }
        Ok(found)
    }
}

/// The path that is meant; `~/` is the person's home.
///
/// # Errors
/// When it is no plain absolute path.
pub(crate) fn expand(text: &str, home: &Path) -> Result<PathBuf, String> {
    let path = match text.strip_prefix("~/") {
        // Where it is by a link, the system has it so.
        Some(below) => real(home).join(below),
        None => PathBuf::from(text),
    };
    let is_plain = path.components().all(|part| !matches!(part, Component::ParentDir));
    if path.is_absolute() && is_plain {
        // Without doubled and trailing slashes.
        return Ok(path.components().collect());
    }
    Err("it is no absolute path and not below ~/, or has `..` in it".into())
}

/// Refuses what holds, or is part of, what is nobody's to read.
///
/// # Errors
/// What it is.
pub(crate) fn refuse_too_much(path: &Path, directories: &Directories) -> Result<(), String> {
    if SYSTEM.iter().any(|system| Path::new(system).starts_with(path))
        || NO_PART.iter().any(|none| path.starts_with(none))
    {
        return Err("it is a directory of the system".into());
    }
    if real(&directories.home).starts_with(path) {
        return Err("it holds your home directory".into());
    }
    let secrets = SECRET.map(|secret| directories.home.join(secret));
    let secrets = secrets.iter().flat_map(|secret| [real(secret), secret.clone()]);
    match secrets.into_iter().find(|secret| path.starts_with(secret) || secret.starts_with(path)) {
        Some(secret) => Err(format!("keys and settings are in {}", shown(&secret))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_file_may_have_read_is_no_secret_and_not_too_much() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("keys")).unwrap();
        std::os::unix::fs::symlink(home.join("keys"), home.join(".gnupg")).unwrap();
        let directories = Directories::below(&home);
        let of = |text: &str| {
            expand(text, &home).and_then(|path| {
                refuse_too_much(&path, &directories)?;
                Ok(path)
            })
        };
        assert_eq!(of("~/.local//share/agent/").unwrap(), home.join(".local/share/agent"));
        assert_eq!(of("/opt/agent").unwrap(), Path::new("/opt/agent"));
        for (text, reason) in [
            ("~/.ssh", "keys"),
            ("~/.config/agent", "keys"),
            ("~/keys/x", "keys"),
            ("~/.gnupg/x", "keys"),
            ("~/", "home"),
            ("/", "system"),
            ("/usr", "system"),
            ("/run/user/1000", "system"),
            ("/dev/pts", "system"),
            ("agent", "absolute"),
            ("~agent/x", "absolute"),
            ("~", "absolute"),
            ("/opt/../etc", "absolute"),
            ("", "absolute"),
        ] {
            let refused = of(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
