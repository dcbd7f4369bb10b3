//! The result: features, each with its state.

use std::fmt;
use std::io;

use serde::Serialize;

use crate::launch::Tier;

/// How far a feature can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    /// It was tried and holds.
    Enforced,
    /// It can be used; something of it is missing.
    Partial,
    /// It was tried and is not to be had.
    Missing,
    /// It could not be tried.
    Unknown,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Partial => "partial",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that a host has, or has not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Feature {
    pub(crate) name: String,
    pub(crate) state: State,
    /// What was tried, and what came of it.
    pub(crate) reason: String,
    /// What to do, where something can be done.
    pub(crate) advice: Option<String>,
}

impl Feature {
    fn new(name: &str, state: State, reason: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state, reason: reason.into(), advice: None }
    }

    pub(super) fn enforced(name: &str, reason: impl Into<String>) -> Self {
        Self::new(name, State::Enforced, reason)
    }

    pub(super) fn partial(name: &str, reason: impl Into<String>) -> Self {
        Self::new(name, State::Partial, reason)
    }

    pub(crate) fn missing(name: &str, reason: impl Into<String>) -> Self {
        Self::new(name, State::Missing, reason)
    }

    pub(super) fn unknown(name: &str, reason: impl Into<String>) -> Self {
        Self::new(name, State::Unknown, reason)
    }

    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Whether a tier that is made of it can be had.
    pub(crate) fn suffices(&self) -> bool {
        matches!(self.state, State::Enforced | State::Partial)
    }
}

/// What was found out about a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostReport {
    pub(crate) features: Vec<Feature>,
    /// The strongest tier that can be reached.
    pub(crate) tier: Option<Tier>,
}

/// The error with that number.
pub(super) fn error(errno: rustix::io::Errno) -> io::Error {
    errno.into()
}
