//! The views that cover the launches: ledger, profiles and pins, help.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::text::{hanging, wrap};
use crate::overlay::app::App;
use crate::overlay::input::KEYS;
use crate::overlay::theme::{Mark, fit, width};

/// Of the ledger: the part that fits, from its end.
pub(super) fn ledger(app: &App, room: usize, fit_lines: usize) -> (String, Vec<Line<'static>>) {
    let theme = app.theme;
    let found = app.found();
    let launch = app.subject().map(|row| row.standing.launch.clone()).unwrap_or_default();
    let filter =
        if app.filter.is_empty() { String::new() } else { format!(", with {:?}", app.filter) };
    let left_out = match app.ledger.left_out {
        0 => String::new(),
        n => format!(", {n} older ones are in paddock log {launch}"),
    };
    let title = format!("ledger of {launch}: {} lines{filter}{left_out}", found.len());
    let most = found.len().saturating_sub(fit_lines);
    app.most_scroll.set(most);
    let end = found.len() - app.scroll.min(most);
    let mut lines: Vec<Line<'static>> = found[end.saturating_sub(fit_lines)..end]
        .iter()
        .map(|parts| {
            // The day is the same all the time; there is more to tell.
            let time = parts.time.split_once(' ').map_or(parts.time.as_str(), |(_, time)| time);
            let first = [
                Span::styled(format!("{time:<13}"), theme.faint()),
                Span::styled(format!("{:<13} ", theme.plain(&parts.event)), theme.tone(parts.tone)),
            ];
            let used: usize = first.iter().map(|span| width(&span.content)).sum();
            let what = theme.plain(&parts.what);
            let what = fit(&what, room.saturating_sub(used), theme.cut());
            let [time, event] = first;
            Line::from(vec![time, event, Span::raw(what)])
        })
        .collect();
    if let Some(error) = &app.ledger.error {
        lines.truncate(fit_lines.saturating_sub(1));
        let text = theme.plain(&format!("it cannot be read: {error}"));
        lines.push(Line::styled(fit(&text, room, theme.cut()), theme.bad()));
    }
    if lines.is_empty() {
        let text = if app.filter.is_empty() { "nothing yet" } else { "no line has that" };
        lines.push(Line::styled(text, theme.faint()));
    }
    (theme.plain(&title), lines)
}

pub(super) fn pins(app: &App, room: usize) -> (String, Vec<Line<'static>>) {
    let title = app.subject().map_or("profiles and pins".to_owned(), |row| {
        format!("profiles and pins of {} ({})", row.standing.agent, row.standing.tier)
    });
    let lines = match &app.pins {
        None => vec![Line::styled("nono is being asked ...", app.theme.faint())],
        Some(lines) => lines
            .iter()
            .flat_map(|line| {
                // As `paddock pin` has it: what belongs to something is further in.
                let indent = line.chars().take_while(|c| *c == ' ').count();
                let spaces = [Span::raw(" ".repeat(indent))];
                let text = app.theme.plain(line.trim_start());
                hanging("", Style::new(), &spaces, &text, Style::new(), room)
            })
            .collect(),
    };
    (app.theme.plain(&title), lines)
}

pub(super) fn help(app: &App, room: usize) -> (String, Vec<Line<'static>>) {
    let theme = app.theme;
    let mut lines = Vec::new();
    for binding in KEYS {
        let first = [Span::styled(format!("{:<16} ", binding.shown), theme.strong())];
        lines.extend(hanging("", Style::new(), &first, binding.what, Style::new(), room));
    }
    lines.push(Line::raw(""));
    for text in ["Ctrl-C quits, Ctrl-Z suspends. A click selects, the wheel scrolls.", "The marks:"]
    {
        lines.extend(wrap(text, room).into_iter().map(Line::raw));
    }
    for (mark, what) in [
        (Mark::Confined, "confined: every check that applies was made and held"),
        (Mark::Builder, "builder: outside by design, and the program that was recorded"),
        (Mark::Unconfined, "unconfined: a check failed"),
        (Mark::Unknown, "unknown: it cannot be told, and is not taken for confined"),
        (Mark::Ended, "ended"),
    ] {
        let first = [Span::styled(format!("{} ", theme.mark(mark)), theme.mark_style(mark))];
        lines.extend(hanging("", Style::new(), &first, what, Style::new(), room));
    }
    ("help".into(), lines)
}
