//! What happened, in words.

use serde_json::{Map, Value};

use crate::obeyed::told;
use crate::state::LedgerEntry;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Notable,
    Bad,
}

impl Tone {
    /// The number of a terminal's colour (`console_codes(4)`).
    pub(super) fn colour(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "32",
            Self::Notable => "33",
            Self::Bad => "31",
        }
    }
}

/// What an event means; `None` when it, or what it has to say, is not known.
/// Not escaped.
pub(super) fn describe(entry: &LedgerEntry) -> Option<(Tone, String)> {
    let of = Details(&entry.details);
    Some(match entry.event() {
        "start" => {
            let hosts = of.list("hosts")?;
            let hosts = if hosts.is_empty() { "no host".into() } else { hosts.join(", ") };
            let (agent, tier) = (of.text("agent")?, of.text("tier")?);
            let workspace = of.text("workspace")?;
            (Tone::Plain, format!("{agent} ({tier}) in {workspace}; it may reach {hosts}"))
        }
        "pinned" => {
            let names = [of.keys("policies")?, of.keys("programs")?].concat().join(", ");
            (Tone::Plain, format!("recorded for the first time: {names}"))
        }
        "pin-changed" => {
            let names = [of.names("policies", "layer")?, of.names("programs", "name")?];
            (Tone::Notable, format!("changed, and recorded anew: {}", names.concat().join(", ")))
        }
        "warden" => {
            let (layer, process) = (of.text("layer")?, of.inner("process")?.number("pid")?);
            (Tone::Plain, format!("process {process} is the warden of the {layer} sandbox"))
        }
        "self-test" => {
            let (layer, count) = (of.text("layer")?, of.number("attempts")?);
            if of.is_true("holds")? {
                (Tone::Good, format!("the {layer} layer holds: {count} attempts"))
            } else {
                (Tone::Bad, format!("the {layer} layer DOES NOT HOLD: {count} attempts"))
            }
        }
        "verified" => {
            (Tone::Good, format!("{} tasks are confined; the agent starts", of.number("tasks")?))
        }
        "agent-started" => (Tone::Plain, format!("the agent's {} was started", of.text("half")?)),
        "agent-ended" => {
            let (half, status) = (of.text("half")?, of.number("status")?);
            (Tone::Notable, format!("the agent's {half} ended with status {status}"))
        }
        "verdict" if of.is_true("holds")? => {
            (Tone::Good, format!("confined: all of {} tasks", of.number("tasks")?))
        }
        "verdict" | "violation" => (Tone::Bad, format!("NOT CONFINED: {}", of.text("what")?)),
        "pass-failed" => {
            (Tone::Bad, format!("the launch could not be looked at: {}", of.text("error")?))
        }
        "egress" => egress(of.inner("egress")?)?,
        "gate-refused" => {
            let caller = of.inner("caller").and_then(|caller| caller.number("pid"));
            let caller = caller.map_or("a caller".into(), |pid| format!("process {pid}"));
            (Tone::Bad, format!("{caller} was sent away: {}", of.text("why")?))
        }
        "gate-call" => gate_call(of)?,
        "report" => {
            let message = of.text("message").map(|text| format!(": {text}")).unwrap_or_default();
            (Tone::Plain, format!("the agent says that it is {}{message}", of.text("state")?))
        }
        "notify" => (Tone::Notable, format!("the agent says: {}", of.text("text")?)),
        "question" => (Tone::Notable, of.text("text")?.to_owned()),
        "granted" => {
            let scope = of.text("scope")?;
            (Tone::Good, format!("granted: {} ({scope})", wanted(of.inner("wanted")?)?))
        }
        "denied" => (Tone::Notable, format!("denied: {}", wanted(of.inner("wanted")?)?)),
        "revoked" if of.is_true("wasGranted") == Some(false) => {
            (Tone::Plain, format!("not taken back, it was not granted: {}", of.text("host")?))
        }
        "revoked" => (Tone::Notable, format!("taken back: the host {}", of.text("host")?)),
        "herdr" => match (of.inner("herdr"), of.text("report").or(of.text("sign"))) {
            (Some(request), _) => {
                let (method, outcome) = (request.text("method")?, request.text("outcome")?);
                let why = request.text("why").map(|why| format!(": {why}")).unwrap_or_default();
                (Tone::Plain, format!("herdr's {method:?} was {outcome}{why}"))
            }
            (None, state) => {
                (Tone::Plain, format!("herdr was told {}: {}", state?, of.text("said")?))
            }
        },
        "socket-in-reach" => {
            (Tone::Bad, format!("a program of yours listens at {}", of.text("path")?))
        }
        "port-opened" => {
            let (port, listens) = (of.number("port")?, of.text("listens")?);
            (Tone::Notable, format!("port {port} of the launch is forwarded to {listens}"))
        }
        "port-closed" => {
            let (port, connections) = (of.number("port")?, of.number("connections")?);
            (Tone::Plain, format!("port {port} is forwarded no more: {connections} connections"))
        }
        "suspended" => (Tone::Notable, "the launch was stopped, by Ctrl-Z or so".into()),
        "resumed" => (Tone::Notable, "the launch goes on".into()),
        "ledger-full" => {
            let (event, lines) = (of.text("of")?, of.number("lines")?);
            let next = of.text("next").unwrap_or("nothing");
            (Tone::Notable, format!("after {lines} lines of {event}, what comes is in {next}"))
        }
        "obeyed" => obeyed(entry)?,
        "stop" => stop(of)?,
        _ => return None,
    })
}

fn gate_call(of: Details<'_>) -> Option<(Tone, String)> {
    let caller = of.inner("caller")?;
    let pid = caller.inner("process")?.number("pid")?;
    let place = caller.text("layer").map(|layer| format!(" in the {layer} sandbox"));
    let program = caller.text("program").map(|program| format!(" ({program})"));
    let who = format!("process {pid}{}{}", place.unwrap_or_default(), program.unwrap_or_default());
    let request = of.text("request")?;
    Some(match of.inner("refused") {
        None => (Tone::Plain, format!("{who} asks for {request}")),
        Some(refused) => {
            let (code, why) = (refused.text("code")?, refused.text("why")?);
            (Tone::Bad, format!("{who} asks for {request} and is REFUSED: {code}: {why}"))
        }
    })
}

fn wanted(of: Details<'_>) -> Option<String> {
    let host = of.text("host").map(|host| format!("the host {host}"));
    host.or_else(|| {
        let path = of.inner("path")?;
        let how = if path.is_true("write") == Some(true) { "read and write" } else { "read" };
        Some(format!("the path {} ({how})", path.text("path")?))
    })
}

fn egress(of: Details<'_>) -> Option<(Tone, String)> {
    let host = match of.text("host")? {
        "" => "a request",
        host => host,
    };
    let port = of.number("port").map_or(String::new(), |port| format!(":{port}"));
    let (reason, message) = (of.text("reason")?, of.text("message")?);
    let address = of.text("address").map_or(String::new(), |address| format!(" at {address}"));
    Some(match (of.text("event")?, of.text("decision")?) {
        ("closed", _) => {
            let (sent, received) = (bytes(of.number("sent")?), bytes(of.number("received")?));
            let what = format!("{sent} sent, {received} received");
            (Tone::Plain, format!("{host}{port}{address} closed: {what} ({reason})"))
        }
        ("decided", "allowed") => {
            (Tone::Plain, format!("{host}{port}{address} allowed ({reason})"))
        }
        ("decided", "refused") => {
            (Tone::Bad, format!("{host}{port} REFUSED: {message} ({reason})"))
        }
        ("decided", "failed") => {
            (Tone::Notable, format!("{host}{port} failed: {message} ({reason})"))
        }
        _ => return None,
    })
}

fn obeyed(entry: &LedgerEntry) -> Option<(Tone, String)> {
    let of = Details(&entry.details);
    let count = told(&Value::Object(entry.details.clone()))?.len() as u64 + of.number("more")?;
    let gaps = if of.is_true("complete")? { "" } else { ", and not everything was looked at" };
    Some(match count {
        0 => (Tone::Plain, format!("nothing changed that is obeyed outside of the sandbox{gaps}")),
        1 => {
            (Tone::Notable, format!("1 thing changed that is obeyed outside of the sandbox{gaps}"))
        }
        n => (
            Tone::Notable,
            format!("{n} things changed that are obeyed outside of the sandbox{gaps}"),
        ),
    })
}

fn stop(of: Details<'_>) -> Option<(Tone, String)> {
    let (status, survivors) = (of.number("status")?, of.number("survivors")?);
    let reason = of.text("reason").map_or(String::new(), |reason| format!(": {reason}"));
    Some(match survivors {
        0 => {
            let tone = if reason.is_empty() { Tone::Plain } else { Tone::Notable };
            (tone, format!("ended with status {status}{reason}; nothing of it is left"))
        }
        n => (Tone::Bad, format!("ended with status {status}{reason}; {n} PROCESSES ARE LEFT")),
    })
}

/// So many bytes, in a unit in which that is short.
pub(crate) fn bytes(count: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, bits)| count >> bits >= 10);
    unit.map_or_else(|| format!("{count} B"), |(name, bits)| format!("{} {name}", count >> bits))
}

/// What a line says beside its event.
#[derive(Clone, Copy)]
pub(super) struct Details<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Details<'a> {
    pub(super) fn text(self, key: &str) -> Option<&'a str> {
        self.0.get(key)?.as_str()
    }

    pub(super) fn number(self, key: &str) -> Option<u64> {
        self.0.get(key)?.as_u64()
    }

    fn is_true(self, key: &str) -> Option<bool> {
        self.0.get(key)?.as_bool()
    }

    pub(super) fn inner(self, key: &str) -> Option<Self> {
        self.0.get(key)?.as_object().map(Details)
    }

    fn keys(self, key: &str) -> Option<Vec<&'a str>> {
        Some(self.inner(key)?.0.keys().map(String::as_str).collect())
    }

    fn list(self, key: &str) -> Option<Vec<&'a str>> {
        self.0.get(key)?.as_array()?.iter().map(Value::as_str).collect()
    }

    /// What each object of a list is called.
    fn names(self, key: &str, name: &str) -> Option<Vec<&'a str>> {
        self.0.get(key)?.as_array()?.iter().map(|value| value.get(name)?.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(details: &Value) -> Option<(Tone, String)> {
        let details = details.as_object().unwrap().clone();
        describe(&LedgerEntry { text: String::new(), details })
    }

    fn request(event: &str, decision: &str, reason: &str) -> Value {
        json!({ "event": "egress", "egress": {
            "event": event, "request": 1, "host": "a.test", "port": 443, "address": "192.0.2.7",
            "decision": decision, "reason": reason, "message": "so it is",
            "sent": 9_000, "received": 5_000_000,
        }})
    }

    #[track_caller]
    fn assert_told(cases: &[(Value, Tone, &str)]) {
        for (details, tone, wanted) in cases {
            assert_eq!(told(details), Some((*tone, (*wanted).into())), "{details}");
        }
    }

    #[test]
    fn every_event_is_told_in_words() {
        let process = json!({ "pid": 7, "start": 9 });
        assert_told(&[
            (
                json!({ "event": "start", "agent": "standin", "tier": "sealed", "workspace": "/w",
                        "hosts": ["a.test:443", "b.test"] }),
                Tone::Plain,
                "standin (sealed) in /w; it may reach a.test:443, b.test",
            ),
            (
                json!({ "event": "pinned", "policies": { "pen": "0" }, "programs": { "nono": {} } }),
                Tone::Plain,
                "recorded for the first time: pen, nono",
            ),
            (
                json!({ "event": "pin-changed", "policies": [{ "layer": "pen" }],
                        "programs": [{ "name": "nono" }] }),
                Tone::Notable,
                "changed, and recorded anew: pen, nono",
            ),
            (
                json!({ "event": "warden", "layer": "pen", "process": process }),
                Tone::Plain,
                "process 7 is the warden of the pen sandbox",
            ),
            (
                json!({ "event": "self-test", "layer": "pen", "attempts": 9, "holds": true }),
                Tone::Good,
                "the pen layer holds: 9 attempts",
            ),
            (
                json!({ "event": "self-test", "layer": "pen", "attempts": 9, "holds": false }),
                Tone::Bad,
                "the pen layer DOES NOT HOLD: 9 attempts",
            ),
            (
                json!({ "event": "verified", "tasks": 9 }),
                Tone::Good,
                "9 tasks are confined; the agent starts",
            ),
            (
                json!({ "event": "agent-started", "half": "server" }),
                Tone::Plain,
                "the agent's server was started",
            ),
            (
                json!({ "event": "agent-ended", "half": "server", "status": 3 }),
                Tone::Notable,
                "the agent's server ended with status 3",
            ),
            (
                json!({ "event": "verdict", "holds": true, "what": null, "tasks": 9 }),
                Tone::Good,
                "confined: all of 9 tasks",
            ),
            (
                json!({ "event": "verdict", "holds": false, "what": "process 7", "tasks": 9 }),
                Tone::Bad,
                "NOT CONFINED: process 7",
            ),
            (
                json!({ "event": "violation", "what": "process 7", "report": {} }),
                Tone::Bad,
                "NOT CONFINED: process 7",
            ),
            (
                json!({ "event": "pass-failed", "error": "no /proc" }),
                Tone::Bad,
                "the launch could not be looked at: no /proc",
            ),
        ]);
    }

    #[test]
    fn what_happens_later_is_told_in_words() {
        let process = json!({ "pid": 7, "start": 9 });
        assert_told(&[
            (
                json!({ "event": "gate-refused", "caller": process, "why": "it is traced" }),
                Tone::Bad,
                "process 7 was sent away: it is traced",
            ),
            (
                json!({ "event": "gate-refused", "caller": null, "why": "nobody knows it" }),
                Tone::Bad,
                "a caller was sent away: nobody knows it",
            ),
            (
                json!({ "event": "suspended" }),
                Tone::Notable,
                "the launch was stopped, by Ctrl-Z or so",
            ),
            (json!({ "event": "resumed" }), Tone::Notable, "the launch goes on"),
            (
                json!({ "event": "ledger-full", "of": "egress", "lines": 10, "next": "more" }),
                Tone::Notable,
                "after 10 lines of egress, what comes is in more",
            ),
            (
                json!({ "event": "obeyed", "changed": [], "more": 0, "complete": true }),
                Tone::Plain,
                "nothing changed that is obeyed outside of the sandbox",
            ),
            (
                json!({ "event": "obeyed", "changed": [
                    { "kind": "git", "path": "/w/.git/config", "what": "changed", "keys": [] }
                ], "more": 2, "complete": false }),
                Tone::Notable,
                "3 things changed that are obeyed outside of the sandbox, and not everything was looked at",
            ),
            (
                json!({ "event": "stop", "status": 0, "reason": null, "survivors": 0 }),
                Tone::Plain,
                "ended with status 0; nothing of it is left",
            ),
            (
                json!({ "event": "stop", "status": 143, "reason": "stopped", "survivors": 2 }),
                Tone::Bad,
                "ended with status 143: stopped; 2 PROCESSES ARE LEFT",
            ),
        ]);
    }

    #[test]
    fn a_request_is_told_with_host_address_bytes_and_reason() {
        assert_told(&[
            (
                request("decided", "allowed", "allow-list"),
                Tone::Plain,
                "a.test:443 at 192.0.2.7 allowed (allow-list)",
            ),
            (
                request("decided", "refused", "special-address"),
                Tone::Bad,
                "a.test:443 REFUSED: so it is (special-address)",
            ),
            (
                request("decided", "failed", "no-address"),
                Tone::Notable,
                "a.test:443 failed: so it is (no-address)",
            ),
            (
                request("closed", "allowed", "finished"),
                Tone::Plain,
                "a.test:443 at 192.0.2.7 closed: 9000 B sent, 4882 KiB received (finished)",
            ),
        ]);
    }

    #[test]
    fn what_is_not_as_expected_has_no_words() {
        assert_eq!(told(&json!({ "event": "other" })), None);
        assert_eq!(told(&json!({ "event": "stop", "status": "0" })), None);
    }

    #[test]
    fn many_bytes_are_told_in_few_figures() {
        for (count, shown) in [
            (0, "0 B"),
            (10_239, "10239 B"),
            (10_240, "10 KiB"),
            (10 << 20, "10 MiB"),
            (u64::MAX, "17179869183 GiB"),
        ] {
            assert_eq!(bytes(count), shown);
        }
    }
}
