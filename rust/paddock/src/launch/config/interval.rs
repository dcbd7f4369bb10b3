//! How often a launch is looked at.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// A time, as in `250ms` or `2s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Interval(Duration);

impl Interval {
    pub(crate) const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub(crate) fn get(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for Interval {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: Option<u64> = number.parse().ok();
        let millis = match unit {
            "ms" => number,
            "s" => number.and_then(|seconds| seconds.checked_mul(1000)),
            _ => None,
        };
        let millis =
            millis.ok_or_else(|| format!("{text:?} is no time; write it as 250ms or 2s"))?;
        Ok(Self::from_millis(millis))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            millis if millis % 1000 == 0 => write!(f, "{}s", millis / 1000),
            millis => write!(f, "{millis}ms"),
        }
    }
}

/// How often the keeper looks at a launch.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct VerifySettings {
    /// Between two passes over every task.
    pub(crate) every: Interval,
    /// In which each task's descriptors, sockets, program and namespaces are looked at once.
    pub(crate) descriptors_every: Interval,
}

impl Default for VerifySettings {
    fn default() -> Self {
        Self { every: Interval::from_millis(250), descriptors_every: Interval::from_millis(2000) }
    }
}

impl VerifySettings {
    /// More often would take the processor from the agent.
    pub(crate) const SHORTEST: Interval = Interval::from_millis(50);
    /// Less often would be no watch: what is not confined would have done what it came for.
    pub(crate) const LONGEST: Interval = Interval::from_millis(2000);
    /// The same for what is looked at in turn.
    pub(crate) const LONGEST_DESCRIPTORS: Interval = Interval::from_millis(10_000);

    /// In how many passes everything is looked at once; not later than was asked for.
    pub(crate) fn turns(self) -> u64 {
        let turns = self.descriptors_every.0.as_millis() / self.every.0.as_millis().max(1);
        u64::try_from(turns).unwrap_or(u64::MAX).max(1)
    }

    /// Refuses what would not watch.
    ///
    /// # Errors
    /// Which key, and why.
    pub(super) fn check(self) -> Result<(), (&'static str, String)> {
        for (key, is, longest) in [
            ("verify.every", self.every, Self::LONGEST),
            ("verify.descriptors-every", self.descriptors_every, Self::LONGEST_DESCRIPTORS),
        ] {
            if is > longest {
                let why = "a launch would not be watched any more";
                return Err((key, format!("{is} is too long, {why}; at most {longest}")));
            }
            if is < Self::SHORTEST {
                return Err((key, format!("{is} is too short; at least {}", Self::SHORTEST)));
            }
        }
        if self.descriptors_every < self.every {
            let (is, every) = (self.descriptors_every, self.every);
            let reason = format!("{is} is shorter than verify.every, {every}");
            return Err(("verify.descriptors-every", reason));
        }
        Ok(())
    }
}
