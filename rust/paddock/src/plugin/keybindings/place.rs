//! Where herdr and its configuration are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CHECK_LIMIT, KeybindingError};

/// Whose configuration is changed, and who checks it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file that herdr reads.
    pub(super) config: PathBuf,
    /// herdr's program.
    pub(super) herdr: PathBuf,
    /// In which it has to answer.
    pub(super) limit: Duration,
}

impl Place {
    /// As herdr itself would find its configuration, from the same environment; of
    /// programs the one that runs the plugin comes first.
    ///
    /// # Errors
    /// When one of them is not to be found.
    pub(crate) fn find() -> Result<Self, KeybindingError> {
        Self::find_by(&|name| std::env::var_os(name))
    }

    pub(super) fn find_by(
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, KeybindingError> {
        Ok(Self { config: config(variable)?, herdr: program(variable)?, limit: CHECK_LIMIT })
    }
}

fn config(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, KeybindingError> {
    let absolute = |name: &str, path: OsString| {
        let path = PathBuf::from(path);
        if path.is_absolute() {
            return Ok(path);
        }
        // herdr takes it from where its server was started, which is not known here.
        Err(KeybindingError::NoPlace { reason: format!("{name} is not an absolute path") })
    };
    if let Some(file) = variable("HERDR_CONFIG_PATH") {
        return absolute("HERDR_CONFIG_PATH", file);
    }
    let directory = if let Some(directory) = variable("XDG_CONFIG_HOME") {
        absolute("XDG_CONFIG_HOME", directory)?
    } else {
        let home = variable("HOME")
            .ok_or_else(|| KeybindingError::NoPlace { reason: "HOME is not set".into() })?;
        absolute("HOME", home)?.join(".config")
    };
    Ok(directory.join("herdr/config.toml"))
}

fn program(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, KeybindingError> {
    let mut looked = Vec::new();
    let named = variable("HERDR_BIN_PATH").filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = named {
        // What the kernel calls a program that was replaced by a new one.
        let replaced = path.to_str().and_then(|path| path.strip_suffix(" (deleted)"));
        for candidate in [Some(path.as_path()), replaced.map(Path::new)].into_iter().flatten() {
            if candidate.is_absolute() && is_program(candidate) {
                return Ok(candidate.to_owned());
            }
        }
        looked.push(format!("HERDR_BIN_PATH, {}", crate::output::shown(&path)));
    }
    let path = variable("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("herdr"))
        .find(|candidate| is_program(candidate));
    looked.push("herdr in PATH".into());
    found.ok_or_else(|| KeybindingError::NoProgram { looked: looked.join("; ") })
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
