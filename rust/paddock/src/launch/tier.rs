//! How much of the design a host can give, chosen by the person, never lowered
//! silently.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The tiers, strongest first: the later, the less holds.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tier {
    /// Veil and isolated pen.
    #[default]
    Sealed,
    /// No veil: host sockets and processes exist, behind mediation and Landlock.
    Isolated,
    /// No veil and no own network: Landlock ports on the host's loopback.
    Ported,
}

impl Tier {
    pub(crate) fn has_veil(self) -> bool {
        self == Self::Sealed
    }

    pub(crate) fn isolates_network(self) -> bool {
        self != Self::Ported
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Isolated => "isolated",
            Self::Ported => "ported",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
