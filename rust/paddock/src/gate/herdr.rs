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
mod own_pane;
mod request;
#[cfg(test)]
mod tests;

use confine::escape::{escape_short, is_safe};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use answer::ReplyTo;
pub(crate) use client::HerdrClient;
pub(crate) use own_pane::OwnPane;
use request::{Refusal, Request};

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

const STATES: [&str; 4] = ["idle", "working", "blocked", "unknown"];

/// What becomes of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This is the answer. herdr does not hear of the request.
    Reply { line: Vec<u8>, record: Record },
    /// herdr is sent this line, and its reply makes the answer.
    Forward { line: Vec<u8>, on_reply: ReplyTo, record: Record },
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
    /// Why it was refused, or what herdr said to what was forwarded.
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
            let mut params = own.params();
            params["state"] = state.into();
            if let Some(message) = report.text("message") {
                params["message"] = shown(message).into();
            }
            let mut record = Record::new(method, Outcome::Forwarded);
            record.session = report.has("agent_session_id") || report.has("agent_session_path");
            record.other_pane = report.text("pane_id") != Some(own.pane_id());
            Ok(forward(method, &params, id, record))
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
            Ok(forward(method, &own.params(), id, record))
        }
        method => Err(Refusal::Method(escape_short(method.as_bytes(), 64).to_string())),
    }
}

/// Decides about a request and carries the decision out: gives the answer to
/// the caller, and what to record.
///
/// Waits for herdr as long as `client` does: not for a thread that others wait
/// for.
pub(crate) fn exchange(line: &[u8], own: &OwnPane, client: &HerdrClient) -> (Vec<u8>, Record) {
    match decide(line, own) {
        Decision::Reply { line, record } => (line, record),
        Decision::Forward { line, on_reply, mut record } => {
            let (answer, said) = on_reply.line(client.send(&line));
            record.why = Some(said);
            (answer, record)
        }
    }
}

/// Takes the launch's state off its pane when the agent has ended, and gives
/// what herdr said to it. What was reported stands until then.
pub(crate) fn release(own: &OwnPane, client: &HerdrClient) -> String {
    let line = request_line("pane.release_agent", &own.params());
    ReplyTo::new(ID).line(client.send(&line)).1
}

/// Tells herdr the agent's state, as the agent says it by the gate's own protocol,
/// and gives what herdr said to it.
pub(crate) fn report(
    own: &OwnPane,
    client: &HerdrClient,
    state: &str,
    message: Option<&str>,
) -> String {
    let mut params = own.params();
    // herdr has no word for an agent that is done.
    params["state"] = if state == "done" { "idle" } else { state }.into();
    if let Some(message) = message {
        params["message"] = shown(message).into();
    }
    ReplyTo::new(ID).line(client.send(&request_line("pane.report_agent", &params))).1
}

/// herdr's own form of an error, for a caller that is not served at all.
pub(crate) fn refusal(why: &str) -> Vec<u8> {
    answer::error("", "refused_in_sandbox", why)
}

fn forward(method: &str, params: &Value, id: &str, record: Record) -> Decision {
    let line = request_line(method, params);
    Decision::Forward { line, on_reply: ReplyTo::new(id), record }
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
