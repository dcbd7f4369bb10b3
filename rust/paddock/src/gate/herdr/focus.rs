//! Showing a person one of herdr's panes: asked by a person, from outside.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::HerdrClient;

/// To a request that has nothing to tell a hundred bytes are enough.
const MOST_REPLY_BYTES: usize = 16 << 10;
/// A person waits for it, and herdr may be drawing.
const LIMIT: Duration = Duration::from_secs(3);

/// Has the herdr at `socket` bring a pane to the front.
///
/// # Errors
/// Why it did not, for a person; escaped.
pub(crate) fn focus_pane(socket: &Path, pane_id: &str) -> Result<(), String> {
    let request = json!({
        "id": "paddock", "method": "pane.focus", "params": { "pane_id": pane_id },
    });
    let line = format!("{request}\n");
    let client = HerdrClient::within(socket, LIMIT, MOST_REPLY_BYTES);
    let answer = client.send(line.as_bytes()).map_err(|e| e.to_string())?;
    let answer: Value =
        serde_json::from_slice(&answer).map_err(|_| "herdr's answer is no JSON".to_owned())?;
    match answer["error"]["message"].as_str() {
        Some(why) => Err(format!("herdr says: {}", super::shown(why))),
        None if answer["result"].is_object() => Ok(()),
        None => Err("herdr's answer is neither a result nor an error".to_owned()),
    }
}
