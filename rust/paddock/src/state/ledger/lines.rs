//! The lines of one file that may still grow.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::files::open_plain;

/// What is longer is no line of a ledger.
const MOST_OF_A_LINE: usize = 1 << 20;

/// One line, or where one should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// An open file, read line by line.
pub(super) struct Lines {
    reader: BufReader<File>,
    /// Device and inode.
    pub(super) identity: (u64, u64),
    /// The start of a line whose end is not there yet.
    partial: Vec<u8>,
    is_too_long: bool,
    /// The number of the last line.
    pub(super) number: u64,
}

impl Lines {
    /// Opens `path`; `None` where there is nothing. Links are not followed.
    ///
    /// # Errors
    /// When it cannot be read, or is no plain file.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match open_plain(File::options().read(true), path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        Ok(Some(Self {
            reader: BufReader::with_capacity(1 << 16, file),
            identity: (metadata.dev(), metadata.ino()),
            partial: Vec::new(),
            is_too_long: false,
            number: 0,
        }))
    }

    /// The next whole line; `None` where there is none yet. Empty ones are not
    /// told of.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let room = MOST_OF_A_LINE.saturating_sub(self.partial.len()) as u64;
            let read = (&mut self.reader).take(room).read_until(b'\n', &mut self.partial)?;
            if self.partial.last() == Some(&b'\n') {
                self.number += 1;
                let mut line = std::mem::take(&mut self.partial);
                line.pop();
                if std::mem::take(&mut self.is_too_long) {
                    return Ok(Some(Line::TooLong));
                }
                if !line.is_empty() {
                    return Ok(Some(Line::Text(line)));
                }
            } else if self.partial.len() >= MOST_OF_A_LINE {
                self.is_too_long = true;
                self.partial.clear();
            } else if read == 0 {
                return Ok(None);
            }
        }
    }

    /// Whether it ends in the middle of a line.
    pub(super) fn is_cut(&self) -> bool {
        self.is_too_long || !self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_is_told_once_its_end_is_there() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        assert!(Lines::open(&path).unwrap().is_none());
        let mut file = File::create(&path).unwrap();
        let mut lines = Lines::open(&path).unwrap().unwrap();
        assert_eq!(lines.next().unwrap(), None);
        file.write_all(b"one\n\nt").unwrap();
        assert_eq!(lines.next().unwrap(), Some(Line::Text(b"one".into())));
        assert_eq!((lines.next().unwrap(), lines.is_cut()), (None, true));
        file.write_all(b"wo\n").unwrap();
        assert_eq!(lines.next().unwrap(), Some(Line::Text(b"two".into())));
        assert_eq!((lines.next().unwrap(), lines.is_cut(), lines.number), (None, false, 3));
    }

    #[test]
    fn what_is_too_long_for_a_line_is_passed_over_and_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let long = vec![b'x'; 3 * MOST_OF_A_LINE + 5];
        std::fs::write(&path, [&long[..], b"\nnext\n", &long[..]].concat()).unwrap();
        let mut lines = Lines::open(&path).unwrap().unwrap();
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().unwrap(), Some(Line::Text(b"next".into())));
        assert_eq!((lines.next().unwrap(), lines.is_cut()), (None, true));
        assert!(lines.partial.capacity() <= 2 * MOST_OF_A_LINE);
    }
}
