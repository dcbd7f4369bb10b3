//! A ledger as it is read: its files put together by the numbers of their
//! lines, also while they grow.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::lines::{Line, Lines};
use super::{LEDGER, MORE, OLDER};

/// What comes next in a ledger.
#[derive(Debug)]
pub(crate) enum Item {
    Entry(Entry),
    /// A line that is none, or one that was not written to its end.
    Damaged {
        file: &'static str,
        line: u64,
    },
    /// So many lines were written, or were to be, and are not there any more.
    NotKept(u64),
}

/// One line.
#[derive(Debug)]
pub(crate) struct Entry {
    /// As it was written.
    pub(crate) text: String,
    /// The same, parsed.
    pub(crate) details: Map<String, Value>,
}

impl Entry {
    /// The line's number; none in ledgers of before there were any.
    fn number(&self) -> Option<u64> {
        self.details.get("seq")?.as_u64()
    }

    /// Of which event it tells.
    pub(crate) fn event(&self) -> &str {
        self.details.get("event").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Reads a ledger from its start. When nothing is left, it can be asked again:
/// there may be more.
pub(crate) struct LedgerReader {
    first: First,
    more: Chain,
    /// The next entry of each, once it has been read.
    next_of_first: Option<Entry>,
    next_of_more: Option<Entry>,
    /// The number of the last entry.
    last: u64,
}

impl LedgerReader {
    /// Reads the ledger in `directory`.
    pub(crate) fn below(directory: &Path) -> Self {
        Self {
            first: First { path: directory.join(LEDGER), lines: None },
            more: Chain { paths: [OLDER, MORE].map(|name| directory.join(name)), lines: None },
            next_of_first: None,
            next_of_more: None,
            last: 0,
        }
    }

    /// What comes next; `None` where there is nothing more yet.
    ///
    /// # Errors
    /// When a file cannot be read, or is no plain file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Item>> {
        let mut has_looked_again = false;
        loop {
            if self.next_of_first.is_none()
                && let Some((line, number)) = self.first.next()?
            {
                self.next_of_first = parsed(line);
                if self.next_of_first.is_none() {
                    return Ok(Some(Item::Damaged { file: LEDGER, line: number }));
                }
            }
            if self.next_of_more.is_none()
                && let Some((line, number)) = self.more.next()?
            {
                self.next_of_more = line.and_then(parsed);
                if self.next_of_more.is_none() {
                    return Ok(Some(Item::Damaged { file: MORE, line: number }));
                }
            }
            let number = |entry: &Option<Entry>| entry.as_ref().map(Entry::number);
            let (first, more) = (number(&self.next_of_first), number(&self.next_of_more));
            let is_first = match (first, more) {
                (None, None) => return Ok(None),
                (Some(first), Some(more)) => first <= more,
                (first, None) => first.is_some(),
                (None, Some(_)) => false,
            };
            let number = if is_first { first } else { more }.flatten();
            let missing = number.map_or(0, |n| n.saturating_sub(self.last + 1));
            if missing > 0 {
                // It may have come to the other file after that was looked at.
                if !has_looked_again && (first.is_none() || more.is_none()) {
                    has_looked_again = true;
                    continue;
                }
                self.last += missing;
                return Ok(Some(Item::NotKept(missing)));
            }
            self.last = self.last.max(number.unwrap_or_default());
            let taken = if is_first { &mut self.next_of_first } else { &mut self.next_of_more };
            return Ok(taken.take().map(Item::Entry));
        }
    }

    /// Whether a ledger has been found.
    pub(crate) fn has_found_it(&self) -> bool {
        self.first.lines.is_some() || self.more.lines.is_some()
    }

    /// The lines that were begun and have no end: nobody will write it once the
    /// keeper is gone.
    pub(crate) fn cut_lines(&self) -> Vec<Item> {
        let files = [(LEDGER, &self.first.lines), (MORE, &self.more.lines)];
        let cut = files.into_iter().filter_map(|(file, lines)| {
            let lines = lines.as_ref().filter(|lines| lines.is_cut())?;
            Some(Item::Damaged { file, line: lines.number + 1 })
        });
        cut.collect()
    }
}

fn parsed(line: Line) -> Option<Entry> {
    let Line::Text(text) = line else { return None };
    let details = serde_json::from_slice(&text).ok()?;
    Some(Entry { text: String::from_utf8(text).ok()?, details })
}

/// The file that only grows.
struct First {
    path: PathBuf,
    lines: Option<Lines>,
}

impl First {
    /// The next line, and its number in the file.
    fn next(&mut self) -> io::Result<Option<(Line, u64)>> {
        if self.lines.is_none() {
            self.lines = Lines::open(&self.path)?;
        }
        let Some(lines) = &mut self.lines else { return Ok(None) };
        Ok(lines.next()?.map(|line| (line, lines.number)))
    }
}

/// The files that rotate, one after the other.
struct Chain {
    /// The older one and the current one.
    paths: [PathBuf; 2],
    lines: Option<Lines>,
}

impl Chain {
    /// The next line, or where one was cut, and its number in its file.
    fn next(&mut self) -> io::Result<Option<(Option<Line>, u64)>> {
        loop {
            if let Some(lines) = &mut self.lines
                && let Some(line) = lines.next()?
            {
                return Ok(Some((Some(line), lines.number)));
            }
            let Some(next) = self.following()? else { return Ok(None) };
            let Some(lines) = &mut self.lines else {
                self.lines = Some(next);
                continue;
            };
            // Nothing is written to it any more, but it may have been after it
            // was read.
            if let Some(line) = lines.next()? {
                return Ok(Some((Some(line), lines.number)));
            }
            let cut = lines.is_cut().then_some(lines.number + 1);
            self.lines = Some(next);
            if let Some(number) = cut {
                return Ok(Some((None, number)));
            }
        }
    }

    /// The file that comes after the one that is read, when there is one.
    fn following(&self) -> io::Result<Option<Lines>> {
        let read = self.lines.as_ref().map(|lines| lines.identity);
        let [older, current] = &self.paths;
        // In this order: a file goes from the current place to the older one.
        let current = Lines::open(current)?;
        if current.as_ref().is_some_and(|current| Some(current.identity) == read) {
            return Ok(None);
        }
        let older = Lines::open(older)?.filter(|older| Some(older.identity) != read);
        Ok(older.or(current))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use serde_json::json;

    use super::*;
    use crate::state::Ledger;

    /// What is left, a word each: the number of an entry, or what is there
    /// instead.
    fn rest(reader: &mut LedgerReader) -> Vec<String> {
        let next = || reader.next().unwrap();
        std::iter::from_fn(next)
            .map(|item| match item {
                Item::Entry(entry) => entry.number().map_or("old".into(), |n| n.to_string()),
                Item::Damaged { file, line } => format!("{file}:{line}"),
                Item::NotKept(count) => format!("-{count}"),
            })
            .collect()
    }

    fn write(path: &Path, numbers: &[u64]) {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        for n in numbers {
            writeln!(file, "{}", json!({ "seq": n })).unwrap();
        }
    }

    #[test]
    fn the_files_are_one_again_in_the_order_of_their_numbers() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join(LEDGER), &[1, 2, 3, 7, 9]);
        write(&root.path().join(OLDER), &[4, 6]);
        write(&root.path().join(MORE), &[8, 10]);
        let mut reader = LedgerReader::below(root.path());
        assert_eq!(rest(&mut reader), ["1", "2", "3", "4", "-1", "6", "7", "8", "9", "10"]);
        assert_eq!(rest(&mut reader), [""; 0]);
    }

    #[test]
    fn what_is_written_later_is_read_later_and_rotation_loses_nothing_that_is_read() {
        let root = tempfile::tempdir().unwrap();
        let [first, older, more] = [LEDGER, OLDER, MORE].map(|name| root.path().join(name));
        let mut reader = LedgerReader::below(root.path());
        assert_eq!(rest(&mut reader), [""; 0]);
        assert!(!reader.has_found_it());
        write(&first, &[1]);
        assert_eq!(rest(&mut reader), ["1"]);
        assert!(reader.has_found_it());
        write(&more, &[2]);
        assert_eq!(rest(&mut reader), ["2"]);
        // Rotated once since: what came before it is read first.
        write(&more, &[3]);
        std::fs::rename(&more, &older).unwrap();
        assert_eq!(rest(&mut reader), ["3"], "in the middle of it");
        write(&more, &[4]);
        write(&first, &[5]);
        assert_eq!(rest(&mut reader), ["4", "5"]);
        // Twice: the one between is the older one.
        for numbers in [[6], [7]] {
            std::fs::rename(&more, &older).unwrap();
            write(&more, &numbers);
        }
        assert_eq!(rest(&mut reader), ["6", "7"]);
        // Three times: one is gone, and that is told.
        for numbers in [[8], [9], [10]] {
            std::fs::rename(&more, &older).unwrap();
            write(&more, &numbers);
        }
        assert_eq!(rest(&mut reader), ["-1", "9", "10"]);
    }

    #[test]
    fn what_is_damaged_is_told_and_the_rest_is_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(LEDGER);
        let lines: [&[u8]; 6] = [
            b"{\"seq\":1}\n",
            b"[2]\n",
            b"{\"seq\":\n",
            b"\xff\x1b[2J\n",
            b"{\"a\":1}\n",
            b"{\"se",
        ];
        std::fs::write(&path, lines.concat()).unwrap();
        write(&root.path().join(OLDER), &[2]);
        let mut file = File::options().append(true).open(root.path().join(OLDER)).unwrap();
        file.write_all(b"{").unwrap();
        write(&root.path().join(MORE), &[3]);
        let mut reader = LedgerReader::below(root.path());
        let damaged = [2, 3, 4].map(|line| format!("{LEDGER}:{line}"));
        let mut wanted = vec!["1".to_owned()];
        wanted.extend(damaged);
        wanted.extend(["old".into(), "2".into(), format!("{MORE}:2"), "3".into()]);
        assert_eq!(rest(&mut reader), wanted);
        let cut = reader.cut_lines();
        assert!(matches!(cut[..], [Item::Damaged { file: LEDGER, line: 6 }]), "{cut:?}");
    }

    #[test]
    fn a_link_and_a_pipe_are_not_read() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        for name in [LEDGER, OLDER, MORE] {
            let root = tempfile::tempdir().unwrap();
            write(&root.path().join("target"), &[1]);
            let path = root.path().join(name);
            std::os::unix::fs::symlink(root.path().join("target"), &path).unwrap();
            assert!(LedgerReader::below(root.path()).next().is_err(), "{name}");
            std::fs::remove_file(&path).unwrap();
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            assert!(LedgerReader::below(root.path()).next().is_err(), "{name}");
            std::fs::remove_file(&path).unwrap();
            write(&path, &[1]);
            assert!(LedgerReader::below(root.path()).next().is_ok(), "control");
        }
    }

    #[test]
    fn a_reader_beside_a_flood_sees_every_line_in_order() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::below(root.path());
        let mut reader = LedgerReader::below(root.path());
        let count = 45_000;
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 0..count {
                    ledger.add_from_outside("egress", json!({ "n": n, "text": "x".repeat(300) }));
                    if n % 100 == 0 {
                        ledger.add("verdict", json!({}));
                    }
                }
            });
            loop {
                let is_over = writer.is_finished();
                while let Some(item) = reader.next().unwrap() {
                    match item {
                        Item::Entry(entry) => seen.push(entry.number().unwrap()),
                        // So slow that the flood came round.
                        Item::NotKept(count) => {
                            seen.extend(vec![0; usize::try_from(count).unwrap()]);
                        }
                        Item::Damaged { .. } => panic!("{item:?}"),
                    }
                }
                if is_over {
                    break;
                }
            }
        });
        assert!(root.path().join(OLDER).exists(), "control: it rotated");
        let in_order = seen.iter().zip(1u64..).all(|(seen, n)| *seen == 0 || *seen == n);
        assert!(in_order);
        assert_eq!(seen.len(), count + count / 100 + 1);
    }
}
