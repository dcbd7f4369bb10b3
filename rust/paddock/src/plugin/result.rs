//! What an action came to: one line of JSON for a script, first of all.

use confine::escape::is_safe;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cli::Action;
use crate::error::Error;

/// What stands before the JSON.
pub(crate) const MARK: &str = "HERDR_SANDBOX_RESULT: ";
/// The version of its form.
const SCHEMA: u32 = 1;

/// Why an action failed, for a script: these names stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ErrorKind {
    /// A program, an agent or a launch is not there.
    NotFound,
    /// Something is not this user's to do.
    Permission,
    /// What is asked for stands against what is.
    Conflict,
    /// The configuration, an agent file or herdr's words cannot be used.
    Config,
    /// It is not clear, or not allowed, what it is to be done to.
    Target,
    /// A launch or a pane did not come up.
    Startup,
    /// Something is not confirmed to be confined.
    Unconfined,
    /// Something is not as it was recorded.
    PinMismatch,
    /// None of these.
    Unknown,
}

impl ErrorKind {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 9] = [
        Self::NotFound,
        Self::Permission,
        Self::Conflict,
        Self::Config,
        Self::Target,
        Self::Startup,
        Self::Unconfined,
        Self::PinMismatch,
        Self::Unknown,
    ];
}

/// An action that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    /// What to do about it.
    pub(super) next: Option<String>,
    /// More for a script.
    #[serde(default)]
    pub(super) fields: Map<String, Value>,
}

impl Failure {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), next: None, fields: Map::new() }
    }

    /// With what to do about it.
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// With one more thing for a script.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = kind_of(&error);
        let next = error.advice().unwrap_or_else(|| {
            let general = match kind {
                ErrorKind::Unconfined => "paddock doctor shows what gets through on this host",
                _ => "paddock log shows what happened",
            };
            general.into()
        });
        Self::new(kind, error.to_string()).next(next)
    }
}

/// Where an error of Paddock's belongs.
pub(super) fn kind_of(error: &Error) -> ErrorKind {
    match error {
        Error::AgentProgram { .. }
        | Error::AgentUnknown { .. }
        | Error::LaunchOrAgentUnknown { .. }
        | Error::LaunchUnknown { .. }
        | Error::LaunchesNever
        | Error::MissingProgram { .. }
        | Error::StartAgent { not_found: true, .. } => ErrorKind::NotFound,
        Error::DirectoryNotPrivate { .. } | Error::Root => ErrorKind::Permission,
        Error::LaunchRuns { .. } => ErrorKind::Conflict,
        Error::AgentFile { .. }
        | Error::BadProgram { .. }
        | Error::Configuration { .. }
        | Error::FormMissing { .. }
        | Error::Hosts { .. }
        | Error::NoResume { .. }
        | Error::ProgramTooOld { .. }
        | Error::ProjectFile { .. }
        | Error::ProjectTier { .. }
        | Error::ProjectWidens { .. }
        | Error::SharedState { .. }
        | Error::Shell { .. }
        | Error::SocketPath { .. }
        | Error::SharedSockets { .. }
        | Error::UnixLink { .. } => ErrorKind::Config,
        Error::LaunchAmbiguous { .. }
        | Error::LaunchesNone
        | Error::LaunchesSeveral { .. }
        | Error::NothingToResume { .. }
        | Error::Workspace { .. } => ErrorKind::Target,
        Error::Landlock { .. }
        | Error::LayerStart { .. }
        | Error::NoNamespaces { .. }
        | Error::NoThread { .. }
        | Error::OtherChildren { .. }
        | Error::Proc { .. }
        | Error::StartAgent { .. }
        | Error::Stopped { .. } => ErrorKind::Startup,
        Error::SelfTest { .. } | Error::Unconfined { .. } => ErrorKind::Unconfined,
        Error::PinFile { .. }
        | Error::PinMismatch { .. }
        | Error::PinShipped { .. }
        | Error::PinUnresolved { .. } => ErrorKind::PinMismatch,
        Error::DirectoryUnusable { .. }
        | Error::Grant { .. }
        | Error::GrantNotKept { .. }
        | Error::Import { .. }
        | Error::Ledger { .. }
        | Error::NoTerminal
        | Error::Output { .. }
        | Error::Record { .. }
        | Error::StateVersion { .. }
        | Error::CachesUnknown { .. }
        | Error::CachesUnconfirmed
        | Error::Port { .. } => ErrorKind::Unknown,
    }
}

/// An action that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// For a notification, in a few words; empty where a pane shows it already.
    pub(super) summary: String,
    /// For a pane, or whoever typed it.
    pub(super) lines: Vec<String>,
    /// For a script.
    pub(super) fields: Map<String, Value>,
}

impl Done {
    /// Nobody needs to be told: what was opened shows.
    pub(super) fn shown() -> Self {
        Self::default()
    }

    pub(super) fn told(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), ..Self::default() }
    }

    /// One of the things for a script, where it is text.
    pub(super) fn text(&self, name: &str) -> String {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    pub(super) fn lines(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.lines.extend(lines);
        self
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }
}

/// The result line.
pub(super) fn line(action: Action, result: &Result<Done, Failure>) -> String {
    let mut object = Map::new();
    object.insert("schemaVersion".into(), SCHEMA.into());
    object.insert("plugin".into(), "paddock".into());
    object.insert("action".into(), action.id().into());
    object.insert("ok".into(), result.is_ok().into());
    let fields = match result {
        Ok(done) => &done.fields,
        Err(failure) => {
            object.insert("errorKind".into(), json!(failure.kind));
            object.insert("message".into(), failure.message.as_str().into());
            object.insert("next".into(), failure.next.as_deref().into());
            &failure.fields
        }
    };
    for (name, value) in fields {
        object.entry(name).or_insert_with(|| value.clone());
    }
    format!("{MARK}{}", harmless(Value::Object(object)))
}

/// The same, each string without what draws: some are of an agent's making.
fn harmless(value: Value) -> Value {
    match value {
        Value::String(text) => safe(&text).into(),
        Value::Array(values) => values.into_iter().map(harmless).collect(),
        Value::Object(object) => {
            object.into_iter().map(|(name, value)| (safe(&name), harmless(value))).collect()
        }
        other => other,
    }
}

/// Text without what draws. What an error quotes of others is escaped already.
pub(super) fn safe(text: &str) -> String {
    text.chars().filter(|c| is_safe(*c) || *c == '\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Value {
        serde_json::from_str(line.strip_prefix(MARK).unwrap()).unwrap()
    }

    #[test]
    fn the_line_has_what_scripts_read_and_no_field_takes_its_place() {
        let done = Done::told("").with("launch", "bcdf").with("ok", false);
        let line = line(Action::Stop, &Ok(done));
        let wanted = json!({
            "schemaVersion": 1, "plugin": "paddock", "action": "stop", "ok": true, "launch": "bcdf",
        });
        assert_eq!(parse(&line), wanted);
    }

    #[test]
    fn a_failure_has_a_kind_a_message_and_what_to_do() {
        let failure = Failure::from(Error::LaunchesNever).with("launches", json!([]));
        let line = line(Action::Info, &Err(failure));
        let wanted = json!({
            "schemaVersion": 1, "plugin": "paddock", "action": "info", "ok": false,
            "errorKind": "not-found", "message": "there has been no launch",
            "next": "paddock run starts one", "launches": [],
        });
        assert_eq!(parse(&line), wanted);
        assert!(!line.contains('\n'));
    }

    #[test]
    fn the_line_is_one_and_does_not_draw() {
        let draws = "a\nb\u{1b}[2J\u{9b}m\u{202e}";
        let failure = Failure::new(ErrorKind::Unknown, draws).next(draws).with("reason", draws);
        let failure = failure.with("launches", json!([{ "workspace": draws, "left": 1 }]));
        let line = line(Action::Info, &Err(failure));
        assert_eq!(line.lines().count(), 1);
        let told = parse(&line);
        for text in
            [&told["message"], &told["next"], &told["reason"], &told["launches"][0]["workspace"]]
        {
            assert_eq!(text, "a\nb[2Jm", "{line}");
        }
        assert_eq!(told["launches"][0]["left"], 1);
    }
}
