//! What the keeper counts while a launch lives, so that it can be told at once and
//! however much there was.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use egress::{Decision, Event, Record};

use super::answer::{BlockedCounts, GateCalls, HostSums};
use crate::agent::RequestKind;

/// An agent can name hosts without end: those beyond are counted together.
const MOST_HOSTS: usize = 64;
/// A name is at most 253 characters; what is none is recorded up to this.
const MOST_OF_A_NAME: usize = 80;

/// The counts.
#[derive(Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    blocked: BlockedCounts,
    hosts: BTreeMap<String, HostSums>,
    /// Of the hosts that are not in `hosts`.
    others: HostSums,
    gate: BTreeMap<String, GateCalls>,
}

impl Tally {
    /// Counts what the guard recorded.
    pub(super) fn egress(&self, record: &Record) {
        let mut counts = self.lock();
        if record.event == Event::Decided && record.decision == Decision::Refused {
            counts.blocked.egress += 1;
        }
        let Counts { hosts, others, .. } = &mut *counts;
        let name = confine::escape::escape_short(record.host.as_bytes(), MOST_OF_A_NAME);
        let name = name.to_string();
        let sums = if hosts.len() < MOST_HOSTS || hosts.contains_key(&name) {
            hosts
                .entry(name.clone())
                .or_insert_with(|| HostSums { host: name, ..Default::default() })
        } else {
            others
        };
        match (record.event, record.decision) {
            (Event::Closed, _) => {
                sums.sent = sums.sent.saturating_add(record.sent);
                sums.received = sums.received.saturating_add(record.received);
                sums.open = sums.open.saturating_sub(1);
            }
            (_, Decision::Allowed) => {
                sums.connections += 1;
                sums.open += 1;
            }
            (_, Decision::Refused) => sums.refused += 1,
            (_, Decision::Failed) => sums.failed += 1,
        }
    }

    /// Counts a request to the gate.
    pub(super) fn gate_call(&self, kind: RequestKind, is_refused: bool) {
        let mut counts = self.lock();
        if is_refused {
            counts.blocked.gate += 1;
        }
        let calls = counts
            .gate
            .entry(kind.name().to_owned())
            .or_insert_with(|| GateCalls { request: kind.name().to_owned(), ..Default::default() });
        if is_refused {
            calls.refused += 1;
        } else {
            calls.allowed += 1;
        }
    }

    /// Counts a caller who was sent away before it asked for anything that is known.
    pub(super) fn sent_away(&self) {
        self.lock().blocked.gate += 1;
    }

    /// What was refused.
    pub(super) fn blocked(&self) -> BlockedCounts {
        self.lock().blocked
    }

    /// The hosts, those with the most bytes first, and what is of none of them.
    pub(super) fn hosts(&self) -> (Vec<HostSums>, HostSums) {
        let counts = self.lock();
        let mut hosts: Vec<HostSums> = counts.hosts.values().cloned().collect();
        hosts.sort_by_key(|h| std::cmp::Reverse(h.sent.saturating_add(h.received)));
        (hosts, counts.others.clone())
    }

    /// The requests to the gate, by kind.
    pub(super) fn gate(&self) -> Vec<GateCalls> {
        self.lock().gate.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(host: &str, event: Event, decision: Decision) -> Record {
        Record {
            event,
            request: 1,
            host: host.to_owned(),
            port: Some(443),
            address: None,
            decision,
            reason: "x",
            message: String::new(),
            sent: 10,
            received: 20,
        }
    }

    #[test]
    fn what_is_refused_and_what_passed_is_counted_by_host() {
        let tally = Tally::default();
        tally.egress(&record("a", Event::Decided, Decision::Allowed));
        tally.egress(&record("a", Event::Decided, Decision::Allowed));
        tally.egress(&record("a", Event::Closed, Decision::Allowed));
        tally.egress(&record("b", Event::Decided, Decision::Refused));
        tally.egress(&record("b", Event::Decided, Decision::Failed));
        tally.gate_call(RequestKind::Report, false);
        tally.gate_call(RequestKind::Report, true);
        tally.sent_away();
        assert_eq!(tally.blocked(), BlockedCounts { egress: 1, gate: 2 });
        let (hosts, others) = tally.hosts();
        assert_eq!((hosts.len(), others), (2, HostSums::default()));
        let a = &hosts[0];
        assert_eq!((a.host.as_str(), a.connections, a.open), ("a", 2, 1));
        assert_eq!((a.sent, a.received), (10, 20));
        assert_eq!((hosts[1].refused, hosts[1].failed), (1, 1));
        assert_eq!((tally.gate()[0].allowed, tally.gate()[0].refused), (1, 1));
    }

    #[test]
    fn hosts_without_end_take_no_more_room_and_nothing_is_uncounted() {
        let tally = Tally::default();
        for n in 0..MOST_HOSTS + 100 {
            let name = format!("{n}.{}", "x".repeat(5_000));
            tally.egress(&record(&name, Event::Decided, Decision::Refused));
        }
        let (hosts, others) = tally.hosts();
        assert_eq!((hosts.len(), others.refused), (MOST_HOSTS, 100));
        assert!(hosts.iter().all(|h| h.host.len() <= MOST_OF_A_NAME + 3));
        assert_eq!(tally.blocked().egress, 164);
    }
}
