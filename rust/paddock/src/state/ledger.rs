//! The ledger: what happened in a launch, one JSON object a line, only ever
//! added to.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// An agent can cause records without end. Of each event that it can cause, so
/// many are written: a flood of one kind hides none of another.
const MOST_OF_AN_EVENT: u64 = 10_000;

/// One launch's ledger.
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    from_outside: HashMap<String, u64>,
}

impl Ledger {
    /// Opens `path` for appending; links are not followed.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        Ok(Self { inner: Mutex::new(Inner { file, from_outside: HashMap::new() }) })
    }

    /// Adds what the keeper did or found. A ledger that cannot be written does
    /// not stop a launch: the verdict does not depend on it.
    pub(crate) fn add(&self, event: &str, details: Value) {
        let mut inner = self.lock();
        inner.write(event, details);
    }

    /// Adds what something inside caused, as long as there is room.
    pub(crate) fn add_from_outside(&self, event: &str, details: Value) {
        let mut inner = self.lock();
        let count = inner.from_outside.entry(event.to_owned()).or_default();
        *count += 1;
        match *count {
            n if n < MOST_OF_AN_EVENT => inner.write(event, details),
            MOST_OF_AN_EVENT => {
                inner.write("ledger-full", json!({ "of": event, "lines": MOST_OF_AN_EVENT }));
            }
            _ => {}
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, event: &str, details: Value) {
        let mut line = json!({ "time": now_ms(), "event": event });
        if let (Value::Object(line), Value::Object(details)) = (&mut line, details) {
            line.extend(details);
        }
        let _ = self.file.write_all(format!("{line}\n").as_bytes());
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_event_hides_none_of_another() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("ledger.jsonl");
        let ledger = Ledger::open(&path).unwrap();
        for _ in 0..MOST_OF_AN_EVENT + 5 {
            ledger.add_from_outside("gate-refused", json!({}));
        }
        ledger.add_from_outside("egress", json!({}));
        ledger.add("stop", json!({}));
        let text = std::fs::read_to_string(&path).unwrap();
        let of = |event: &str| {
            text.lines().filter(|l| l.contains(&format!("\"event\":\"{event}\""))).count()
        };
        let most = usize::try_from(MOST_OF_AN_EVENT).unwrap();
        assert_eq!((of("gate-refused"), of("ledger-full")), (most - 1, 1));
        assert_eq!((of("egress"), of("stop")), (1, 1));
    }
}
