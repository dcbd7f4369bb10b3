//! The directories and files of a launch: made at its start, gone at its end.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use warden::Link;

use super::home;
use crate::caches;
use crate::error::Error;
use crate::launch::{
    Directories, Plan, make_holder_of_homes, make_private_home, on_host, private_directory,
};

/// What a launch has on disk while it lives. Dropping it removes everything
/// but the record and the ledger.
pub(super) struct Stage {
    launch: PathBuf,
    state: PathBuf,
    temporary: Vec<PathBuf>,
    /// Says that the launch directory is in use, also to those who keep their records
    /// elsewhere.
    _in_use: File,
    /// Says that the agent's homes are in use: nobody frees its caches.
    _homes_in_use: File,
}

impl Stage {
    /// Makes the launch directory, the private homes and temporary directories,
    /// and writes the policies that nono will read.
    pub(super) fn set(plan: &Plan, directories: &Directories) -> Result<Self, Error> {
        private_directory(&directories.runtime)?;
        private_directory(&directories.state)?;
        private_directory(&directories.launches())?;
        let path = make_holder_of_homes(directories, &plan.agent)?;
        let homes_in_use = caches::in_use(&plan.agent.file.name, directories)
            .map_err(|e| Error::DirectoryUnusable { path, reason: e.to_string() })?;
        let client = plan.client.as_ref().map(|client| &client.half);
        for half in [&plan.server].into_iter().chain(client) {
            make_private_home(directories, &plan.agent, &half.home)?;
            home::furnish(&half.home, &half.directories, &half.seeds)?;
        }

        let paths = &plan.paths;
        let inner: Vec<String> = plan.inner_layers().iter().map(ToString::to_string).collect();
        // The id is random: a directory that is there already is not ours.
        make(&paths.state)?;
        make(&paths.launch)?;
        let in_use =
            take(&paths.launch).and_then(|taken| taken.ok_or(io::ErrorKind::WouldBlock.into()));
        let stage = Self {
            launch: paths.launch.clone(),
            state: paths.state.clone(),
            temporary: inner.iter().map(|layer| paths.temporary(layer)).collect(),
            _in_use: in_use.map_err(|e| Error::DirectoryUnusable {
                path: paths.launch.clone(),
                reason: e.to_string(),
            })?,
            _homes_in_use: homes_in_use,
        };
        make(&paths.inside)?;
        for directory in ["profiles", "nono", "canary", "bin"] {
            make(&paths.inside.join(directory))?;
        }
        make(&paths.nono("pen"))?;
        for layer in &inner {
            make(&paths.nono(layer))?;
        }
        make(&paths.link_folder())?;
        let bridge = matches!(plan.link(), Some(Link::Stdio(_))).then(|| paths.bridge());
        let clients = container_clients().map(|client| paths.programs().join(client));
        for own in bridge.into_iter().chain([paths.programs().join("paddock")]).chain(clients) {
            std::os::unix::fs::symlink(&plan.programs.warden.path, &own)
                .map_err(|e| Error::DirectoryUnusable { path: own, reason: e.to_string() })?;
        }
        make(&paths.canaries_in_pen())?;
        make(&paths.canaries_in_veil())?;
        for directory in &stage.temporary {
            make(directory)?;
        }
        for directory in &plan.sockets {
            make(&on_host(directory, paths))?;
        }
        for (layer, text) in plan.agent.profiles.all() {
            write_new(&paths.profile(layer), text.as_bytes())?;
        }
        Ok(stage)
    }
}

/// Clients of container engines that the person has: inside, each is one that says why
/// there is none.
fn container_clients() -> impl Iterator<Item = &'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    warden::CONTAINER_CLIENTS.into_iter().filter(move |client| {
        std::env::split_paths(&path).any(|directory| directory.join(client).is_file())
    })
}

impl Drop for Stage {
    fn drop(&mut self) {
        for directory in self.temporary.iter().chain([&self.launch]) {
            let _ = remove_tree(directory);
        }
        // Goes only when it is empty: a start that failed before its record.
        let _ = std::fs::remove_dir(&self.state);
    }
}

/// Takes a launch directory for this process's life; `None` when another has it
/// (`flock(2)`).
///
/// # Errors
/// When it cannot be opened, or is a link.
pub(super) fn take(directory: &Path) -> io::Result<Option<File>> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(directory)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn make(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|e| Error::DirectoryUnusable { path: path.to_owned(), reason: e.to_string() })
}

/// Writes a file that was not there.
pub(super) fn write_new(path: &Path, text: &[u8]) -> Result<(), Error> {
    crate::files::write_new(path, text)
        .map(|_| ())
        .map_err(|e| Error::DirectoryUnusable { path: path.to_owned(), reason: e.to_string() })
}

/// Removes a tree that an agent may have left in any state. The standard
/// library does not follow links in it; directories that their owner may not
/// search are opened up first.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => {
            open_up(path, 0);
            std::fs::remove_dir_all(path)
        }
    }
}

fn open_up(path: &Path, depth: usize) {
    // Nothing in the launch runs any more, so nobody swaps what is walked here.
    let is_directory = std::fs::symlink_metadata(path).is_ok_and(|m| m.is_dir());
    if !is_directory || depth > 200 {
        return;
    }
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&entry.path(), depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_was_closed_is_removed_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("keep"), "x").unwrap();
        let tree = root.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::write(tree.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("a/link")).unwrap();
        std::fs::set_permissions(tree.join("a"), std::fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("keep").exists());
    }
}
