//! As much of herdr as an agent may speak to: `ping` and the status of its own
//! pane, in herdr's line protocol. herdr's own socket types into panes that are
//! not sandboxed, so nothing that a caller wrote is ever passed on: what is
//! forwarded is written anew, from a list of what it may hold.
//!
//! Sessions stay here. herdr resumes an agent whose session it knows by typing
//! `claude --resume ID` into a plain shell when it starts again, and that agent
//! would run without its sandbox.

mod answer;
mod client;
mod focus;
mod line;
mod own_pane;
mod relay;
mod request;
mod sign;
#[cfg(test)]
mod tests;

use confine::escape::{escape_short, is_safe};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use client::{ClientError, HerdrClient};
pub(crate) use focus::focus_pane;
pub(crate) use line::{read_line, read_line_by};
pub(crate) use own_pane::{OwnPane, plain_name};
pub(crate) use relay::Relay;
use request::{Refusal, Request};
pub(crate) use sign::{Sign, Standing};

/// Writes down what herdr was told, and what it said to that.
type Note = Box<dyn Fn(&str, &str) + Send + Sync>;

/// The longest request, its newline not counted.
pub(crate) const MOST_REQUEST_BYTES: usize = 64 << 10;

/// The source that herdr keeps Paddock's reports under. Not the agent's own
/// (`herdr:opencode`): herdr stores a session only of such a source, and of one
/// that reports none it believes no state either.
const SOURCE: &str = "paddock";
/// The id of what is forwarded; the caller's own never reaches herdr.
const ID: &str = "paddock";
/// The longest message that is passed on, in characters.
const MOST_MESSAGE: usize = 200;

/// The code of what is not done here.
const REFUSED: &str = "refused_in_sandbox";

const STATES: [&str; 4] = ["idle", "working", "blocked", "unknown"];

/// What becomes of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This is the answer. herdr does not hear of the request.
    Reply { line: Vec<u8>, record: Record },
    /// herdr is to be told this. The answer does not wait for it, and does not tell
    /// whether there is a herdr.
    Forward { message: Message, answer: Vec<u8>, record: Record },
}

/// Something that herdr is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// In a word, for the ledger: the state, or that it was released.
    pub(crate) what: String,
    /// The request, with its newline.
    pub(crate) line: Vec<u8>,
}

/// What the ledger keeps of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// As the caller wrote it, escaped and cut; empty where it cannot be told.
    pub(crate) method: String,
    pub(crate) outcome: Outcome,
    /// It named a session, which stayed here.
    pub(crate) session: bool,
    /// It named a pane other than the launch's own.
    pub(crate) other_pane: bool,
    /// Why it was refused.
    pub(crate) why: Option<String>,
}

/// The ways a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// Answered here.
    Answered,
    /// Answered as if done, and not passed on.
    Kept,
    /// Answered as done; herdr is told unless something newer comes first.
    Forwarded,
    Refused,
}

impl Record {
    fn new(method: &str, outcome: Outcome) -> Self {
        let method = escape_short(method.as_bytes(), 64).to_string();
        Self { method, outcome, session: false, other_pane: false, why: None }
    }
}

/// Decides about one request line, with or without its newline.
pub(crate) fn decide(line: &[u8], own: &OwnPane) -> Decision {
    let request = match Request::parse(line) {
        Ok(request) => request,
        Err(refusal) => return refuse("", "", &refusal),
    };
    // herdr itself has no id for a request that it cannot read.
    answer(&request, own).unwrap_or_else(|refusal| {
        let id = if matches!(refusal, Refusal::Method(_)) { request.id() } else { "" };
        refuse(id, request.method(), &refusal)
    })
}

fn answer(request: &Request, own: &OwnPane) -> Result<Decision, Refusal> {
    let id = request.id();
    match request.method() {
        "ping" => {
            request.params()?;
            let record = Record::new("ping", Outcome::Answered);
            Ok(Decision::Reply { line: answer::pong(id), record })
        }
        method @ "pane.report_agent" => {
            let report = request.params()?;
            report.texts(&["pane_id", "source", "agent"])?;
            report.optional_texts(&["message", "agent_session_id", "agent_session_path"])?;
            report.optional_number("seq")?;
            let state = report.one_of("state", &STATES)?;
            let message = report_of(own, state, report.text("message"));
            let mut record = Record::new(method, Outcome::Forwarded);
            record.session = report.has("agent_session_id") || report.has("agent_session_path");
            record.other_pane = report.text("pane_id") != Some(own.pane_id());
            Ok(Decision::Forward { message, answer: answer::done(id), record })
        }
        method @ "pane.report_agent_session" => {
            let report = request.params()?;
            report.texts(&["pane_id", "source", "agent"])?;
            report.optional_texts(&[
                "agent_session_id",
                "agent_session_path",
                "session_start_source",
            ])?;
            report.optional_number("seq")?;
            let mut record = Record::new(method, Outcome::Kept);
            record.session = true;
            record.other_pane = report.text("pane_id") != Some(own.pane_id());
            Ok(Decision::Reply { line: answer::done(id), record })
        }
        method @ "pane.release_agent" => {
            let release = request.params()?;
            release.texts(&["pane_id", "source", "agent"])?;
            release.optional_number("seq")?;
            let mut record = Record::new(method, Outcome::Forwarded);
            record.other_pane = release.text("pane_id") != Some(own.pane_id());
            let message = release_of(own);
            Ok(Decision::Forward { message, answer: answer::done(id), record })
        }
        method => Err(Refusal::Method(escape_short(method.as_bytes(), 64).to_string())),
    }
}

/// Refuses a caller that is not served, whatever it asks for, in herdr's own form of
/// an error.
pub(crate) fn turn_away(line: &[u8], why: &str) -> (Vec<u8>, Record) {
    let request = Request::parse(line);
    let (id, method) =
        request.as_ref().map_or(("", ""), |request| (request.id(), request.method()));
    let mut record = Record::new(method, Outcome::Refused);
    record.why = Some(why.to_owned());
    (answer::error(id, REFUSED, why), record)
}

/// The state of the agent, for herdr.
fn report_of(own: &OwnPane, state: &str, message: Option<&str>) -> Message {
    // herdr has no word for an agent that is done.
    let state = if state == "done" { "idle" } else { state };
    let mut params = own.params();
    params["state"] = state.into();
    if let Some(message) = message {
        params["message"] = shown(message).into();
    }
    Message { what: state.to_owned(), line: request_line("pane.report_agent", &params) }
}

/// There is no state any more.
fn release_of(own: &OwnPane) -> Message {
    let line = request_line("pane.release_agent", &own.params());
    Message { what: "released".into(), line }
}

fn request_line(method: &str, params: &Value) -> Vec<u8> {
    answer::line(&json!({ "id": ID, "method": method, "params": params }))
}

fn refuse(id: &str, method: &str, refusal: &Refusal) -> Decision {
    let mut record = Record::new(method, Outcome::Refused);
    record.why = Some(refusal.to_string());
    Decision::Reply { line: answer::error(id, refusal.code(), &refusal.to_string()), record }
}

/// A caller's text, without what draws, cut.
fn shown(text: &str) -> String {
    text.chars().filter(|c| is_safe(*c)).take(MOST_MESSAGE).collect()
}
