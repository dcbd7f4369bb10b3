//! What is asked of the proxy, and what the guard has to say about it. That nobody
//! answers at a private address here proves nothing, so the guard's own record
//! counts: it must have refused, and for the address.

use std::net::{IpAddr, Ipv4Addr};

use egress::{Decision, Record};
use rustix::io::Errno;
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

/// Not on the allowlist: nono itself refuses them.
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
    /// The guard hears of it, and must refuse it with this reason.
    reason: Option<&'static str>,
}

impl Proxied {
    pub(super) fn target(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// What the guard made of it, each time it was asked; nothing where nono had
    /// refused already.
    pub(super) fn reasons(&self, decided: &[Record]) -> Vec<&'static str> {
        self.of(decided).map(|record| record.reason).collect()
    }

    /// The guard did with it what it must, and where that is nothing, nono did:
    /// what it refuses itself it answers with 403 (`EACCES`), and what its upstream
    /// refuses or cannot reach with 502.
    pub(super) fn holds(&self, decided: &[Record], in_server: Option<Observation>) -> bool {
        let mut records = self.of(decided).peekable();
        if self.allowed {
            let is_open = records.peek().is_some_and(|r| r.decision == Decision::Allowed);
            return is_open && in_server == Some(Observation::Worked);
        }
        // What failed was tried.
        let is_refused = |record: &&Record| record.decision == Decision::Refused;
        if let Some(reason) = self.reason {
            let is_heard = records.peek().is_some();
            return is_heard && records.all(|r| is_refused(&r) && r.reason == reason);
        }
        let refused = Observation::Failed(Errno::ACCESS.raw_os_error());
        records.all(|r| is_refused(&r)) && in_server == Some(refused)
    }

    fn of<'a>(&'a self, decided: &'a [Record]) -> impl Iterator<Item = &'a Record> {
        decided.iter().filter(|record| record.host == self.host && record.port == Some(self.port))
    }
}

/// All of them; at `port` the host answers, and at `other`, which no name has.
pub(super) fn all(port: u16, other: u16) -> Vec<Proxied> {
    let asked = |operation, host, reason| Proxied { operation, host, port, allowed: false, reason };
    let mut all = vec![
        Proxied { allowed: true, ..asked("an allowed name", ALLOWED_NAME, None) },
        Proxied {
            port: other,
            ..asked("an allowed name, another port", ALLOWED_NAME, Some("port-not-allowed"))
        },
    ];
    all.extend(NOT_ALLOWED.map(|(operation, host)| asked(operation, host, None)));
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
        let denied = Some(Observation::Failed(Errno::ACCESS.raw_os_error()));
        let broken = Some(Observation::Failed(Errno::HOSTUNREACH.raw_os_error()));
        let worked = Some(Observation::Worked);
        for (host, decision, reason, in_server, wanted) in [
            ("private.test", Refused, "special-address", broken, true),
            ("private.test", Refused, "host-not-allowed", broken, false),
            ("private.test", Failed, "connect-failed", broken, false),
            ("private.test", Allowed, "allow-list", worked, false),
            ("10.0.0.1", Refused, "host-not-allowed", denied, true),
            ("10.0.0.1", Failed, "connect-timeout", denied, false),
            ("allowed.test", Allowed, "exception", worked, true),
            ("allowed.test", Allowed, "exception", broken, false),
            ("allowed.test", Refused, "host-not-allowed", denied, false),
        ] {
            let decided = [record(host, decision, reason)];
            let case = format!("{host} {decision:?} {reason}");
            assert_eq!(of(host).holds(&decided, in_server), wanted, "{case}");
            let is_let_out = host != "allowed.test" && decision != Refused;
            assert_eq!(let_out(&decided), if is_let_out { vec![host] } else { vec![] }, "{case}");
        }
        assert!(!of("private.test").holds(&[], denied), "the guard was not asked");
        assert!(of("10.0.0.1").holds(&[], denied), "nono refused it already");
        assert!(!of("10.0.0.1").holds(&[], broken), "nobody answered, which proves nothing");
        assert!(!of("allowed.test").holds(&[], worked));
    }

    #[test]
    fn every_address_is_one() {
        assert!(addresses().iter().all(|(_, address)| !address.is_unspecified()));
    }
}
