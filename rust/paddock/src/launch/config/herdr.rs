//! Where in herdr an agent is opened.

use serde::Deserialize;

/// Where in herdr an agent is opened.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct HerdrSettings {
    pub(crate) open_in: OpenIn,
    /// Of a split, where the new pane is.
    pub(crate) direction: Direction,
    /// Of a split, how much the pane keeps that was there.
    pub(crate) ratio: Ratio,
}

/// What is made for an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OpenIn {
    /// A pane beside the one that has the focus.
    #[default]
    Split,
    /// A tab of its own.
    Tab,
}

impl OpenIn {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Tab => "tab",
        }
    }
}

/// Where the new pane of a split is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    #[default]
    Right,
    Down,
}

impl Direction {
    /// As herdr calls it, too.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Down => "down",
        }
    }
}

/// A share of the space, from 0.1 to 0.9.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct Ratio(f64);

impl Ratio {
    pub(crate) fn get(self) -> f64 {
        self.0
    }
}

impl Default for Ratio {
    fn default() -> Self {
        Self(0.5)
    }
}

impl TryFrom<f64> for Ratio {
    type Error = String;

    fn try_from(ratio: f64) -> Result<Self, String> {
        // What is no number is in no range.
        if (0.1..=0.9).contains(&ratio) {
            return Ok(Self(ratio));
        }
        Err(format!("{ratio} is not between 0.1 and 0.9"))
    }
}
