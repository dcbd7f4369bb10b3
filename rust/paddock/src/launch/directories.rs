//! Where Paddock keeps things (XDG Base Directory Specification), and what
//! makes a directory private enough for them.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The longest path of a socket: `sun_path` is 108 bytes with its NUL
/// (`unix(7)`).
pub(crate) const LONGEST_SOCKET_PATH: usize = 107;

/// The plugin's id in herdr.
const PLUGIN: &str = "paddock";

/// Paddock's own directories. None is made by finding out about them.
#[derive(Clone, Debug)]
pub(crate) struct Directories {
    /// The person's home.
    pub(crate) home: PathBuf,
    /// Settings and own agents.
    pub(crate) config: PathBuf,
    /// Where herdr keeps the settings of the plugin; a configuration there comes first.
    pub(crate) plugin: PathBuf,
    /// Records and ledgers of launches.
    pub(crate) state: PathBuf,
    /// Private homes of agents.
    pub(crate) data: PathBuf,
    /// What set-up installed.
    pub(crate) cache: PathBuf,
    /// Sockets of running launches.
    pub(crate) runtime: PathBuf,
}

impl Directories {
    /// From the caller's environment.
    ///
    /// # Errors
    /// When there is no home directory.
    pub(crate) fn find() -> Result<Self, Error> {
        let home = absolute("HOME").ok_or_else(|| Error::DirectoryUnusable {
            path: PathBuf::from("$HOME"),
            reason: "HOME is not set to an absolute path".into(),
        })?;
        let under = |variable, default: &str| {
            absolute(variable).unwrap_or_else(|| home.join(default)).join("paddock")
        };
        let state = under("XDG_STATE_HOME", ".local/state");
        // The veil replaces /tmp, so what has to be seen inside cannot be there.
        let runtime = match absolute("XDG_RUNTIME_DIR") {
            Some(directory) if directory.is_dir() && !directory.starts_with("/tmp") => {
                directory.join("paddock")
            }
            _ => state.join("run"),
        };
        let settings = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let own = Self {
            plugin: plugin_directory(&settings),
            config: settings.join("paddock"),
            state,
            data: under("XDG_DATA_HOME", ".local/share"),
            cache: under("XDG_CACHE_HOME", ".cache"),
            runtime,
            home,
        };
        // Records, ledgers and nono's own session files are JSON.
        for path in
            [&own.home, &own.config, &own.plugin, &own.state, &own.data, &own.cache, &own.runtime]
        {
            if path.to_str().is_none() {
                let reason = "its path is not UTF-8".into();
                return Err(Error::DirectoryUnusable { path: path.clone(), reason });
            }
        }
        Ok(own)
    }

    /// All below `root`, for tests.
    #[cfg(test)]
    pub(crate) fn below(root: &Path) -> Self {
        let [config, plugin, state, data, cache, runtime] =
            ["config", "plugin", "state", "data", "cache", "runtime"].map(|name| root.join(name));
        Self { home: root.to_owned(), config, plugin, state, data, cache, runtime }
    }

    /// All that are Paddock's own, by their real paths: no agent may have a part of them.
    pub(crate) fn own(&self) -> Vec<PathBuf> {
        let [plugins, persons] = self.config_files();
        let own = [
            &self.config,
            &self.plugin,
            &self.state,
            &self.data,
            &self.cache,
            &self.runtime,
            // Which may be links to elsewhere.
            &plugins,
            &persons,
        ];
        own.map(|own| real(own)).into()
    }

    /// The configuration file in force, wherever this process was started: of the two
    /// the first that is there, else the second.
    pub(crate) fn config_file(&self) -> PathBuf {
        let [plugins, persons] = self.config_files();
        if is_there(&plugins) { plugins } else { persons }
    }

    /// The other configuration file, where both are there: nothing reads it.
    pub(crate) fn unread_config_file(&self) -> Option<PathBuf> {
        let [plugins, persons] = self.config_files();
        let is_another =
            is_there(&plugins) && is_there(&persons) && real(&plugins) != real(&persons);
        is_another.then_some(persons)
    }

    fn config_files(&self) -> [PathBuf; 2] {
        [&self.plugin, &self.config].map(|directory| directory.join("config.toml"))
    }

    /// A person's own agents.
    pub(crate) fn agents(&self) -> PathBuf {
        self.config.join("agents")
    }

    /// One directory per launch, with its record and ledger.
    pub(crate) fn launches(&self) -> PathBuf {
        self.state.join("launches")
    }

    /// What was recorded of agents' policies and programs.
    pub(crate) fn pins(&self) -> PathBuf {
        self.state.join("pins")
    }
}

/// `path` without symbolic links, as far as it is there.
pub(crate) fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    let Some((there, real)) = found else { return path.to_owned() };
    match path.strip_prefix(there) {
        // Not `join` with nothing, which would add a slash.
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    }
}

/// Where herdr keeps the plugin's settings: as it says, to what it runs itself; else
/// where it keeps them by default, so that a launch in a terminal finds the same.
fn plugin_directory(settings: &Path) -> PathBuf {
    let told = absolute("HERDR_PLUGIN_CONFIG_DIR");
    let is_ours = std::env::var_os("HERDR_PLUGIN_ID").is_some_and(|id| id == PLUGIN);
    told.filter(|_| is_ours).unwrap_or_else(|| settings.join("herdr/plugins/config").join(PLUGIN))
}

/// Whether something is at `path`, which may be a link to nowhere, or unreadable.
fn is_there(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(e) => !matches!(e.kind(), NotFound | NotADirectory),
    }
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|p| p.is_absolute())
}

/// What to do about a directory that somebody put there.
pub(crate) const LOOK: &str = "see what it is, then move it away: ls -ld";

/// Makes sure that `path` is a directory that only this user can use: owned by
/// it, mode 0700, and no symbolic link. What is missing is made.
///
/// # Errors
/// When it is not private, or cannot be made.
pub(crate) fn private_directory(path: &Path) -> Result<(), Error> {
    let unusable =
        |e: io::Error| Error::DirectoryUnusable { path: path.to_owned(), reason: e.to_string() };
    let exposed =
        |reason, remedy| Err(Error::DirectoryNotPrivate { path: path.to_owned(), reason, remedy });
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(unusable)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(unusable(e)),
    }
    let metadata = std::fs::symlink_metadata(path).map_err(unusable)?;
    if !metadata.is_dir() {
        return exposed("it is a symbolic link or no directory", LOOK);
    }
    if metadata.uid() != rustix::process::getuid().as_raw() {
        return exposed("it belongs to another user", LOOK);
    }
    if metadata.mode() & 0o077 != 0 {
        return exposed("others can use it", "chmod 700");
    }
    Ok(())
}

/// Refuses a path that no socket can have.
///
/// # Errors
/// By how many bytes it is too long.
pub(crate) fn check_socket_path(path: &Path) -> Result<(), Error> {
    match path.as_os_str().len().checked_sub(LONGEST_SOCKET_PATH) {
        Some(excess) if excess > 0 => Err(Error::SocketPath { path: path.to_owned(), excess }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_private_directory_of_ones_own_will_do() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        private_directory(&path).unwrap();
        private_directory(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);

        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o750))
            .unwrap();
        assert!(matches!(private_directory(&path), Err(Error::DirectoryNotPrivate { .. })));

        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path().join("a"), &link).unwrap();
        assert!(matches!(private_directory(&link), Err(Error::DirectoryNotPrivate { .. })));

        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(private_directory(&file).is_err());
    }

    #[test]
    fn the_plugins_configuration_comes_first_where_there_is_one() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let directories = Directories::below(&root);
        let [plugins, persons] = directories.config_files();
        assert_eq!(directories.config_file(), persons, "there is none");
        for file in [&persons, &plugins] {
            std::fs::create_dir(file.parent().unwrap()).unwrap();
        }
        std::fs::write(&persons, "").unwrap();
        assert_eq!(
            (directories.config_file(), directories.unread_config_file()),
            (persons.clone(), None)
        );
        // One that leads nowhere is one, too: it is not passed over.
        std::os::unix::fs::symlink(root.join("nowhere"), &plugins).unwrap();
        assert_eq!(directories.config_file(), plugins);
        let refused =
            super::super::Config::load(&directories.config_file()).unwrap_err().to_string();
        assert!(refused.ends_with("it is a link that leads nowhere"), "{refused}");
        assert_eq!(directories.unread_config_file(), Some(persons.clone()));
        std::fs::remove_file(&plugins).unwrap();
        std::os::unix::fs::symlink(&persons, &plugins).unwrap();
        assert_eq!(directories.unread_config_file(), None, "they are the same");
    }

    #[test]
    fn what_a_configuration_is_linked_to_is_paddocks_own() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let directories = Directories::below(&root);
        std::fs::create_dir(&directories.config).unwrap();
        std::fs::create_dir(root.join("dotfiles")).unwrap();
        let target = root.join("dotfiles/paddock.toml");
        std::fs::write(&target, "").unwrap();
        assert!(!directories.own().contains(&target), "control");
        std::os::unix::fs::symlink(&target, directories.config.join("config.toml")).unwrap();
        assert!(directories.own().contains(&target));
    }

    #[test]
    fn the_longest_socket_path_is_107_bytes() {
        let of = |n: usize| PathBuf::from(format!("/{}", "x".repeat(n - 1)));
        assert!(check_socket_path(&of(107)).is_ok());
        assert!(matches!(check_socket_path(&of(108)), Err(Error::SocketPath { excess: 1, .. })));
    }
}
