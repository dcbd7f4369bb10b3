//! What went to each host.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use confine::escape::escape;
use serde_json::{Value, json};

use super::words::{Details, bytes};
use crate::state::LedgerEntry;

/// The sums of a ledger.
#[derive(Default)]
pub(super) struct Hosts {
    hosts: BTreeMap<String, Host>,
    /// Lines that may have told of more.
    pub(super) not_kept: u64,
}

#[derive(Default)]
struct Host {
    /// Tunnels that were opened, and those of them that have ended.
    connections: u64,
    closed: u64,
    /// How often, and why.
    refused: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    sent: u64,
    received: u64,
}

impl Hosts {
    /// Counts what the guard recorded; passes over everything else.
    pub(super) fn add(&mut self, entry: &LedgerEntry) {
        if entry.event() == "egress"
            && let Some(egress) = Details(&entry.details).inner("egress")
        {
            self.count(egress);
        }
    }

    fn count(&mut self, egress: Details<'_>) -> Option<()> {
        let (event, decision) = (egress.text("event")?, egress.text("decision")?);
        let (name, reason) = (egress.text("host")?, egress.text("reason")?);
        let host = self.hosts.entry(name.to_owned()).or_default();
        match (event, decision) {
            // A tunnel's bytes are known at its end.
            ("closed", _) => {
                host.closed += 1;
                host.sent = host.sent.saturating_add(egress.number("sent")?);
                host.received = host.received.saturating_add(egress.number("received")?);
            }
            (_, "allowed") => host.connections += 1,
            (_, "refused") => *host.refused.entry(reason.to_owned()).or_default() += 1,
            _ => *host.failed.entry(reason.to_owned()).or_default() += 1,
        }
        Some(())
    }

    /// Those first to which, and from which, the most went.
    fn sorted(&self) -> Vec<(&String, &Host)> {
        let mut hosts: Vec<_> = self.hosts.iter().collect();
        hosts.sort_by_key(|(_, host)| Reverse(host.sent.saturating_add(host.received)));
        hosts
    }

    /// A heading and a line per host.
    pub(super) fn table(&self) -> Vec<String> {
        let mut rows = vec![
            ["HOST", "CONNECTIONS", "OPEN", "SENT", "RECEIVED", "REFUSED", "FAILED"]
                .map(str::to_owned),
        ];
        rows.extend(self.sorted().into_iter().map(|(name, host)| {
            let name =
                if name.is_empty() { "-".into() } else { escape(name.as_bytes()).to_string() };
            [
                name,
                host.connections.to_string(),
                host.open().to_string(),
                bytes(host.sent),
                bytes(host.received),
                reasons(&host.refused),
                reasons(&host.failed),
            ]
        }));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..7).filter_map(width).collect();
        let line = |row: &[String; 7]| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                // Names and reasons to the left, numbers to the right.
                if (1..5).contains(&column) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines: Vec<String> = match rows.len() {
            1 => vec!["nothing was asked of the guard".into()],
            _ => rows.iter().map(line).collect(),
        };
        if self.not_kept > 0 {
            lines.push(format!("{} lines of the ledger were not kept: it was more", self.not_kept));
        }
        lines
    }

    pub(super) fn as_json(&self, launch: &str) -> Value {
        let hosts: Vec<Value> = self
            .sorted()
            .into_iter()
            .map(|(name, host)| {
                json!({
                    "host": name, "connections": host.connections, "open": host.open(),
                    "sent": host.sent, "received": host.received,
                    "refused": host.refused, "failed": host.failed,
                })
            })
            .collect();
        json!({ "schema": 1, "launch": launch, "hosts": hosts, "notKept": self.not_kept })
    }
}

impl Host {
    fn open(&self) -> u64 {
        self.connections.saturating_sub(self.closed)
    }
}

/// How often altogether, and why.
fn reasons(reasons: &BTreeMap<String, u64>) -> String {
    if reasons.is_empty() {
        return "0".into();
    }
    let total: u64 = reasons.values().sum();
    let each = reasons.iter().map(|(why, n)| format!("{} {n}", escape(why.as_bytes())));
    format!("{total} ({})", each.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(hosts: &mut Hosts, host: &str, event: &str, decision: &str, reason: &str, sent: u64) {
        let details = json!({ "event": "egress", "egress": {
            "event": event, "host": host, "decision": decision, "reason": reason,
            "sent": sent, "received": sent * 2,
        }});
        let details = details.as_object().unwrap().clone();
        hosts.add(&LedgerEntry { text: String::new(), details });
    }

    #[test]
    fn each_host_has_its_connections_refusals_and_bytes() {
        let mut hosts = Hosts::default();
        for _ in 0..3 {
            add(&mut hosts, "a.test", "decided", "allowed", "allow-list", 0);
        }
        for _ in 0..2 {
            add(&mut hosts, "a.test", "closed", "allowed", "finished", 100);
        }
        add(&mut hosts, "a.test", "decided", "failed", "no-address", 0);
        for reason in ["bad-port", "host-not-allowed", "bad-port"] {
            add(&mut hosts, "\u{1b}[2J", "decided", "refused", reason, 0);
        }
        add(&mut hosts, "", "decided", "refused", "malformed-request", 0);
        assert_eq!(
            hosts.table(),
            [
                "HOST       CONNECTIONS  OPEN   SENT  RECEIVED  REFUSED                             FAILED",
                "a.test               3     1  200 B     400 B  0                                   1 (no-address 1)",
                "-                    0     0    0 B       0 B  1 (malformed-request 1)             0",
                "\\u{1b}[2J            0     0    0 B       0 B  3 (bad-port 2, host-not-allowed 1)  0",
            ]
        );
        let value = hosts.as_json("bcdf");
        assert_eq!(
            value["hosts"][0],
            json!({
                "host": "a.test", "connections": 3, "open": 1, "sent": 200, "received": 400,
                "refused": {}, "failed": { "no-address": 1 },
            })
        );
        assert_eq!((&value["launch"], &value["notKept"]), (&json!("bcdf"), &json!(0)));
    }

    #[test]
    fn what_is_not_known_or_not_kept_is_said() {
        let mut hosts = Hosts::default();
        assert_eq!(hosts.table(), ["nothing was asked of the guard"]);
        for details in [json!({ "event": "egress" }), json!({ "event": "egress", "egress": {} })] {
            let details = details.as_object().unwrap().clone();
            hosts.add(&LedgerEntry { text: String::new(), details });
        }
        hosts.not_kept = 7;
        assert_eq!(hosts.table()[1..], ["7 lines of the ledger were not kept: it was more"]);
        assert_eq!(hosts.as_json("b")["hosts"], json!([]));
    }
}
