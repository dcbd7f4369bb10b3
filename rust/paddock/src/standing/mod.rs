//! How launches stand: what their records and their keepers tell, put together, for
//! `paddock status` and for the overlay.

mod ask;
mod look;

use std::path::PathBuf;

use serde::Serialize;

use crate::error::status;
use crate::keeper::Status;
use crate::launch::Form;
use crate::state::HerdrPane;

pub(crate) use ask::Asking;
pub(crate) use look::{Looker, look_at_all, of_answer};

/// What is held of a launch, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Held {
    /// It has ended, and nothing of it is left.
    Ended,
    /// Every task was confirmed in the last pass, which was just now.
    Confined,
    /// It cannot be told: its keeper does not say so, or could not look at every task.
    Unknown,
    /// One task was found not to be, or something runs without a keeper.
    Unconfined,
}

impl Held {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Confined => "confined",
            Self::Unknown => "unknown",
            Self::Unconfined => "unconfined",
        }
    }

    /// As an exit status: that of `paddock verify`.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ended | Self::Confined => 0,
            Self::Unknown => status::FAILED,
            Self::Unconfined => status::UNCONFINED,
        }
    }
}

/// How one launch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) launch: String,
    pub(crate) agent: String,
    /// What of it was launched.
    pub(crate) form: Form,
    pub(crate) tier: &'static str,
    pub(crate) workspace: PathBuf,
    pub(crate) pane: Option<HerdrPane>,
    /// Where its record and its ledger are.
    pub(crate) directory: PathBuf,
    /// `starting`, `running`, `suspended`, `stale` or `ended`.
    pub(crate) state: &'static str,
    pub(crate) held: Held,
    /// Why it is not confined, or why that cannot be told; escaped.
    pub(crate) what: Option<String>,
    /// Milliseconds since the epoch.
    pub(crate) started: u64,
    pub(crate) ended: Option<u64>,
    /// What its keeper says, where there is one that answers.
    pub(crate) told: Option<Status>,
}

impl Standing {
    /// What was refused.
    pub(crate) fn blocked(&self) -> u64 {
        self.told.as_ref().map_or(0, |told| told.blocked.sum())
    }

    /// How many questions wait.
    pub(crate) fn questions(&self) -> usize {
        self.told.as_ref().map_or(0, |told| told.questions.len())
    }

    /// How long it has been there, in milliseconds.
    pub(crate) fn age(&self, now: u64) -> u64 {
        self.ended.unwrap_or(now).saturating_sub(self.started)
    }
}

/// A time in one unit, as short as it is.
pub(crate) fn short_time(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
