//! The one directory tree that the agent may write, found without running git:
//! a repository's own configuration can name programs to run.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Directories;
use super::directories::real;
use super::git::Repository;
use crate::error::Error;
use crate::output::shown;

/// A workspace that has been checked.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    /// Its path, without symbolic links.
    pub(crate) root: PathBuf,
    /// Its repository.
    pub(crate) git: Repository,
}

/// Directories of the system: none of them, nor anything that contains one, is
/// anybody's workspace.
pub(super) const SYSTEM: [&str; 14] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys",
    "/tmp", "/usr", "/var",
];

/// Directories below home that hold keys and settings.
pub(super) const SECRET: [&str; 7] =
    [".aws", ".config", ".docker", ".gnupg", ".kube", ".nono", ".ssh"];

impl Workspace {
    /// The workspace `named` by the person, or the git worktree around the
    /// current directory, or that directory itself.
    ///
    /// # Errors
    /// When it is no directory, too much, or not where it seems to be.
    pub(crate) fn find(named: Option<&Path>, directories: &Directories) -> Result<Self, Error> {
        let start = match named {
            Some(path) => {
                refuse_link(path)?;
                path.to_owned()
            }
            None => std::env::current_dir().map_err(|e| Error::Workspace {
                path: PathBuf::from("."),
                reason: format!("the current directory cannot be told: {e}"),
            })?,
        };
        let unusable = |reason: String| Error::Workspace { path: start.clone(), reason };
        let start_real = start.canonicalize().map_err(|e| unusable(e.to_string()))?;
        let root = if named.is_some() {
            start_real
        } else {
            worktree_around(&start_real, directories).unwrap_or(start_real)
        };
        check(&root, directories)?;
        Ok(Self { git: Repository::of(&root), root })
    }

    /// Whether programs in it find a git repository: what is above it is not there.
    pub(crate) fn is_git(&self) -> bool {
        self.root.join(".git").exists()
    }

    /// Refuses a workspace to which a path without links led once, and now leads by one:
    /// an agent that may write above it can have put it there.
    ///
    /// # Errors
    /// Where it leads.
    pub(super) fn refuse_another_than(&self, recorded: Option<&Path>) -> Result<(), Error> {
        match recorded {
            Some(recorded) if recorded != self.root => Err(Error::Workspace {
                path: recorded.to_owned(),
                reason: format!("it leads to {} by now", shown(&self.root)),
            }),
            _ => Ok(()),
        }
    }
}

fn refuse_link(path: &Path) -> Result<(), Error> {
    let unusable = |reason: String| Error::Workspace { path: path.to_owned(), reason };
    // A trailing slash would make the kernel follow the link.
    let plain: PathBuf = path.components().collect();
    let metadata = std::fs::symlink_metadata(&plain).map_err(|e| unusable(e.to_string()))?;
    if metadata.is_symlink() {
        let target = plain.canonicalize().map_err(|e| unusable(e.to_string()))?;
        return Err(unusable(format!(
            "it is a symbolic link to {}; name that directory if you mean it",
            shown(&target)
        )));
    }
    Ok(())
}

fn check(root: &Path, directories: &Directories) -> Result<(), Error> {
    let refuse =
        |reason: &str| Err(Error::Workspace { path: root.to_owned(), reason: reason.to_owned() });
    let metadata = match std::fs::metadata(root) {
        Ok(metadata) => metadata,
        Err(e) => return refuse(&e.to_string()),
    };
    if !metadata.is_dir() {
        return refuse("it is not a directory");
    }
    // Records, ledgers and nono's own session files are JSON.
    if root.to_str().is_none() {
        return refuse("its path is not UTF-8");
    }
    // nono takes a list there: what follows the comma would be a grant, too.
    if root.as_os_str().as_bytes().contains(&b',') {
        return refuse("its path has a comma, which nono takes for a separator");
    }
    if root == Path::new("/") {
        return refuse("it is the whole file system");
    }
    if root == real(&directories.home) {
        return refuse("it is your home directory; choose a directory in it");
    }
    if real(&directories.home).starts_with(root) {
        return refuse("it contains your home directory");
    }
    if SYSTEM.iter().any(|system| Path::new(system).starts_with(root)) {
        return refuse("it is a directory of the system");
    }
    if SYSTEM.iter().any(|s| !matches!(*s, "/tmp" | "/var" | "/root") && root.starts_with(s)) {
        return refuse("it is inside a directory of the system");
    }
    for own in directories.own() {
        if own.starts_with(root) || root.starts_with(&own) {
            return refuse(&format!("it overlaps Paddock's own directory {}", shown(&own)));
        }
    }
    for secret in SECRET {
        let secret = real(&directories.home.join(secret));
        if root.starts_with(&secret) {
            return refuse(&format!("it is inside {}", shown(&secret)));
        }
    }
    if rustix::fs::access(root, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err()
    {
        return refuse("it is not writable for you");
    }
    Ok(())
}

/// The nearest directory at or above `start` that holds `.git`, short of home
/// and of file systems and owners other than `start`'s.
fn worktree_around(start: &Path, directories: &Directories) -> Option<PathBuf> {
    let home = directories.home.canonicalize().ok();
    let owner = std::fs::metadata(start).ok()?;
    for directory in start.ancestors() {
        let metadata = std::fs::metadata(directory).ok()?;
        if home.as_deref() == Some(directory)
            || metadata.uid() != owner.uid()
            || metadata.dev() != owner.dev()
        {
            return None;
        }
        if std::fs::symlink_metadata(directory.join(".git")).is_ok_and(|m| !m.is_symlink()) {
            return Some(directory.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(home: &Path) -> Directories {
        Directories {
            home: home.to_owned(),
            config: home.join(".config/paddock"),
            plugin: home.join(".config/herdr/plugins/config/paddock"),
            state: home.join(".local/state/paddock"),
            data: home.join(".local/share/paddock"),
            cache: home.join(".cache/paddock"),
            runtime: home.join("run/paddock"),
        }
    }

    fn reason(result: Result<Workspace, Error>) -> String {
        match result {
            Err(Error::Workspace { reason, .. }) => reason,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap().join("home");
        for directory in ["work", "a,b", ".ssh/x", ".config/paddock/x", "run"] {
            std::fs::create_dir_all(home.join(directory)).unwrap();
        }
        let own = directories(&home);
        let find = |path: &Path| Workspace::find(Some(path), &own);
        assert_eq!(find(&home.join("work")).unwrap().root, home.join("work"), "control");
        for (path, wanted) in [
            (PathBuf::from("/"), "whole file system"),
            (home.clone(), "home directory"),
            (root.path().to_owned(), "contains your home"),
            (PathBuf::from("/usr"), "directory of the system"),
            (PathBuf::from("/usr/lib"), "inside a directory of the system"),
            (PathBuf::from("/var"), "directory of the system"),
            (home.join(".ssh"), ".ssh"),
            (home.join(".ssh/x"), ".ssh"),
            (home.join(".config/paddock/x"), "Paddock's own"),
            (home.join("run"), "Paddock's own"),
            (home.join("none"), "No such file"),
            (home.join("a,b"), "comma"),
        ] {
            let reason = reason(find(&path));
            assert!(reason.contains(wanted), "{}: {reason}", path.display());
        }
    }

    #[test]
    fn a_link_is_refused_and_its_target_named() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        std::fs::create_dir(home.join("real")).unwrap();
        std::os::unix::fs::symlink(home.join("real"), home.join("link")).unwrap();
        let own = directories(&home.join("nobody"));
        for path in ["link", "link/"] {
            let reason = reason(Workspace::find(Some(&home.join(path)), &own));
            assert!(reason.contains("real") && reason.contains("symbolic link"), "{reason}");
        }
    }

    #[test]
    fn the_worktree_around_a_directory_is_found_short_of_home() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("code/app/.git")).unwrap();
        std::fs::create_dir_all(home.join("code/app/src/deep")).unwrap();
        std::fs::create_dir_all(home.join(".git")).unwrap();
        let own = directories(&home);
        assert_eq!(
            worktree_around(&home.join("code/app/src/deep"), &own),
            Some(home.join("code/app"))
        );
        assert_eq!(worktree_around(&home.join("code"), &own), None);
    }
}
