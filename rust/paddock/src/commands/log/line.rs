//! One event as a line.

use confine::escape::{escape, escape_short};
use confine::sys::{LocalTime, local_time};

use super::words::{Tone, describe};
use crate::output::as_json;
use crate::state::LedgerEntry;

/// How lines look.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) with_colour: bool,
}

impl Style {
    /// Time, event, and what happened.
    pub(super) fn entry(self, entry: &LedgerEntry) -> String {
        let Parts { tone, time, event, what } = parts(entry);
        format!(
            "{}  {}  {}",
            self.coloured("2", &time),
            self.coloured(tone.colour(), &format!("{event:<13}")),
            what,
        )
    }

    /// Between two lines of which others were.
    pub(super) fn not_kept(self, count: u64) -> String {
        self.coloured("33", &format!("({count} lines were not kept)"))
    }

    fn coloured(self, colour: &str, text: &str) -> String {
        if self.with_colour && !colour.is_empty() {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// What is told of an event; escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) tone: Tone,
    pub(crate) time: String,
    pub(crate) event: String,
    pub(crate) what: String,
}

/// Tells of an event, in parts.
pub(crate) fn parts(entry: &LedgerEntry) -> Parts {
    let (tone, what) = if let Some((tone, what)) = describe(entry) {
        (tone, escape(what.as_bytes()).to_string())
    } else {
        let mut details = entry.details.clone();
        details.retain(|key, _| !["time", "seq", "event"].contains(&key.as_str()));
        (Tone::Plain, as_json(&serde_json::Value::Object(details).to_string()))
    };
    let time = entry.details.get("time").and_then(serde_json::Value::as_u64);
    Parts {
        tone,
        time: time.map_or_else(String::new, shown_time),
        event: escape_short(entry.event().as_bytes(), 40).to_string(),
        what,
    }
}

/// Milliseconds since the epoch, as the person's clock has them.
pub(crate) fn shown_time(milliseconds: u64) -> String {
    let Some(time) = local_time(milliseconds / 1000) else { return milliseconds.to_string() };
    let LocalTime { year, month, day, hour, minute, second } = time;
    let thousandths = milliseconds % 1000;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{thousandths:03}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(value: &Value) -> LedgerEntry {
        LedgerEntry { text: value.to_string(), details: value.as_object().unwrap().clone() }
    }

    #[test]
    fn what_is_unknown_or_odd_is_shown_as_escaped_json() {
        let style = Style { with_colour: false };
        for (value, shown) in [
            (json!({ "event": "new", "a": "\u{1b}[2J" }), r#"new            {"a":"\u001b[2J"}"#),
            (json!({ "event": "new\u{9b}31m" }), r"new\u{9b}31m   {}"),
            (json!({ "event": "egress", "egress": 7 }), r#"egress         {"egress":7}"#),
            (
                json!({ "time": "x", "event": 3, "b": "\u{202e}" }),
                r#"               {"b":"\u202e"}"#,
            ),
        ] {
            assert_eq!(style.entry(&entry(&value)), format!("  {shown}"));
        }
    }

    #[test]
    fn colour_is_put_around_the_time_and_the_event_alone() {
        let value =
            json!({ "event": "gate-refused", "time": 0, "why": "\u{1b}[32m", "caller": null });
        let plain = Style { with_colour: false }.entry(&entry(&value));
        assert!(!plain.contains('\u{1b}') && plain.contains("\\u{1b}[32m"), "{plain}");
        let coloured = Style { with_colour: true }.entry(&entry(&value));
        assert!(coloured.contains("\x1b[31mgate-refused \x1b[0m"), "{coloured:?}");
        let rest = ["\x1b[2m", "\x1b[31m", "\x1b[0m"]
            .iter()
            .fold(coloured, |text, sequence| text.replace(sequence, ""));
        assert_eq!(rest, plain);
    }

    #[test]
    fn a_time_has_its_thousandths() {
        let shown = shown_time(1_764_504_000_007);
        assert!(shown.starts_with("2025-1") && shown.ends_with(":00.007"), "{shown}");
        assert_eq!(shown.len(), "2025-11-30 12:00:00.007".len());
        assert!(shown_time(u64::MAX).starts_with("584556019-"));
    }
}
