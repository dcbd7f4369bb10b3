//! What is done for the person, on threads of its own: by what `paddock verify`, `stop`,
//! `grant` and `pin` use, too.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use confine::escape::escape;

use super::terminal::{Alarm, Waker};
use crate::commands::{Tone, answer_question, end_launch, pin_lines, verify_now};
use crate::error::Error;
use crate::gate::herdr::focus_pane;
use crate::keeper::{Prune, PruneOutcome, Scope, Wanted, prune_ended};
use crate::launch::{Config, Directories};
use crate::pins::Comparison;
use crate::plugin::{ShellPane, open_shell_pane};
use crate::state::{Stored, find_launch};

/// So many at once; a person can type faster than a keeper answers.
const MOST_AT_ONCE: usize = 8;

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Verify(String),
    Stop(String),
    /// No scope denies it.
    Answer {
        launch: String,
        wanted: Wanted,
        scope: Option<Scope>,
    },
    Jump {
        socket: PathBuf,
        pane: String,
    },
    /// Opens a shell beside a launch, in a pane of herdr's.
    ShellPane(String),
    Prune,
    /// What is recorded of the policy and programs of what a launch runs.
    Pins(String),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// In a line; escaped.
    Said(Tone, String),
    /// herdr opens no pane; escaped.
    NoPane(String),
    /// In lines, for the view on that launch; escaped.
    Pins { launch: String, lines: Vec<String> },
}

/// Does things, and tells what came of them.
pub(super) struct Actions {
    directories: Directories,
    outcomes: Sender<Outcome>,
    waker: Waker,
    under_way: Arc<AtomicUsize>,
}

impl Actions {
    pub(super) fn new(directories: Directories, outcomes: Sender<Outcome>, waker: Waker) -> Self {
        Self { directories, outcomes, waker, under_way: Arc::default() }
    }

    /// Begins something; `false` when too much is under way already.
    pub(super) fn begin(&self, action: Action) -> bool {
        if self.under_way.fetch_add(1, Ordering::SeqCst) >= MOST_AT_ONCE {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        let (directories, outcomes) = (self.directories.clone(), self.outcomes.clone());
        let (waker, under_way) = (self.waker.clone(), self.under_way.clone());
        let started = std::thread::Builder::new().name("act".into()).spawn(move || {
            let outcome = perform(action, &directories)
                .unwrap_or_else(|error| Outcome::Said(Tone::Bad, with_advice(&error)));
            under_way.fetch_sub(1, Ordering::SeqCst);
            let _ = outcomes.send(outcome);
            waker.wake();
        });
        started.is_ok()
    }
}

fn with_advice(error: &Error) -> String {
    let advice = error.advice().map(|advice| format!("; next: {advice}")).unwrap_or_default();
    escape(format!("{error}{advice}").as_bytes()).to_string()
}

fn perform(action: Action, directories: &Directories) -> Result<Outcome, Error> {
    let find = |id: &str| find_launch(Some(id), directories);
    Ok(match action {
        Action::Verify(id) => verify(&find(&id)?),
        Action::Stop(id) => stop(&find(&id)?, directories),
        Action::Answer { launch, wanted, scope } => {
            let text = answer_question(wanted, scope, &find(&launch)?, directories)?;
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Outcome::Said(Tone::Good, text)
        }
        Action::Jump { socket, pane } => match focus_pane(&socket, &pane) {
            Ok(()) => Outcome::Said(Tone::Good, format!("herdr shows pane {pane}")),
            Err(why) => Outcome::Said(Tone::Bad, why),
        },
        Action::ShellPane(id) => shell_pane(&find(&id)?),
        Action::Prune => prune(directories),
        Action::Pins(launch) => {
            let lines = pins(&launch, directories).unwrap_or_else(|e| vec![with_advice(&e)]);
            Outcome::Pins { launch, lines }
        }
    })
}

/// As the next launch like this one would have it, with its project's file.
fn pins(launch: &str, directories: &Directories) -> Result<Vec<String>, Error> {
    let record = find_launch(Some(launch), directories)?.record;
    let config = Config::load(&directories.config_file())?;
    let config = config.in_workspace(&record.workspace, directories)?;
    let found = Comparison::of_named(&record.agent, record.tier, &config, directories, false)?;
    let state = found.state(config.pins.on_program_change);
    Ok(pin_lines(&found, state.name()))
}

fn shell_pane(launch: &Stored) -> Outcome {
    let id = launch.record.launch.as_str();
    let plain = |text: String| escape(text.as_bytes()).to_string();
    match open_shell_pane(launch) {
        ShellPane::Opened(pane) => {
            Outcome::Said(Tone::Good, format!("the shell beside launch {id} is in pane {pane}"))
        }
        ShellPane::Failed(why) => Outcome::Said(Tone::Bad, plain(why)),
        ShellPane::NoPane(why) => Outcome::NoPane(plain(why)),
    }
}

fn prune(directories: &Directories) -> Outcome {
    let pruning = prune_ended(directories, Prune::default());
    let count = |is_it: fn(&PruneOutcome) -> bool| {
        pruning.launches.iter().filter(|launch| is_it(&launch.outcome)).count()
    };
    let removed = count(|outcome| matches!(outcome, PruneOutcome::Removed));
    let is_kept = |outcome: &PruneOutcome| {
        matches!(outcome, PruneOutcome::ProcessesLeft(_) | PruneOutcome::Failed(_))
    };
    match count(is_kept) + pruning.errors.len() {
        0 => Outcome::Said(Tone::Good, format!("removed: {removed} launches that had ended")),
        n => {
            let text =
                format!("removed: {removed} launches; not removed: {n}; paddock prune says why");
            Outcome::Said(Tone::Bad, text)
        }
    }
}

fn verify(launch: &Stored) -> Outcome {
    let id = launch.record.launch.as_str();
    if !launch.is_kept {
        return Outcome::Said(Tone::Notable, format!("launch {id} has no keeper to look at it"));
    }
    let (code, report) = verify_now(launch);
    let tasks = report["tasks"].as_array().map_or(0, Vec::len);
    let took = &report["microseconds"];
    match (code, report["error"].as_str()) {
        (0, _) => {
            let text = format!("launch {id}: all of {tasks} tasks are confined, seen in {took} us");
            Outcome::Said(Tone::Good, text)
        }
        (_, Some(why)) => {
            let why = escape(why.as_bytes());
            Outcome::Said(Tone::Bad, format!("launch {id}: {why}"))
        }
        _ => Outcome::Said(Tone::Bad, format!("launch {id} is NOT CONFINED, of {tasks} tasks")),
    }
}

fn stop(launch: &Stored, directories: &Directories) -> Outcome {
    let id = launch.record.launch.as_str();
    match end_launch(launch, directories) {
        Ok(0) => Outcome::Said(Tone::Good, format!("launch {id} has ended; nothing of it is left")),
        Ok(left) => {
            Outcome::Said(Tone::Bad, format!("{left} processes of launch {id} could not be ended"))
        }
        Err(e) => {
            let why = e.to_string();
            Outcome::Said(Tone::Bad, format!("launch {id}: {}", escape(why.as_bytes())))
        }
    }
}

/// Opens a shell beside a launch, on this terminal, to its end; what there is to say of it.
pub(super) fn open_shell(launch: &str, alarm: &Alarm) -> Outcome {
    // Not by its path: that may have been replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("paddock").args(["shell", launch]);
    match alarm.run(&mut command) {
        Ok(status) if status.success() => {
            Outcome::Said(Tone::Plain, format!("the shell beside launch {launch} has ended"))
        }
        Ok(status) => Outcome::Said(Tone::Notable, format!("paddock shell {launch}: {status}")),
        Err(e) => Outcome::Said(Tone::Bad, format!("paddock shell does not start: {}", e.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::tests::store;
    use crate::state::Phase;

    #[test]
    fn pins_are_those_of_a_launch_with_its_projects_file() {
        let root = tempfile::tempdir().unwrap();
        let own = Directories::below(root.path());
        let id = "bcdfbcdfbcdf";
        let _lock = store(&own, id, Phase::Running);
        let lines = || match perform(Action::Pins(id.into()), &own).unwrap() {
            Outcome::Pins { launch, lines } if launch == id => lines.join("\n"),
            outcome => panic!("{outcome:?}"),
        };
        assert!(!lines().contains(".paddock.toml"), "control: {}", lines());
        let workspace = own.home.join("project");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join(".paddock.toml"), "[nonsense]\n").unwrap();
        assert!(lines().contains("project/.paddock.toml"), "{}", lines());
    }
}
