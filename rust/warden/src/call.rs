//! What a program in a sandbox may ask of the gate, and what it is told.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request. Strings are the caller's own and may hold anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Call {
    /// What may I do?
    Grants,
    /// The agent's state, for whoever looks at its pane.
    Report {
        /// `working`, `blocked`, `idle` or `done`.
        state: String,
        /// What it is about, in a line.
        message: Option<String>,
    },
    /// Something for the person to know.
    Notify {
        /// In a line.
        title: String,
        /// More of it.
        body: Option<String>,
    },
    /// Ask the person for a host, and wait for the answer.
    RequestHost {
        /// As `name` or `name:port`.
        host: String,
        /// What for.
        reason: Option<String>,
        /// How long to wait, in seconds.
        wait: u32,
    },
    /// Ask the person for a path, and wait for the answer.
    RequestPath {
        /// Absolute.
        path: PathBuf,
        /// To write there, too.
        write: bool,
        /// What for.
        reason: Option<String>,
        /// How long to wait, in seconds.
        wait: u32,
    },
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answer {
    /// It was done.
    Done {
        /// What was asked for, if anything.
        result: Value,
    },
    /// The person allows it.
    Granted {
        /// `once`, `launch` or `always`; for a path what to do to have it.
        scope: String,
    },
    /// The person does not, or nobody answered in time.
    Denied {
        /// Why.
        why: String,
    },
    /// The gate does not serve this caller, or not with this.
    Refused {
        /// A word that does not change.
        code: String,
        /// Why, and what to do about it.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
    use serde_json::json;

    use super::*;
    use crate::{PROTOCOL_VERSION, ToKeeper};

    /// Any JSON, with the words of the protocol among its keys and texts.
    fn any_json() -> impl Strategy<Value = Value> {
        const WORDS: [&str; 12] = [
            "call",
            "hello",
            "version",
            "layer",
            "pen",
            "grants",
            "report",
            "state",
            "request-host",
            "host",
            "wait",
            "testimony",
        ];
        let text = || {
            prop_oneof![
                any::<String>(),
                proptest::sample::select(&WORDS[..]).prop_map(str::to_owned)
            ]
        };
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 40, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((text(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn any_call() -> BoxedStrategy<Call> {
        let more = any::<Option<String>>;
        let path = any::<String>().prop_map(PathBuf::from);
        prop_oneof![
            Just(Call::Grants),
            (any::<String>(), more()).prop_map(|(state, message)| Call::Report { state, message }),
            (any::<String>(), more()).prop_map(|(title, body)| Call::Notify { title, body }),
            (any::<String>(), more(), any::<u32>())
                .prop_map(|(host, reason, wait)| Call::RequestHost { host, reason, wait }),
            (path, any::<bool>(), more(), any::<u32>()).prop_map(|(path, write, reason, wait)| {
                Call::RequestPath { path, write, reason, wait }
            }),
        ]
        .boxed()
    }

    proptest::proptest! {
        #[test]
        fn any_json_is_a_message_or_an_error(value in any_json()) {
            let _ = serde_json::from_value::<ToKeeper>(value.clone());
            let _ = serde_json::from_value::<Call>(value.clone());
            // Where a call belongs.
            for call in [value.clone(), json!({ "grants": value }), json!({ "report": value })] {
                let message = json!({ "call": { "version": PROTOCOL_VERSION, "call": call } });
                let _ = serde_json::from_value::<ToKeeper>(message);
            }
        }

        #[test]
        fn a_call_arrives_as_it_was_made(call in any_call()) {
            let sent = ToKeeper::Call { version: PROTOCOL_VERSION, call: call.clone() };
            let frame = serde_json::to_vec(&sent).unwrap();
            match serde_json::from_slice(&frame).unwrap() {
                ToKeeper::Call { call: arrived, .. } => proptest::prop_assert_eq!(arrived, call),
                other => panic!("{other:?}"),
            }
        }

        #[test]
        fn a_call_with_bytes_overwritten_is_a_message_or_an_error(
            call in any_call(), at: proptest::sample::Index, bytes: Vec<u8>,
        ) {
            let sent = ToKeeper::Call { version: PROTOCOL_VERSION, call };
            let mut frame = serde_json::to_vec(&sent).unwrap();
            let at = at.index(frame.len());
            let end = frame.len().min(at + bytes.len());
            frame.splice(at..end, bytes);
            let _ = serde_json::from_slice::<ToKeeper>(&frame);
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_an_error() {
        for depth in [100_000, 500_000] {
            for open in ["[", "{\"call\":"] {
                assert!(serde_json::from_str::<ToKeeper>(&open.repeat(depth)).is_err());
            }
        }
    }
}
