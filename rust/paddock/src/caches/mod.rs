//! The caches of programs in agents' private homes: what they take up, and freeing it.

mod known;
mod tree;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::Error;
use crate::keeper::members_left;
use crate::launch::{Directories, LaunchId};
use crate::state::stored_launches;
use known::KNOWN;

/// How long a launch waits while its agent's caches are removed.
const TURN_LIMIT: Duration = Duration::from_mins(1);

/// One cache that is there.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) agent: String,
    /// Whose home it is in: `server` or `client`.
    pub(crate) half: String,
    pub(crate) whose: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// What became of a cache.
#[derive(Debug)]
pub(crate) enum Freed {
    Removed,
    /// This launch of its agent lives.
    Running(LaunchId),
    /// A launch of its agent is starting.
    InUse,
    Failed(io::Error),
}

impl Freed {
    /// For scripts.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Running(_) | Self::InUse => "running",
            Self::Failed(_) => "failed",
        }
    }
}

/// Agents that have a private home, by name.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn agents_with_homes(directories: &Directories) -> Result<Vec<String>, Error> {
    let homes = homes(directories);
    let unusable =
        |e: io::Error| Error::DirectoryUnusable { path: homes.clone(), reason: e.to_string() };
    let entries = match std::fs::read_dir(&homes) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unusable)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unusable)?;
        if entry.file_type().map_err(unusable)?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// What was found in an agent's homes.
#[derive(Debug, Default)]
pub(crate) struct FoundCaches {
    pub(crate) caches: Vec<Cache>,
    /// What could not be looked into: the agent can close what is in its home.
    pub(crate) closed: Vec<(PathBuf, io::Error)>,
}

/// The caches in an agent's homes.
pub(crate) fn find(agent: &str, directories: &Directories) -> FoundCaches {
    let mut found = FoundCaches::default();
    for half in ["server", "client"] {
        let path = homes(directories).join(agent).join(half);
        let home = match open_home(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => {
                found.closed.push((path, e));
                continue;
            }
            Ok(home) => home,
        };
        for known in KNOWN {
            let below = Path::new(known.path);
            let measured = match tree::holder_of(home.as_fd(), below) {
                Ok(None) => continue,
                Ok(Some((holder, name))) => {
                    tree::measure(holder.as_fd(), name).map_err(|e| (below.to_owned(), e))
                }
                Err(closed) => Err(closed),
            };
            match measured {
                Ok(bytes) => found.caches.extend(bytes.map(|bytes| Cache {
                    agent: agent.to_owned(),
                    half: half.to_owned(),
                    whose: known.whose,
                    path: path.join(below),
                    bytes,
                })),
                // More than one cache can lie in it.
                Err((at, e)) => {
                    let at = path.join(at);
                    if found.closed.iter().all(|(known, _)| *known != at) {
                        found.closed.push((at, e));
                    }
                }
            }
        }
    }
    found
}

/// Removes caches of one agent, unless a launch of it lives; none starts meanwhile.
pub(crate) fn free(agent: &str, caches: &[Cache], directories: &Directories) -> Vec<Freed> {
    let all = |freed: &dyn Fn() -> Freed| caches.iter().map(|_| freed()).collect();
    if let Some(launch) = living(agent, directories) {
        return all(&|| Freed::Running(launch.clone()));
    }
    let _turn = match turn(agent, directories, FlockOperation::NonBlockingLockExclusive) {
        Ok(Some(turn)) => turn,
        Ok(None) => return all(&|| Freed::InUse),
        Err(e) => return all(&|| Freed::Failed(io::Error::new(e.kind(), e.to_string()))),
    };
    // One that started before the turn was taken.
    if let Some(launch) = living(agent, directories) {
        return all(&|| Freed::Running(launch.clone()));
    }
    let free = |cache: &Cache| {
        let home = homes(directories).join(agent).join(&cache.half);
        let below = cache.path.strip_prefix(&home).map_err(io::Error::other)?;
        let opened = open_home(&home)?;
        match tree::holder_of(opened.as_fd(), below).map_err(|(_, e)| e)? {
            Some((holder, name)) => tree::remove(holder.as_fd(), name),
            None => Ok(()),
        }
    };
    let free = |cache| free(cache).map_or_else(Freed::Failed, |()| Freed::Removed);
    caches.iter().map(free).collect()
}

/// Says that a launch of the agent lives, for as long as the result does: nobody frees
/// the agent's caches meanwhile.
///
/// # Errors
/// When somebody does so now, and does not come to an end.
pub(crate) fn in_use(agent: &str, directories: &Directories) -> io::Result<File> {
    let deadline = Instant::now() + TURN_LIMIT;
    loop {
        match turn(agent, directories, FlockOperation::NonBlockingLockShared)? {
            Some(turn) => return Ok(turn),
            None if Instant::now() >= deadline => {
                return Err(io::Error::other("its caches are being removed (paddock prune)"));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The directory that holds an agent's homes, locked. No agent can: it sees a home, and
/// not what holds it.
fn turn(
    agent: &str,
    directories: &Directories,
    operation: FlockOperation,
) -> io::Result<Option<File>> {
    let file: File = open_home(&homes(directories).join(agent))?.into();
    match flock(&file, operation) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// A launch with the agent's homes that has a keeper, or processes left without one.
fn living(agent: &str, directories: &Directories) -> Option<LaunchId> {
    let (launches, _) = stored_launches(directories);
    let keepers: Vec<_> =
        launches.iter().filter(|launch| launch.is_kept).map(|l| l.record.keeper).collect();
    let of_agent = launches.iter().filter(|launch| launch.record.homes() == agent);
    let mut living =
        of_agent.filter(|l| l.is_kept || !members_left(&l.record, &keepers).is_empty());
    living.next().map(|launch| launch.record.launch.clone())
}

/// No agent can write what holds the homes: up to there a path is what it says.
fn homes(directories: &Directories) -> PathBuf {
    directories.data.join("homes")
}

fn open_home(path: &Path) -> io::Result<OwnedFd> {
    let name = path.file_name().unwrap_or(OsStr::new("."));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let holder = rustix::fs::open(path.parent().unwrap_or(path), flags, rustix::fs::Mode::empty())?;
    tree::open_in(holder.as_fd(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(own: &Directories, agent: &str) -> PathBuf {
        let home = homes(own).join(agent).join("server");
        std::fs::create_dir_all(home.join(".npm/_cacache/content")).unwrap();
        std::fs::create_dir_all(home.join(".config")).unwrap();
        std::fs::write(home.join(".npm/_cacache/content/a"), vec![0; 9_000]).unwrap();
        std::fs::write(home.join(".npmrc"), "").unwrap();
        home
    }

    #[test]
    fn what_is_known_as_a_cache_goes_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        assert!(agents_with_homes(&own).unwrap().is_empty());
        let home = home(&own, "codex");
        assert_eq!(agents_with_homes(&own).unwrap(), ["codex"]);
        let caches = find("codex", &own).caches;
        assert_eq!(caches.len(), 1);
        assert_eq!((caches[0].whose, caches[0].half.as_str()), ("npm", "server"));
        assert!(caches[0].bytes >= 9_000);
        assert!(home.join(".npm/_cacache").exists(), "control: finding removes nothing");
        assert!(matches!(free("codex", &caches, &own)[..], [Freed::Removed]));
        assert!(!home.join(".npm/_cacache").exists());
        assert!(home.join(".npmrc").exists() && home.join(".config").exists());
        assert!(find("codex", &own).caches.is_empty());
    }

    #[test]
    fn what_an_agent_closed_is_told_and_the_rest_is_found() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        if rustix::process::geteuid().is_root() {
            return; // Nothing is closed to it.
        }
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let home = home(&own, "codex");
        std::fs::create_dir_all(home.join(".cargo/registry")).unwrap();
        std::fs::create_dir_all(homes(&own).join("codex/client")).unwrap();
        let close = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(find("codex", &own).caches.len(), 2, "control");
        close(&home.join(".cargo"), 0);
        close(&homes(&own).join("codex/client"), 0);
        let found = find("codex", &own);
        assert_eq!(found.caches.len(), 1);
        assert_eq!(found.caches[0].whose, "npm");
        let closed: Vec<&Path> = found.closed.iter().map(|(path, _)| path.as_path()).collect();
        assert_eq!(closed, [home.join(".cargo"), homes(&own).join("codex/client")]);
        assert!(matches!(free("codex", &found.caches, &own)[..], [Freed::Removed]));
        for path in closed {
            close(path, 0o700);
        }
    }

    #[test]
    fn an_agent_whose_launch_starts_keeps_its_caches() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let home = home(&own, "codex");
        let caches = find("codex", &own).caches;
        let (one, other) = (in_use("codex", &own).unwrap(), in_use("codex", &own).unwrap());
        assert!(matches!(free("codex", &caches, &own)[..], [Freed::InUse]));
        drop(one);
        assert!(matches!(free("codex", &caches, &own)[..], [Freed::InUse]));
        assert!(home.join(".npm/_cacache").exists());
        drop(other);
        assert!(matches!(free("codex", &caches, &own)[..], [Freed::Removed]));
    }
}
