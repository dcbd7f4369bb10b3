//! Adds the plugin's chords to herdr's configuration: what is there stays as it is,
//! byte by byte, and a chord that is taken is never replaced.

mod chord;
mod edit;
mod place;

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::{read_plain, replace_with_mode, write_new};
use crate::launch::{LaunchId, ask, lock_beside};
use crate::output::shown;

pub(crate) use edit::{Chord, State};
pub(crate) use place::Place;

/// A configuration that is larger is none.
const MOST: u64 = 1 << 20;
/// In which herdr has to say what it thinks of a configuration.
const CHECK_LIMIT: Duration = Duration::from_secs(10);
/// Backups are never replaced; with so many there is something else wrong.
const MOST_BACKUPS: u32 = 1000;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Installed {
    /// The file that herdr reads.
    pub(crate) file: PathBuf,
    /// As it was before, where there was one and it was changed.
    pub(crate) backup: Option<PathBuf>,
    /// What each chord came to, in order.
    pub(crate) chords: Vec<(Chord, State)>,
}

impl Installed {
    /// Whether the file was changed: herdr has to read it again then
    /// (`server.reload_config`).
    pub(crate) fn needs_reload(&self) -> bool {
        self.chords.iter().any(|(_, state)| *state == State::Added)
    }
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeybindingError {
    #[error("herdr's configuration {} was changed by somebody else meanwhile", shown(path))]
    Changed { path: PathBuf },
    #[error("herdr did not say within {} s what it thinks of its configuration", limit.as_secs())]
    CheckHangs { limit: Duration },
    #[error("herdr's own configuration cannot be found: {reason}")]
    NoPlace { reason: String },
    #[error("herdr was not found (looked for {looked})")]
    NoProgram { looked: String },
    #[error("herdr at {} cannot be asked: {reason}", shown(path))]
    Program { path: PathBuf, reason: String },
    /// Not by the chords, but as it is.
    #[error("herdr refuses its configuration {} as it is: {told}", shown(path))]
    RefusedBefore { path: PathBuf, told: String },
    #[error("herdr refuses the chords: {told}")]
    Refused { told: String },
    #[error("herdr's configuration {} is not usable: {reason}", shown(path))]
    Unusable { path: PathBuf, reason: String },
    #[error("herdr's configuration {} cannot be written: {reason}", shown(path))]
    Write { path: PathBuf, reason: String },
}

impl KeybindingError {
    /// What to do next.
    pub(crate) fn advice(&self) -> String {
        match self {
            Self::Changed { .. } | Self::CheckHangs { .. } => "try again".into(),
            Self::NoPlace { .. } => "set HERDR_CONFIG_PATH to its absolute path".into(),
            Self::NoProgram { .. } | Self::Program { .. } => {
                "install herdr, or set HERDR_BIN_PATH to its absolute path".into()
            }
            Self::RefusedBefore { .. } | Self::Unusable { .. } => {
                "correct the file, then try again; herdr config check tells what is wrong".into()
            }
            Self::Refused { .. } => {
                "nothing was changed; see which herdr this is: herdr --version".into()
            }
            Self::Write { path, .. } => {
                format!("nothing was changed; see who may write there: ls -ld {}", shown(path))
            }
        }
    }
}

/// Adds the chords that are neither there nor taken, and has herdr look at the result
/// before it is put in its place.
///
/// # Errors
/// Why nothing was changed.
pub(crate) fn install(place: &Place) -> Result<Installed, KeybindingError> {
    let file = place.config.clone();
    // A dotfiles manager's link stays, and what it leads to is changed.
    let real = resolve(&file)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|e| write_failed(&file, &e))?;
    // From here on no other of Paddock's own changes it.
    let _lock = lock_beside(&real).map_err(|e| write_failed(&real, &e))?;
    let before = read(&real)?;
    let text = String::from_utf8(before.clone().unwrap_or_default())
        .map_err(|_| unusable(&file, "it is not UTF-8"))?;
    let edited = edit::add(&text).map_err(|reason| unusable(&file, &reason))?;
    let mut installed = Installed { file, backup: None, chords: edited.chords };
    let Some(new) = edited.text else { return Ok(installed) };

    let name = LaunchId::random().map_err(|e| write_failed(&real, &e))?;
    let beside = |path: &Path| path.with_file_name(format!(".paddock-keys-{name}.toml"));
    // Where herdr would look for it: what is named relative to it is found, too.
    let trial = beside(&installed.file);
    if before.is_some() {
        try_out(place, &trial, text.as_bytes())?.map_err(|told| {
            KeybindingError::RefusedBefore { path: installed.file.clone(), told }
        })?;
    }
    try_out(place, &trial, new.as_bytes())?.map_err(|told| KeybindingError::Refused { told })?;

    if read(&real)? != before {
        return Err(KeybindingError::Changed { path: installed.file });
    }
    let mode = match std::fs::metadata(&real) {
        Ok(metadata) => metadata.permissions().mode() & 0o7777,
        Err(_) => 0o600,
    };
    if let Some(before) = &before {
        installed.backup = Some(back_up(&real, before, mode).map_err(|e| write_failed(&real, &e))?);
    }
    let written = replace_with_mode(&real, &beside(&real), new.as_bytes(), mode);
    if let Err(e) = written {
        if let Some(backup) = &installed.backup {
            let _ = std::fs::remove_file(backup);
        }
        return Err(write_failed(&real, &e));
    }
    Ok(installed)
}

fn unusable(path: &Path, reason: &str) -> KeybindingError {
    KeybindingError::Unusable { path: path.to_owned(), reason: reason.to_owned() }
}

fn write_failed(path: &Path, error: &io::Error) -> KeybindingError {
    KeybindingError::Write { path: path.to_owned(), reason: error.to_string() }
}

/// Where the file is, or would be.
fn resolve(file: &Path) -> Result<PathBuf, KeybindingError> {
    match file.canonicalize() {
        Ok(real) => Ok(real),
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(unusable(file, &e.to_string())),
        Err(_) if file.is_symlink() => Err(unusable(file, "it is a link that leads nowhere")),
        Err(_) => Ok(file.to_owned()),
    }
}

fn read(real: &Path) -> Result<Option<Vec<u8>>, KeybindingError> {
    match read_plain(real, MOST) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(unusable(real, &e.to_string())),
    }
}

/// What herdr says of that text as its configuration; the error is its complaint.
fn try_out(
    place: &Place,
    trial: &Path,
    text: &[u8],
) -> Result<Result<(), String>, KeybindingError> {
    write_new(trial, text).map_err(|e| write_failed(trial, &e))?;
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    environment.retain(|(name, _)| name != "HERDR_CONFIG_PATH");
    environment.push(("HERDR_CONFIG_PATH".into(), trial.into()));
    let arguments = ["config".into(), "check".into()];
    let limit = place.limit;
    let answer = ask(&place.herdr, &arguments, &environment, Path::new("/"), b"", limit);
    let _ = std::fs::remove_file(trial);
    let answer = answer
        .map_err(|reason| KeybindingError::Program { path: place.herdr.clone(), reason })?
        .ok_or(KeybindingError::CheckHangs { limit })?;
    if answer.is_good {
        return Ok(Ok(()));
    }
    let told = [answer.output, answer.errors].concat();
    let told = confine::escape::escape_short(told.trim_ascii(), 400).to_string();
    Ok(Err(if told.is_empty() { "without a word".into() } else { told }))
}

/// Keeps what was there, beside it, under a name that nothing has.
fn back_up(real: &Path, text: &[u8], mode: u32) -> io::Result<PathBuf> {
    let name = real.file_name().unwrap_or_default();
    for number in 1..=MOST_BACKUPS {
        let mut backup = name.to_owned();
        backup.push(".before-paddock");
        if number > 1 {
            backup.push(format!(".{number}"));
        }
        let backup = real.with_file_name(backup);
        match write_new(&backup, text) {
            Ok(file) => {
                let done = file
                    .set_permissions(std::fs::Permissions::from_mode(mode))
                    .and_then(|()| file.sync_data());
                if let Err(e) = done {
                    let _ = std::fs::remove_file(&backup);
                    return Err(e);
                }
                return Ok(backup);
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other(format!("there are {MOST_BACKUPS} backups already")))
}

#[cfg(test)]
mod tests;
