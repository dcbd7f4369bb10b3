//! Paddock as herdr's plugin: what its keys, its events and its start run.
//!
//! herdr starts each as a program of its own and shows a person nothing of it, so
//! that what an action came to is told three times: as a line for scripts, first
//! of all; as a notification; and in a pane where those are switched off.

mod api;
mod context;
mod events;
mod keybindings;
mod keyboard;
mod launches;
mod notice;
mod opening;
mod order;
mod own;
mod pane;
mod result;
mod startup;
mod target;

use crate::cli::{Action, Entry, Herdr as Command, PaneKind};
use crate::error::status;
use crate::launch::Directories;
use crate::output::{complain, print};
use crate::state::Stored;
use api::Herdr;
use context::Context;
use result::{Done, Failure};

#[cfg(test)]
pub(crate) use order::{HINT, ORDER};
#[cfg(test)]
pub(crate) use result::{ErrorKind, MARK};

/// Runs one of the plugin's entry points, and tells the exit status.
pub(crate) fn run(command: &Command) -> u8 {
    match command.entry {
        Entry::Action(action) => act(action),
        Entry::Event => quietly(events::run()),
        Entry::Startup => quietly(startup::run()),
        Entry::Pane { kind: PaneKind::Held | PaneKind::Message } => pane::hold(),
        Entry::Pane { kind } => pane::run(kind),
    }
}

/// Whether this process is in a pane of herdr's, and knows which.
pub(crate) fn is_in_pane() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    ["HERDR_ENV", "HERDR_SOCKET_PATH", "HERDR_PANE_ID"].into_iter().all(is_set)
}

/// What came of a shell that was to be opened in a pane.
pub(crate) enum ShellPane {
    /// It runs, in that pane.
    Opened(String),
    /// A pane was opened, and there is no shell in it: why, and what to do.
    Failed(String),
    /// herdr opened no pane: why.
    NoPane(String),
}

/// Opens a shell beside a launch in a pane of the herdr's that this process is in, as the
/// action `open-shell` does. Says nothing itself.
pub(crate) fn open_shell_pane(launch: &Stored) -> ShellPane {
    match Desk::here().and_then(|desk| opening::open_shell_beside(launch, &desk)) {
        Ok(done) => ShellPane::Opened(done.text("paneId")),
        Err(failure) if failure.fields.contains_key("paneId") => {
            ShellPane::Failed(notice::lines(&failure).join(";"))
        }
        Err(failure) => ShellPane::NoPane(failure.message),
    }
}

/// What an action works with.
struct Desk {
    context: Context,
    herdr: Herdr,
    directories: Directories,
}

impl Desk {
    fn here() -> Result<Self, Failure> {
        let context = Context::here()?;
        let herdr = Herdr::of(&context);
        Ok(Self { context, herdr, directories: Directories::find()? })
    }
}

/// Does what an action says, and tells.
fn act(action: Action) -> u8 {
    let desk = Desk::here().and_then(|desk| {
        // A file is changed also without it.
        if action != Action::InstallKeybindings {
            desk.herdr.ping()?;
        }
        Ok(desk)
    });
    let result = match &desk {
        desk if action == Action::InstallKeybindings => {
            own::install_keybindings(desk.as_ref().ok().map(|desk| &desk.herdr))
        }
        Ok(desk) => perform(action, desk),
        Err(failure) => Err(failure.clone()),
    };
    // Nobody reading is no reason not to tell the person.
    let _ = print(result::line(action, &result));
    let lines = match &result {
        Ok(done) => done.lines.clone(),
        Err(failure) => notice::lines(failure),
    };
    let _ = lines.iter().try_for_each(|line| print(result::safe(line)));
    // A herdr that does not answer shows nothing, either.
    if let Ok(desk) = &desk
        && !desk.context.is_typed
    {
        notice::tell(action, &result, desk);
    }
    if result.is_ok() { 0 } else { status::FAILED }
}

fn perform(action: Action, desk: &Desk) -> Result<Done, Failure> {
    match action {
        Action::Doctor => own::doctor(desk),
        Action::InstallKeybindings => own::install_keybindings(Some(&desk.herdr)),
        Action::StartAgent => opening::start_agent(desk),
        Action::Reconnect => opening::reconnect(desk),
        Action::OpenShell => opening::open_shell(desk),
        Action::Sandboxes => opening::sandboxes(desk),
        Action::Stop => launches::stop(desk),
        Action::Info => launches::info(desk),
        Action::VerifySandbox => launches::verify(desk),
        Action::ListSandboxes => Ok(launches::list(desk)),
        Action::ForgetMapping => launches::forget(desk),
        Action::PruneMappings => own::prune(desk),
    }
}

/// For what nobody waits for: herdr's log has it.
fn quietly(result: Result<(), Failure>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            notice::lines(&failure).iter().for_each(complain);
            status::FAILED
        }
    }
}
