//! The doctor's survey: the layers of a launch without an agent, and the same
//! operations tried in each of them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;

use confine::sys::{SpawnSetup, prepare_spawn};
use confine::{Layer, Pid};
use warden::{AttemptKind, Observation};

use super::egress_guard::FixedNames;
use super::{Keeper, canaries, gatehouse, spawn, stage, terminal};
use crate::error::Error;
use crate::launch::{Directories, Plan};
use crate::notices::Notices;
use crate::pins::Outcome;

/// What a layer's warden is to try; the process to fail to reach is numbered as
/// inside.
type Attempts = Box<dyn Fn(Layer, Option<Pid>) -> Vec<AttemptKind>>;

/// What else the wardens try beside the self-test, and what they observed.
pub(super) struct Survey {
    pub(super) attempts: Attempts,
    pub(super) observed: HashMap<Layer, Vec<Observation>>,
    /// Instead of the host's resolver.
    pub(super) names: Arc<FixedNames>,
}

/// What was observed in each place.
pub(crate) struct Surveyed {
    /// Outside every sandbox.
    pub(crate) outside: Vec<Observation>,
    /// In the veil, where there is one.
    pub(crate) veil: Option<Vec<Observation>>,
    pub(crate) layers: HashMap<Layer, Vec<Observation>>,
}

/// Builds the layers of `plan`, has the attempts made in each place, and takes
/// everything down again: every child of this process, too. `ready` is called when
/// the launch's directories exist.
///
/// # Errors
/// When a layer does not start or its self-test fails.
pub(crate) fn survey(
    plan: &Plan,
    directories: &Directories,
    outside: &[AttemptKind],
    veil: &[AttemptKind],
    attempts: Attempts,
    names: Arc<FixedNames>,
    ready: impl FnOnce() -> Result<(), Error>,
) -> Result<Surveyed, Error> {
    spawn::allow_many_descriptors();
    let (sender, events) = channel();
    terminal::forward_signals(sender.clone()).map_err(|e| Error::DirectoryUnusable {
        path: plan.paths.state.clone(),
        reason: format!("no thread for signals: {e}"),
    })?;
    let stage = stage::Stage::set(plan, directories)?;
    ready()?;
    let warden: OsString = plan.programs.warden.path.clone().into();
    let outside = try_in(&[warden.clone(), "try".into(), "--own-terminal".into()], outside)?;
    let in_veil = || {
        let mut argv = plan.veil_argv(None);
        argv.extend([warden, "try".into()]);
        try_in(&argv, veil)
    };
    let veil = plan.tier.has_veil().then(in_veil).transpose()?;
    // Nothing of the agent runs, so nothing of it is recorded.
    let pinned = Outcome::Same;
    let mut keeper = Keeper::open(plan, &pinned, Notices::new(false), sender, events)?;
    keeper.survey = Some(Survey { attempts, observed: HashMap::new(), names });
    let built = keeper.build();
    let survivors = keeper.stop();
    let layers = keeper.survey.take().map(|survey| survey.observed).unwrap_or_default();
    keeper.close(built.map(|()| 0), survivors)?;
    if survivors > 0 {
        // Who is left could put links in the way of who removes things here.
        std::mem::forget(stage);
        let what = format!("{survivors} processes of the survey could not be ended");
        return Err(Error::Unconfined { what });
    }
    drop(stage);
    // The launch is the doctor's own: nothing of it is kept.
    let _ = super::remove_tree(&plan.paths.state);
    Ok(Surveyed { outside, veil, layers })
}

impl Keeper<'_> {
    /// A launch up to where its agent would start.
    fn build(&mut self) -> Result<(), Error> {
        gatehouse::open(&self.plan.paths.gate(), self.sender.clone()).map_err(|e| {
            Error::DirectoryUnusable { path: self.plan.paths.gate(), reason: e.to_string() }
        })?;
        let outermost = self.start_outermost()?;
        let canaries = canaries::Canaries::plant(self.plan)?;
        self.know_outermost(outermost)?;
        let attempts = self.admit_pen(&canaries)?;
        self.start_inner()?;
        self.ask_for_guards_socket()?;
        self.hear_proof(Layer::Pen, &attempts)?;
        let guard = self.start_guard()?;
        let admitted = self.admit_inner(&canaries);
        drop(guard);
        admitted
    }
}

/// Has a program make the attempts and tell.
fn try_in(argv: &[OsString], attempts: &[AttemptKind]) -> Result<Vec<Observation>, Error> {
    let failed = |reason: String| Error::LayerStart { layer: "survey", reason, log: String::new() };
    let (program, arguments) = argv.split_first().ok_or_else(|| failed("no program".into()))?;
    let text = serde_json::to_vec(attempts).map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(program);
    command.args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // As a layer is started: nothing there has the person's terminal.
    let setup = SpawnSetup {
        new_session: true,
        dies_with_parent: true,
        close_from: Some(3),
        ..SpawnSetup::default()
    };
    prepare_spawn(&mut command, setup);
    let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Who ends early says why on its standard error.
        let _ = stdin.write_all(&text);
    }
    let output = child.wait_with_output().map_err(|e| failed(e.to_string()))?;
    let told = confine::escape::escape_short(&output.stderr, 300);
    serde_json::from_slice(&output.stdout).map_err(|e| failed(format!("{e}: {told}")))
}
