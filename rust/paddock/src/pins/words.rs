//! What changed, for a person, for a script and for the ledger.

use serde_json::{Value, json};

use super::{ADAPTER, Comparison, Pins, PolicyChange, ProgramChange};
use crate::output::shown;

/// The most differences of one policy that an error lists.
const MOST: usize = 30;

/// A heading and a line per difference, each after a new line.
pub(super) fn list(comparison: &Comparison) -> String {
    let mut lines = Vec::new();
    for policy in &comparison.policies {
        lines.push(format!("\n  {}", heading(policy)));
        lines.extend(differences(policy).map(|line| format!("\n    {line}")));
    }
    lines.extend(comparison.programs.iter().map(|p| format!("\n  {}", of_program(p))));
    lines.concat()
}

/// What a person is told when the launch goes on.
pub(super) fn notices(agent: &str, comparison: &Comparison) -> Vec<String> {
    let policies = comparison.policies.iter().map(|policy| {
        let lines: Vec<String> = differences(policy).map(|line| format!("\n  {line}")).collect();
        format!("{agent} may do less than before: {}{}", heading(policy), lines.concat())
    });
    let programs = comparison.programs.iter().map(of_program);
    policies.chain(programs).collect()
}

fn heading(policy: &PolicyChange) -> String {
    let name = policy.layer;
    let kind = if name == ADAPTER { "file" } else { "policy" };
    format!("{name} {kind}: recorded {}, now {}", policy.was, policy.is)
}

fn differences(policy: &PolicyChange) -> impl Iterator<Item = String> {
    let more = policy.changes.len().saturating_sub(MOST);
    let rest = (more > 0).then(|| format!("and {more} more; paddock pin lists all"));
    let lines = policy.changes.iter().take(MOST);
    lines.map(|change| confine::escape::escape(change.what.as_bytes()).to_string()).chain(rest)
}

fn of_program(program: &ProgramChange) -> String {
    let path = program.is.file.path();
    let moved = if path == program.was.file.path() {
        String::new()
    } else {
        format!(" (it was {})", shown(program.was.file.path()))
    };
    let name = if program.name == "agent" { "the agent's program" } else { program.name };
    let (was, is) = (&program.was.sha256, &program.is.sha256);
    format!("{name} {}{moved} changed: recorded {was}, now {is}", shown(path))
}

/// Every hash that is pinned.
pub(crate) fn hashes(pins: &Pins) -> Value {
    let policies: serde_json::Map<String, Value> =
        pins.policies.iter().map(|(layer, p)| (layer.clone(), json!(p.resolved))).collect();
    let programs: serde_json::Map<String, Value> = pins
        .programs
        .iter()
        .map(|(name, p)| {
            (name.clone(), json!({ "path": shown(p.file.path()), "sha256": p.sha256 }))
        })
        .collect();
    json!({ "policies": policies, "programs": programs })
}

/// What changed, in full.
pub(crate) fn details(comparison: &Comparison) -> Value {
    let policies: Vec<Value> = comparison
        .policies
        .iter()
        .map(|policy| {
            let changes: Vec<Value> = policy
                .changes
                .iter()
                .map(|change| json!({ "what": change.what, "widens": change.widens }))
                .collect();
            json!({ "layer": policy.layer, "was": policy.was, "is": policy.is, "changes": changes })
        })
        .collect();
    let programs: Vec<Value> = comparison
        .programs
        .iter()
        .map(|program| {
            json!({
                "name": program.name, "path": shown(program.is.file.path()),
                "was": program.was.sha256, "is": program.is.sha256,
            })
        })
        .collect();
    json!({ "policies": policies, "programs": programs })
}
