//! The ledger of a launch, read while the view on it is open.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::terminal::Waker;
use crate::commands::{Parts, parts};
use crate::state::{Item, LedgerReader};

/// So many lines, the newest; `paddock log` has all.
const MOST_LINES: usize = 5_000;
/// The longest line that is kept, in characters; `paddock log` has it whole.
const MOST_OF_A_LINE: usize = 1_000;
/// Between two looks for more.
const EVERY: Duration = Duration::from_millis(500);

/// What was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    pub(super) lines: Vec<Arc<Parts>>,
    /// Older ones that are not there.
    pub(super) left_out: u64,
    /// Why there are no more.
    pub(super) error: Option<String>,
}

/// Reads on until it is dropped.
pub(super) struct Reading {
    read: Arc<Mutex<Arc<Lines>>>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

impl Reading {
    /// Starts with the ledger in `directory`.
    pub(super) fn start(directory: &std::path::Path, waker: Waker) -> Self {
        let reading = Self { read: Arc::default(), is_over: Arc::default() };
        let (read, is_over) = (reading.read.clone(), reading.is_over.clone());
        let mut reader = LedgerReader::below(directory);
        let started = std::thread::Builder::new().name("ledger".into()).spawn(move || {
            let (mut lines, mut left_out) = (VecDeque::new(), 0);
            while !is_over.load(Ordering::SeqCst) {
                let (found, error) = read_more(&mut reader, &mut lines, &mut left_out, &is_over);
                if found || error.is_some() {
                    let lines = lines.iter().cloned().collect();
                    let all = Arc::new(Lines { lines, left_out, error: error.clone() });
                    *read.lock().unwrap_or_else(PoisonError::into_inner) = all;
                    waker.wake();
                }
                if error.is_some() {
                    return;
                }
                std::thread::sleep(EVERY);
            }
        });
        if let Err(e) = started {
            let error = Some(e.to_string());
            *reading.read.lock().unwrap_or_else(PoisonError::into_inner) =
                Arc::new(Lines { error, ..Lines::default() });
        }
        reading
    }

    /// What has been read so far.
    pub(super) fn lines(&self) -> Arc<Lines> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads what there is; whether there was something, and why there is no more.
fn read_more(
    reader: &mut LedgerReader,
    lines: &mut VecDeque<Arc<Parts>>,
    left_out: &mut u64,
    is_over: &AtomicBool,
) -> (bool, Option<String>) {
    let mut found = false;
    while !is_over.load(Ordering::SeqCst) {
        let told = match reader.next() {
            Ok(None) => break,
            Ok(Some(Item::Entry(entry))) => parts(&entry),
            Ok(Some(Item::Damaged { file, line })) => damage(format!("{file}:{line} is damaged")),
            Ok(Some(Item::NotKept(count))) => damage(format!("{count} lines were not kept")),
            Err(e) => return (found, Some(e.to_string())),
        };
        found = true;
        if lines.len() >= MOST_LINES {
            lines.pop_front();
            *left_out += 1;
        }
        lines.push_back(Arc::new(short(told)));
    }
    (found, None)
}

fn damage(what: String) -> Parts {
    let (time, event) = (String::new(), String::new());
    Parts { tone: crate::commands::Tone::Notable, time, event, what }
}

fn short(mut parts: Parts) -> Parts {
    if let Some((end, _)) = parts.what.char_indices().nth(MOST_OF_A_LINE) {
        parts.what.truncate(end);
        parts.what.push_str("...");
    }
    parts
}
