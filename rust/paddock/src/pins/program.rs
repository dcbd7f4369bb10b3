//! The programs of a launch: which file each is, and its sha256.

use std::fs::File;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::{open_plain, sha256_of};
use crate::launch::{Found, Stamp};

/// A program as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinnedProgram {
    /// In this state the file had that hash: while it is in it, it need not be
    /// read.
    pub(crate) file: Stamp,
    pub(crate) sha256: String,
    /// It was read when its last change was over: what is written within one tick of
    /// the kernel's clock leaves the same times.
    #[serde(default)]
    pub(crate) is_settled: bool,
}

/// Many ticks of any kernel's clock (`CONFIG_HZ` is 100 or more).
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// A name more for the same file, made while it is read, changes its state, too.
const ATTEMPTS: usize = 5;

/// The program as it is now. It is not read when it is in the settled state in
/// which `known` was.
///
/// # Errors
/// When it cannot be read, or is not the file that was found any more.
pub(super) fn look(
    name: &'static str,
    found: &Found,
    known: Option<&PinnedProgram>,
) -> Result<PinnedProgram, Error> {
    let bad =
        |reason: String| Error::BadProgram { program: name, path: found.path.clone(), reason };
    let replaced = || bad("it was replaced while it was looked at; try again".into());
    let now = Stamp::of(&found.path);
    let known = known.filter(|known| known.is_settled && now.as_ref() == Some(&known.file));
    if let Some(known) = known {
        return if known.file.file() == found.file { Ok(known.clone()) } else { Err(replaced()) };
    }
    for _ in 0..ATTEMPTS {
        // The path has no links in it any more, so a link there is new.
        let file =
            open_plain(File::options().read(true), &found.path).map_err(|e| bad(e.to_string()))?;
        let stamp = || Stamp::of_open(&found.path, &file).map_err(|e| bad(e.to_string()));
        let before = stamp()?;
        if before.file() != found.file {
            break;
        }
        let is_settled = before.is_older_than(SETTLED_AFTER);
        let sha256 = sha256_of(&file).map_err(|e| bad(e.to_string()))?;
        if stamp()? == before && Stamp::of(&found.path).as_ref() == Some(&before) {
            return Ok(PinnedProgram { file: before, sha256, is_settled });
        }
    }
    Err(replaced())
}

#[cfg(test)]
mod tests {
    use super::*;
    use confine::proc::FileId;
    use std::path::Path;

    fn found(path: &Path) -> Found {
        Found {
            path: path.to_owned(),
            file: FileId::of_path(path).unwrap(),
            version: None,
            source: String::new(),
        }
    }

    #[test]
    fn a_program_is_read_again_when_its_file_is_in_another_state() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("program");
        std::fs::write(&path, "abc").unwrap();
        let first = look("nono", &found(&path), None).unwrap();
        assert_eq!(first.sha256, crate::files::sha256(b"abc"));
        // What was recorded is believed for that state of the file, and no other.
        assert!(!first.is_settled, "it was written just now");
        let told = PinnedProgram { sha256: "told".into(), ..first.clone() };
        // What is written yet may be written again and leave the same times.
        assert_eq!(look("nono", &found(&path), Some(&told)).unwrap().sha256, first.sha256);
        let told = PinnedProgram { is_settled: true, ..told };
        assert_eq!(look("nono", &found(&path), Some(&told)).unwrap(), told);
        std::fs::write(&path, "abc").unwrap();
        let again = look("nono", &found(&path), Some(&told)).unwrap();
        assert_eq!(again.sha256, first.sha256);
        assert_ne!(again.file, first.file);
    }

    #[test]
    fn another_file_than_was_found_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("program"), root.path().join("other"));
        std::fs::write(&path, "abc").unwrap();
        let was = found(&path);
        std::fs::write(&other, "abc").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(matches!(look("nono", &was, None), Err(Error::BadProgram { .. })));
        let now = look("nono", &found(&path), None).unwrap();
        assert!(matches!(look("nono", &was, Some(&now)), Err(Error::BadProgram { .. })));
        std::fs::rename(&path, &other).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(matches!(look("nono", &found(&path), None), Err(Error::BadProgram { .. })));
    }
}
