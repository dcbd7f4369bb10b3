//! How things look. A colour never says anything alone: beside it there is a mark or a
//! word, and without colour (<https://no-color.org>) those are left.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;
use ratatui::text::Span;
use unicode_width::UnicodeWidthChar;

use crate::commands::Tone;
use crate::standing::Held;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Theme {
    pub(super) colour: bool,
    pub(super) ascii: bool,
}

/// One thing that has a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Confined,
    Unconfined,
    Unknown,
    /// Outside by design.
    Builder,
    Ended,
}

impl Mark {
    pub(super) fn of_held(held: Held) -> Self {
        match held {
            Held::Confined => Self::Confined,
            Held::Unconfined => Self::Unconfined,
            Held::Unknown => Self::Unknown,
            Held::Ended => Self::Ended,
        }
    }

    /// By the word in a report.
    pub(super) fn of_verdict(verdict: &str) -> Self {
        match verdict {
            "confined" => Self::Confined,
            "builder" => Self::Builder,
            "unconfined" => Self::Unconfined,
            _ => Self::Unknown,
        }
    }
}

// A style is asked of the theme, whether it depends on what the terminal can show or not.
#[allow(clippy::unused_self)]
impl Theme {
    /// By the environment of this process.
    pub(super) fn find(ascii: bool) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // The first that is set says which (`locale(7)`).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let is_utf8 = locale.is_some_and(|name| {
            let name = name.to_ascii_lowercase();
            name.contains("utf-8") || name.contains("utf8")
        });
        Self { colour: variable("NO_COLOR").is_none(), ascii: ascii || !is_utf8 }
    }

    pub(super) fn mark(self, mark: Mark) -> &'static str {
        match (mark, self.ascii) {
            (Mark::Confined, false) => "✓",
            (Mark::Confined, true) => "+",
            (Mark::Unconfined, false) => "✗",
            (Mark::Unconfined, true) => "X",
            (Mark::Unknown, _) => "?",
            (Mark::Builder, false) => "●",
            (Mark::Builder, true) => "o",
            (Mark::Ended, false) => "–",
            (Mark::Ended, true) => "-",
        }
    }

    pub(super) fn mark_style(self, mark: Mark) -> Style {
        match mark {
            Mark::Confined => self.good(),
            Mark::Unconfined => self.bad(),
            Mark::Unknown => self.notable(),
            Mark::Builder => self.coloured(Color::Cyan),
            Mark::Ended => self.faint(),
        }
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(super) fn notable(self) -> Style {
        self.coloured(Color::Yellow)
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Of a line whose parts keep their colours: with both colours set, those of the
    /// terminal do not matter.
    pub(super) fn selected_line(self) -> Style {
        if self.colour {
            Style::new().fg(Color::Indexed(255)).bg(Color::Indexed(237))
        } else {
            self.selected()
        }
    }

    pub(super) fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Good => self.good(),
            Tone::Notable => self.notable(),
            Tone::Bad => self.bad(),
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) fn border(self) -> border::Set<'static> {
        if self.ascii {
            border::Set {
                top_left: "+",
                top_right: "+",
                bottom_left: "+",
                bottom_right: "+",
                vertical_left: "|",
                vertical_right: "|",
                horizontal_top: "-",
                horizontal_bottom: "-",
            }
        } else {
            border::PLAIN
        }
    }

    /// What stands for what was cut.
    pub(super) fn cut(self) -> &'static str {
        if self.ascii { "~" } else { "…" }
    }

    /// The line that leads down to what is inside something.
    pub(super) fn guide(self) -> &'static str {
        if self.ascii { "| " } else { "│ " }
    }

    /// A text as it can be shown: on one line, in its own cells alone, in the order in
    /// which it is written. What does more is shown by its number, so also letters that
    /// are written from right to left: a terminal that turns them round turns what is
    /// beside them, too.
    pub(super) fn plain(self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            let is_plain = confine::escape::is_safe(c)
                && c.width().is_some_and(|width| width > 0)
                && !is_right_to_left(c)
                && stands_alone(c)
                && (c.is_ascii() || !self.ascii);
            if is_plain {
                shown.push(c);
            } else {
                shown.extend(c.escape_default());
            }
        }
        shown
    }
}

/// Whether it stays in a cell of its own, whatever is beside it: a mark that has a width
/// joins what is before it all the same.
fn stands_alone(c: char) -> bool {
    c.is_ascii() || Span::raw(format!("a{c}a")).styled_graphemes(Style::new()).count() == 3
}

/// The blocks of scripts that are written so (Unicode, `DerivedBidiClass.txt`).
fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// How many cells a text takes that [`Theme::plain`] made.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// What fits into `room` cells, from the start.
pub(super) fn fit(text: &str, room: usize, cut: &str) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(width(cut));
    let kept = text.chars().take_while(|c| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    });
    let mut kept: String = kept.collect();
    if room >= width(cut) {
        kept.push_str(cut);
    }
    kept
}

/// The same from the end: of a path that says more.
pub(super) fn fit_end(text: &str, room: usize, cut: &str) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let turned: String = text.chars().rev().collect();
    fit(&turned, room, cut).chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_stays_in_its_cells() {
        let theme = Theme { colour: true, ascii: false };
        for (text, shown) in [
            ("jos\u{e9} \u{65e5}", "jos\u{e9} \u{65e5}"),
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("a\u{301}\u{301}", "a\\u{301}\\u{301}"),
            ("\u{5d0}\u{628}", "\\u{5d0}\\u{628}"),
            ("\u{202e}gpj", "\\u{202e}gpj"),
            ("!\u{d82}\u{dd4}", "!\\u{d82}\\u{dd4}"),
        ] {
            assert_eq!(theme.plain(text), shown);
        }
        let ascii = Theme { ascii: true, ..theme };
        assert_eq!(ascii.plain("\u{e9}\u{65e5}"), "\\u{e9}\\u{65e5}");
    }

    #[test]
    fn a_text_is_cut_at_either_end_and_wide_characters_are_not_halved() {
        assert_eq!(fit("abcdef", 4, "…"), "abc…");
        assert_eq!(fit("abcdef", 6, "…"), "abcdef");
        assert_eq!(fit("日本語", 4, "…"), "日…");
        assert_eq!(fit("abc", 0, "…"), "");
        assert_eq!(fit_end("/home/me/app", 5, "…"), "…/app");
    }
}
