//! The arguments of `paddock prune`.

use std::time::Duration;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  paddock prune                     every launch that is over\n  \
    paddock prune --older-than 7d     of those, what ended a week ago or earlier\n  \
    paddock prune --dry-run           what would be removed, and nothing is\n  \
    paddock prune bcdf cdgh           these two\n  \
    paddock prune --caches            what package managers keep in agents' homes; asks first\n  \
    paddock prune --caches codex --yes\n\n\
    Kept are launches that run or have processes left, agents' private homes but for their \
    caches, and pins.\n\
    Exit status: 0, or 125 when something that was to be removed is there still."
)]
pub(crate) struct Prune {
    /// Launches, or the starts of their ids [default: all that are over]
    #[arg(value_name = "LAUNCH")]
    pub(crate) launches: Vec<String>,
    /// Only what ended so long ago: 30m, 12h, 7d, 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// The caches in the private homes of agents, or of one, in place of launches
    #[arg(
        long, value_name = "AGENT", num_args = 0..=1, default_missing_value = "",
        conflicts_with_all = ["launches", "older_than"]
    )]
    pub(crate) caches: Option<String>,
    /// Remove caches without asking
    #[arg(long, requires = "caches", conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "an age is a number and one of s, m, h, d, w: 7d".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let number: u64 = number.and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_number_and_a_unit() {
        for (text, seconds) in [("0s", 0), ("30m", 1_800), ("12h", 43_200), ("7d", 604_800)] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(age("2w"), age("14d"));
        for text in ["", "7", "d", "-7d", "+7d", "7 d", "1.5d", "7y", "7é", "99999999999999999w"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
