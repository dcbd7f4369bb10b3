//! One entry of an allow list.

use std::collections::BTreeSet;
use std::fmt;

use crate::target::{parse_port, split_port};
use crate::{Host, PolicyError};

/// The ports of an allow entry that names none.
pub const DEFAULT_PORTS: [u16; 2] = [443, 80];

/// An entry of an allow list: `host` (ports 443 and 80), `host:port`, `*.domain` or
/// `*.domain:port`. A wildcard stands for every name below the domain, not for the
/// domain itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(crate) pattern: Pattern,
    pub(crate) ports: BTreeSet<u16>,
}

/// The hosts that an entry stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Host(Host),
    /// Every name below this domain.
    Below(String),
}

impl Entry {
    /// Reads an entry.
    ///
    /// # Errors
    /// When it has no host, or no port where it should.
    pub fn parse(entry: &str) -> Result<Self, PolicyError> {
        let named = || entry.to_owned();
        let (pattern, port) = split_port(entry);
        let ports = match port.map(parse_port) {
            None => BTreeSet::from(DEFAULT_PORTS),
            Some(Some(port)) => BTreeSet::from([port]),
            Some(None) => return Err(PolicyError::AllowPort { entry: named() }),
        };
        let domain = pattern.strip_prefix("*.");
        let host = Host::parse(domain.unwrap_or(pattern))
            .map_err(|cause| PolicyError::AllowHost { entry: named(), cause })?;
        let pattern = match (domain, host.name()) {
            (None, _) => Pattern::Host(host),
            (Some(_), Some(name)) => Pattern::Below(name.to_owned()),
            (Some(_), None) => return Err(PolicyError::Wildcard { entry: named() }),
        };
        Ok(Self { pattern, ports })
    }

    /// What both stand for; `None` where that is nothing.
    pub fn meet(&self, other: &Self) -> Option<Self> {
        let pattern = match (&self.pattern, &other.pattern) {
            (Pattern::Host(one), Pattern::Host(two)) => (one == two).then(|| self.pattern.clone()),
            (host @ Pattern::Host(one), Pattern::Below(domain))
            | (Pattern::Below(domain), host @ Pattern::Host(one)) => {
                one.name().is_some_and(|name| is_below(name, domain)).then(|| host.clone())
            }
            (Pattern::Below(one), Pattern::Below(two)) => {
                let narrower = if one == two || is_below(one, two) {
                    Some(one)
                } else {
                    is_below(two, one).then_some(two)
                };
                narrower.map(|domain| Pattern::Below(domain.clone()))
            }
        };
        let ports: BTreeSet<u16> = self.ports.intersection(&other.ports).copied().collect();
        Some(Self { pattern: pattern?, ports }).filter(|both| !both.ports.is_empty())
    }
}

impl fmt::Display for Entry {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = match self.ports.first() {
            Some(port) if self.ports.len() == 1 => format!(":{port}"),
            // More than one are those that need no saying.
            _ => String::new(),
        };
        match &self.pattern {
            Pattern::Host(host) if host.to_string().contains(':') => write!(f, "[{host}]{port}"),
            Pattern::Host(host) => write!(f, "{host}{port}"),
            Pattern::Below(domain) => write!(f, "*.{domain}{port}"),
        }
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry {
        Entry::parse(text).unwrap()
    }

    #[test]
    fn what_two_entries_both_stand_for() {
        for (one, two, both) in [
            ("a.test", "A.Test.", Some("a.test")),
            ("a.test", "a.test:443", Some("a.test:443")),
            ("a.test:80", "a.test:443", None),
            ("a.test", "b.test", None),
            ("*.test", "a.test", Some("a.test")),
            ("*.test", "a.b.test:8080", None),
            ("*.test:8080", "a.b.test:8080", Some("a.b.test:8080")),
            ("*.test", "test", None),
            ("*.test", "atest", None),
            ("*.b.test", "*.test", Some("*.b.test")),
            ("*.b.test", "*.b.test:80", Some("*.b.test:80")),
            ("*.b.test", "*.bb.test", None),
            ("127.0.0.1:1", "127.1:1", Some("127.0.0.1:1")),
            ("[::1]", "[::1]:80", Some("[::1]:80")),
        ] {
            let met = entry(one).meet(&entry(two));
            let shown = met.as_ref().map(ToString::to_string);
            assert_eq!(shown.as_deref(), both, "{one} and {two}");
            assert_eq!(entry(two).meet(&entry(one)), met, "{two} and {one}");
            assert_eq!(shown.as_deref().map(entry), met, "it is read as it is shown");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_both_allow_and_nothing_else(
            one in pattern(), two in pattern(), host in name(), port in port(),
        ) {
            let allows = |entries: &[String]| {
                let policy = crate::Policy::new(entries, Vec::<(&str, crate::Place)>::new()).unwrap();
                policy.route(&Host::parse(&host).unwrap(), port).is_ok()
            };
            let met: Vec<String> =
                entry(&one).meet(&entry(&two)).iter().map(ToString::to_string).collect();
            let each = allows(&[one]) && allows(&[two]);
            proptest::prop_assert_eq!(allows(&met), each);
        }
    }

    fn name() -> impl proptest::strategy::Strategy<Value = String> {
        proptest::string::string_regex("([ab]\\.){0,2}[ab]").unwrap()
    }

    fn port() -> impl proptest::strategy::Strategy<Value = u16> {
        proptest::sample::select(vec![80, 443, 8080])
    }

    fn pattern() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::prelude::*;
        (any::<bool>(), name(), proptest::option::of(port())).prop_map(|(wild, name, port)| {
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            format!("{}{name}{port}", if wild { "*." } else { "" })
        })
    }
}
