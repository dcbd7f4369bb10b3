//! What a conversation was about, kept so that a later one can go on: the commands,
//! one a line and escaped, in a file for each workspace.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use confine::escape::escape;

use crate::files::{open_plain, read_plain, sha256};

/// Longer ones are not gone on with.
const MOST: u64 = 1 << 20;

/// The conversation in this workspace, or none that is kept.
#[derive(Default)]
pub(super) struct Memory {
    path: Option<PathBuf>,
    /// What is said is added to what was said before.
    goes_on: bool,
}

impl Memory {
    /// That of the current directory, below `directory`.
    pub(super) fn below(directory: &Path, goes_on: bool) -> io::Result<Self> {
        let workspace = std::env::current_dir()?;
        let name = sha256(workspace.as_os_str().as_bytes());
        Ok(Self { path: Some(directory.join(name)), goes_on })
    }

    /// What was said before, if this goes on with it; as lines that can be shown.
    pub(super) fn recalled(&self) -> io::Result<Option<Vec<String>>> {
        let Some(path) = self.path.as_ref().filter(|_| self.goes_on) else { return Ok(None) };
        match read_plain(path, MOST) {
            Ok(bytes) => {
                let lines = bytes.split_inclusive(|byte| *byte == b'\n');
                let text =
                    |line: &[u8]| String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
                Ok(Some(lines.map(text).collect()))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Some(Vec::new())),
            Err(e) => Err(e),
        }
    }

    /// Adds a command. The first one of a conversation that goes on with none takes the
    /// place of an earlier one.
    pub(super) fn add(&mut self, command: &[u8]) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut options = File::options();
        options.create(true).append(true).mode(0o600);
        let mut file = open_plain(&mut options, path)?;
        if !std::mem::replace(&mut self.goes_on, true) {
            file.set_len(0)?;
        }
        file.write_all(format!("{}\n", escape(command)).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_goes_on_with_the_last_one_and_a_fresh_one_replaces_it() {
        let root = tempfile::tempdir().unwrap();
        let of = |goes_on| Memory::below(root.path(), goes_on).unwrap();
        assert_eq!(of(true).recalled().unwrap().unwrap(), [""; 0]);
        let mut first = of(false);
        first.add(b"one").unwrap();
        first.add(b"t\nw\x1b\xffo").unwrap();
        assert_eq!(first.path, of(true).path);
        let said = ["one", "t\\nw\\u{1b}\\xffo"];
        assert_eq!(of(true).recalled().unwrap().unwrap(), said);
        assert_eq!(of(false).recalled().unwrap(), None);
        of(true).add(b"three").unwrap();
        assert_eq!(of(true).recalled().unwrap().unwrap(), [said[0], said[1], "three"]);
        of(false).add(b"four").unwrap();
        assert_eq!(of(true).recalled().unwrap().unwrap(), ["four"]);
        Memory::default().add(b"nowhere").unwrap();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
