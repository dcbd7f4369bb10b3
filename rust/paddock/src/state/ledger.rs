//! The ledger: what happened in a launch, one JSON object a line, only ever
//! added to.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// An agent can cause egress records without end; after this many lines only
/// the keeper's own events are written.
const MOST_FROM_OUTSIDE: u64 = 10_000;

/// One launch's ledger.
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    from_outside: u64,
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
        Ok(Self { inner: Mutex::new(Inner { file, from_outside: 0 }) })
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
        inner.from_outside += 1;
        match inner.from_outside {
            n if n < MOST_FROM_OUTSIDE => inner.write(event, details),
            MOST_FROM_OUTSIDE => {
                inner.write("ledger-full", json!({ "lines": MOST_FROM_OUTSIDE }));
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
