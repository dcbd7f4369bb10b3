//! The report as a table for a person.

use super::tiers::{TIERS, lacks};
use super::{HostReport, State, reaches};
use crate::error::Error;
use crate::launch::Tier;
use crate::output::print;

/// Prints a line for each feature, with what to do below where there is
/// something, and at the end which tier that makes.
pub(crate) fn show(report: &HostReport, wanted: Tier) -> Result<(), Error> {
    for line in lines(report, wanted) {
        print(line)?;
    }
    Ok(())
}

fn lines(report: &HostReport, wanted: Tier) -> Vec<String> {
    let width = report.features.iter().map(|f| f.name.chars().count()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for feature in &report.features {
        let (name, state, reason) = (&feature.name, feature.state, &feature.reason);
        lines.push(format!("{name:<width$}  {state:<8}  {reason}"));
        if let Some(advice) = feature.advice.as_ref().filter(|_| state != State::Enforced) {
            lines.push(format!("{:<width$}  next: {advice}", ""));
        }
    }
    let missing = |tier| lacks(tier, &report.features).join(", ");
    match report.tier {
        Some(tier) if reaches(report.tier, wanted) => {
            lines.push(format!("this host can reach the {tier} tier"));
        }
        Some(tier) => {
            lines.push(format!(
                "this host can reach the {tier} tier, and not {wanted}: {}",
                missing(wanted)
            ));
            lines.push(format!("  next: paddock run --tier {tier}, or do what is advised above"));
        }
        None => {
            let least = TIERS[TIERS.len() - 1];
            lines.push(format!("this host can reach no tier: {}", missing(least)));
            lines.push("  next: do what is advised above, then: paddock doctor".into());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Feature;
    use crate::doctor::tiers::needs;

    fn report(without: &str, tier: Option<Tier>) -> HostReport {
        let mut features: Vec<Feature> = needs(Tier::Sealed)
            .filter(|name| *name != without)
            .map(|name| Feature::enforced(name, "it holds").advise("never shown"))
            .collect();
        features.push(Feature::missing(without, "it is not there").advise("get it"));
        HostReport { features, tier }
    }

    #[test]
    fn the_end_says_what_can_be_reached_and_what_to_type() {
        let end = |without, tier, wanted| {
            let mut lines = lines(&report(without, tier), wanted);
            lines.retain(|line| !line.contains("it holds"));
            lines
        };
        assert_eq!(
            end("herdr", Some(Tier::Sealed), Tier::Sealed)[2..],
            ["this host can reach the sealed tier"]
        );
        let lesser = end("bubblewrap", Some(Tier::Isolated), Tier::Sealed);
        assert_eq!(lesser[0], format!("{:<22}  missing   it is not there", "bubblewrap"));
        assert_eq!(lesser[1], format!("{:<22}  next: get it", ""));
        assert_eq!(
            lesser[2..],
            [
                "this host can reach the isolated tier, and not sealed: bubblewrap",
                "  next: paddock run --tier isolated, or do what is advised above"
            ]
        );
        assert_eq!(
            end("bubblewrap", Some(Tier::Isolated), Tier::Ported)[2..],
            ["this host can reach the isolated tier"]
        );
        assert_eq!(
            end("nono", None, Tier::Ported)[2..],
            [
                "this host can reach no tier: nono",
                "  next: do what is advised above, then: paddock doctor"
            ]
        );
    }
}
