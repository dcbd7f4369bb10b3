//! Which tier a host can reach: decided by its features alone.

use super::{Feature, State};
use crate::launch::Tier;

/// What every tier is made of.
const EVERY_TIER: [&str; 16] = [
    "plain-user",
    "landlock",
    "landlock-files",
    "landlock-network",
    "landlock-signals",
    "landlock-abstract-unix",
    "seccomp-filter",
    "seccomp-notification",
    "seccomp-listener",
    "pidfd",
    "pidfd-getfd",
    "witness",
    "proc",
    "runtime-directory",
    "socket-path",
    "nono",
];
/// What an own network is made of, besides.
const OWN_NETWORK: [&str; 4] =
    ["user-namespace", "network-namespace", "ipc-namespace", "uts-namespace"];
/// What a veil is made of, besides.
const VEIL: [&str; 4] = ["mount-namespace", "pid-namespace", "proc-in-namespace", "bubblewrap"];

/// The tiers, strongest first.
pub(super) const TIERS: [Tier; 3] = [Tier::Sealed, Tier::Isolated, Tier::Ported];

/// The features that `tier` is made of.
pub(crate) fn needs(tier: Tier) -> impl Iterator<Item = &'static str> {
    let network: &[_] = if tier.isolates_network() { &OWN_NETWORK } else { &[] };
    let veil: &[_] = if tier.has_veil() { &VEIL } else { &[] };
    EVERY_TIER.iter().chain(network).chain(veil).copied()
}

/// The features that are not there for `tier`. One that was not looked at is not
/// there.
pub(super) fn lacks(tier: Tier, features: &[Feature]) -> Vec<&'static str> {
    // Refused out here it may be let through in a namespace of this user's own; the
    // ported tier has none.
    let needs_whole = |name: &str| name == "pidfd-getfd" && !tier.isolates_network();
    let is_there = |name: &str| {
        let has = |f: &Feature| f.suffices() && (f.state == State::Enforced || !needs_whole(name));
        features.iter().any(|f| f.name == name && has(f))
    };
    needs(tier).filter(|name| !is_there(name)).collect()
}

/// The strongest tier that `features` make.
pub(super) fn reachable(features: &[Feature]) -> Option<Tier> {
    TIERS.into_iter().find(|tier| lacks(*tier, features).is_empty())
}

/// Whether a host that can reach `found` can reach `wanted`.
pub(crate) fn reaches(found: Option<Tier>, wanted: Tier) -> bool {
    let rank = |tier: Tier| TIERS.iter().position(|t| *t == tier);
    found.is_some_and(|found| rank(found) <= rank(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    /// A host that has everything, but for these.
    fn but(states: &[(&str, State)]) -> Vec<Feature> {
        let mut features: Vec<Feature> =
            needs(Tier::Sealed).map(|name| Feature::enforced(name, "")).collect();
        for (name, state) in states {
            features.iter_mut().find(|f| f.name == *name).unwrap().state = *state;
        }
        features
    }

    #[test]
    fn the_tier_is_what_the_features_make() {
        use State::{Missing, Partial, Unknown};
        for (states, tier) in [
            (&[][..], Some(Tier::Sealed)),
            (&[("bubblewrap", Missing)], Some(Tier::Isolated)),
            (&[("mount-namespace", Missing)], Some(Tier::Isolated)),
            (&[("pid-namespace", Unknown)], Some(Tier::Isolated)),
            (&[("proc-in-namespace", Missing)], Some(Tier::Isolated)),
            (&[("network-namespace", Missing)], Some(Tier::Ported)),
            (&[("ipc-namespace", Missing)], Some(Tier::Ported)),
            (&[("uts-namespace", Missing)], Some(Tier::Ported)),
            (&[("user-namespace", Missing)], Some(Tier::Ported)),
            (&[("user-namespace", Missing), ("bubblewrap", Missing)], Some(Tier::Ported)),
            (&[("bubblewrap", Partial), ("nono", Partial)], Some(Tier::Sealed)),
            (&[("landlock-signals", Missing)], None),
            (&[("seccomp-listener", Missing)], None),
            (&[("nono", Unknown)], None),
            (&[("plain-user", Missing)], None),
            (&[("pidfd-getfd", Partial)], Some(Tier::Sealed)),
            (&[("pidfd-getfd", Partial), ("user-namespace", Missing)], None),
        ] {
            assert_eq!(reachable(&but(states)), tier, "{states:?}");
        }
        for name in EVERY_TIER {
            for state in [Missing, Unknown] {
                assert_eq!(reachable(&but(&[(name, state)])), None, "{name}");
            }
            assert_eq!(reachable(&but(&[(name, Partial)])), Some(Tier::Sealed), "{name}");
        }
    }

    #[test]
    fn what_was_not_looked_at_is_not_there() {
        let mut features = but(&[]);
        features.retain(|f| f.name != "bubblewrap");
        assert_eq!(reachable(&features), Some(Tier::Isolated));
        assert_eq!(lacks(Tier::Sealed, &features), ["bubblewrap"]);
        assert_eq!(reachable(&[]), None);
    }

    #[test]
    fn a_stronger_tier_is_enough_and_a_lesser_is_not() {
        for (found, wanted, is_enough) in [
            (Some(Tier::Sealed), Tier::Sealed, true),
            (Some(Tier::Sealed), Tier::Ported, true),
            (Some(Tier::Isolated), Tier::Sealed, false),
            (Some(Tier::Isolated), Tier::Isolated, true),
            (Some(Tier::Ported), Tier::Isolated, false),
            (None, Tier::Ported, false),
        ] {
            assert_eq!(reaches(found, wanted), is_enough, "{found:?} for {wanted}");
        }
    }
}
