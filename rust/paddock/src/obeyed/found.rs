//! What is found, bounded, so that also a part of it can be told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde_json::{Value, json};

use super::table::Kind;

/// So many are kept, and so much of a ledger's line is theirs.
const MOST: usize = 1_000;
const MOST_BYTES: usize = 160 << 10;
/// Of a file's settings so many are named, each by so many characters.
const MOST_KEYS: usize = 12;
const MOST_OF_A_KEY: usize = 80;

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// It was made or changed.
    Changed,
    /// It lies in a directory that was moved there.
    Moved,
    /// A directory: something was taken from it, or it was moved.
    Directory,
    /// It is not there any more.
    Removed,
    /// A link whose target was changed.
    Target,
}

impl What {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 5] =
        [Self::Changed, Self::Moved, Self::Directory, Self::Removed, Self::Target];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Moved => "moved",
            Self::Directory => "directory",
            Self::Removed => "removed",
            Self::Target => "target",
        }
    }
}

/// One thing that is obeyed, and became another.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) what: What,
    /// Of a file of git's configuration: the settings that differ.
    pub(super) keys: Vec<String>,
}

/// Everything found so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    changes: BTreeMap<(Kind, PathBuf), Change>,
    bytes: usize,
    more: usize,
    /// Why it may not be all.
    gaps: BTreeSet<&'static str>,
    looked_at: usize,
}

impl Found {
    fn add(&mut self, kind: Kind, path: PathBuf, change: Change) {
        let key = (kind, path);
        if self.changes.contains_key(&key) {
            return;
        }
        let length = entry(key.0, &key.1, &change).to_string().len();
        while self.changes.len() >= MOST || self.bytes + length > MOST_BYTES {
            self.more += 1;
            // What acts with the least of the person's doing is kept, whatever came first.
            let last = self.changes.last_entry().filter(|last| last.key().0 > key.0);
            let Some(last) = last else { return };
            let (last, change) = last.remove_entry();
            self.bytes -= entry(last.0, &last.1, &change).to_string().len();
        }
        self.bytes += length;
        self.changes.insert(key, change);
    }

    /// For the ledger and for scripts.
    pub(crate) fn as_json(&self) -> Value {
        let changed = self.changes.iter().map(|((kind, path), c)| entry(*kind, path, c));
        json!({
            "changed": changed.collect::<Vec<_>>(), "more": self.more,
            "complete": self.gaps.is_empty(), "gaps": self.gaps, "lookedAt": self.looked_at,
        })
    }
}

fn entry(kind: Kind, path: &Path, change: &Change) -> Value {
    json!({
        "kind": kind.name(), "path": path.to_string_lossy(), "what": change.what.name(),
        "keys": change.keys,
    })
}

/// Where it is collected while there is time; whoever waits takes what is there.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    found: Arc<Mutex<Found>>,
    deadline: Instant,
    most: usize,
}

impl Collector {
    pub(super) fn new(deadline: Instant, most: usize) -> Self {
        Self { found: Arc::default(), deadline, most }
    }

    pub(super) fn add(&self, kind: Kind, path: PathBuf, what: What) {
        self.lock().add(kind, path, Change { what, keys: Vec::new() });
    }

    /// A file of git's configuration in which these settings differ.
    pub(super) fn add_settings(&self, path: PathBuf, names: &[Vec<u8>]) {
        let shown = |name: &Vec<u8>| confine::escape::escape_short(name, MOST_OF_A_KEY).to_string();
        let mut keys: Vec<String> = names.iter().take(MOST_KEYS).map(shown).collect();
        if names.len() > MOST_KEYS {
            keys.push(format!("and {} more", names.len() - MOST_KEYS));
        }
        self.lock().add(Kind::Git, path, Change { what: What::Changed, keys });
    }

    /// Something could not be looked at.
    pub(super) fn gap(&self, why: &'static str) {
        self.lock().gaps.insert(why);
    }

    /// How much more may be looked at; `None` once there is enough.
    pub(super) fn room(&self) -> Option<usize> {
        let mut found = self.lock();
        if Instant::now() >= self.deadline {
            found.gaps.insert("there was no time for more");
            return None;
        }
        let left = self.most.saturating_sub(found.looked_at);
        if left == 0 {
            found.gaps.insert("it has too many files");
            return None;
        }
        Some(left)
    }

    /// So much more was looked at.
    pub(super) fn looked_at(&self, count: usize) {
        self.lock().looked_at += count;
    }

    /// What there is by now.
    pub(super) fn take(&self) -> Found {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_kept_fits_a_line_of_the_ledger_and_the_rest_is_counted() {
        let collector = Collector::new(Instant::now() + Duration::from_mins(1), 10);
        for n in 0..3_000 {
            // Each byte is six in JSON.
            let path = format!("{n}{}", "\u{1}".repeat(100));
            collector.add(Kind::Build, path.into(), What::Changed);
        }
        // And whatever there is of it, it does not push out what acts before.
        collector.add(Kind::Git, "last".into(), What::Changed);
        let names: Vec<Vec<u8>> = (0..100).map(|_| vec![0xff; 1_000]).collect();
        let other = Collector::new(Instant::now(), 10);
        other.add_settings("config".into(), &names);
        assert!(other.take().as_json().to_string().len() < 8_000);
        let found = collector.take().as_json();
        assert!(found.to_string().len() < 200 << 10);
        let kept = found["changed"].as_array().unwrap().len();
        assert_eq!(kept as u64 + found["more"].as_u64().unwrap(), 3_001);
        assert_eq!(found["changed"][0]["path"], "last");
        assert!(kept > 100);
    }

    #[test]
    fn there_is_an_end_to_looking_and_it_says_so() {
        let collector = Collector::new(Instant::now() + Duration::from_mins(1), 3);
        assert_eq!(collector.room(), Some(3));
        collector.looked_at(3);
        assert_eq!(collector.room(), None);
        let late = Collector::new(Instant::now(), 3);
        assert_eq!(late.room(), None);
        for (collector, why) in [(collector, "files"), (late, "time")] {
            let found = collector.take().as_json();
            assert_eq!(found["complete"], false);
            assert!(found["gaps"][0].as_str().unwrap().contains(why), "{found}");
        }
    }
}
