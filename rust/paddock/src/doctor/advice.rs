//! What is left when something is missing, said with it.

use super::Feature;
use super::tiers::{TIERS, needs, reachable};
use crate::launch::Tier;

/// How advice begins that is another feature's.
pub(super) const SEE: &str = "see ";

/// Adds to each feature that costs a tier which one remains, and how to choose
/// it; returns that one.
pub(super) fn name_what_remains(features: &mut [Feature]) -> Option<Tier> {
    let remaining = reachable(features)?;
    for feature in features.iter_mut().filter(|f| !f.suffices()) {
        let costs_a_tier =
            TIERS.into_iter().any(|tier| needs(tier).any(|name| name == feature.name));
        let lesser = format!("choose a lesser tier: paddock run --tier {remaining}");
        // One that names another feature leaves it to that one.
        let is_said = |advice: &String| advice.contains("--tier") || advice.starts_with(SEE);
        if costs_a_tier && !feature.advice.as_ref().is_some_and(is_said) {
            feature.advice = Some(
                feature
                    .advice
                    .take()
                    .map_or(lesser.clone(), |advice| format!("{advice}; or {lesser}")),
            );
        }
    }
    Some(remaining)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<Feature> {
        needs(Tier::Sealed).map(|name| Feature::enforced(name, "")).collect()
    }

    fn lose(features: &mut Vec<Feature>, name: &str, advice: &str) {
        features.retain(|f| f.name != name);
        features.push(Feature::missing(name, "it is not there").advise(advice));
    }

    #[test]
    fn what_costs_a_tier_says_which_remains() {
        let mut features = host();
        lose(&mut features, "bubblewrap", "install it");
        lose(&mut features, "yama", "set it");
        assert_eq!(name_what_remains(&mut features), Some(Tier::Isolated));
        let advice =
            |name: &str| features.iter().find(|f| f.name == name).and_then(|f| f.advice.clone());
        assert_eq!(
            advice("bubblewrap").as_deref(),
            Some("install it; or choose a lesser tier: paddock run --tier isolated")
        );
        assert_eq!(advice("yama").as_deref(), Some("set it"), "no tier needs it");
        assert_eq!(advice("nono"), None, "it is there");
    }

    #[test]
    fn where_no_tier_remains_none_is_named() {
        let mut features = host();
        lose(&mut features, "nono", "install it");
        assert_eq!(name_what_remains(&mut features), None);
        assert_eq!(features.last().unwrap().advice.as_deref(), Some("install it"));
    }

    #[test]
    fn what_is_said_already_is_not_said_twice() {
        for advice in ["or choose: paddock run --tier isolated", "see user-namespace"] {
            let mut features = host();
            lose(&mut features, "bubblewrap", advice);
            name_what_remains(&mut features);
            assert_eq!(features.last().unwrap().advice.as_deref(), Some(advice));
        }
    }
}
