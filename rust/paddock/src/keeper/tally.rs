//! What the keeper counts while a launch lives, so that it can be told at once and
//! however much there was.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use egress::{Decision, Event, Record};

use super::answer::{BlockedCounts, GateCalls, HostSums};
use crate::agent::RequestKind;

/// An agent can name hosts without end: those beyond are counted together. So many of
/// those that were reached, and as many of those that were not, which take no room
/// from them.
const MOST_HOSTS: usize = 64;
/// A name is at most 253 characters; what is none is recorded up to this.
const MOST_OF_A_NAME: usize = 80;

/// The counts.
#[derive(Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    blocked: BlockedCounts,
    /// Hosts to which there has been a connection.
    reached: BTreeMap<String, HostSums>,
    /// Those to which there has been none.
    unreached: BTreeMap<String, HostSums>,
    /// Of the hosts that are in neither.
    others: HostSums,
    gate: BTreeMap<String, GateCalls>,
}

impl Counts {
    /// Where the record of a host is counted.
    fn sums_of(&mut self, name: &str, event: Event, decision: Decision) -> &mut HostSums {
        let new = || HostSums { host: name.to_owned(), ..Default::default() };
        let is_reached = decision == Decision::Allowed;
        // What is closed is counted where its opening was.
        if is_reached && event != Event::Closed && !self.reached.contains_key(name) {
            if self.reached.len() >= MOST_HOSTS {
                self.make_room();
            }
            if self.reached.len() < MOST_HOSTS {
                let sums = self.unreached.remove(name).unwrap_or_else(new);
                self.reached.insert(name.to_owned(), sums);
            }
        }
        let Self { reached, unreached, others, .. } = self;
        if let Some(sums) = reached.get_mut(name) {
            return sums;
        }
        if unreached.contains_key(name) || !is_reached && unreached.len() < MOST_HOSTS {
            return unreached.entry(name.to_owned()).or_insert_with(new);
        }
        others
    }

    /// What most bytes went to is told by name, whenever it was reached: the one with
    /// the fewest goes to the others, unless all have connections.
    fn make_room(&mut self) {
        let closed = self.reached.values().filter(|sums| sums.open == 0);
        let Some(least) = closed.min_by_key(|sums| bytes(sums)).map(|sums| sums.host.clone())
        else {
            return;
        };
        if let Some(gone) = self.reached.remove(&least) {
            let others = &mut self.others;
            others.connections += gone.connections;
            others.sent = others.sent.saturating_add(gone.sent);
            others.received = others.received.saturating_add(gone.received);
            others.refused += gone.refused;
            others.failed += gone.failed;
        }
    }
}

fn bytes(sums: &HostSums) -> u64 {
    sums.sent.saturating_add(sums.received)
}

impl Tally {
    /// Counts what the guard recorded.
    pub(super) fn egress(&self, record: &Record) {
        let mut counts = self.lock();
        if record.event == Event::Decided && record.decision == Decision::Refused {
            counts.blocked.egress += 1;
        }
        let name = confine::escape::escape_short(record.host.as_bytes(), MOST_OF_A_NAME);
        let sums = counts.sums_of(&name.to_string(), record.event, record.decision);
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
        let all = counts.reached.values().chain(counts.unreached.values());
        let mut hosts: Vec<HostSums> = all.cloned().collect();
        hosts.sort_by_key(|sums| std::cmp::Reverse(bytes(sums)));
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
    use proptest::collection::vec;
    use proptest::prelude::*;

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

    #[test]
    fn made_up_names_hide_no_host_that_was_reached() {
        let tally = Tally::default();
        for n in 0..2 * MOST_HOSTS {
            tally.egress(&record(&format!("no-{n}"), Event::Decided, Decision::Refused));
            tally.egress(&record(&format!("none-{n}"), Event::Decided, Decision::Failed));
        }
        tally.egress(&record("real", Event::Decided, Decision::Allowed));
        tally.egress(&record("real", Event::Closed, Decision::Allowed));
        assert_eq!(tally.hosts().0[0].host, "real");
        // Nor is one that had most bytes hidden by those that had fewer.
        tally.egress(&record("real", Event::Closed, Decision::Allowed));
        for n in 0..2 * MOST_HOSTS {
            let name = format!("yes-{n}");
            tally.egress(&record(&name, Event::Decided, Decision::Allowed));
            tally.egress(&record(&name, Event::Closed, Decision::Allowed));
        }
        let (hosts, others) = tally.hosts();
        assert_eq!((hosts[0].host.as_str(), hosts[0].sent), ("real", 20));
        assert_eq!(others.connections, u64::try_from(MOST_HOSTS).unwrap() + 1);
    }

    proptest! {
        #[test]
        fn whatever_is_named_nothing_is_uncounted_and_few_reached_hosts_are_all_told(
            steps in vec((0..200_u32, 0..4_u8), 0..600),
        ) {
            let tally = Tally::default();
            let mut connected = BTreeMap::<String, u64>::new();
            let mut wanted = HostSums::default();
            for (n, what) in steps {
                // Few are allowed, as a configuration lists them.
                let (name, allowed) = (format!("host-{n}"), format!("allowed-{}", n % 40));
                match what {
                    0 => {
                        tally.egress(&record(&name, Event::Decided, Decision::Refused));
                        wanted.refused += 1;
                    }
                    1 => {
                        tally.egress(&record(&name, Event::Decided, Decision::Failed));
                        wanted.failed += 1;
                    }
                    2 => {
                        tally.egress(&record(&allowed, Event::Decided, Decision::Refused));
                        wanted.refused += 1;
                    }
                    _ => {
                        tally.egress(&record(&allowed, Event::Decided, Decision::Allowed));
                        tally.egress(&record(&allowed, Event::Closed, Decision::Allowed));
                        wanted.connections += 1;
                        *connected.entry(allowed).or_default() += 1;
                    }
                }
            }
            let (hosts, others) = tally.hosts();
            prop_assert!(hosts.len() <= 2 * MOST_HOSTS);
            let sum = |of: fn(&HostSums) -> u64| hosts.iter().chain([&others]).map(of).sum::<u64>();
            prop_assert_eq!(sum(|h| h.refused), wanted.refused);
            prop_assert_eq!(sum(|h| h.failed), wanted.failed);
            prop_assert_eq!(sum(|h| h.connections), wanted.connections);
            prop_assert_eq!(sum(|h| h.sent), 10 * wanted.connections);
            for (name, times) in connected {
                let told: Vec<_> = hosts.iter().filter(|h| h.host == name).collect();
                prop_assert_eq!(told.len(), 1, "{}", name);
                prop_assert_eq!((told[0].connections, told[0].sent), (times, 10 * times));
            }
        }
    }
}
