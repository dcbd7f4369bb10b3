//! Answers in herdr's shapes.

use serde_json::{Value, json};

/// The interface that is spoken here, not the version of the herdr outside: the
/// agent has no use for that.
const VERSION: &str = "0.8.0+paddock";
const PROTOCOL: u32 = 20;

/// One line of JSON.
pub(super) fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

pub(super) fn pong(id: &str) -> Vec<u8> {
    let capabilities = json!({ "live_handoff": false, "detached_server_daemon": false });
    let pong = json!({
        "type": "pong", "version": VERSION, "protocol": PROTOCOL, "capabilities": capabilities,
    });
    line(&json!({ "id": id, "result": pong }))
}

pub(super) fn done(id: &str) -> Vec<u8> {
    line(&json!({ "id": id, "result": { "type": "ok" } }))
}

pub(super) fn error(id: &str, code: &str, message: &str) -> Vec<u8> {
    line(&json!({ "id": id, "error": { "code": code, "message": message } }))
}

/// In a word, what herdr replied to what it was told.
pub(super) fn said(reply: &[u8]) -> String {
    let reply: Value = serde_json::from_slice(reply).unwrap_or_default();
    match reply["error"]["code"].as_str() {
        None if reply["result"].is_object() && reply["error"].is_null() => "ok".into(),
        Some(code) if is_code(code) => code.into(),
        _ => "herdr's reply is none of its protocol".into(),
    }
}

fn is_code(code: &str) -> bool {
    (1..=64).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}
