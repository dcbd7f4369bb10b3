//! AF_UNIX: what an agent may do with it, and what holds where nono's mediation
//! can be raced.

use std::fmt;

use confine::sys::host::{Rights, landlock_knows};
use serde::Deserialize;

use super::{Tier, lowered_landlock_abi};

/// What an agent may do with AF_UNIX, chosen by the person; the earlier, the less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UnixMode {
    /// Nothing: it gets no socket, and the gate is out of its reach, too.
    Strict,
    /// Connect where nono's mediation lets it.
    #[default]
    Mediated,
}

impl fmt::Display for UnixMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strict => "strict",
            Self::Mediated => "mediated",
        })
    }
}

/// What stops a race on the mediation in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgainstRaces {
    /// No socket of the host is there.
    pub(crate) veil: bool,
    /// The kernel has a rule about the paths of sockets.
    pub(crate) kernel_rule: bool,
    /// No socket can be made.
    pub(crate) strict: bool,
}

impl AgainstRaces {
    /// With what this host has.
    pub(crate) fn find(tier: Tier, mode: UnixMode) -> Self {
        Self {
            veil: tier.has_veil(),
            kernel_rule: has_kernel_rule(lowered_landlock_abi()),
            strict: mode == UnixMode::Strict,
        }
    }

    /// Whether any of them holds without a veil.
    pub(crate) fn hold_without_veil(self) -> bool {
        self.kernel_rule || self.strict
    }
}

impl fmt::Display for AgainstRaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<&str> = [
            (self.veil, "veil: of the host's sockets only those in what is granted are there"),
            (self.kernel_rule, "kernel rule: Landlock refuses every path but the launch's own"),
            (self.strict, "strict filter: no AF_UNIX socket can be made"),
        ]
        .into_iter()
        .filter_map(|(holds, words)| holds.then_some(words))
        .collect();
        if told.is_empty() {
            return f.write_str(
                "mediation only: two threads can race it and reach sockets of this user",
            );
        }
        f.write_str(&told.join("; "))
    }
}

/// Rules about the paths of sockets came with ABI 9 (kernel commit "landlock:
/// Control pathname UNIX domain socket resolution by path"); tests may lower that.
fn has_kernel_rule(lowered: Option<i32>) -> bool {
    const UNIX_PATHS_SINCE: i32 = 9;
    lowered.is_none_or(|abi| abi >= UNIX_PATHS_SINCE)
        && landlock_knows(Rights::RESOLVE_UNIX).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_a_race_is_told_and_nothing_else() {
        let told = |veil, kernel_rule, strict| -> Vec<String> {
            let text = AgainstRaces { veil, kernel_rule, strict }.to_string();
            text.split("; ").map(|part| part.split(':').next().unwrap().to_owned()).collect()
        };
        assert_eq!(told(true, false, false), ["veil"]);
        assert_eq!(told(false, true, false), ["kernel rule"]);
        assert_eq!(told(false, false, true), ["strict filter"]);
        assert_eq!(told(true, true, true), ["veil", "kernel rule", "strict filter"]);
        assert_eq!(told(false, false, false), ["mediation only"]);
    }

    #[test]
    fn the_kernels_rule_is_claimed_where_the_kernel_has_it_and_can_only_be_lowered() {
        let has_it = confine::sys::landlock_abi().is_ok_and(|abi| abi >= 9);
        assert_eq!(has_kernel_rule(None), has_it);
        assert_eq!(has_kernel_rule(Some(9)), has_it);
        assert_eq!(has_kernel_rule(Some(99)), has_it, "it cannot be raised");
        assert!(!has_kernel_rule(Some(8)));
    }
}
