//! The details of a launch: what is wrong and what is asked first, then its layers with
//! their processes, then what went out and what came to the gate.

use std::path::Path;

use confine::Layer;
use confine::escape::escape;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::text::hanging;
use super::tree::tree;
use crate::commands::{bytes, shown_time};
use crate::keeper::{Details, Failure, HostSums, Task, Wanted};
use crate::output::shown;
use crate::overlay::app::App;
use crate::overlay::collect::Row;
use crate::overlay::policy::{Policy, place};
use crate::overlay::theme::{Mark, Theme, fit, width};
use crate::standing::Held;

pub(super) fn title(app: &App) -> String {
    app.selected().map_or_else(
        || "details".to_owned(),
        |(_, row)| {
            let standing = &row.standing;
            let what = standing.form.of(&standing.agent);
            let text = format!("{} ({what}, {})", standing.launch, standing.tier);
            app.theme.plain(&text)
        },
    )
}

pub(super) fn lines(app: &App, room: usize) -> Vec<Line<'static>> {
    let Some((_, row)) = app.selected() else {
        return vec![Line::raw("no launch is selected")];
    };
    let mut page = Page { theme: app.theme, room, lines: Vec::new() };
    page.head(row, &app.home);
    page.questions(row);
    page.violation(row);
    if let Some(told) = &row.standing.told
        && let Some(details) = &told.details
    {
        page.layers(row.policy.as_deref(), details);
        page.egress(details);
        page.gate(details);
    } else if let Some(policy) = &row.policy {
        page.layers(Some(policy), &Details::default());
    }
    page.lines
}

/// In cells.
const MOST_OF_A_TEXT: usize = 600;

struct Page {
    theme: Theme,
    room: usize,
    lines: Vec<Line<'static>>,
}

impl Page {
    fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.lines.push(Line::raw(""));
        }
        self.lines.push(Line::styled(fit(text, self.room, self.theme.cut()), self.theme.strong()));
    }

    /// A text with something in front of it, which is wrapped. One without end is cut: it
    /// would hide what comes after it.
    fn text(&mut self, first: &[Span<'static>], text: &str, style: Style) {
        let text = self.theme.plain(text);
        let text = fit(&text, MOST_OF_A_TEXT, self.theme.cut());
        self.lines.extend(hanging("", Style::new(), first, &text, style, self.room));
    }

    fn head(&mut self, row: &Row, home: &Path) {
        let standing = &row.standing;
        let mark = Mark::of_held(standing.held);
        let style = self.theme.mark_style(mark);
        let tasks = standing.told.as_ref().map_or(0, |told| told.tasks);
        let words = match standing.held {
            Held::Confined => format!("confined: all of {tasks} tasks, in the last pass"),
            Held::Unconfined => "NOT CONFINED".into(),
            Held::Unknown => "it cannot be told whether it is confined".into(),
            Held::Ended => "it has ended, and nothing of it is left".into(),
        };
        let first = vec![Span::styled(format!("{} ", self.theme.mark(mark)), style)];
        self.text(&first, &words, style);
        if let Some(what) = &standing.what {
            self.text(&[Span::raw("  ")], what, Style::new());
        }
        let workspace = place(&standing.workspace, home);
        self.text(&[Span::styled("workspace ", self.theme.faint())], &workspace, Style::new());
        if let Some(pane) = &standing.pane {
            let first = vec![Span::styled("pane      ", self.theme.faint())];
            self.text(&first, &escape(pane.pane_id.as_bytes()).to_string(), Style::new());
        }
        let since = format!("{}, {} ago", shown_time(standing.started), row.age);
        let since = if standing.ended.is_some() {
            format!("{}, for {}", shown_time(standing.started), row.age)
        } else {
            since
        };
        self.text(&[Span::styled("started   ", self.theme.faint())], &since, Style::new());
    }

    fn questions(&mut self, row: &Row) {
        let questions = row.standing.told.as_ref().map(|told| &told.questions[..]);
        let questions = questions.unwrap_or_default();
        if questions.is_empty() {
            return;
        }
        self.heading("the agent asks for (a: answer)");
        for asked in questions {
            let what = match &asked.wanted {
                Wanted::Host(host) => format!("the host {}", escape(host.as_bytes())),
                Wanted::Path { path, write: true } => format!("the path {} to write", shown(path)),
                Wanted::Path { path, .. } => format!("the path {} to read", shown(path)),
            };
            let first = vec![Span::styled(format!("! {} ", asked.number), self.theme.notable())];
            self.text(&first, &what, Style::new());
        }
    }

    fn violation(&mut self, row: &Row) {
        let Some(told) = &row.standing.told else { return };
        let Some(failure) = told.failure.as_ref().or(told.last_violation.as_ref()) else { return };
        self.heading("last violation");
        let Failure { time, what, task } = failure;
        self.text(&[Span::styled(shown_time(*time), self.theme.faint())], "", Style::new());
        let bad = self.theme.bad();
        let mark = self.theme.mark(Mark::Unconfined);
        self.text(&[Span::styled(format!("{mark} "), bad)], what, bad);
        let Some(task) = task else { return };
        let evidence = [
            (
                "process",
                format!("{}, task {}, started at tick {}", task.pid, task.task, task.start),
            ),
            ("parent", task.parent.map_or("none here".into(), |parent| parent.to_string())),
            ("command", task.command.clone()),
        ];
        for (name, value) in evidence {
            self.text(
                &[Span::styled(format!("  {name:<8} "), self.theme.faint())],
                &value,
                Style::new(),
            );
        }
        for reason in &task.reasons {
            let code = self.theme.plain(&reason.code);
            self.text(&[Span::styled(format!("  {code}: "), bad)], &reason.text, Style::new());
        }
    }

    fn layers(&mut self, policy: Option<&Policy>, details: &Details) {
        self.heading("layers, and the processes in them");
        let of = |layer: Layer| details.tasks.iter().filter(move |t| t.layer == Some(layer));
        let outside = || details.tasks.iter().filter(|t| t.layer.is_none());
        let has = |name: &str, tasks: bool| {
            tasks || policy.is_some_and(|policy| policy.layers.iter().any(|l| l.name == name))
        };
        let veils = || outside().filter(|task| task.role == "veil");
        let mut depth = 0;
        if has("veil", veils().next().is_some()) {
            self.layer(depth, "veil", policy, veils());
            depth += 1;
        }
        for (name, layer) in
            [("pen", Layer::Pen), ("server", Layer::Server), ("client", Layer::Client)]
        {
            if has(name, of(layer).next().is_some()) {
                let inner = usize::from(name != "pen");
                self.layer(depth + inner, name, policy, of(layer));
            }
        }
        let mut strays = outside().filter(|task| task.role != "veil").peekable();
        if strays.peek().is_some() {
            self.layer(0, "in no layer", None, strays);
        }
        if details.tasks_left_out > 0 {
            let text =
                format!("and {} more tasks: paddock verify lists them", details.tasks_left_out);
            self.text(&[], &text, self.theme.notable());
        }
    }

    fn layer<'a>(
        &mut self,
        depth: usize,
        name: &str,
        policy: Option<&Policy>,
        tasks: impl Iterator<Item = &'a Task>,
    ) {
        let theme = self.theme;
        let (outer, inner) = (theme.guide().repeat(depth), theme.guide().repeat(depth + 1));
        let head = vec![Span::styled(name.to_owned(), theme.strong())];
        self.lines.extend(hanging(&outer, theme.faint(), &head, "", Style::new(), self.room));
        let layer = policy.and_then(|policy| policy.layers.iter().find(|l| l.name == name));
        for words in layer.map_or(&[][..], |layer| &layer.words) {
            let text = fit(&theme.plain(words), MOST_OF_A_TEXT, theme.cut());
            self.lines.extend(hanging(&inner, theme.faint(), &[], &text, theme.faint(), self.room));
        }
        for process in tree(tasks) {
            let task = process.worst;
            let mark = Mark::of_verdict(&task.verdict);
            let style = theme.mark_style(mark);
            let threads = match process.tasks {
                1 => String::new(),
                n => format!(" [{n} tasks]"),
            };
            let reasons: Vec<&str> = task.reasons.iter().map(|r| r.code.as_str()).collect();
            let reasons = match (mark, reasons.is_empty()) {
                (Mark::Confined | Mark::Builder, _) => String::new(),
                (_, true) => format!(" {}", task.verdict),
                (_, false) => format!(" {}: {}", task.verdict, reasons.join(", ")),
            };
            let part = match task.role.as_str() {
                "supervisor" => "supervisor ",
                "warden" => "warden ",
                _ => "",
            };
            let indent = process.indent();
            let depth = process.depth_in_words();
            let pid = process.first.pid;
            let command = without_directory(&process.first.command);
            let text = format!("{depth}{part}{command}{threads}");
            let (text, reasons) = (theme.plain(&text), theme.plain(&reasons));
            let mut spans = vec![
                Span::styled(inner.clone(), theme.faint()),
                Span::raw(indent),
                Span::styled(format!("{} ", theme.mark(mark)), style),
                Span::styled(format!("{pid} "), theme.faint()),
            ];
            let used: usize = spans.iter().map(|span| width(&span.content)).sum();
            // What is wrong is told before what it calls itself.
            let room = self.room.saturating_sub(used);
            let reasons = fit(&reasons, room, theme.cut());
            let left = room.saturating_sub(width(&reasons));
            spans.push(Span::raw(fit(&text, left, theme.cut())));
            spans.push(Span::styled(reasons, style));
            self.lines.push(Line::from(spans));
        }
    }

    fn egress(&mut self, details: &Details) {
        self.heading("egress");
        let theme = self.theme;
        let allowed: Vec<&str> = details.allowed_hosts.iter().map(String::as_str).collect();
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        let allowed = escape(allowed.as_bytes()).to_string();
        self.text(&[Span::styled("allowed ", theme.faint())], &allowed, Style::new());
        let others = (details.other_hosts != HostSums::default()).then_some(&details.other_hosts);
        if details.hosts.is_empty() && others.is_none() {
            self.text(&[], "nothing was asked of the guard", theme.faint());
            return;
        }
        let numbers = ["CONNS", "OPEN", "SENT", "RECEIVED", "REFUSED", "FAILED"];
        let name_room = self.room.saturating_sub(numbers.len() * 9).clamp(8, 40);
        let row = |name: &str, cells: &[String]| {
            let name = fit(&theme.plain(name), name_room, theme.cut());
            let padding = " ".repeat(name_room.saturating_sub(width(&name)));
            let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>9}")).collect();
            fit(&format!("{name}{padding}{}", cells.concat()), self.room, theme.cut())
        };
        let heading = row("HOST", &numbers.map(str::to_owned));
        let mut lines = vec![Line::styled(heading, theme.faint())];
        for sums in details.hosts.iter().chain(others) {
            let is_other = Some(sums) == others;
            let name = match (is_other, sums.host.as_str()) {
                (true, _) => "(others)",
                (false, "") => "-",
                (false, host) => host,
            };
            let cells = [
                sums.connections.to_string(),
                sums.open.to_string(),
                bytes(sums.sent),
                bytes(sums.received),
                sums.refused.to_string(),
                sums.failed.to_string(),
            ];
            let style = if sums.refused > 0 { theme.notable() } else { Style::new() };
            lines.push(Line::styled(row(name, &cells), style));
        }
        self.lines.append(&mut lines);
    }

    fn gate(&mut self, details: &Details) {
        self.heading("gate");
        if details.gate.is_empty() {
            self.text(&[], "nothing was asked of the gate", self.theme.faint());
        }
        for calls in &details.gate {
            let text = format!(
                "{:<9} {} allowed, {} refused",
                calls.request, calls.allowed, calls.refused
            );
            let style = if calls.refused > 0 { self.theme.notable() } else { Style::new() };
            let text = fit(&self.theme.plain(&text), self.room, self.theme.cut());
            self.lines.push(Line::styled(text, style));
        }
    }
}

/// A command line that names its program by the last part of its path; `paddock verify`
/// has it whole.
fn without_directory(command: &str) -> &str {
    let end = command.find(' ').unwrap_or(command.len());
    let start = command[..end].rfind('/').map_or(0, |slash| slash + 1);
    &command[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_by_the_last_part_of_its_path() {
        for (command, shown) in [
            ("/usr/bin/bwrap --bind / /", "bwrap --bind / /"),
            ("cat", "cat"),
            ("cat /etc/passwd", "cat /etc/passwd"),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(without_directory(command), shown);
        }
    }
}
