//! The programs of panes. An agent's pane runs its keeper itself: that process is
//! the one that herdr started, with herdr's hint from its first instruction, and
//! the leader of the terminal's foreground group for as long as the launch lives.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Parser, ValueEnum};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, isatty, tcgetattr, tcsetattr};

use super::context::Context;
use super::notice;
use super::order::{self, Order};
use super::result::{ErrorKind, Failure, safe};
use crate::cli::{Cli, PaneKind};
use crate::error::{Error, status};
use crate::launch::Directories;
use crate::output::{complain, print};
use crate::state::stored_launches;

/// The key that has the pane go on; `reconnect` types it.
pub(super) const AGAIN: char = 'r';
/// The arguments of a program that waits for a key.
pub(super) const HELD: [&str; 3] = ["herdr", "pane", "held"];

/// Runs what a pane is for. What fails stays to be read.
pub(super) fn run(kind: PaneKind) -> u8 {
    let order = Order::here();
    let (failure, code) = match perform(kind, &order) {
        Ok(0 | 130) => return 0,
        // That of a shell is the one of whatever was typed last.
        Ok(code) if matches!(kind, PaneKind::Shell | PaneKind::Sandboxes) => return code,
        Ok(code) => {
            let message = format!("the agent ended with status {code}");
            (Failure::new(ErrorKind::Startup, message), code)
        }
        // The pane goes, too.
        Err(Error::Stopped { by, status }) if by == "SIGHUP" || by == "SIGTERM" => return status,
        Err(error) => {
            let code = error.status();
            (Failure::from(error), code)
        }
    };
    if let Some(path) = &order.report {
        let _ = order::report(path, &failure);
    }
    let text = notice::lines(&failure).join("\n");
    let mut held = Order { text: Some(text), report: None, ..order };
    match ended_here() {
        Some(launch) => {
            held.what = Some(launch);
            held.again = Some(PaneKind::Resume.id().into());
        }
        None => held.again = Some(kind.id().into()),
    }
    // Signals end that program, as they do not end a keeper.
    complain(become_pane(PaneKind::Held, &held));
    code
}

fn perform(kind: PaneKind, order: &Order) -> Result<u8, Error> {
    // Opened by hand it has no order.
    let directory = order.directory.clone().or_else(|| {
        Context::here().ok().and_then(|context| context.directories.into_iter().next())
    });
    if let Some(directory) = directory {
        std::env::set_current_dir(&directory)
            .map_err(|e| Error::Workspace { path: directory, reason: e.to_string() })?;
    }
    let command = match kind {
        PaneKind::Resume => "resume",
        PaneKind::Shell => "shell",
        PaneKind::Sandboxes => "overlay",
        PaneKind::Agent | PaneKind::Message | PaneKind::Held => "run",
    };
    let words = ["paddock", command].into_iter().chain(order.what.as_deref());
    let cli = Cli::try_parse_from(words)
        .map_err(|e| Error::Output { reason: format!("paddock {command}: {}", e.kind()) })?;
    crate::perform(cli.command)
}

/// The launch that this process was the keeper of.
fn ended_here() -> Option<String> {
    let pid = confine::Pid::of_self();
    let start = confine::proc::start_time(pid).ok()?;
    let own = confine::ProcessId { pid, start };
    let (launches, _) = stored_launches(&Directories::find().ok()?);
    let found = launches.into_iter().rfind(|launch| launch.record.keeper == own)?;
    Some(found.record.launch.as_str().to_owned())
}

/// Goes on as the program of a pane of that kind, as the same process. Comes back
/// only when that cannot be.
fn become_pane(kind: PaneKind, order: &Order) -> std::io::Error {
    let (name, value) = order.variable();
    // Not by its path: that may have been replaced meanwhile.
    Command::new("/proc/self/exe")
        .arg0("paddock")
        .args(["herdr", "pane", kind.id()])
        .env(name, value)
        .exec()
}

/// Shows a text until a key is pressed.
pub(super) fn hold() -> u8 {
    let order = Order::here();
    let text = order.text.as_deref().unwrap_or("Paddock has nothing to say here");
    let _ = print(format_args!("{}\n", safe(text)));
    let again = order.again.as_deref().and_then(|kind| PaneKind::from_str(kind, false).ok());
    let question = match again {
        Some(PaneKind::Resume) => format!("{AGAIN} goes on with it in a fresh sandbox, "),
        Some(_) => format!("{AGAIN} tries again, "),
        None => String::new(),
    };
    let _ = write!(std::io::stdout(), "{question}any other key closes this pane ");
    let _ = std::io::stdout().flush();
    let key = read_key();
    let _ = print("");
    if let (Some(kind), Some(AGAIN)) = (again, key) {
        let next = Order { text: None, again: None, ..order };
        complain(become_pane(kind, &next));
        return status::FAILED;
    }
    0
}

/// The next key, without an Enter; what was typed before it was asked for does not
/// count. `None` when there is no terminal any more.
fn read_key() -> Option<char> {
    if !isatty(stdin()) {
        return None;
    }
    let before = tcgetattr(stdin()).ok()?;
    let mut settings = before.clone();
    settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    tcsetattr(stdin(), OptionalActions::Flush, &settings).ok()?;
    let mut byte = [0];
    let read = std::io::stdin().lock().read_exact(&mut byte);
    let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    read.ok().map(|()| char::from(byte[0]))
}

/// The program of this process, for comparison with that of a pane.
pub(super) fn own_program() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/exe").ok()
}
