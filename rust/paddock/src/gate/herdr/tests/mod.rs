mod client;
mod decisions;
mod properties;
mod real;
mod relay;
mod sign;
mod stand_in;

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use super::*;

const PANE: &str = "w1:p9";

fn own_pane_at(socket: &Path) -> OwnPane {
    let variable = |name: &str| match name {
        "HERDR_PANE_ID" => Some(PANE.into()),
        "HERDR_SOCKET_PATH" => Some(socket.into()),
        _ => None,
    };
    OwnPane::find(variable, "opencode").unwrap()
}

fn own_pane() -> OwnPane {
    own_pane_at(Path::new("/run/herdr.sock"))
}

/// The value of a line: one line, ended, and JSON.
fn parsed(line: &[u8]) -> Value {
    let text = line.strip_suffix(b"\n").expect("a line ends");
    assert!(!text.contains(&b'\n'), "it is one line");
    serde_json::from_slice(text).expect("it is JSON")
}

fn replied(line: &[u8]) -> (Value, Record) {
    match decide(line, &own_pane()) {
        Decision::Reply { line, record } => (parsed(&line), record),
        Decision::Forward { message, .. } => panic!("forwarded {}", parsed(&message.line)),
    }
}

fn forwarded(line: &[u8]) -> (Value, Record) {
    match decide(line, &own_pane()) {
        Decision::Forward { message, record, .. } => (parsed(&message.line), record),
        Decision::Reply { line, .. } => panic!("answered {}", parsed(&line)),
    }
}

#[test]
fn the_own_pane_is_found_only_where_its_variables_are_whole() {
    let find = |pane: Option<&str>, socket: Option<&str>, agent: &str| {
        let variable = |name: &str| -> Option<OsString> {
            match name {
                "HERDR_PANE_ID" => pane.map(Into::into),
                "HERDR_SOCKET_PATH" => socket.map(Into::into),
                _ => None,
            }
        };
        OwnPane::find(variable, agent)
    };
    let socket = Some("/run/herdr.sock");
    let found = find(Some("w1:pA"), socket, "codex").unwrap();
    assert_eq!((found.pane_id(), found.socket()), ("w1:pA", Path::new("/run/herdr.sock")));
    let long = "p".repeat(65);
    for (pane, socket, agent) in [
        (None, socket, "codex"),
        (Some("w1:p1"), None, "codex"),
        (Some(""), socket, "codex"),
        (Some("w1:p1\n"), socket, "codex"),
        (Some("w1 p1"), socket, "codex"),
        (Some(long.as_str()), socket, "codex"),
        (Some("w1:p1"), Some("herdr.sock"), "codex"),
        (Some("w1:p1"), socket, ""),
        (Some("w1:p1"), socket, "co\u{202e}dex"),
    ] {
        assert_eq!(find(pane, socket, agent), None, "{pane:?} {socket:?} {agent:?}");
    }
}

#[test]
fn the_documented_table_has_every_method_that_is_answered() {
    const GATE: &str = include_str!("../../../../../../docs/reference/gate.md");
    for method in ["ping", "pane.report_agent", "pane.release_agent", "pane.report_agent_session"] {
        assert!(GATE.contains(&format!("| `{method}` |")), "{method}");
    }
    for code in ["refused_in_sandbox", "invalid_request"] {
        assert!(GATE.contains(&format!("`{code}`")), "{code}");
    }
}
