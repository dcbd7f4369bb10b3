//! Whether policies and programs are still those that were recorded.

use serde::Serialize;

use crate::error::Error;
use crate::launch::{Config, Directories, Tier};
use crate::output::print;
use crate::pins::{Comparison, PinState, recorded_names};

/// One agent in one tier.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pinned {
    pub(crate) agent: String,
    pub(crate) tier: Tier,
    /// As `paddock pin` has it, or `unknown`.
    pub(crate) state: &'static str,
    pub(crate) reason: String,
    pub(crate) advice: Option<String>,
}

impl Pinned {
    /// A launch would start, as far as this goes.
    pub(crate) fn holds(&self) -> bool {
        !matches!(self.state, "refused" | "unknown")
    }
}

/// Those of `first`, and all of which something is recorded.
pub(crate) fn examine_pins(
    first: (&str, Tier),
    config: &Config,
    directories: &Directories,
) -> Vec<Pinned> {
    recorded_names(first, directories)
        .into_iter()
        .map(|(agent, tier)| {
            let compared = Comparison::of_named(&agent, tier, config, directories, false);
            let (state, reason, advice) = match compared {
                Ok(comparison) => {
                    told(comparison.state(config.pins.on_program_change), &agent, tier)
                }
                Err(error) => ("unknown", error.to_string(), error.advice()),
            };
            Pinned { agent, tier, state, reason, advice }
        })
        .collect()
}

fn told(state: PinState, agent: &str, tier: Tier) -> (&'static str, String, Option<String>) {
    let command = format!("paddock pin {agent} --tier {tier}");
    let (reason, advice) = match state {
        PinState::NotRecorded => ("the first launch records it", None),
        PinState::Same => ("policies and programs are as recorded", None),
        PinState::Changed => ("not as recorded; the next launch says so", Some(command)),
        PinState::Refused => ("not as recorded; a launch does not start", Some(command)),
    };
    (state.name(), reason.to_owned(), advice.map(|command| format!("{command} shows what differs")))
}

/// Prints a line for each.
pub(crate) fn show_pins(pins: &[Pinned]) -> Result<(), Error> {
    for pinned in pins {
        let name = format!("pins of {} ({})", pinned.agent, pinned.tier);
        print(format_args!("{name:<34}{:<14}{}", pinned.state, pinned.reason))?;
        if let Some(advice) = &pinned.advice {
            print(format_args!("{:<34}next: {advice}", ""))?;
        }
    }
    Ok(())
}
