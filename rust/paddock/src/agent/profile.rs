//! What a policy of one's own may say. nono's profiles can do more than confine: run
//! scripts outside of the sandbox, leave the sandbox to somebody else, ask a server
//! for permission. A launch has no use for that, so only what confines is accepted.

use serde_json::Value;

/// Keys that say what a sandbox may do.
const KEYS: [&str; 11] = [
    "$schema",
    "description",
    "environment",
    "extends",
    "filesystem",
    "groups",
    "linux",
    "meta",
    "network",
    "security",
    "workdir",
];

/// Below those: what would have somebody else decide, or nobody.
const REFUSED: [(&str, &str); 6] = [
    ("linux", "sandbox_policy"),
    ("network", "approval_backends"),
    ("network", "approval_defaults"),
    ("security", "approval_backends"),
    ("security", "approval_defaults"),
    ("security", "capability_elevation"),
];

/// Checks the text of a policy.
///
/// # Errors
/// The first of [`problems`].
pub(crate) fn check(text: &str) -> Result<(), String> {
    problems(text).into_iter().next().map_or(Ok(()), Err)
}

/// Every key of a policy that is not accepted. A text with comments, which nono takes,
/// cannot be checked, and is not accepted either.
pub(crate) fn problems(text: &str) -> Vec<String> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(e) => {
            let advice = "it must be plain JSON, without comments, so that it can be checked";
            return vec![format!("{e} ({advice})")];
        }
    };
    let Value::Object(fields) = &value else { return vec!["it is not a JSON object".into()] };
    let unknown = fields
        .keys()
        .filter(|key| !KEYS.contains(&key.as_str()))
        .map(|key| format!("{key:?} is no part of a sandbox; accepted are {}", KEYS.join(", ")));
    let refused = REFUSED.iter().filter(|(group, key)| value[group].get(key).is_some());
    let refused = refused
        .map(|(group, key)| format!("\"{group}.{key}\" would leave the decision to somebody else"));
    unknown.chain(refused).collect()
}

/// Whether a policy itself blocks the network: nothing listens then, but at a port of
/// the launch's own.
pub(crate) fn blocks_network(text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|policy: Value| policy["network"]["block"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_confines_is_accepted() {
        let shipped = include_str!("../../../../profiles/standin/server.json");
        check(shipped).unwrap();
        let blocking = r#"{ "extends": "default", "network": { "block": true } }"#;
        check(blocking).unwrap();
        assert!(blocks_network(blocking) && !blocks_network(shipped) && !blocks_network("{}"));
        for text in [
            r#"{ "session_hooks": { "before": { "script": "/bin/true" } } }"#,
            r#"{ "hooks": {} }"#,
            r#"{ "binary": "/bin/sh" }"#,
            r#"{ "linux": { "sandbox_policy": "external" } }"#,
            r#"{ "security": { "capability_elevation": true } }"#,
            r#"{ "security": { "approval_backends": {} } }"#,
            r#"{ "platform_overrides": {} }"#,
            "{} // so",
            "[]",
            "",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
