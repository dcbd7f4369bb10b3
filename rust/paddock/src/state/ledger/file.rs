//! The files of a ledger, as they are written.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::files::open_plain;

/// The size of each of the two files that rotate.
pub(super) const MOST: u64 = 4 << 20;

/// A file that lines are added to.
pub(super) struct LedgerFile {
    path: PathBuf,
    file: Option<File>,
    /// The last line was not written to its end.
    is_cut: bool,
}

impl LedgerFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, file: None, is_cut: false }
    }

    /// Opens it unless it is. What is in the way now may be gone the next time.
    pub(super) fn open(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open_plain(File::options().append(true).create(true).mode(0o600), &self.path)?,
        };
        Ok(self.file.insert(file))
    }

    /// Adds a line, in one piece where that can be. A full disk may cut it: the
    /// next one begins anew.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        let was_cut = self.is_cut;
        let file = self.open()?;
        let written = if was_cut {
            file.write_all(format!("\n{line}").as_bytes())
        } else {
            file.write_all(line.as_bytes())
        };
        self.is_cut = written.is_err();
        written
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.open()?.metadata()?.len())
    }
}

/// Two files that together have the newest lines: the one that is written, and
/// the one that was before.
pub(super) struct Rotating {
    file: LedgerFile,
    older: PathBuf,
}

impl Rotating {
    pub(super) fn at(path: PathBuf, older: PathBuf) -> Self {
        Self { file: LedgerFile::at(path), older }
    }

    /// Adds a line if it can. Where the full file cannot be put away, there is
    /// no room.
    pub(super) fn append(&mut self, line: &str) {
        let _ = self.make_room(line.len() as u64).and_then(|()| self.file.append(line));
    }

    fn make_room(&mut self, needed: u64) -> io::Result<()> {
        let length = self.file.length()?;
        if length > 0 && length + needed > MOST {
            match std::fs::rename(&self.file.path, &self.older) {
                // Somebody removed it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                put_away => put_away?,
            }
            self.file = LedgerFile::at(std::mem::take(&mut self.file.path));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_in_two_files_of_a_size() {
        let root = tempfile::tempdir().unwrap();
        let [path, older] = ["a", "a.1"].map(|name| root.path().join(name));
        let mut rotating = Rotating::at(path.clone(), older.clone());
        let line = |n: usize| format!("{n:>60000}\n");
        let count = 200;
        (0..count).for_each(|n| rotating.append(&line(n)));
        let text = [&older, &path].map(|path| std::fs::read_to_string(path).unwrap());
        assert!(text.iter().all(|text| text.len() as u64 <= MOST));
        let text = text.concat();
        let first = count - text.lines().count();
        assert!(first > 0 && text.len() as u64 > MOST, "control: some are gone");
        assert!((first..count).map(line).collect::<String>() == text, "the rest is whole");
    }

    #[test]
    fn a_full_file_that_cannot_be_put_away_takes_no_more() {
        let root = tempfile::tempdir().unwrap();
        let [path, older] = ["a", "a.1"].map(|name| root.path().join(name));
        std::fs::create_dir(&older).unwrap();
        let mut rotating = Rotating::at(path.clone(), older.clone());
        let line = format!("{}\n", "x".repeat(1 << 20));
        (0..9).for_each(|_| rotating.append(&line));
        assert!(std::fs::metadata(&path).unwrap().len() <= MOST);
        std::fs::remove_dir(&older).unwrap();
        rotating.append("last\n");
        rotating.append(&line);
        assert!(older.is_file(), "control: it goes on once it can");
    }

    #[test]
    fn a_line_after_one_that_was_cut_begins_anew() {
        let root = tempfile::tempdir().unwrap();
        let mut file = LedgerFile::at(root.path().join("a"));
        file.append("{}").unwrap();
        file.is_cut = true;
        file.append("{\"a\":1}\n").unwrap();
        file.append("{\"b\":1}\n").unwrap();
        let text = std::fs::read_to_string(root.path().join("a")).unwrap();
        assert_eq!(text, "{}\n{\"a\":1}\n{\"b\":1}\n");
    }
}
