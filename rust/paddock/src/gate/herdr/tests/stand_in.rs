//! A herdr that answers reports as the real one does, and rejects what its
//! schema does not allow.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::*;

pub(super) struct StandIn {
    _directory: tempfile::TempDir,
    pub(super) socket: PathBuf,
    pub(super) received: Arc<Mutex<Vec<Value>>>,
}

impl StandIn {
    /// Serves every connection with `serve`, for the life of the test process.
    pub(super) fn serving(serve: impl Fn(UnixStream) + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("herdr.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        Self { _directory: directory, socket, received: Arc::default() }
    }

    /// Knows the pane `pane_id` and no other.
    pub(super) fn with_pane(pane_id: &'static str) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let keep = received.clone();
        let stand_in = Self::serving(move |mut stream| {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let request: Value = serde_json::from_str(&line).unwrap();
            let reply = reply(&request, pane_id);
            keep.lock().unwrap().push(request);
            writeln!(stream, "{reply}").unwrap();
        });
        Self { received, ..stand_in }
    }

    pub(super) fn path(&self) -> &Path {
        &self.socket
    }
}

fn reply(request: &Value, pane_id: &str) -> Value {
    let (id, params) = (&request["id"], &request["params"]);
    let texts = |names: &[&str]| names.iter().all(|name| params[*name].is_string());
    let state = || {
        ["idle", "working", "blocked", "unknown"].contains(&params["state"].as_str()?).then_some(())
    };
    let allowed = match request["method"].as_str().unwrap() {
        "pane.report_agent" => texts(&["pane_id", "source", "agent"]) && state().is_some(),
        "pane.report_metadata" => {
            let ttl = &params["ttl_ms"];
            texts(&["pane_id", "source"]) && (ttl.is_null() || ttl.as_u64() > Some(0))
        }
        "pane.release_agent" => texts(&["pane_id", "source", "agent"]),
        _ => false,
    };
    if !allowed || !id.is_string() {
        return json!({ "id": "", "error": { "code": "invalid_request", "message": "invalid" } });
    }
    if params["pane_id"] != pane_id {
        let message = format!("pane {} not found", params["pane_id"]);
        return json!({ "id": id, "error": { "code": "pane_not_found", "message": message } });
    }
    json!({ "id": id, "result": { "type": "ok" } })
}
