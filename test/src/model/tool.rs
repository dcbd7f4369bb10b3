//! The tools that a request offers, and the one of them that is a shell.

use serde_json::{Map, Value, json};

/// What agents call their shell tool.
const SHELLS: [&str; 7] = [
    "exec_command",
    "bash",
    "Bash",
    "shell",
    "developer__shell",
    "run_shell_command",
    "run_in_terminal",
];
/// What their shell tools call the command.
const COMMANDS: [&str; 3] = ["command", "cmd", "script"];

/// A tool as it is offered.
pub(super) struct Tool {
    pub(super) name: String,
    /// The JSON schema of its arguments.
    schema: Value,
}

/// The tools of an array in which each has a `name`, and its schema under one of `schemas`.
pub(super) fn offered<'a>(
    array: impl IntoIterator<Item = &'a Value>,
    schemas: &[&str],
) -> Vec<Tool> {
    let tool = |value: &Value| {
        let schema = schemas.iter().map(|key| &value[*key]).find(|schema| schema.is_object());
        let name = value["name"].as_str()?.to_owned();
        Some(Tool { name, schema: schema.cloned().unwrap_or_default() })
    };
    array.into_iter().filter_map(tool).collect()
}

/// The shell among these tools: one with such a name that takes a command.
pub(super) fn shell(tools: Vec<Tool>) -> Option<Tool> {
    let is_shell = |tool: &Tool| SHELLS.contains(&tool.name.as_str()) && tool.command().is_some();
    tools.into_iter().find(is_shell)
}

impl Tool {
    /// What this tool calls the command that it runs.
    fn command(&self) -> Option<&'static str> {
        let properties = &self.schema["properties"];
        COMMANDS.into_iter().find(|name| properties[*name].is_object())
    }

    /// Arguments to have a shell tool run this command, with something for each other one
    /// that it demands.
    pub(super) fn arguments(&self, command: &str) -> Value {
        let properties = &self.schema["properties"];
        let required = self.schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let mut arguments: Map<String, Value> = required
            .iter()
            .filter_map(Value::as_str)
            .map(|name| (name.to_owned(), anything(&properties[name])))
            .collect();
        if let Some(name) = self.command() {
            let is_array = type_of(&properties[name]) == "array";
            let command = if is_array { json!(["sh", "-c", command]) } else { json!(command) };
            arguments.insert(name.to_owned(), command);
        }
        arguments.into()
    }
}

fn type_of(schema: &Value) -> String {
    schema["type"].as_str().unwrap_or_default().to_ascii_lowercase()
}

/// A value that fits a schema.
fn anything(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match type_of(schema).as_str() {
        "boolean" => json!(false),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(0)),
        "array" => json!([]),
        "object" => json!({}),
        _ => json!("as the script says"),
    }
}
