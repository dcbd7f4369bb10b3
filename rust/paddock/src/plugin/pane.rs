//! The programs of panes. An agent's pane runs its keeper itself: that process is
//! the one that herdr started, with herdr's hint from its first instruction, and
//! the leader of the terminal's foreground group for as long as the launch lives.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Parser, ValueEnum};
use confine::ProcessId;

use super::context::Context;
use super::keyboard::{self, Keyboard};
use super::notice;
use super::order::{self, HINT, Order};
use super::result::{ErrorKind, Failure, safe};
use crate::cli::{Cli, PaneKind};
use crate::error::{Error, status};
use crate::launch::Directories;
use crate::output::{complain, print};
use crate::state::{Record, stored_launches};

/// The key that has the pane go on; `reconnect` types it.
pub(super) const AGAIN: char = 'r';
/// The arguments of a program that waits for a key.
pub(super) const HELD: [&str; 3] = ["herdr", "pane", "held"];

/// How the program of a pane ended.
enum Ended {
    /// The pane goes with it.
    Quietly(u8),
    /// There is something to be read first.
    Failed(Failure, u8),
}

/// Runs what a pane is for. What fails stays to be read.
pub(super) fn run(kind: PaneKind) -> u8 {
    let order = match Order::here() {
        Ok(order) => order,
        Err(failure) => {
            let text = notice::lines(&failure).join("\n");
            complain(become_pane(PaneKind::Held, &Order { text: Some(text), ..Order::default() }));
            return status::FAILED;
        }
    };
    let (failure, code) = match perform(kind, &order) {
        Ended::Quietly(code) => return code,
        Ended::Failed(failure, code) => (failure, code),
    };
    if let Some(path) = &order.report {
        let _ = order::report(path, &failure);
    }
    let text = notice::lines(&failure).join("\n");
    let mut held = Order { text: Some(text), report: None, ..order };
    match ended_here() {
        Some(launch) if launch.form.is_agent() => {
            held.what = Some(launch.launch.as_str().to_owned());
            held.again = Some(PaneKind::Resume.id().into());
        }
        // In a shell there is nothing to go on with: another is opened.
        _ => held.again = Some(kind.id().into()),
    }
    // Signals end that program, as they do not end a keeper.
    complain(become_pane(PaneKind::Held, &held));
    code
}

fn perform(kind: PaneKind, order: &Order) -> Ended {
    // Opened by hand it has no order.
    let directory = order.directory.clone().or_else(|| {
        Context::here().ok().and_then(|context| context.directories.into_iter().next())
    });
    if let Some(directory) = directory
        && let Err(e) = std::env::set_current_dir(&directory)
    {
        let error = Error::Workspace { path: directory, reason: e.to_string() };
        return Ended::Failed(error.into(), status::FAILED);
    }
    let command = match kind {
        PaneKind::Resume => "resume",
        PaneKind::Shell => "shell",
        PaneKind::Sandboxes => "overlay",
        PaneKind::Agent | PaneKind::Message | PaneKind::Held => "run",
    };
    let words = ["paddock", command].into_iter().chain(order.what.as_deref());
    let parsed = match Cli::try_parse_from(words) {
        Ok(parsed) => parsed,
        Err(e) => {
            let message = format!("paddock {command} cannot be run: {}", e.kind());
            let failure = Failure::new(ErrorKind::Unknown, message);
            return Ended::Failed(failure.next("paddock --help"), status::FAILED);
        }
    };
    match crate::perform(parsed.command) {
        Ok(code @ (0 | 130)) => Ended::Quietly(code),
        // That of a shell is the one of whatever was typed last.
        Ok(code) if matches!(kind, PaneKind::Shell | PaneKind::Sandboxes) => Ended::Quietly(code),
        Ok(code) => {
            let message = format!("the agent ended with status {code}");
            let failure = Failure::new(ErrorKind::Startup, message);
            Ended::Failed(failure.next("paddock log shows what happened"), code)
        }
        // The pane goes, too.
        Err(Error::Stopped { by, status }) if by == "SIGHUP" || by == "SIGTERM" => {
            Ended::Quietly(status)
        }
        Err(error) => {
            let code = error.status();
            Ended::Failed(error.into(), code)
        }
    }
}

/// The launch that this process was the keeper of.
fn ended_here() -> Option<Record> {
    let own = this_process()?;
    let (launches, _) = stored_launches(&Directories::find().ok()?);
    let found = launches.into_iter().rfind(|launch| launch.record.keeper == own)?;
    Some(found.record)
}

fn this_process() -> Option<ProcessId> {
    let pid = confine::Pid::of_self();
    Some(ProcessId { pid, start: confine::proc::start_time(pid).ok()? })
}

/// Where the action that typed the key waits for a reason, if one did.
fn awaited() -> Option<PathBuf> {
    let path = order::report_of(this_process()?, &Directories::find().ok()?);
    path.exists().then_some(path)
}

/// Goes on as the program of a pane of that kind, as the same process. Comes back
/// only when that cannot be.
fn become_pane(kind: PaneKind, order: &Order) -> std::io::Error {
    // Not by its path: that may have been replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("paddock").args(["herdr", "pane", kind.id()]);
    if kind == PaneKind::Held {
        // What waits for a key is no agent.
        command.env_remove(HINT).envs([order.variable()]);
    } else {
        command.envs(order.variables());
    }
    command.exec()
}

/// Shows a text until a key is pressed.
pub(super) fn hold() -> u8 {
    let order = Order::here().unwrap_or_else(|failure| Order {
        text: Some(notice::lines(&failure).join("\n")),
        ..Order::default()
    });
    // Before anything is asked: no answer is lost, and what was typed before is none.
    let keyboard = Keyboard::take();
    if keyboard.is_some() {
        keyboard::reset();
    }
    let text = order.text.as_deref().unwrap_or("Paddock has nothing to say here");
    let _ = print(format_args!("{}\n", safe(text)));
    let again = order.again.as_deref().and_then(|kind| PaneKind::from_str(kind, false).ok());
    let question = match again {
        Some(PaneKind::Resume) => format!("{AGAIN} goes on with it in a fresh sandbox, any other"),
        Some(_) => format!("{AGAIN} tries again, any other"),
        None => "any".into(),
    };
    let _ = write!(std::io::stdout(), "{question} key closes this pane ");
    let _ = std::io::stdout().flush();
    let key = keyboard.and_then(Keyboard::read);
    let _ = print("");
    if let (Some(kind), Some(AGAIN)) = (again, key) {
        let next = Order { text: None, again: None, report: awaited(), ..order };
        complain(become_pane(kind, &next));
        return status::FAILED;
    }
    0
}

/// The program of this process, for comparison with that of a pane.
pub(super) fn own_program() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/exe").ok()
}
