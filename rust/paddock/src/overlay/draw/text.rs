//! Lines of text.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::overlay::theme::width;

/// Breaks a text, that `Theme::plain` made, into lines of at most `room` cells: at
/// spaces, and where there is none, anywhere.
pub(super) fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(2);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let wide = width(word);
        if used > 0 && used + 1 + wide > room {
            lines.push(String::new());
            used = 0;
        }
        let line_is_empty = used == 0;
        for c in (if line_is_empty { "" } else { " " }).chars().chain(word.chars()) {
            let wide = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
            if used + wide > room {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
            used += wide;
        }
    }
    lines
}

/// A text behind `first` on its first line, and as far to the right on the others, each
/// behind `guides`.
pub(super) fn hanging(
    guides: &str,
    guide_style: Style,
    first: &[Span<'static>],
    text: &str,
    style: Style,
    room: usize,
) -> Vec<Line<'static>> {
    let indent = first.iter().map(|span| width(&span.content)).sum::<usize>();
    let left = room.saturating_sub(width(guides) + indent);
    wrap(text, left)
        .into_iter()
        .enumerate()
        .map(|(n, part)| {
            let mut spans = vec![Span::styled(guides.to_owned(), guide_style)];
            if n == 0 {
                spans.extend(first.iter().cloned());
            } else {
                spans.push(Span::raw(" ".repeat(indent)));
            }
            spans.push(Span::styled(part, style));
            Line::from(spans)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_at_spaces_and_a_long_word_anywhere() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("日本語", 3), ["日", "本", "語"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
