//! The hosts that a launch may reach, as they change while it lives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egress::{Guard, Host, Policy, Resolver};

use super::questions::Scope;
use crate::launch::{host_and_ports as parse, policy, with_port};

/// The guard's policy, and how to change it.
#[derive(Clone)]
pub(super) struct GuardHandle(Arc<Mutex<Inner>>);

struct Inner {
    hosts: Vec<String>,
    exceptions: BTreeMap<String, String>,
    /// Once the guard runs.
    running: Option<Box<dyn Running>>,
}

/// A guard with whatever resolver.
trait Running: Send {
    fn set_policy(&self, policy: Policy);
    fn grant_once(&self, host: Host, port: u16);
    fn revoke_once(&self, host: &Host, port: u16) -> bool;
}

/// What came of taking a host back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Revoked {
    pub(super) was_granted: bool,
    /// The entries that allow it still: wildcards.
    pub(super) still_allowed_by: Vec<String>,
}

impl<R: Resolver> Running for Arc<Guard<R>> {
    fn set_policy(&self, policy: Policy) {
        Guard::set_policy(self, policy);
    }
    fn grant_once(&self, host: Host, port: u16) {
        Guard::grant_once(self, host, port);
    }
    fn revoke_once(&self, host: &Host, port: u16) -> bool {
        Guard::revoke_once(self, host, port)
    }
}

impl GuardHandle {
    pub(super) fn new(hosts: &[String], exceptions: &BTreeMap<String, String>) -> Self {
        let (hosts, exceptions) = (hosts.to_vec(), exceptions.clone());
        Self(Arc::new(Mutex::new(Inner { hosts, exceptions, running: None })))
    }

    /// The entries of the allowlist.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.inner().hosts.clone()
    }

    /// What they come to.
    pub(super) fn policy(&self) -> Result<Policy, String> {
        self.inner().policy()
    }

    /// From here on changes reach this guard, as do those of before.
    pub(super) fn attach<R: Resolver>(&self, guard: Arc<Guard<R>>) {
        let mut inner = self.inner();
        if let Ok(policy) = inner.policy() {
            guard.set_policy(policy);
        }
        inner.running = Some(Box::new(guard));
    }

    /// Whether a host (`name` or `name:port`) may be connected to as it stands.
    pub(super) fn allows(&self, wanted: &str) -> bool {
        let Some((host, ports)) = parse(wanted) else { return false };
        let policy = self.policy();
        policy.is_ok_and(|policy| ports.iter().all(|port| policy.route(&host, *port).is_ok()))
    }

    /// Lets the launch reach a host.
    pub(super) fn grant(&self, wanted: &str, scope: Scope) -> Result<(), String> {
        let (host, ports) = parse(wanted).ok_or_else(|| format!("{wanted:?} is no host"))?;
        let mut inner = self.inner();
        let mut hosts = inner.hosts.clone();
        if !hosts.iter().any(|known| known == wanted) {
            hosts.push(wanted.to_owned());
        }
        // A special address is refused whoever granted it.
        let granted = policy(&hosts, &inner.exceptions).map_err(|e| e.to_string())?;
        granted.route(&host, ports[0]).map_err(|refusal| refusal.to_string())?;
        if scope == Scope::Once {
            let running = inner.running.as_ref().ok_or("the guard does not run yet")?;
            running.grant_once(host, ports[0]);
            return Ok(());
        }
        inner.apply(hosts)
    }

    /// Takes a host back, however it was written, with what was granted once, and
    /// cuts what is open.
    pub(super) fn revoke(&self, wanted: &str) -> Result<Revoked, String> {
        let (host, ports) = parse(wanted).ok_or_else(|| format!("{wanted:?} is no host"))?;
        let mut inner = self.inner();
        let mut was_granted = false;
        let mut hosts = Vec::new();
        for entry in &inner.hosts {
            match parse(entry).filter(|(known, _)| *known == host) {
                Some((_, known)) if known.iter().any(|port| ports.contains(port)) => {
                    was_granted = true;
                    // `a.test` without its port 443 is `a.test:80`.
                    let left = known.iter().filter(|port| !ports.contains(port));
                    hosts.extend(left.map(|port| with_port(&host, *port)));
                }
                _ => hosts.push(entry.clone()),
            }
        }
        inner.apply(hosts)?;
        if let Some(running) = &inner.running {
            for port in &ports {
                was_granted |= running.revoke_once(&host, *port);
            }
        }
        let allows = |entry: &&String| {
            let alone = policy(std::slice::from_ref(*entry), &inner.exceptions);
            alone.is_ok_and(|alone| ports.iter().any(|port| alone.route(&host, *port).is_ok()))
        };
        let still_allowed_by = inner.hosts.iter().filter(allows).cloned().collect();
        Ok(Revoked { was_granted, still_allowed_by })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn policy(&self) -> Result<Policy, String> {
        policy(&self.hosts, &self.exceptions).map_err(|e| e.to_string())
    }

    /// Goes by these from here on, or by none of them.
    fn apply(&mut self, hosts: Vec<String>) -> Result<(), String> {
        let policy = policy(&hosts, &self.exceptions).map_err(|e| e.to_string())?;
        if let Some(running) = &self.running {
            running.set_policy(policy);
        }
        self.hosts = hosts;
        Ok(())
    }
}

/// Whether what was granted is all of what was asked for, by whatever form of it.
pub(super) fn covers(granted: &str, scope: Scope, asked: &str) -> bool {
    let (Some((granted, ports)), Some((asked, needed))) = (parse(granted), parse(asked)) else {
        return false;
    };
    // Once is for one connection, to the first of them.
    let most = if scope == Scope::Once { 1 } else { ports.len() };
    granted == asked && needed.iter().all(|port| ports[..most].contains(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_allowed_while_it_is_granted() {
        let handle = GuardHandle::new(&["a.test".into()], &BTreeMap::new());
        assert!(handle.allows("a.test") && handle.allows("a.test:443"));
        assert!(!handle.allows("a.test:8080") && !handle.allows("b.test"));
        handle.grant("b.test:8080", Scope::Launch).unwrap();
        handle.grant("b.test:8080", Scope::Always).unwrap();
        assert!(handle.allows("b.test:8080") && !handle.allows("b.test"));
        assert_eq!(handle.hosts(), ["a.test", "b.test:8080"]);
        assert!(handle.revoke("b.test:8080").unwrap().was_granted);
        assert!(!handle.revoke("b.test:8080").unwrap().was_granted);
        assert!(!handle.allows("b.test:8080"));
        assert!(handle.grant("b.test", Scope::Once).is_err(), "no guard runs");
        assert!(handle.grant("a b", Scope::Launch).is_err());
        let special = handle.grant("127.0.0.1:8080", Scope::Launch).unwrap_err();
        assert!(special.contains("loopback"), "{special}");
        assert_eq!(handle.hosts(), ["a.test"]);
    }

    #[test]
    fn a_host_is_taken_back_however_it_was_written() {
        let entries = ["API.Test.", "*.test:443", "api.test:8080", "other.test"];
        let handle = GuardHandle::new(&entries.map(String::from), &BTreeMap::new());
        let revoked = handle.revoke("api.test:443").unwrap();
        assert!(revoked.was_granted);
        assert_eq!(revoked.still_allowed_by, ["*.test:443"]);
        assert_eq!(handle.hosts(), ["api.test:80", "*.test:443", "api.test:8080", "other.test"]);
        assert!(handle.allows("api.test:443") && handle.allows("api.test:8080"));
        let again = handle.revoke("api.test:443").unwrap();
        assert!(!again.was_granted && !again.still_allowed_by.is_empty());
        assert!(handle.revoke("api.test").unwrap().was_granted, "its port 80");
        assert!(!handle.allows("api.test:80"));
        let nothing_left = handle.revoke("api.test:8080").unwrap();
        assert_eq!(nothing_left, Revoked { was_granted: true, still_allowed_by: Vec::new() });
    }

    #[test]
    fn an_entry_that_is_none_changes_nothing() {
        let handle = GuardHandle::new(&["a.test".into()], &BTreeMap::new());
        assert!(handle.grant("b.test:0", Scope::Launch).is_err());
        assert_eq!(handle.hosts(), ["a.test"]);
        handle.grant("c.test", Scope::Launch).unwrap();
        assert!(handle.allows("c.test"), "what comes after it works");
    }

    #[test]
    fn what_was_granted_in_another_form_answers_who_asked() {
        for (granted, scope, asked, wanted) in [
            ("a.test", Scope::Launch, "a.test:443", true),
            ("a.test", Scope::Launch, "a.test:80", true),
            ("a.test", Scope::Once, "a.test:443", true),
            ("a.test", Scope::Once, "a.test:80", false),
            ("a.test:443", Scope::Launch, "a.test", false),
            ("a.test", Scope::Launch, "b.test", false),
            ("a.test", Scope::Launch, "a.test:8080", false),
        ] {
            assert_eq!(covers(granted, scope, asked), wanted, "{granted} {asked}");
        }
    }
}
