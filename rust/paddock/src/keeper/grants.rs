//! The hosts that a launch may reach, as they change while it lives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egress::{Guard, Host, Policy, Resolver};

use super::questions::Scope;
use crate::launch::policy;

/// Where a host is granted that names no port, for one connection.
const USUAL_PORT: u16 = 443;

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
}

impl<R: Resolver> Running for Arc<Guard<R>> {
    fn set_policy(&self, policy: Policy) {
        Guard::set_policy(self, policy);
    }
    fn grant_once(&self, host: Host, port: u16) {
        Guard::grant_once(self, host, port);
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

    /// From here on changes reach this guard.
    pub(super) fn attach<R: Resolver>(&self, guard: Arc<Guard<R>>) {
        self.inner().running = Some(Box::new(guard));
    }

    /// Whether a host (`name` or `name:port`) may be connected to as it stands.
    pub(super) fn allows(&self, wanted: &str) -> bool {
        let Some((host, port)) = split(wanted) else { return false };
        let ports = port.map_or_else(|| vec![443, 80], |port| vec![port]);
        let policy = self.policy();
        policy.is_ok_and(|policy| ports.iter().all(|port| policy.route(&host, *port).is_ok()))
    }

    /// Lets the launch reach a host.
    pub(super) fn grant(&self, wanted: &str, scope: Scope) -> Result<(), String> {
        let (host, port) = split(wanted).ok_or_else(|| format!("{wanted:?} is no host"))?;
        let mut inner = self.inner();
        if scope == Scope::Once {
            let running = inner.running.as_ref().ok_or("the guard does not run yet")?;
            running.grant_once(host, port.unwrap_or(USUAL_PORT));
            return Ok(());
        }
        if !inner.hosts.iter().any(|known| known == wanted) {
            inner.hosts.push(wanted.to_owned());
        }
        inner.apply()
    }

    /// Takes it back, and cuts what is open; `false` when it was not granted.
    pub(super) fn revoke(&self, wanted: &str) -> Result<bool, String> {
        let mut inner = self.inner();
        let before = inner.hosts.len();
        inner.hosts.retain(|known| known != wanted);
        let is_other = inner.hosts.len() != before;
        inner.apply().map(|()| is_other)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn policy(&self) -> Result<Policy, String> {
        policy(&self.hosts, &self.exceptions).map_err(|e| e.to_string())
    }

    fn apply(&self) -> Result<(), String> {
        let policy = self.policy()?;
        if let Some(running) = &self.running {
            running.set_policy(policy);
        }
        Ok(())
    }
}

fn split(wanted: &str) -> Option<(Host, Option<u16>)> {
    let port =
        wanted.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    match port {
        Some((host, port)) => Some((Host::parse(host).ok()?, Some(port.parse().ok()?))),
        None => Some((Host::parse(wanted).ok()?, None)),
    }
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
        assert_eq!(handle.revoke("b.test:8080"), Ok(true));
        assert_eq!(handle.revoke("b.test:8080"), Ok(false));
        assert!(!handle.allows("b.test:8080"));
        assert!(handle.grant("b.test", Scope::Once).is_err(), "no guard runs");
        assert!(handle.grant("a b", Scope::Launch).is_err());
    }
}
