//! Answers in herdr's shapes.

use serde_json::{Value, json};

use super::client::ClientError;

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

/// Who is answered when herdr has replied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReplyTo {
    id: String,
}

impl ReplyTo {
    pub(super) fn new(id: &str) -> Self {
        Self { id: id.to_owned() }
    }

    /// The caller's answer, and in a word what herdr said. Of its reply no more
    /// than that comes inside.
    pub(super) fn line(&self, reply: Result<Vec<u8>, ClientError>) -> (Vec<u8>, String) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                let why = why.to_string();
                return (error(&self.id, "herdr_unavailable", &why), why);
            }
        };
        match serde_json::from_slice::<Value>(&reply) {
            Ok(reply) if reply["result"].is_object() && reply["error"].is_null() => {
                (done(&self.id), "ok".into())
            }
            Ok(reply) if reply["error"]["code"].as_str().is_some_and(is_code) => {
                let code = reply["error"]["code"].as_str().unwrap_or_default();
                (error(&self.id, code, "herdr did not take the report"), code.into())
            }
            _ => {
                let why = "herdr's reply is none of its protocol";
                (error(&self.id, "herdr_unavailable", why), why.into())
            }
        }
    }
}

fn is_code(code: &str) -> bool {
    (1..=64).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}
