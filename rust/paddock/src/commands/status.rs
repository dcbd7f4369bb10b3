//! `paddock status`: how every launch stands, in lines.

use std::io::IsTerminal;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::{is_open, texts};
use crate::cli::status::Status;
use crate::error::{Error, status};
use crate::launch::Directories;
use crate::output::{complain, print, shown};
use crate::standing::{Held, Standing, look_at_all, short_time};
use crate::state::{now_ms, stored_launches};

/// Between two looks with `--watch`.
const PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Prints how launches stand. 0 when every one is confirmed, 126 when one is not, 125
/// when it could not be told.
pub(crate) fn status(options: &Status) -> Result<u8, Error> {
    let directories = Directories::find()?;
    if !options.watch {
        let (launches, errors) = look(options, &directories);
        for error in errors.iter().filter(|_| !options.json) {
            complain(format_args!("{error}"));
        }
        let told = Told { options, launches: &launches, errors: &errors };
        if let Some(text) = told.text() {
            print(text)?;
        }
        return Ok(exit_status(&launches, &errors));
    }
    let redraws = std::io::stdout().is_terminal() && !options.json;
    let mut before = None;
    loop {
        let (launches, errors) = look(options, &directories);
        let told = Told { options, launches: &launches, errors: &errors };
        let lasting = if redraws { told.text().unwrap_or_default() } else { told.lasting() };
        if before.as_ref() != Some(&lasting) {
            let text = told.text().unwrap_or_default();
            // Home, and what is below it gone (`console_codes(4)`).
            print(format_args!("{}{text}", if redraws { "\x1b[H\x1b[J" } else { "" }))?;
            before = Some(lasting);
        }
        if nobody_reads() {
            return Ok(exit_status(&launches, &errors));
        }
    }
}

/// Waits, and tells whether who read the output has gone (`poll(2)`, `POLLERR` of a pipe).
fn nobody_reads() -> bool {
    let stdout = std::io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let _ = poll(&mut watched, Some(&PAUSE));
    watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
}

fn look(options: &Status, directories: &Directories) -> (Vec<Standing>, Vec<Error>) {
    let (mut launches, errors) = stored_launches(directories);
    launches.retain(|launch| options.all || is_open(launch));
    (look_at_all(&launches, directories), errors)
}

fn exit_status(launches: &[Standing], errors: &[Error]) -> u8 {
    let worst = launches.iter().map(|launch| launch.held.code()).max().unwrap_or(0);
    // What cannot be read is not confirmed.
    if errors.is_empty() { worst } else { worst.max(status::FAILED) }
}

/// What was found, as it is printed.
struct Told<'a> {
    options: &'a Status,
    launches: &'a [Standing],
    errors: &'a [Error],
}

impl Told<'_> {
    /// Nothing where a prompt has nothing to say.
    fn text(&self) -> Option<String> {
        if self.options.short {
            return short(self.launches, self.errors.len());
        }
        if self.options.json {
            return Some(self.value().to_string());
        }
        if self.launches.is_empty() {
            return Some("no launch is running; paddock run starts one".into());
        }
        let now = now_ms();
        Some(self.launches.iter().map(|launch| line(launch, now)).collect::<Vec<_>>().join("\n"))
    }

    fn value(&self) -> Value {
        let launches: Vec<Value> = self.launches.iter().map(to_json).collect();
        json!({ "schema": 1, "launches": launches, "errors": texts(self.errors) })
    }

    /// The same without what changes all the time.
    fn lasting(&self) -> String {
        if self.options.short {
            return self.text().unwrap_or_default();
        }
        let mut value = self.value();
        for launch in value["launches"].as_array_mut().into_iter().flatten() {
            launch["passAge"] = Value::Null;
        }
        value.to_string()
    }
}

/// One launch in a line; the form is in `docs/reference/status.md`.
fn line(launch: &Standing, now: u64) -> String {
    let told = launch.told.as_ref();
    format!(
        "{}  {:<9}  {:<10}  {:>4} tasks  {:>3} blocked  {} asks  {:<9}  {:<8}  {:>3}  {}",
        launch.launch,
        launch.state,
        launch.held.name(),
        told.map_or(0, |told| told.tasks),
        launch.blocked(),
        launch.questions(),
        launch.form.of(&launch.agent).replace(' ', "/"),
        launch.tier,
        short_time(launch.age(now)),
        shown(&launch.workspace),
    )
}

/// How many there are of each kind, the worst first.
fn short(launches: &[Standing], unreadable: usize) -> Option<String> {
    let count = |held| launches.iter().filter(|launch| launch.held == held).count();
    let asks: usize = launches.iter().map(Standing::questions).sum();
    let parts = [
        (count(Held::Unconfined), "unconfined"),
        (count(Held::Unknown) + unreadable, "unknown"),
        (count(Held::Confined), "confined"),
        (asks, "asked"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// One launch as JSON; the keys are in `docs/reference/status.md`.
pub(crate) fn to_json(launch: &Standing) -> Value {
    let told = launch.told.as_ref();
    json!({
        "launch": launch.launch,
        "agent": launch.agent,
        "form": launch.form.name(),
        "tier": launch.tier,
        "workspace": launch.workspace.to_string_lossy(),
        "pane": launch.pane.as_ref().map(|pane| &pane.pane_id),
        "state": launch.state,
        "verdict": launch.held.name(),
        "what": launch.what,
        "tasks": told.map(|told| told.tasks),
        "passAge": told.and_then(|told| told.pass_age),
        "blocked": told.map(|told| told.blocked),
        "questions": told.map(|told| &told.questions),
        "failure": told.and_then(|told| told.failure.as_ref()),
        "lastViolation": told.and_then(|told| told.last_violation.as_ref()),
        "started": launch.started,
        "ended": launch.ended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Form;

    fn standing(held: Held) -> Standing {
        Standing {
            launch: "bcdfbcdfbcdf".into(),
            agent: "codex".into(),
            form: Form::Login,
            tier: "sealed",
            workspace: "/home/me/a\x1b[2Jb".into(),
            pane: None,
            directory: "/s".into(),
            state: "running",
            held,
            what: None,
            started: 1_000,
            ended: None,
            told: None,
        }
    }

    #[test]
    fn a_line_has_its_fields_in_their_places_and_draws_nothing() {
        let line = line(&standing(Held::Confined), 61_000);
        let words: Vec<&str> = line.split_whitespace().collect();
        let wanted = [
            "bcdfbcdfbcdf",
            "running",
            "confined",
            "0",
            "tasks",
            "0",
            "blocked",
            "0",
            "asks",
            "codex/login",
            "sealed",
            "1m",
            "/home/me/a\\u{1b}[2Jb",
        ];
        assert_eq!(words, wanted);
    }

    #[test]
    fn the_short_form_and_the_exit_status_tell_the_worst_first() {
        use Held::{Confined, Ended, Unconfined, Unknown};
        for (all, text, code) in [
            (&[][..], None, 0),
            (&[Ended], None, 0),
            (&[Confined, Confined], Some("2 confined"), 0),
            (&[Confined, Unknown], Some("1 unknown, 1 confined"), 125),
            (&[Unknown, Unconfined, Confined], Some("1 unconfined, 1 unknown, 1 confined"), 126),
        ] {
            let all: Vec<Standing> = all.iter().map(|held| standing(*held)).collect();
            assert_eq!(short(&all, 0).as_deref(), text);
            assert_eq!(exit_status(&all, &[]), code);
        }
        assert_eq!(short(&[], 1).as_deref(), Some("1 unknown"), "a record that cannot be read");
        assert_eq!(exit_status(&[standing(Confined)], &[Error::LaunchesNone]), 125);
    }
}
