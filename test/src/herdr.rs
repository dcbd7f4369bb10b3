//! A herdr that is made up: it answers as the real one and writes down what it got.

mod answers;
pub mod pane;
pub mod plugin_host;
mod schema;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::host::{Host, LIMIT, wait_for};

/// The pane that a stand-in has.
pub const PANE: &str = "w1:p9";

/// All that herdr 0.8.0 does, by the schema that it prints, but for what the gate
/// answers to.
pub const OTHER_METHODS: [&str; 87] = [
    "agent.explain",
    "agent.focus",
    "agent.get",
    "agent.list",
    "agent.prompt",
    "agent.read",
    "agent.rename",
    "agent.send_keys",
    "agent.start",
    "agent.view.clear",
    "agent.view.set",
    "agent.wait",
    "client.window_title.clear",
    "client.window_title.set",
    "events.subscribe",
    "events.wait",
    "integration.install",
    "integration.uninstall",
    "layout.apply",
    "layout.export",
    "layout.set_split_ratio",
    "notification.show",
    "pane.clear_agent_authority",
    "pane.close",
    "pane.current",
    "pane.edges",
    "pane.focus",
    "pane.focus_direction",
    "pane.get",
    "pane.graphics.clear",
    "pane.graphics.info",
    "pane.graphics.set",
    "pane.input.set",
    "pane.layout",
    "pane.list",
    "pane.move",
    "pane.neighbor",
    "pane.process_info",
    "pane.read",
    "pane.rename",
    "pane.report_metadata",
    "pane.resize",
    "pane.send_input",
    "pane.send_keys",
    "pane.send_text",
    "pane.split",
    "pane.swap",
    "pane.wait_for_output",
    "pane.zoom",
    "plugin.action.invoke",
    "plugin.action.list",
    "plugin.disable",
    "plugin.enable",
    "plugin.link",
    "plugin.list",
    "plugin.log.list",
    "plugin.pane.close",
    "plugin.pane.focus",
    "plugin.pane.open",
    "plugin.unlink",
    "popup.close",
    "server.agent_manifests",
    "server.live_handoff",
    "server.reload_agent_manifests",
    "server.reload_config",
    "server.stop",
    "session.snapshot",
    "tab.close",
    "tab.create",
    "tab.focus",
    "tab.get",
    "tab.list",
    "tab.move",
    "tab.rename",
    "workspace.close",
    "workspace.create",
    "workspace.focus",
    "workspace.get",
    "workspace.list",
    "workspace.move",
    "workspace.move_block",
    "workspace.rename",
    "workspace.report_metadata",
    "worktree.create",
    "worktree.list",
    "worktree.open",
    "worktree.remove",
];

static SCHEMA: LazyLock<schema::Schema> = LazyLock::new(schema::Schema::load);

type Received = Arc<Mutex<Vec<Value>>>;

/// Answers as herdr does to the requests that Paddock makes, and to any other that
/// it would have done it, so that it shows when one gets through.
pub struct StandIn {
    /// Where it listens.
    pub socket: PathBuf,
    received: Received,
}

impl StandIn {
    /// Listens in the home of `host`, whose programs are in its pane from here on.
    pub fn beside(host: &mut Host) -> Self {
        let stand_in = Self::listen(&host.home().join("herdr.sock"));
        host.set("HERDR_ENV", "1").set("HERDR_PANE_ID", PANE);
        host.set("HERDR_SOCKET_PATH", &stand_in.socket);
        stand_in
    }

    /// Listens at `socket` for the life of the test process.
    pub fn listen(socket: &Path) -> Self {
        let received = Received::default();
        let keep = received.clone();
        serve_at(socket, move |stream| {
            if let Some(request) = read_line(&stream) {
                let reply = reply(&request);
                keep.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                let _ = writeln!(&stream, "{reply}");
            }
        });
        Self { socket: socket.to_owned(), received }
    }

    /// What it got so far, in order, but for [`Self::signs`].
    pub fn received(&self) -> Vec<Value> {
        self.all().into_iter().filter(|request| !is_sign(request)).collect()
    }

    /// What the keeper itself had it show of the launch: the parameters, in order.
    pub fn signs(&self) -> Vec<Value> {
        let all = self.all().into_iter();
        all.filter(is_sign).map(|mut request| request["params"].take()).collect()
    }

    fn all(&self) -> Vec<Value> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The states in that, and `released`.
    pub fn told(&self) -> Vec<String> {
        let word = |request: &Value| match request["method"].as_str() {
            Some("pane.report_agent") => request["params"]["state"].as_str().map(str::to_owned),
            Some("pane.release_agent") => Some("released".into()),
            other => other.map(str::to_owned),
        };
        self.received().iter().map(|request| word(request).unwrap_or_default()).collect()
    }

    /// Waits until that is the last that it was told.
    ///
    /// # Panics
    /// When it is not within the limit.
    pub fn wait_for(&self, last: &str) {
        let found = wait_for(LIMIT, || (self.told().last()? == last).then_some(()));
        assert!(found.is_some(), "{last}: {:?}", self.told());
    }
}

/// Takes connections at `socket` and never answers one; counts them.
pub fn listen_and_be_silent(socket: &Path) -> Arc<Mutex<Vec<UnixStream>>> {
    let held = Arc::new(Mutex::new(Vec::new()));
    let keep = held.clone();
    serve_at(socket, move |stream| {
        keep.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    });
    held
}

fn serve_at(socket: &Path, serve: impl Fn(UnixStream) + Send + 'static) {
    let listener = UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
}

pub(crate) fn read_line(stream: &UnixStream) -> Option<Value> {
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

fn is_sign(request: &Value) -> bool {
    request["method"] == "pane.report_metadata" && request["params"]["source"] == "plugin:paddock"
}

/// herdr's answer, by its schema.
fn reply(request: &Value) -> Value {
    let (id, params) = (&request["id"], &request["params"]);
    let has = |names: &[&str]| names.iter().all(|name| params[*name].is_string());
    let is_state = || {
        let states = ["idle", "working", "blocked", "unknown"];
        params["state"].as_str().is_some_and(|state| states.contains(&state))
    };
    let is_request = match request["method"].as_str() {
        Some("pane.report_agent") => has(&["pane_id", "source", "agent"]) && is_state(),
        Some("pane.release_agent" | "pane.report_agent_session") => {
            has(&["pane_id", "source", "agent"])
        }
        Some("pane.report_metadata") if is_sign(request) => {
            SCHEMA.fault_of_request(request).is_none()
        }
        method => method.is_some(),
    };
    if !is_request || !id.is_string() || !params.is_object() {
        return json!({ "id": "", "error": { "code": "invalid_request", "message": "invalid" } });
    }
    if params["pane_id"].as_str().is_some_and(|pane| pane != PANE) {
        let message = format!("pane {} not found", params["pane_id"]);
        return json!({ "id": id, "error": { "code": "pane_not_found", "message": message } });
    }
    json!({ "id": id, "result": { "type": "ok" } })
}
