//! What a launch changed that is obeyed outside of its sandboxes.

use serde_json::{Value, json};

use crate::obeyed::lines;
use crate::state::{Item, LedgerReader, Stored};

/// What a ledger says of an event that comes once, as `start` and `obeyed` do; `None`
/// where it says nothing of it, as of the end of a launch that runs.
///
/// # Errors
/// When the ledger cannot be read.
pub(crate) fn recorded(launch: &Stored, event: &str) -> std::io::Result<Option<Value>> {
    let mut reader = LedgerReader::below(&launch.directory);
    while let Some(item) = reader.next()? {
        if let Item::Entry(mut entry) = item
            && entry.event() == event
        {
            for key in ["event", "seq", "time"] {
                entry.details.remove(key);
            }
            return Ok(Some(Value::Object(entry.details)));
        }
    }
    Ok(None)
}

/// For a person.
pub(super) fn shown(record: Option<&Value>, launch: &Stored) -> Vec<String> {
    let nothing = || {
        let why =
            if launch.is_kept { "the launch runs" } else { "it began no agent, or was killed" };
        vec![format!("nothing is recorded of what changed: {why}")]
    };
    record.and_then(|record| lines(record, &launch.record.workspace)).unwrap_or_else(nothing)
}

/// For a script.
pub(super) fn as_json(record: Option<&Value>, launch: &Stored) -> Value {
    json!({
        "schema": 1, "launch": launch.record.launch.as_str(),
        "workspace": launch.record.workspace.to_string_lossy(), "obeyed": record,
    })
}
