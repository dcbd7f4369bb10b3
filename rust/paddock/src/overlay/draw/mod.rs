//! Drawing: from the state to cells, and nothing else. Every text that is not Paddock's
//! own goes through `Theme::plain`.

mod details;
mod footer;
mod list;
mod text;
mod tree;
mod views;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

use super::app::{App, View};
use super::layout::Form;
use super::theme::{Theme, fit};

pub(super) use footer::footer_height;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let size = frame.area().as_size();
    if Form::of(size) == Form::TooSmall {
        let told = fit("paddock overlay: 40x6 is the least", usize::from(size.width), "");
        frame.render_widget(Line::raw(told), frame.area());
        return;
    }
    let places = app.places();
    match app.view {
        View::Launches => {
            if !places.list.is_empty() {
                list::draw(frame, places.list, app);
            }
            if !places.details.is_empty() {
                let lines = details::lines(app, usize::from(places.details.width) - 4);
                let title = details::title(app);
                pane(frame, places.details, app, &title, lines, app.in_details);
            }
        }
        view => {
            let area = Rect { height: size.height - places.footer.height, ..frame.area() };
            let room = usize::from(area.width) - 4;
            let (title, lines) = match view {
                View::Ledger => views::ledger(app, room, usize::from(area.height) - 2),
                View::Pins => views::pins(app, room),
                _ => views::help(app, room),
            };
            if view == View::Ledger {
                framed(frame, area, app.theme, &title, lines, true);
            } else {
                pane(frame, area, app, &title, lines, true);
            }
        }
    }
    footer::draw(frame, places.footer, app);
}

/// A frame with the part of `lines` in it that it was scrolled to.
fn pane(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &App,
    title: &str,
    lines: Vec<Line<'static>>,
    has_keys: bool,
) {
    let fit = usize::from(area.height.saturating_sub(2));
    let most = lines.len().saturating_sub(fit);
    app.most_scroll.set(most);
    let first = app.scroll.min(most);
    let more = if lines.len() > fit {
        format!(" {}-{} of {} ", first + 1, (first + fit).min(lines.len()), lines.len())
    } else {
        String::new()
    };
    let shown = lines.into_iter().skip(first).take(fit).collect();
    framed_with(frame, area, app.theme, title, shown, has_keys, &more);
}

fn framed(
    frame: &mut Frame<'_>,
    area: Rect,
    theme: Theme,
    title: &str,
    lines: Vec<Line<'static>>,
    has_keys: bool,
) {
    framed_with(frame, area, theme, title, lines, has_keys, "");
}

fn framed_with(
    frame: &mut Frame<'_>,
    area: Rect,
    theme: Theme,
    title: &str,
    lines: Vec<Line<'static>>,
    has_keys: bool,
    more: &str,
) {
    let block = block(theme, title, has_keys, area.width).title_bottom(
        Line::styled(fit(more, usize::from(area.width).saturating_sub(2), ""), theme.faint())
            .right_aligned(),
    );
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// A frame. The one that has the keys has a mark and a bold title.
fn block(theme: Theme, title: &str, has_keys: bool, width: u16) -> Block<'static> {
    let style = if has_keys { theme.strong() } else { theme.faint() };
    let title = format!(" {}{title} ", if has_keys { "> " } else { "" });
    let title = fit(&title, usize::from(width).saturating_sub(2), theme.cut());
    Block::bordered()
        .border_set(theme.border())
        .border_style(if has_keys { ratatui::style::Style::new() } else { theme.faint() })
        .title(Span::styled(title, style))
        .padding(ratatui::widgets::Padding::horizontal(1))
}
