//! What the keeper tells the person, on standard error: standard output is the
//! agent's.

use std::io::{IsTerminal, Write};

use serde_json::json;

use crate::error::Error;
use crate::launch::{Form, Plan};
use crate::obeyed::short_lines;
use crate::output::{shown, tame};

/// How to tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notices {
    as_json: bool,
    with_colour: bool,
}

impl Notices {
    pub(crate) fn new(as_json: bool) -> Self {
        let with_colour = std::io::stderr().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { as_json, with_colour }
    }

    /// The first pass held: the agent starts now.
    pub(crate) fn verified(self, plan: &Plan, tasks: usize) {
        let what = match plan.form {
            Form::Pair | Form::Solo => "",
            Form::Shell => "a shell of ",
            Form::Login => "a sign-in of ",
        };
        self.tell(
            "32",
            &format!(
                "launch {}: {what}{} in {} ({}), {tasks} tasks confirmed, watching",
                plan.id,
                plan.agent.file.name,
                shown(&plan.workspace.root),
                plan.tier,
            ),
            &json!({
                "event": "verified", "launch": plan.id.as_str(), "agent": plan.agent.file.name,
                "tier": plan.tier.name(), "tasks": tasks,
            }),
        );
    }

    /// Something a person should know; the launch goes on.
    pub(crate) fn warn(self, what: &str) {
        self.tell("33", what, &json!({ "event": "warning", "what": what }));
    }

    /// Something that the agent wants to be known; escaped already.
    pub(crate) fn agent_says(self, text: &str) {
        self.beside("36", &format!("the agent says: {text}"), "notify", text);
    }

    /// A question that waits for an answer.
    pub(crate) fn question(self, text: &str) {
        self.beside("36", text, "question", text);
    }

    /// While the agent's client has the terminal a line would be drawn over what it
    /// shows: then the terminal is asked to notify (`OSC 9`), and the ledger has it.
    fn beside(self, colour: &str, line: &str, event: &str, text: &str) {
        let is_clients = !self.as_json
            && std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
            && std::io::stderr().is_terminal();
        if is_clients {
            let _ = write!(std::io::stderr().lock(), "\x1b]9;paddock: {line}\x07");
        } else {
            self.tell(colour, line, &json!({ "event": event, "text": text }));
        }
    }

    /// The agent, or the shell in its place, ended by itself.
    pub(crate) fn ended(self, plan: &Plan, status: u8) {
        if self.as_json || status != 0 {
            let value = json!({ "event": "ended", "status": status, "reason": null, "next": null });
            let what = match plan.form {
                Form::Pair | Form::Solo => "agent",
                Form::Shell => "shell",
                Form::Login => "sign-in",
            };
            self.tell("33", &format!("the {what} ended with status {status}"), &value);
        }
    }

    /// What changed in the workspace that is obeyed outside of the sandbox.
    pub(crate) fn obeyed(self, plan: &Plan, found: &serde_json::Value) {
        let lines = short_lines(found, &plan.workspace.root, plan.id.as_str());
        if lines.is_empty() {
            return;
        }
        let mut value = found.clone();
        value["event"] = "obeyed".into();
        self.tell("33", &lines.join("\n"), &value);
    }

    /// Whether a script reads along.
    pub(crate) fn are_json(self) -> bool {
        self.as_json
    }

    /// For a script: the launch failed, or was ended.
    pub(crate) fn failed(self, error: &Error) {
        let value = json!({
            "event": "ended", "status": error.status(), "reason": error.to_string(),
            "next": error.advice(),
        });
        self.tell("31", &error.to_string(), &value);
    }

    fn tell(self, colour: &str, text: &str, value: &serde_json::Value) {
        let mut out = std::io::stderr().lock();
        // The terminal may be in raw mode: return the carriage, too.
        let _ = if self.as_json {
            writeln!(out, "{}", tame(&value.to_string()))
        } else if self.with_colour {
            write!(out, "\x1b[{colour}mpaddock:\x1b[0m {}\r\n", text.replace('\n', "\r\n"))
        } else {
            writeln!(out, "paddock: {text}")
        };
    }
}
