use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::*;

const METHODS: [&str; 9] = [
    "ping",
    "pane.report_agent",
    "pane.report_agent_session",
    "pane.release_agent",
    "pane.report_metadata",
    "pane.send_input",
    "agent.start",
    "server.stop",
    "",
];
const FIELDS: [&str; 11] = [
    "pane_id",
    "source",
    "agent",
    "state",
    "message",
    "seq",
    "agent_session_id",
    "agent_session_path",
    "session_start_source",
    "session",
    "method",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("w1:p9".to_owned()),
        Just("w2:p1".to_owned()),
        Just("herdr:claude".to_owned()),
        Just("working".to_owned()),
        Just("idle\n{\"id\":\"\"}".to_owned()),
        ".*",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => text().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => prop::collection::vec(text(), 0..3).prop_map(Value::from),
    ]
}

/// Requests that come close to being passed on, and often are.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let whole = (text(), text(), text(), prop::sample::select(STATES.to_vec())).prop_map(
        |(pane, source, agent, state)| {
            json!({ "pane_id": pane, "source": source, "agent": agent, "state": state })
        },
    );
    let more = prop::collection::vec((prop::sample::select(FIELDS.to_vec()), value()), 0..6);
    (text(), prop::sample::select(METHODS.to_vec()), whole, more).prop_map(
        |(id, method, mut params, more)| {
            for (name, value) in more {
                params[name] = value;
            }
            json!({ "id": id, "method": method, "params": params }).to_string().into_bytes()
        },
    )
}

/// A request with a piece cut out, or written over.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (request(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<Vec<u8>>())
        .prop_map(|(mut line, from, to, with)| {
            let (a, b) = (from.index(line.len()), to.index(line.len()));
            line.splice(a.min(b)..a.max(b), with);
            line
        })
}

fn has_session(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.contains("session") || has_session(value))
        }
        Value::Array(values) => values.iter().any(has_session),
        _ => false,
    }
}

/// What must hold of a decision, whatever was asked. Tells whether it was to
/// forward.
fn holds(line: &[u8]) -> bool {
    match decide(line, &own_pane()) {
        Decision::Reply { line, record } => {
            let reply = parsed(&line);
            assert!(reply["id"].is_string());
            assert!(reply["result"]["type"].is_string() ^ reply["error"]["code"].is_string());
            assert_ne!(record.outcome, Outcome::Forwarded);
            false
        }
        Decision::Forward { message, answer, record } => {
            let line = message.line;
            let sent = parsed(&line);
            assert_eq!(sent.as_object().unwrap().len(), 3);
            assert_eq!(sent["id"], ID);
            let method = sent["method"].as_str().unwrap();
            assert!(["pane.report_agent", "pane.release_agent"].contains(&method), "{method}");
            let params = &sent["params"];
            assert_eq!(params["pane_id"], PANE);
            assert_eq!(
                (&params["source"], &params["agent"]),
                (&"paddock".into(), &"opencode".into())
            );
            assert!(!has_session(&sent), "{sent}");
            assert!(line.len() < 2048, "{}", line.len());
            for name in params.as_object().unwrap().keys() {
                let known = ["pane_id", "source", "agent", "state", "message"];
                assert!(known.contains(&name.as_str()), "{name}");
            }
            assert_eq!(record.outcome, Outcome::Forwarded);
            assert_eq!(parsed(&answer)["result"]["type"], "ok");
            true
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered_with_a_line(line: Vec<u8>) {
        prop_assert!(!holds(&line));
    }

    #[test]
    fn any_request_forwards_nothing_but_the_own_panes_state(line in request()) {
        holds(&line);
    }

    #[test]
    fn a_damaged_request_forwards_nothing_else_either(line in damaged()) {
        holds(&line);
    }

    #[test]
    fn of_any_reply_of_herdrs_a_word_or_two_are_kept(reply: Vec<u8>) {
        let said = answer::said(&reply);
        prop_assert!(said.len() <= 64 && said.bytes().all(|b| b.is_ascii_graphic() || b == b' '));
    }
}

#[test]
fn the_requests_that_are_tried_do_get_forwarded() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut forwarded = 0;
    for _ in 0..200 {
        let line = request().new_tree(&mut runner).unwrap().current();
        forwarded += usize::from(holds(&line));
    }
    assert!(forwarded > 10, "{forwarded}");
}
