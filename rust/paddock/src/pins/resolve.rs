//! What nono makes of a profile: base profiles and groups worked in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::facts::Facts;
use crate::error::Error;
use crate::files::write_new;
use crate::launch::{Answer, Found, LaunchId, ask};

/// nono is asked with a home that is not there: in a launch it has one of the
/// launch's own, and what is in it must not depend on which.
const NO_HOME: &str = "/nonexistent/paddock-home";

/// A nono that has not answered by then hangs.
const LIMIT: Duration = Duration::from_secs(10);

/// Asks nono about the policies `texts`, each of the layer that it names, all at
/// once. They are written to files in `directory` for that.
///
/// # Errors
/// When nono cannot say: it would not start with that policy either.
pub(super) fn resolve(
    nono: &Found,
    texts: &[(&'static str, &str)],
    directory: &Path,
) -> Result<Vec<(&'static str, Facts)>, Error> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = texts
            .iter()
            .map(|(layer, text)| (*layer, scope.spawn(|| resolve_one(nono, text, directory))))
            .collect();
        asked
            .into_iter()
            .map(|(layer, answer)| {
                let facts = answer.join().unwrap_or_else(|_| Err("its thread ended".into()));
                let unresolved = |reason| Error::PinUnresolved { layer, reason };
                Ok((layer, facts.map_err(unresolved)?))
            })
            .collect()
    })
}

/// A file that goes when it is no longer needed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn resolve_one(nono: &Found, text: &str, directory: &Path) -> Result<Facts, String> {
    let id = LaunchId::random().map_err(|e| e.to_string())?;
    let file = Temporary(directory.join(format!("profile-{id}.json")));
    write_new(&file.0, text.as_bytes()).map_err(|e| e.to_string())?;
    let show = |form: &[&str]| {
        let mut arguments: Vec<OsString> =
            ["profile", "show", "--silent", "--json"].iter().map(OsString::from).collect();
        arguments.extend(form.iter().map(OsString::from));
        arguments.push(file.0.clone().into());
        let answer = ask(&nono.path, &arguments, &environment(), directory, &[], LIMIT)?;
        shown(answer)
    };
    let (manifest, process) = show(&["--format", "manifest"])?;
    let (profile, _) = show(&["--raw"])?;
    // The manifest has paths filled in that are others in a launch.
    let workspace = directory.to_str().ok_or("the state directory's path is not UTF-8")?;
    let manifest = String::from_utf8(manifest).map_err(|e| e.to_string())?;
    let manifest = manifest.replace(workspace, "$WORKDIR").replace(NO_HOME, "~");
    Facts::of_policy(manifest.as_bytes(), process, &profile, text)
}

fn environment() -> Vec<(OsString, OsString)> {
    [
        ("HOME", NO_HOME),
        ("TMPDIR", NO_HOME),
        ("PATH", "/usr/bin:/bin"),
        ("NONO_NO_UPDATE_CHECK", "1"),
        ("NONO_NO_PACK_UPDATE_HINTS", "1"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}

/// What it printed, and the number that it had.
fn shown(answer: Option<Answer>) -> Result<(Vec<u8>, u32), String> {
    match answer {
        None => Err(format!("it did not answer in {} s", LIMIT.as_secs())),
        Some(answer) if answer.is_good => Ok((answer.output, answer.process)),
        Some(answer) => {
            let errors = confine::escape::escape_short(answer.errors.trim_ascii(), 300);
            Err(errors.to_string())
        }
    }
}
