use super::*;

/// What herdr's hook for an agent with states sends, session and all.
const REPORT: &str = r#"{"id":"herdr:opencode:1:000001","method":"pane.report_agent","params":{
    "pane_id":"w1:p9","source":"herdr:opencode","agent":"opencode","seq":18446744073709551615,
    "state":"working","message":"thinking","agent_session_id":"ses_1"}}"#;

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"id":"r1","method":"{method}","params":{params}}}"#)
}

#[test]
fn ping_is_answered_here_in_herdrs_shape() {
    let (reply, record) = replied(br#"{"id":"r1","method":"ping","params":{}}"#);
    assert_eq!(reply["id"], "r1");
    let pong = &reply["result"];
    assert_eq!(pong["type"], "pong");
    assert!(pong["version"].is_string() && pong["protocol"].is_u64(), "{pong}");
    assert_eq!(pong["capabilities"]["live_handoff"], false);
    assert_eq!(record.outcome, Outcome::Answered);
}

#[test]
fn a_state_report_is_written_anew_for_the_own_pane() {
    let line = REPORT.replace('\n', "");
    let (sent, record) = forwarded(line.as_bytes());
    let expected = json!({
        "id": "paddock",
        "method": "pane.report_agent",
        "params": {
            "pane_id": PANE, "source": "paddock", "agent": "opencode",
            "state": "working", "message": "thinking",
        },
    });
    assert_eq!(sent, expected);
    assert_eq!(record.method, "pane.report_agent");
    assert_eq!((record.outcome, record.session), (Outcome::Forwarded, true));
    assert!(!record.other_pane);
}

#[test]
fn a_report_for_another_pane_agent_or_source_says_nothing_of_them() {
    let line = request(
        "pane.report_agent",
        r#"{"pane_id":"w2:p1","source":"herdr:claude","agent":"claude","state":"idle"}"#,
    );
    let (sent, record) = forwarded(line.as_bytes());
    let params = json!({
        "pane_id": PANE, "source": "paddock", "agent": "opencode", "state": "idle",
    });
    assert_eq!(sent["params"], params);
    assert!(record.other_pane && !record.session);
}

#[test]
fn every_state_that_herdr_has_is_passed_on_and_no_other() {
    let report = |state: &str| {
        request(
            "pane.report_agent",
            &format!(r#"{{"pane_id":"w1:p9","source":"s","agent":"a","state":{state}}}"#),
        )
    };
    for state in STATES {
        let (sent, _) = forwarded(report(&format!("\"{state}\"")).as_bytes());
        assert_eq!(sent["params"]["state"], state);
    }
    for state in ["\"done\"", "\"Idle\"", "\"\"", "1", "null", "[\"idle\"]"] {
        let (reply, record) = replied(report(state).as_bytes());
        assert_eq!(reply["error"]["code"], "invalid_request", "{state}");
        assert_eq!(record.outcome, Outcome::Refused);
    }
}

#[test]
fn a_message_is_cut_and_loses_what_draws() {
    let message = |text: &str| {
        let params = json!({
            "pane_id": PANE, "source": "s", "agent": "a", "state": "idle", "message": text,
        });
        let line = request("pane.report_agent", &params.to_string());
        forwarded(line.as_bytes()).0["params"]["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(message("a\u{1b}[2Jb\r\nc\u{202e}d\u{7f}\u{9b}e \u{e9}"), "a[2Jbcde \u{e9}");
    assert_eq!(message(&"\u{65e5}".repeat(5000)), "\u{65e5}".repeat(MOST_MESSAGE));
}

#[test]
fn a_session_report_is_answered_as_done_and_stays_here() {
    for params in [
        r#"{"pane_id":"w1:p9","source":"herdr:claude","agent":"claude","agent_session_id":"S"}"#,
        r#"{"pane_id":"w1:p9","source":"herdr:pi","agent":"pi","agent_session_path":"/s.jsonl",
            "session_start_source":"startup","seq":1}"#,
    ] {
        let line = request("pane.report_agent_session", params);
        let (reply, record) = replied(line.as_bytes());
        assert_eq!(reply, json!({ "id": "r1", "result": { "type": "ok" } }));
        assert_eq!((record.outcome, record.session), (Outcome::Kept, true));
        assert!(!record.other_pane);
    }
}

#[test]
fn a_release_is_only_of_the_own_pane_and_source() {
    let line = request(
        "pane.release_agent",
        r#"{"pane_id":"w2:p1","source":"herdr:claude","agent":"claude","seq":4}"#,
    );
    let (sent, record) = forwarded(line.as_bytes());
    assert_eq!(sent["method"], "pane.release_agent");
    let params = json!({ "pane_id": PANE, "source": "paddock", "agent": "opencode" });
    assert_eq!(sent["params"], params);
    assert!(record.other_pane);
}

#[test]
fn every_other_method_is_refused_with_its_id_in_herdrs_error_shape() {
    for method in [
        "pane.send_input",
        "pane.send_text",
        "pane.read",
        "pane.split",
        "pane.report_metadata",
        "pane.clear_agent_authority",
        "pane.graphics.set",
        "agent.start",
        "agent.prompt",
        "events.subscribe",
        "layout.apply",
        "notification.show",
        "plugin.action.invoke",
        "session.snapshot",
        "server.stop",
        "workspace.report_metadata",
        "no.such.method",
        "PING",
        "pane.report_agent ",
        "",
    ] {
        for params in ["{}", r#"{"pane_id":"w1:p9","source":"s","agent":"a","state":"idle"}"#] {
            let (reply, record) = replied(request(method, params).as_bytes());
            assert_eq!(reply["id"], "r1", "{method}");
            assert_eq!(reply["error"]["code"], "refused_in_sandbox");
            let message = reply["error"]["message"].as_str().unwrap();
            assert!(message.contains(&format!("`{method}`")), "{message}");
            assert!(message.contains("refused inside the sandbox"), "{message}");
            assert_eq!((record.outcome, record.method.as_str()), (Outcome::Refused, method));
            assert_eq!(record.why.as_deref(), Some(message));
        }
    }
}

#[test]
fn a_method_that_draws_is_escaped_and_cut() {
    let line = json!({ "id": "r1", "method": format!("\u{1b}]0;x\u{7}{}", "m".repeat(900)) });
    let (reply, record) = replied(line.to_string().as_bytes());
    assert!(record.method.starts_with("\\u{1b}]0;x\\u{7}m") && record.method.len() < 100);
    assert!(reply["error"]["message"].as_str().unwrap().contains(&record.method));
}

#[test]
fn what_is_no_request_gets_herdrs_error_without_an_id() {
    let report = |params: &str| request("pane.report_agent", params);
    for line in [
        String::new(),
        "\n".into(),
        "null".into(),
        "[]".into(),
        "{".into(),
        "{}{}".into(),
        r#"{"method":"ping","params":{}}"#.into(),
        r#"{"id":1,"method":"ping","params":{}}"#.into(),
        r#"{"id":"r1","params":{}}"#.into(),
        r#"{"id":"r1","method":["ping"],"params":{}}"#.into(),
        r#"{"id":"r1","method":"ping"}"#.into(),
        request("ping", "null"),
        request("ping", "[]"),
        request("pane.release_agent", "{}"),
        request("pane.report_agent_session", r#"{"pane_id":"w1:p9","source":"s"}"#),
        report("{}"),
        report(r#"{"source":"s","agent":"a","state":"idle"}"#),
        report(r#"{"pane_id":9,"source":"s","agent":"a","state":"idle"}"#),
        report(r#"{"pane_id":"w1:p9","source":null,"agent":"a","state":"idle"}"#),
        report(r#"{"pane_id":"w1:p9","source":"s","agent":"a"}"#),
        report(r#"{"pane_id":"w1:p9","source":"s","agent":"a","state":"idle","message":1}"#),
        report(r#"{"pane_id":"w1:p9","source":"s","agent":"a","state":"idle","seq":-1}"#),
        report(r#"{"pane_id":"w1:p9","source":"s","agent":"a","state":"idle","seq":"1"}"#),
        report(
            r#"{"pane_id":"w1:p9","source":"s","agent":"a","state":"idle","agent_session_id":{}}"#,
        ),
        "[".repeat(10_000),
    ] {
        let (reply, record) = replied(line.as_bytes());
        assert_eq!(reply["id"], "", "{line}");
        assert_eq!(reply["error"]["code"], "invalid_request", "{line}");
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("refused inside the sandbox: "), "{message}");
        assert_eq!(record.outcome, Outcome::Refused);
    }
    assert_eq!(replied(b"{\"id\":\"\xff\"}").0["error"]["code"], "invalid_request");
}

#[test]
fn the_longest_request_is_read_and_a_longer_one_is_not() {
    let line = |length: usize| {
        let frame = r#"{"id":"","method":"ping","params":{}}"#;
        let id = "i".repeat(length - frame.len());
        frame.replace(r#""id":"""#, &format!(r#""id":"{id}""#)) + "\n"
    };
    let (reply, _) = replied(line(MOST_REQUEST_BYTES).as_bytes());
    assert_eq!(reply["result"]["type"], "pong");
    let (reply, _) = replied(line(MOST_REQUEST_BYTES + 1).as_bytes());
    assert_eq!(reply["error"]["code"], "invalid_request");
}

#[test]
fn of_two_fields_of_one_name_only_one_is_believed_and_none_is_copied() {
    let line = r#"{"id":"r1","method":"pane.send_input","method":"pane.report_agent","params":{
        "pane_id":"w2:p1","pane_id":"w1:p9","source":"s","agent":"a","state":"idle",
        "state":"blocked"}}"#;
    let (sent, _) = forwarded(line.as_bytes());
    assert_eq!(sent["params"].as_object().unwrap().len(), 4);
    assert_eq!(
        (&sent["params"]["pane_id"], &sent["params"]["state"]),
        (&PANE.into(), &"blocked".into())
    );
}

#[test]
fn the_records_form_is_the_ledgers() {
    let (_, record) = replied(request("server.stop", "{}").as_bytes());
    let value = serde_json::to_value(record).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["method", "otherPane", "outcome", "session", "why"]);
    assert_eq!(value["outcome"], "refused");
}
