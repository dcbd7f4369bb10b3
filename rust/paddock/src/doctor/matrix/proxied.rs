//! What is asked of the proxy, and what the guard has to say about it. That nobody
//! answers at a private address here proves nothing, so the guard's own record
//! counts: it must have refused, and for the address.

use std::net::{IpAddr, Ipv4Addr};

use egress::{Decision, Host, Record};
use warden::Observation;

/// The one name that resolves to the host itself and may: by an exception.
pub(super) const ALLOWED_NAME: &str = "allowed.test";

/// Names on the allowlist, and the address that each resolves to.
const TO_SPECIAL: [(&str, &str, &str); 8] = [
    ("an allowed name that is loopback", "own.test", "127.0.0.1"),
    ("an allowed name that is private", "private.test", "10.0.0.1"),
    ("an allowed name that is shared", "shared.test", "100.64.0.1"),
    ("an allowed name that is link-local", "link-local.test", "169.254.1.1"),
    ("an allowed name that is metadata", "metadata.test", "169.254.169.254"),
    ("an allowed name that is unique local", "unique-local.test", "fd00::1"),
    ("an allowed name that is mapped loopback", "mapped.test", "::ffff:127.0.0.1"),
    ("an allowed name that is translated", "translated.test", "64:ff9b::7f00:1"),
];

/// Not on the allowlist.
const NOT_ALLOWED: [(&str, &str); 8] = [
    ("a name that is not allowed", "elsewhere.test"),
    ("an address", "127.0.0.1"),
    ("an address as one number", "2130706433"),
    ("a name that is this host", "localhost"),
    ("a private address", "10.0.0.1"),
    ("a link-local address", "169.254.1.1"),
    ("a metadata address", "169.254.169.254"),
    ("a metadata name", "metadata.google.internal"),
];

/// One request.
pub(crate) struct Proxied {
    pub(super) operation: &'static str,
    host: &'static str,
    port: u16,
    pub(super) allowed: bool,
    /// The guard must refuse it with this reason.
    reason: Option<&'static str>,
}

impl Proxied {
    pub(super) fn target(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// What the guard made of it, each time it was asked.
    pub(super) fn reasons(&self, decided: &[Record]) -> Vec<&'static str> {
        self.of(decided).map(|record| record.reason).collect()
    }

    /// The guard did with it what it must.
    pub(super) fn holds(&self, decided: &[Record], in_server: Option<Observation>) -> bool {
        let mut records = self.of(decided).peekable();
        if records.peek().is_none() {
            return false;
        }
        if let Some(reason) = self.reason {
            // What failed was tried.
            return records.all(|r| r.decision == Decision::Refused && r.reason == reason);
        }
        let works = in_server == Some(Observation::Worked);
        works && records.all(|r| r.decision == Decision::Allowed)
    }

    fn of<'a>(&'a self, decided: &'a [Record]) -> impl Iterator<Item = &'a Record> {
        // As the guard records it: all notations of an address are one.
        let host = Host::parse(self.host).map_or_else(|_| self.host.to_owned(), |h| h.to_string());
        decided.iter().filter(move |r| r.host == host && r.port == Some(self.port))
    }
}

/// All of them; at `port` the host answers, and at `other`, which no name has.
pub(super) fn all(port: u16, other: u16) -> Vec<Proxied> {
    let asked = |operation, host, reason: Option<&'static str>| Proxied {
        operation,
        host,
        port,
        allowed: reason.is_none(),
        reason,
    };
    let mut all = vec![
        asked("an allowed name", ALLOWED_NAME, None),
        Proxied {
            port: other,
            ..asked("an allowed name, another port", ALLOWED_NAME, Some("port-not-allowed"))
        },
    ];
    let not_allowed =
        NOT_ALLOWED.map(|(operation, host)| asked(operation, host, Some("host-not-allowed")));
    all.extend(not_allowed);
    let special =
        TO_SPECIAL.map(|(operation, name, _)| asked(operation, name, Some("special-address")));
    all.extend(special);
    all
}

/// Hosts that the guard let somebody connect to, but for the one that it may.
pub(super) fn let_out(decided: &[Record]) -> Vec<String> {
    let others = decided.iter().filter(|record| record.host != ALLOWED_NAME);
    let let_out = others.filter(|record| record.decision != Decision::Refused);
    let_out.map(|record| record.host.clone()).collect()
}

/// What the survey's allowlist has.
pub(super) fn hosts(port: u16) -> Vec<String> {
    allowed_names().map(|name| format!("{name}:{port}")).collect()
}

/// The names of the allowlist.
pub(super) fn allowed_names() -> impl Iterator<Item = &'static str> {
    TO_SPECIAL.iter().map(|(_, name, _)| *name).chain([ALLOWED_NAME])
}

/// What the names resolve to.
pub(super) fn addresses() -> Vec<(String, IpAddr)> {
    let parsed = |address: &str| address.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    TO_SPECIAL.iter().map(|(_, name, address)| ((*name).to_owned(), parsed(address))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(host: &str, decision: Decision, reason: &'static str) -> Record {
        Record {
            event: egress::Event::Decided,
            request: 0,
            host: host.to_owned(),
            port: Some(1),
            address: None,
            decision,
            reason,
            message: String::new(),
            sent: 0,
            received: 0,
        }
    }

    #[test]
    fn only_the_guards_own_refusal_for_that_reason_counts() {
        use Decision::{Allowed, Failed, Refused};
        let all = all(1, 2);
        let of = |host: &str| all.iter().find(|p| p.host == host && p.port == 1).unwrap();
        let failed = Some(Observation::Failed(13));
        let worked = Some(Observation::Worked);
        for (host, decision, reason, in_server, wanted) in [
            ("private.test", Refused, "special-address", failed, true),
            ("private.test", Refused, "host-not-allowed", failed, false),
            ("private.test", Failed, "connect-failed", failed, false),
            ("private.test", Allowed, "allow-list", worked, false),
            ("10.0.0.1", Refused, "host-not-allowed", failed, true),
            ("10.0.0.1", Failed, "connect-timeout", failed, false),
            ("allowed.test", Allowed, "exception", worked, true),
            ("allowed.test", Allowed, "exception", failed, false),
            ("allowed.test", Refused, "host-not-allowed", failed, false),
        ] {
            let decided = [record(host, decision, reason)];
            let case = format!("{host} {decision:?} {reason}");
            assert_eq!(of(host).holds(&decided, in_server), wanted, "{case}");
            let is_let_out = host != "allowed.test" && decision != Refused;
            assert_eq!(let_out(&decided), if is_let_out { vec![host] } else { vec![] }, "{case}");
            assert!(!of(host).holds(&[], in_server), "the guard was not asked: {case}");
        }
    }

    #[test]
    fn every_address_is_one() {
        assert!(addresses().iter().all(|(_, address)| !address.is_unspecified()));
    }
}
