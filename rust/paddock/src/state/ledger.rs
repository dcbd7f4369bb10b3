//! The ledger: what happened in a launch, one JSON object a line.
//!
//! An agent can cause lines without end. The first ones of each event that it
//! can cause stay where the keeper's own are, in `ledger.jsonl`, so that a flood
//! hides nothing of what came before; those beyond go to a file that rotates, so
//! that the newest are kept, too. Every line has a number, by which a reader
//! puts the files together again ([`LedgerReader`]).

mod file;
mod lines;
mod reader;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use file::{LedgerFile, Rotating};

pub(crate) use reader::{Entry as LedgerEntry, Item, LedgerReader};

/// The file that only grows.
pub(crate) const LEDGER: &str = "ledger.jsonl";
/// What comes once there is enough of an event, and what that was before.
pub(crate) const MORE: &str = "ledger-more.jsonl";
pub(crate) const OLDER: &str = "ledger-more.1.jsonl";

/// Of each event that an agent can cause, so many lines stay; fewer when they
/// have so many bytes.
const MOST_LINES: u64 = 10_000;
const MOST_BYTES: u64 = 16 << 20;
/// Of a text that an agent can choose, so much is written, in characters.
const MOST_OF_A_TEXT: usize = 1_000;
/// The longest line. A reader skips what is much longer.
const MOST_OF_A_LINE: usize = 256 << 10;
/// Of a longer one, details of so many bytes are still written.
const MOST_OF_A_DETAIL: usize = 4 << 10;

/// One launch's ledger.
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
}

struct Inner {
    file: LedgerFile,
    more: Rotating,
    /// The number of the last line.
    last: u64,
    caused: HashMap<&'static str, Caused>,
}

/// How much of an event has been written that an agent can cause.
#[derive(Default)]
struct Caused {
    lines: u64,
    bytes: u64,
    is_enough: bool,
}

impl Ledger {
    /// The ledger in `directory`; its files are opened when there is something
    /// to write.
    pub(crate) fn below(directory: &Path) -> Self {
        let inner = Inner {
            file: LedgerFile::at(directory.join(LEDGER)),
            more: Rotating::at(directory.join(MORE), directory.join(OLDER)),
            last: 0,
            caused: HashMap::new(),
        };
        Self { inner: Mutex::new(inner) }
    }

    /// Opens it, to find out whether that can be done; links are not followed.
    pub(crate) fn open(&self) -> std::io::Result<()> {
        self.lock().file.open().map(drop)
    }

    /// Adds what the keeper did or found. A ledger that cannot be written does
    /// not stop a launch: the verdict does not depend on it.
    pub(crate) fn add(&self, event: &str, details: Value) {
        self.lock().write(event, details);
    }

    /// Adds what something inside can cause as often as it likes.
    pub(crate) fn add_from_outside(&self, event: &'static str, mut details: Value) {
        shorten(&mut details);
        let mut inner = self.lock();
        let caused = inner.caused.entry(event).or_default();
        if !caused.is_enough && (caused.lines >= MOST_LINES || caused.bytes >= MOST_BYTES) {
            caused.is_enough = true;
            let lines = caused.lines;
            inner.write("ledger-full", json!({ "of": event, "lines": lines, "next": MORE }));
        }
        if inner.caused.get(event).is_some_and(|caused| caused.is_enough) {
            let line = inner.line(event, details);
            inner.more.append(&line);
            return;
        }
        let length = inner.write(event, details);
        let caused = inner.caused.entry(event).or_default();
        caused.lines += 1;
        caused.bytes += length;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Inner {
    /// Writes a line that stays, and tells its length.
    fn write(&mut self, event: &str, details: Value) -> u64 {
        let line = self.line(event, details);
        let _ = self.file.append(&line);
        line.len() as u64
    }

    /// The next line. One that cannot be written then is missing by its number.
    fn line(&mut self, event: &str, details: Value) -> String {
        self.last += 1;
        let mut line = match details {
            Value::Object(details) => details,
            _ => Map::new(),
        };
        line.insert("event".into(), event.into());
        line.insert("seq".into(), self.last.into());
        line.insert("time".into(), now_ms().into());
        let mut text = Value::Object(line).to_string();
        if text.len() > MOST_OF_A_LINE
            && let Ok(Value::Object(line)) = serde_json::from_str(&text)
        {
            text = without_long_details(line).to_string();
        }
        text.push('\n');
        text
    }
}

/// Cuts every text in it.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MOST_OF_A_TEXT) {
                text.truncate(end);
                text.push_str("...");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(values) => values.values_mut().for_each(shorten),
        _ => {}
    }
}

/// What there is room for, and `cut` with the names of the rest.
fn without_long_details(line: Map<String, Value>) -> Value {
    let is_long = |value: &Value| value.to_string().len() > MOST_OF_A_DETAIL;
    let (long, mut kept): (Map<_, _>, Map<_, _>) =
        line.into_iter().partition(|(_, value)| is_long(value));
    kept.insert("cut".into(), long.keys().cloned().collect());
    kept.into()
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn count(lines: &[Value], event: &str) -> usize {
        lines.iter().filter(|line| line["event"] == event).count()
    }

    #[test]
    fn a_flood_of_one_event_hides_none_of_another_and_its_newest_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::below(root.path());
        let most = usize::try_from(MOST_LINES).unwrap();
        for n in 0..most + 5 {
            ledger.add_from_outside("gate-refused", json!({ "n": n }));
        }
        ledger.add_from_outside("egress", json!({}));
        ledger.add("stop", json!({}));
        let (first, more) = (lines(&root.path().join(LEDGER)), lines(&root.path().join(MORE)));
        assert_eq!((count(&first, "gate-refused"), count(&first, "ledger-full")), (most, 1));
        assert_eq!((count(&first, "egress"), count(&first, "stop")), (1, 1));
        assert_eq!((first[most]["of"].as_str(), more.len()), (Some("gate-refused"), 5));
        assert_eq!(more.last().unwrap()["n"], most + 4);
        let numbers = first.iter().chain(&more).map(|line| line["seq"].as_u64().unwrap());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=MOST_LINES + 5 + 3));
    }

    #[test]
    fn a_flood_is_bounded_in_bytes() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::below(root.path());
        // Each character is six in JSON.
        let text = "\u{1}".repeat(MOST_OF_A_TEXT * 2);
        for _ in 0..6_000 {
            ledger.add_from_outside("gate-refused", json!({ "why": text }));
        }
        ledger.add("stop", json!({}));
        let size = |name| std::fs::metadata(root.path().join(name)).unwrap().size();
        assert!(size(LEDGER) < MOST_BYTES + (32 << 10), "{}", size(LEDGER));
        assert!(size(LEDGER) > MOST_BYTES / 2, "control: it is long enough for that");
        assert!(size(MORE) <= file::MOST && size(OLDER) <= file::MOST);
        assert_eq!(count(&lines(&root.path().join(LEDGER)), "stop"), 1);
    }

    #[test]
    fn what_the_keeper_did_is_never_dropped() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::below(root.path());
        let many = usize::try_from(MOST_LINES).unwrap() + 10;
        (0..many).for_each(|_| ledger.add("verdict", json!({})));
        assert_eq!(count(&lines(&root.path().join(LEDGER)), "verdict"), many);
        assert!(!root.path().join(MORE).exists());
    }

    #[test]
    fn a_line_that_is_too_long_keeps_what_is_short_and_names_the_rest() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::below(root.path());
        let report: Vec<usize> = (0..MOST_OF_A_LINE).collect();
        ledger.add("violation", json!({ "what": "a task", "report": report, "event": "other" }));
        let line = &lines(&root.path().join(LEDGER))[0];
        assert_eq!((&line["event"], &line["what"]), (&json!("violation"), &json!("a task")));
        assert_eq!((&line["cut"], &line["report"]), (&json!(["report"]), &Value::Null));
    }

    #[test]
    fn no_link_is_followed_and_nobody_else_may_read() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        std::fs::write(&target, "").unwrap();
        let ledger = Ledger::below(root.path());
        for name in [LEDGER, MORE] {
            symlink(&target, root.path().join(name)).unwrap();
        }
        assert_eq!(ledger.open().unwrap_err().to_string(), "it is a symbolic link");
        let flood = || (0..=MOST_LINES).for_each(|_| ledger.add_from_outside("egress", json!({})));
        flood();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "");

        for name in [LEDGER, MORE] {
            std::fs::remove_file(root.path().join(name)).unwrap();
        }
        ledger.add("stop", json!({}));
        ledger.add_from_outside("egress", json!({}));
        for name in [LEDGER, MORE] {
            let path = root.path().join(name);
            assert_eq!(lines(&path).len(), 1, "{name}: it is tried again");
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{name}");
        }
    }
}
