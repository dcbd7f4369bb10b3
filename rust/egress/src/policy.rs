//! Which hosts may be asked for.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use crate::entry::{Entry, Pattern};
use crate::host::Form;
use crate::{Host, HostError, Place, Refusal, check};

/// The allow list and the exceptions.
///
/// The default policy allows nothing.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    hosts: HashMap<Host, BTreeSet<u16>>,
    /// By the domain below which every name is allowed.
    subdomains: HashMap<String, BTreeSet<u16>>,
    exceptions: HashMap<Host, Place>,
}

/// Why a policy could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The host of an allow entry is not one.
    #[error("allow entry {entry:?}: {cause}")]
    AllowHost {
        /// The entry as it was given.
        entry: String,
        /// What is wrong with its host.
        cause: HostError,
    },
    /// The port of an allow entry is not one.
    #[error("allow entry {entry:?}: the port is not a number from 1 to 65535")]
    AllowPort {
        /// The entry as it was given.
        entry: String,
    },
    /// A wildcard before something that has no subdomains.
    #[error("allow entry {entry:?}: an address has no subdomains")]
    Wildcard {
        /// The entry as it was given.
        entry: String,
    },
    /// The host of an exception is not one.
    #[error("exception {host:?}: {cause}")]
    ExceptionHost {
        /// The host as it was given.
        host: String,
        /// What is wrong with it.
        cause: HostError,
    },
    /// The address of an exception is the unspecified one (which would reach
    /// the loopback) or a group; or its network is wider than one block of
    /// addresses that are not public, or has bits below its prefix.
    #[error("exception {host:?}: {place} is {}", no_place(place))]
    ExceptionPlace {
        /// The host as it was given.
        host: String,
        /// Its address or network.
        place: Place,
    },
    /// Two notations of one host have different places.
    #[error("exception {host:?}: the same host has another address in another exception")]
    ExceptionConflict {
        /// The host as it was given.
        host: String,
    },
}

fn no_place(place: &Place) -> &'static str {
    match place {
        Place::Address(_) => "not the address of a host",
        Place::Network(_) => "not a network inside one block of addresses that are not public",
    }
}

/// How an allowed host is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// By resolving this name and checking what it resolves to.
    Resolve(&'a str),
    /// The host is itself an address, and passed the check.
    Literal(IpAddr),
    /// At the address of an exception. Nothing is resolved or checked.
    Exception(IpAddr),
    /// By resolving this name; what it resolves to may be in this place, and is
    /// checked where it is not.
    Within(&'a str, Place),
}

impl Policy {
    /// Makes a policy.
    ///
    /// An allow entry is `host` (ports 443 and 80), `host:port`, `*.domain` or
    /// `*.domain:port`; a wildcard stands for every name below the domain, not
    /// for the domain itself.
    ///
    /// An exception gives a host an address, which may be a private one: the host
    /// is not resolved. Or it gives it a network: the host is resolved, and each
    /// address must be public or in that network. The host still needs an allow
    /// entry, which also says the port.
    pub fn new<A, E, H, P>(allow: A, exceptions: E) -> Result<Self, PolicyError>
    where
        A: IntoIterator<Item: AsRef<str>>,
        E: IntoIterator<Item = (H, P)>,
        H: AsRef<str>,
        P: Into<Place>,
    {
        let mut policy = Self::default();
        for entry in allow {
            policy.allow(entry.as_ref())?;
        }
        for (host, place) in exceptions {
            policy.except(host.as_ref(), place.into())?;
        }
        Ok(policy)
    }

    /// Decides about a host and a port, without any query.
    ///
    /// # Errors
    ///
    /// [`Refusal::HostNotAllowed`], [`Refusal::PortNotAllowed`], and for an
    /// address literal [`Refusal::SpecialAddress`].
    pub fn route<'a>(&self, host: &'a Host, port: u16) -> Result<Route<'a>, Refusal> {
        let mut listed = self.ports(host).peekable();
        if listed.peek().is_none() {
            return Err(Refusal::HostNotAllowed { host: host.clone() });
        }
        if !listed.any(|ports| ports.contains(&port)) {
            return Err(Refusal::PortNotAllowed { host: host.clone(), port });
        }
        self.way(host)
    }

    /// How a host is reached that is allowed, by this policy or otherwise.
    pub(crate) fn way<'a>(&self, host: &'a Host) -> Result<Route<'a>, Refusal> {
        match (self.exceptions.get(host), host.form()) {
            (Some(&Place::Address(address)), _) => Ok(Route::Exception(address)),
            (Some(&place), Form::Name(name)) => Ok(Route::Within(name, place)),
            (Some(place), Form::Address(address)) if place.contains(*address) => {
                Ok(Route::Exception(*address))
            }
            (None, Form::Name(name)) => Ok(Route::Resolve(name)),
            (_, Form::Address(address)) => check(*address).map(|()| Route::Literal(*address)),
        }
    }

    /// Whether a host may be connected to at this address, which it was found at
    /// before.
    pub(crate) fn permits(&self, host: &Host, port: u16, address: IpAddr) -> bool {
        match self.route(host, port) {
            Ok(Route::Literal(only) | Route::Exception(only)) => only == address.to_canonical(),
            Ok(Route::Within(_, place)) if place.contains(address) => true,
            Ok(Route::Resolve(_) | Route::Within(..)) => check(address).is_ok(),
            Err(_) => false,
        }
    }

    /// The ports of every entry that the host matches.
    fn ports<'a>(&'a self, host: &'a Host) -> impl Iterator<Item = &'a BTreeSet<u16>> {
        let above = std::iter::successors(host.name(), |name| {
            name.split_once('.').map(|(_, parent)| parent)
        });
        let subdomains = above.skip(1).filter_map(|domain| self.subdomains.get(domain));
        self.hosts.get(host).into_iter().chain(subdomains)
    }

    fn allow(&mut self, entry: &str) -> Result<(), PolicyError> {
        let Entry { pattern, ports } = Entry::parse(entry)?;
        let listed = match pattern {
            Pattern::Host(host) => self.hosts.entry(host).or_default(),
            Pattern::Below(domain) => self.subdomains.entry(domain).or_default(),
        };
        listed.extend(ports);
        Ok(())
    }

    fn except(&mut self, text: &str, place: Place) -> Result<(), PolicyError> {
        let named = || text.to_owned();
        let host = Host::parse(text)
            .map_err(|cause| PolicyError::ExceptionHost { host: named(), cause })?;
        let place = place
            .canonical()
            .ok_or_else(|| PolicyError::ExceptionPlace { host: named(), place })?;
        match self.exceptions.insert(host, place) {
            Some(other) if other != place => Err(PolicyError::ExceptionConflict { host: named() }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
