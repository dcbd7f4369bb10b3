//! `paddock pin`.

use serde_json::json;

use crate::cli::Pin;
use crate::error::{Error, status};
use crate::launch::{Config, Directories};
use crate::output::{print, shown};
use crate::pins::{self, Comparison, PinState};

/// Shows what is recorded of an agent and what differs, or records what is.
pub(crate) fn pin(options: &Pin) -> Result<u8, Error> {
    // Root's files in a person's state would be in the person's way.
    if rustix::process::geteuid().is_root() {
        return Err(Error::Root);
    }
    let directories = Directories::find()?;
    let config = Config::here(&directories)?;
    let name = options.agent.as_deref().or(config.agent.as_deref()).unwrap_or("standin");
    let tier = options.tier.or(config.tier).unwrap_or_default();
    let comparison = Comparison::of_named(name, tier, &config, &directories, options.accept)?;
    if options.accept {
        comparison.record(&directories)?;
    }
    let found = comparison.state(config.pins.on_program_change);
    let (state, exit) = match found {
        _ if options.accept => ("accepted", 0),
        PinState::Refused => (found.name(), status::FAILED),
        _ => (found.name(), 0),
    };
    let path = pins::file(&directories, name, tier);
    if options.json {
        print(format_args!(
            "{}",
            json!({
                "schema": 1, "agent": name, "tier": tier.name(), "state": state, "file": shown(&path),
                "recorded": comparison.recorded.as_ref().map(pins::hashes),
                "present": pins::hashes(&comparison.present),
                "changes": pins::details(&comparison),
            })
        ))?;
    } else {
        lines(&comparison, state).iter().try_for_each(print)?;
        print(format_args!("file     {}", shown(&path)))?;
        if state == "refused" {
            print(format_args!("next: {}", pins::accept_command(name, tier)))?;
        }
    }
    Ok(exit)
}

/// What is recorded and what is there, in lines; escaped.
pub(crate) fn lines(comparison: &Comparison, state: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let present = &comparison.present;
    lines.push(format!("agent    {} ({})", present.agent, present.tier));
    let told = match state {
        "accepted" => "what is here now is recorded",
        "not-recorded" => "nothing is recorded; the first launch does that",
        "refused" => "not as recorded: a launch is refused",
        "changed" => "not as recorded: the next launch says so and goes on",
        _ => "as recorded",
    };
    lines.push(format!("state    {told}"));
    for (layer, policy) in &present.policies {
        lines.push(format!("policy   {} {layer}", policy.resolved));
        for changed in comparison.policies.iter().filter(|changed| changed.layer == layer) {
            lines.push(format!("   was   {}", changed.was));
            for change in &changed.changes {
                let sign = if change.widens { '+' } else { '-' };
                let what = confine::escape::escape(change.what.as_bytes());
                lines.push(format!("     {sign} {what}"));
            }
        }
    }
    for (name, program) in &present.programs {
        let path = shown(program.file.path());
        lines.push(format!("program  {} {name} {path}", program.sha256));
        for changed in comparison.programs.iter().filter(|changed| changed.name == name) {
            lines.push(format!("   was   {}", changed.was.sha256));
        }
    }
    lines
}
