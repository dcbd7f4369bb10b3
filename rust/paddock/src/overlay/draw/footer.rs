//! The lines at the bottom: a question, what was said last, or the keys.

use confine::escape::escape;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::text::wrap;
use crate::keeper::Wanted;
use crate::output::shown;
use crate::overlay::app::{App, Dialogue, View};
use crate::overlay::input::{Binding, Command, KEYS};
use crate::overlay::theme::{fit, width};

/// The most lines that it has.
const MOST: u16 = 4;

/// How many lines it has.
pub(in crate::overlay) fn footer_height(app: &App) -> u16 {
    if !has_more_than_keys(app) {
        return 1;
    }
    let lines = wrap(&text(app).1, usize::from(app.size.width));
    u16::try_from(lines.len()).unwrap_or(MOST).min(MOST)
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let (style, text) = text(app);
    let lines =
        if has_more_than_keys(app) { wrap(&text, usize::from(area.width)) } else { vec![text] };
    let lines: Vec<Line<'static>> =
        lines.into_iter().map(|line| Line::styled(line, style)).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn has_more_than_keys(app: &App) -> bool {
    app.dialogue.is_some() || app.message.is_some()
}

fn text(app: &App) -> (Style, String) {
    let theme = app.theme;
    if let Some(dialogue) = &app.dialogue {
        let text = match dialogue {
            Dialogue::Stop { launch } => {
                format!("stop launch {launch}, all of its processes? y: yes, n: no")
            }
            Dialogue::Prune => {
                "remove records and ledgers of launches that have ended? y: yes, n: no".into()
            }
            Dialogue::Answer { launch, asked } => {
                let (what, keys) = match &asked.wanted {
                    Wanted::Host(host) => (
                        format!("the host {}", escape(host.as_bytes())),
                        "o: once, l: this launch, A: always, d: deny",
                    ),
                    Wanted::Path { path, write } => {
                        let how = if *write { "to write" } else { "to read" };
                        let keys = "A: always, with later launches, d: deny";
                        (format!("the path {} {how}", shown(path)), keys)
                    }
                };
                format!(
                    "launch {launch} asks for {}: {keys}; n: not now, Tab: the next",
                    short(&theme.plain(&what), usize::from(app.size.width), theme.cut())
                )
            }
            Dialogue::NothingAsked { launch, was_asked } => {
                let what =
                    if *was_asked { "does not ask for that any more" } else { "asks for nothing" };
                format!("launch {launch} {what}; any key goes back")
            }
            Dialogue::Gone { launch } => {
                format!("launch {launch} is not there any more; Enter goes back to the list")
            }
            Dialogue::Search => {
                let cursor = if theme.ascii { "_" } else { "▏" };
                return (theme.strong(), format!("search: {}{cursor}", app.filter));
            }
        };
        return (theme.selected(), theme.plain(&text));
    }
    if let Some((tone, text)) = &app.message {
        let room = usize::from(app.size.width) * usize::from(MOST - 1);
        return (theme.tone(*tone), fit(&theme.plain(text), room, theme.cut()));
    }
    (theme.faint(), hints(app))
}

/// The keys that fit, and always the way out.
fn hints(app: &App) -> String {
    let room = usize::from(app.size.width);
    let hint = |binding: &Binding| {
        let key = binding.shown.split(',').next().unwrap_or_default();
        binding.short.map(|short| format!("{key} {short}"))
    };
    let is_last = |binding: &&Binding| matches!(binding.command, Command::Help | Command::Quit);
    let is_here = |binding: &&Binding| {
        app.view == View::Launches
            || matches!(binding.command, Command::Ledger | Command::Pins | Command::Search)
    };
    let last: Vec<String> = KEYS.iter().filter(is_last).filter_map(hint).collect();
    let mut shown: Vec<String> =
        KEYS.iter().filter(|b| !is_last(b) && is_here(b)).filter_map(hint).collect();
    while !shown.is_empty() && width(&[&shown[..], &last[..]].concat().join("  ")) > room {
        shown.pop();
    }
    fit(&[shown, last].concat().join("  "), room, "")
}

/// The start and the end, which both say something.
fn short(text: &str, room: usize, cut: &str) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let half = room / 2;
    let end = crate::overlay::theme::fit_end(text, half, cut);
    format!("{}{end}", fit(text, half, ""))
}
