//! What of a configuration is executed by the agent: MCP servers, hooks, helpers. They run
//! where the agent does, in its sandbox.

use std::path::{Path, PathBuf};

use confine::escape::escape_short;
use serde_json::Value;

/// Of one file so many are told.
const MOST: usize = 24;
/// The longest that is told of one.
const LONGEST: usize = 120;

/// Something that the agent executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executed {
    /// The file that says so.
    pub(crate) file: PathBuf,
    /// The key and what is executed; escaped.
    pub(crate) what: String,
}

/// What a file has executed below those keys.
pub(super) fn executed(file: &Path, text: &[u8], keys: &[String]) -> Vec<Executed> {
    if keys.is_empty() {
        return Vec::new();
    }
    let said = |what: &str| Executed {
        file: file.to_owned(),
        what: escape_short(what.as_bytes(), LONGEST).to_string(),
    };
    let Some(value) = parsed(file, text) else {
        return vec![said(&format!("it cannot be read for {}", keys.join(", ")))];
    };
    let mut told = Vec::new();
    for key in keys {
        let found = key.split('.').try_fold(&value, |value, part| value.get(part));
        let before = told.len();
        if let Some(found) = found {
            commands(key, found, &mut told);
            if told.len() == before && !is_empty(found) {
                told.push(format!("{key}: is set"));
            }
        }
    }
    let more = told.len().saturating_sub(MOST);
    told.truncate(MOST);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told.iter().map(|what| said(what)).collect()
}

fn parsed(file: &Path, text: &[u8]) -> Option<Value> {
    let text = str::from_utf8(text).ok()?;
    if file.extension().is_some_and(|extension| extension == "toml") {
        return toml::from_str::<Value>(text).ok();
    }
    serde_json::from_str(text).ok()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// A command is a text or a list of texts: the value itself, or what is called `command`
/// anywhere below.
fn commands(key: &str, value: &Value, told: &mut Vec<String>) {
    match value {
        Value::String(command) if !command.is_empty() => told.push(format!("{key}: {command}")),
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_string) => {
            let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            told.push(format!("{key}: {}", words.join(" ")));
        }
        _ => below(key, value, told),
    }
}

fn below(key: &str, value: &Value, told: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| below(key, item, told)),
        Value::Object(fields) => {
            for (name, field) in fields {
                let key = format!("{key}.{name}");
                let tell = if name == "command" { commands } else { below };
                tell(&key, field, told);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(file: &str, text: &str, keys: &[&str]) -> Vec<String> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        executed(Path::new(file), text.as_bytes(), &keys).into_iter().map(|e| e.what).collect()
    }

    #[test]
    fn what_is_executed_is_found_in_toml_and_in_json() {
        let text = "notify = [\"sh\", \"-c\", \"x\"]\n[mcp.a]\ncommand = \"npx\"\nargs = [\"y\"]\n\
            [mcp.b]\nurl = \"https://a.test\"\n";
        let wanted = ["mcp.a.command: npx", "notify: sh -c x"];
        assert_eq!(told("a.toml", text, &["mcp", "notify", "none"]), wanted);
        let text = r#"{ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "./x" }] }] },
            "env": { "A": "b" }, "helper": "get\u001bkey", "deep": { "er": ["a"] } }"#;
        let wanted =
            ["hooks.Stop.hooks.command: ./x", "helper: get\\u{1b}key", "deep.er: a", "env: is set"];
        assert_eq!(told("a.json", text, &["hooks", "helper", "deep.er", "env"]), wanted);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_much_is_cut() {
        assert_eq!(told("a.json", "{ // c\n}", &["hooks"]), ["it cannot be read for hooks"]);
        assert_eq!(told("a.json", "{ // c\n}", &[]), Vec::<String>::new());
        let many: Vec<String> = (0..99).map(|n| format!("[mcp.a{n}]\ncommand = \"x\"\n")).collect();
        let told = told("a.toml", &many.concat(), &["mcp"]);
        assert_eq!((told.len(), told[MOST].as_str()), (MOST + 1, "and 75 more"));
    }
}
