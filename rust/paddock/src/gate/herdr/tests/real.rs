//! Against the real herdr, whose path is in `HERDR_BIN`: the state shows, and a
//! restart resumes nothing. Each check has its control in the pane beside.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

/// A real herdr with a state of its own, ended with the test.
struct RealHerdr {
    program: OsString,
    directory: tempfile::TempDir,
    server: Child,
}

impl RealHerdr {
    /// Nothing where there is no herdr to test with.
    fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("HERDR_BIN") else {
            println!("SKIPPED: HERDR_BIN does not name a herdr");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir(root.join("bin")).unwrap();
        std::fs::write(
            root.join("config.toml"),
            "onboarding = false\n[update]\nmanifest_check = false\n",
        )
        .unwrap();
        // What herdr would resume: says that it was, and with which words.
        let claude = root.join("bin/claude");
        let ran = root.join("ran");
        std::fs::write(&claude, format!("#!/bin/sh\necho \"$*\" >> '{}'\n", ran.display()))
            .unwrap();
        std::fs::set_permissions(&claude, std::fs::Permissions::from_mode(0o755)).unwrap();
        let server = Self::serve(&program, root);
        let herdr = Self { program, directory, server };
        herdr.wait_until_ready();
        Some(herdr)
    }

    fn serve(program: &OsString, root: &Path) -> Child {
        Command::new(program)
            .arg("server")
            .env_clear()
            .env("PATH", format!("{}/bin:/usr/bin:/bin", root.display()))
            .env("SHELL", "/bin/bash")
            .env("HERDR_DISABLE_SOUND", "1")
            .env("HERDR_CONFIG_PATH", root.join("config.toml"))
            .env("HERDR_SOCKET_PATH", root.join("herdr.sock"))
            .envs(["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"].map(|name| (name, root)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn wait_until_ready(&self) {
        wait_for("herdr is there", || self.try_ask("ping", &json!({})));
    }

    fn restart(&mut self) {
        self.ask("server.stop", &json!({}));
        wait_for("herdr ended", || self.server.try_wait().unwrap());
        self.server = Self::serve(&self.program, self.directory.path());
        self.wait_until_ready();
    }

    fn try_ask(&self, method: &str, params: &Value) -> Option<Value> {
        let mut stream = UnixStream::connect(self.directory.path().join("herdr.sock")).ok()?;
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let request = json!({ "id": "t", "method": method, "params": params });
        writeln!(stream, "{request}").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// What herdr answers to a caller outside.
    fn ask(&self, method: &str, params: &Value) -> Value {
        let reply = self.try_ask(method, params).expect("herdr answers");
        assert!(reply["error"].is_null(), "{reply}");
        reply["result"].clone()
    }

    /// A new pane with a shell in it.
    fn pane(&self) -> String {
        let cwd = self.directory.path();
        let made = self.ask("workspace.create", &json!({ "cwd": cwd, "label": "x" }));
        made["root_pane"]["pane_id"].as_str().unwrap().to_owned()
    }

    fn look(&self, pane: &str) -> Value {
        self.ask("pane.get", &json!({ "pane_id": pane }))["pane"].clone()
    }

    fn own(&self, pane: &str) -> OwnPane {
        let socket = self.directory.path().join("herdr.sock");
        let variable = |name: &str| match name {
            "HERDR_PANE_ID" => Some(pane.into()),
            _ => Some(socket.clone().into()),
        };
        OwnPane::find(variable, "claude").unwrap()
    }

    fn ran(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("ran")).unwrap_or_default()
    }
}

impl Drop for RealHerdr {
    fn drop(&mut self) {
        self.try_ask("server.stop", &json!({}));
        let started = Instant::now();
        while matches!(self.server.try_wait(), Ok(None)) {
            if started.elapsed() > LIMIT {
                let _ = self.server.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a hook's request through the endpoint; herdr must take what it gets.
fn send_inside(own: &OwnPane, method: &str, params: &Value) {
    let request = json!({ "id": "h", "method": method, "params": params }).to_string();
    let answer = match decide(request.as_bytes(), own) {
        Decision::Reply { line, .. } => line,
        Decision::Forward { message, answer, .. } => {
            assert_eq!(told(own, &message), "ok");
            answer
        }
    };
    assert_eq!(parsed(&answer), json!({ "id": "h", "result": { "type": "ok" } }));
}

/// What herdr says to it.
fn told(own: &OwnPane, message: &Message) -> String {
    answer::said(&HerdrClient::with_limit(own.socket(), LIMIT).send(&message.line).unwrap())
}

#[test]
fn herdr_shows_a_state_reported_inside_until_it_is_released() {
    let Some(herdr) = RealHerdr::start() else { return };
    let (pane, beside) = (herdr.pane(), herdr.pane());
    let own = herdr.own(&pane);
    for state in ["working", "blocked", "idle"] {
        let report = json!({
            "pane_id": beside, "source": "herdr:claude", "agent": "claude", "seq": u64::MAX,
            "state": state, "agent_session_id": "inside",
        });
        send_inside(&own, "pane.report_agent", &report);
        let shown = herdr.look(&pane);
        assert_eq!(shown["agent"], "claude", "{shown}");
        assert_eq!(shown["agent_status"], state, "{shown}");
        assert!(shown["agent_session"].is_null(), "{shown}");
        assert!(herdr.look(&beside)["agent"].is_null(), "the pane that it named has nothing");
    }
    assert_eq!(told(&own, &release_of(&own)), "ok");
    assert!(herdr.look(&pane)["agent"].is_null());
}

/// Why the source is not the agent's: herdr answers `ok` and believes nothing.
#[test]
fn herdr_believes_no_state_of_an_agents_own_source_without_its_session() {
    let Some(herdr) = RealHerdr::start() else { return };
    let pane = herdr.pane();
    let report = |source: &str| {
        json!({
            "pane_id": pane, "source": source, "agent": "opencode", "state": "working",
        })
    };
    herdr.ask("pane.report_agent", &report("herdr:opencode"));
    assert!(herdr.look(&pane)["agent"].is_null());
    herdr.ask("pane.report_agent", &report(SOURCE));
    assert_eq!(herdr.look(&pane)["agent"], "opencode", "the control");
}

#[test]
fn after_a_restart_of_herdr_no_agent_of_a_launch_is_resumed() {
    let Some(mut herdr) = RealHerdr::start() else { return };
    let (pane, control) = (herdr.pane(), herdr.pane());
    let own = herdr.own(&pane);
    let session = |pane: &str, id: &str| {
        json!({
            "pane_id": pane, "source": "herdr:claude", "agent": "claude",
            "agent_session_id": id, "session_start_source": "startup",
        })
    };
    send_inside(&own, "pane.report_agent_session", &session(&pane, "inside"));
    let report = json!({
        "pane_id": pane, "source": "herdr:claude", "agent": "claude", "state": "working",
        "agent_session_id": "inside",
    });
    send_inside(&own, "pane.report_agent", &report);
    assert_eq!(herdr.look(&pane)["agent_status"], "working");
    assert!(herdr.look(&pane)["agent_session"].is_null());
    // The control: the same report, sent to herdr itself.
    herdr.ask("pane.report_agent_session", &session(&control, "outside"));
    assert_eq!(herdr.look(&control)["agent_session"]["value"], "outside");

    herdr.restart();
    wait_for("the control is resumed", || herdr.ran().contains("outside").then_some(()));
    assert_eq!(herdr.ran(), "--resume outside\n");
    let shown = herdr.look(&pane);
    assert!(shown["agent"].is_null() && shown["agent_session"].is_null(), "{shown}");
}
