//! The doctor's survey: the layers of a launch without an agent, and the same
//! operations tried in each of them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use confine::{Layer, Pid};
use warden::{AttemptKind, Observation};

use super::egress_guard::SurveyedEgress;
use super::events::Events;
use super::{Keeper, spawn, stage, sweep_abandoned};
use crate::error::Error;
use crate::launch::{Directories, Plan, ask};
use crate::notices::Notices;
use crate::pins::Pinning;

/// What a layer's warden is to try; the process to fail to reach is numbered as
/// inside.
type Attempts = Box<dyn Fn(Layer, Option<Pid>) -> Vec<AttemptKind>>;

/// What else the wardens try beside the self-test, and what they observed.
pub(super) struct Survey {
    pub(super) attempts: Attempts,
    pub(super) observed: HashMap<Layer, Vec<Observation>>,
    /// Instead of the host's resolver.
    pub(super) egress: Arc<SurveyedEgress>,
}

/// What was observed in each place.
pub(crate) struct Surveyed {
    /// Outside every sandbox.
    pub(crate) outside: Vec<Observation>,
    /// In the veil, where there is one.
    pub(crate) veil: Option<Vec<Observation>>,
    pub(crate) layers: HashMap<Layer, Vec<Observation>>,
}

/// For all attempts in one place; some of them wait a second.
const LIMIT: Duration = Duration::from_secs(30);

/// Builds the layers of `plan`, has the attempts made in each place, and takes
/// everything down again: every child of this process, too. `ready` is called when
/// the launch's directories exist.
///
/// # Errors
/// When a layer does not start or its self-test fails.
#[allow(clippy::too_many_arguments)] // one place, and each is a different thing
pub(crate) fn survey(
    plan: &Plan,
    directories: &Directories,
    events: Events,
    outside: &[AttemptKind],
    veil: &[AttemptKind],
    attempts: Attempts,
    egress: Arc<SurveyedEgress>,
    ready: impl FnOnce() -> Result<(), Error>,
) -> Result<Surveyed, Error> {
    spawn::allow_many_descriptors();
    sweep_abandoned(directories);
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
    let (built, survivors) = build(plan, events, Survey::new(attempts, egress));
    if survivors > 0 {
        // Who is left could put links in the way of who removes things here.
        std::mem::forget(stage);
        let what = format!("{survivors} processes of the survey could not be ended");
        return Err(Error::Unconfined { what });
    }
    drop(stage);
    // The launch is the doctor's own: nothing of it is kept.
    let _ = super::remove_tree(&plan.paths.state);
    Ok(Surveyed { outside, veil, layers: built? })
}

/// What was observed in each layer, and how many processes could not be ended.
fn build(
    plan: &Plan,
    events: Events,
    survey: Survey,
) -> (Result<HashMap<Layer, Vec<Observation>>, Error>, usize) {
    // Nothing of the agent runs, so nothing of it is recorded.
    let mut keeper = match Keeper::open(plan, &Pinning::NONE, Notices::new(false), events) {
        Ok(keeper) => keeper,
        Err(error) => return (Err(error), 0),
    };
    keeper.survey = Some(survey);
    let built = keeper.build();
    let survivors = keeper.stop();
    let observed = keeper.survey.take().map(|survey| survey.observed).unwrap_or_default();
    (keeper.close(built.map(|()| 0), survivors).map(|_| observed), survivors)
}

impl Survey {
    fn new(attempts: Attempts, egress: Arc<SurveyedEgress>) -> Self {
        Self { attempts, observed: HashMap::new(), egress }
    }
}

/// Has a program make the attempts and tell; in a session of its own, as a layer is
/// started: nothing there has the person's terminal.
fn try_in(argv: &[OsString], attempts: &[AttemptKind]) -> Result<Vec<Observation>, Error> {
    let failed = |reason: String| Error::LayerStart { layer: "survey", reason, log: String::new() };
    let (program, arguments) = argv.split_first().ok_or_else(|| failed("no program".into()))?;
    let text = serde_json::to_vec(attempts).map_err(|e| failed(e.to_string()))?;
    let answer = ask(Path::new(program), arguments, &[], Path::new("/"), &text, LIMIT)
        .map_err(failed)?
        .ok_or_else(|| failed(format!("it took more than {} s", LIMIT.as_secs())))?;
    let told = confine::escape::escape_short(&answer.errors, 300);
    serde_json::from_slice(&answer.output).map_err(|e| failed(format!("{e}: {told}")))
}
