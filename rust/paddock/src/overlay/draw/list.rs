//! The list of launches.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::block;
use crate::overlay::app::App;
use crate::overlay::collect::Row;
use crate::overlay::layout::first_shown;
use crate::overlay::policy::place;
use crate::overlay::theme::{Mark, fit, fit_end, width};
use crate::standing::Held;

/// One column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Verdict,
    Launch,
    Agent,
    State,
    Tier,
    Age,
    Blocked,
    Asks,
    Pane,
    Workspace,
}

/// Heading and width, in the order in which they stand.
const COLUMNS: [(Column, &str, usize); 10] = [
    (Column::Verdict, "VERDICT", 12),
    (Column::Launch, "LAUNCH", 12),
    (Column::Agent, "AGENT", 9),
    (Column::State, "STATE", 9),
    (Column::Tier, "TIER", 8),
    (Column::Age, "AGE", 4),
    (Column::Blocked, "BLOCKED", 7),
    (Column::Asks, "ASKS", 4),
    (Column::Pane, "PANE", 6),
    (Column::Workspace, "WORKSPACE", 12),
];

/// Which of them go first when there is no room; the verdict never does.
const LEAST_FIRST: [Column; 8] = [
    Column::Launch,
    Column::Pane,
    Column::Tier,
    Column::Asks,
    Column::State,
    Column::Age,
    Column::Blocked,
    Column::Agent,
];

/// What stands before a row: `> ` before the one that is selected, in cells.
const MARKER: usize = 2;

/// Those that fit, each with its width: what is left is the workspace's.
fn columns(room: usize) -> Vec<(Column, &'static str, usize)> {
    let mut chosen = COLUMNS.to_vec();
    let taken = |chosen: &[(Column, &str, usize)]| {
        chosen.iter().map(|(.., width)| width + 1).sum::<usize>() - 1
    };
    for least in LEAST_FIRST {
        if taken(&chosen) <= room {
            break;
        }
        chosen.retain(|(column, ..)| *column != least);
    }
    let left = room.saturating_sub(taken(&chosen));
    if let Some((.., width)) = chosen.last_mut() {
        *width += left;
    }
    chosen
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let theme = app.theme;
    let all = app.snapshot.launches.len();
    let ended = app.snapshot.launches.iter().filter(|row| row.standing.held == Held::Ended);
    let ended = ended.count();
    let title = match (ended, app.snapshot.ended_left_out) {
        (0, 0) => format!("launches: {all}"),
        (n, 0) => format!("launches: {}, ended: {n}", all - n),
        (n, more) => format!("launches: {}, ended: {n} of {}", all - n, n + more),
    };
    let block = block(theme, &title, !app.in_details, area.width);
    let room = usize::from(block.inner(area).width);
    let columns = columns(room.saturating_sub(MARKER));
    let heading =
        columns.iter().map(|(_, name, width)| format!("{:<width$}", fit(name, *width, "")));
    let heading: Vec<String> = heading.collect();
    let heading = format!("{:MARKER$}{}", "", heading.join(" "));
    let mut lines = vec![Line::styled(heading, theme.faint())];
    let places = app.places();
    let selected = app.selected().map_or(0, |(place, _)| place);
    let first = first_shown(selected, places.rows());
    let rows = app.snapshot.launches.iter().enumerate().skip(first).take(places.rows());
    for (place, row) in rows {
        let is_selected = place == selected;
        let marker = Span::raw(if is_selected { "> " } else { "  " });
        let spans = std::iter::once(marker).chain(cells(app, row, &columns));
        let style = if is_selected { theme.selected_line() } else { Style::new() };
        lines.push(spans.collect::<Line<'static>>().style(style));
    }
    if app.snapshot.launches.is_empty() {
        let text = if app.is_first { "looking ..." } else { "no launches; paddock run starts one" };
        lines.push(Line::raw(fit(text, room, theme.cut())));
    }
    let errors = &app.snapshot.errors;
    let mut block = block;
    if let Some(error) = errors.first() {
        let more = match errors.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let text = theme.plain(&format!(" {error}{more} "));
        let text = fit(&text, usize::from(area.width).saturating_sub(2), theme.cut());
        block = block.title_bottom(Span::styled(text, theme.bad()));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn cells(app: &App, row: &Row, columns: &[(Column, &str, usize)]) -> Vec<Span<'static>> {
    let theme = app.theme;
    let standing = &row.standing;
    let mark = Mark::of_held(standing.held);
    let plain = Style::new();
    let mut spans = Vec::new();
    for (column, _, room) in columns {
        let (style, text) = match column {
            Column::Verdict => {
                (theme.mark_style(mark), format!("{} {}", theme.mark(mark), standing.held.name()))
            }
            Column::Launch => (plain, theme.plain(&standing.launch)),
            Column::Agent => (plain, theme.plain(&standing.form.of(&standing.agent))),
            Column::State => (plain, standing.state.to_owned()),
            Column::Tier => (plain, standing.tier.to_owned()),
            Column::Age => (plain, theme.plain(&row.age)),
            Column::Blocked => match app.blocked(row) {
                0 => (theme.faint(), "-".to_owned()),
                n => (theme.notable(), format!("+{n}")),
            },
            Column::Asks => match standing.questions() {
                0 => (theme.faint(), "-".to_owned()),
                n => (theme.bad(), n.to_string()),
            },
            Column::Pane => {
                let pane = standing.pane.as_ref().map(|pane| theme.plain(&pane.pane_id));
                (plain, pane.unwrap_or_else(|| "-".to_owned()))
            }
            Column::Workspace => {
                let path = place(&standing.workspace, &app.home);
                (plain, fit_end(&theme.plain(&path), *room, theme.cut()))
            }
        };
        let text = fit(&text, *room, theme.cut());
        let padding = room.saturating_sub(width(&text)) + 1;
        spans.push(Span::styled(format!("{text}{}", " ".repeat(padding)), style));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_the_room_and_the_least_of_them_go_first() {
        for room in 26..200 {
            let columns = columns(room);
            let taken: usize = columns.iter().map(|(.., width)| width + 1).sum::<usize>() - 1;
            assert_eq!(taken, room);
            let has = |column| columns.iter().any(|(c, ..)| *c == column);
            assert!(has(Column::Verdict) && has(Column::Workspace));
            assert!(has(Column::Agent) || room < 35);
            assert!(!has(Column::Launch) || has(Column::Tier));
        }
        assert_eq!(columns(100).len(), COLUMNS.len());
    }
}
