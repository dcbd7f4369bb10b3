//! Which launch an action is about: that of the focused pane, else the only one of
//! the workspace.

use std::path::Path;

use serde_json::{Value, json};

use super::Desk;
use super::result::{ErrorKind, Failure};
use crate::commands::{is_open, state_name};
use crate::launch::Form;
use crate::output::shown;
use crate::state::{HerdrPane, Stored, stored_launches};

/// The launch that runs, or was left by its keeper.
///
/// # Errors
/// When there is none, or it is not clear which.
pub(super) fn open_launch(desk: &Desk) -> Result<Stored, Failure> {
    choose(desk, all(desk), is_open)
}

/// The launch, whether it has ended or not: of those that have ended the newest.
///
/// # Errors
/// As [`open_launch`].
pub(super) fn launch(desk: &Desk) -> Result<Stored, Failure> {
    let mut launches = all(desk);
    if let Some(at) = launches.iter().rposition(|launch| is_of_pane(launch, desk)) {
        return Ok(launches.swap_remove(at));
    }
    match choose(desk, launches, is_open) {
        Err(failure) if failure.fields.is_empty() => {
            // A shell leaves nothing to come back to.
            let was_agent = |launch: &Stored| launch.record.form != Form::Shell;
            let newest = all(desk).into_iter().rfind(|l| was_agent(l) && is_near(l, desk));
            newest.ok_or(failure)
        }
        chosen => chosen,
    }
}

fn all(desk: &Desk) -> Vec<Stored> {
    // What cannot be read is another launch's, or was told when it ran.
    stored_launches(&desk.directories).0
}

fn choose(
    desk: &Desk,
    launches: Vec<Stored>,
    is_wanted: fn(&Stored) -> bool,
) -> Result<Stored, Failure> {
    let mut wanted: Vec<Stored> = launches.into_iter().filter(is_wanted).collect();
    if let Some(at) = wanted.iter().rposition(|launch| is_of_pane(launch, desk)) {
        return Ok(wanted.swap_remove(at));
    }
    let (mut near, far): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|launch| is_near(launch, desk));
    let (first, second) = (near.pop(), near.pop());
    match (first, second) {
        (Some(only), None) => Ok(only),
        (None, _) => {
            let message = "no launch runs in this pane or workspace";
            let failure = Failure::new(ErrorKind::Target, message);
            Err(match far.len() {
                0 => failure.next("the action start-agent launches one"),
                n => failure.next(format!(
                    "focus the pane of one of the {n} that run elsewhere: paddock list"
                )),
            })
        }
        (Some(one), Some(other)) => {
            near.extend([other, one]);
            let names: Vec<&str> = near.iter().map(|l| l.record.launch.as_str()).collect();
            let message = format!("several launches run in this workspace: {}", names.join(", "));
            Err(Failure::new(ErrorKind::Target, message)
                .next("focus the pane of the one that is meant, then try again")
                .with("launches", near.iter().map(described).collect::<Vec<_>>()))
        }
    }
}

/// A launch for a script.
pub(super) fn described(launch: &Stored) -> Value {
    let record = &launch.record;
    json!({
        "launch": record.launch.as_str(), "agent": record.agent, "tier": record.tier,
        "state": state_name(launch), "workspace": shown(&record.workspace),
        "paneId": record.pane.as_ref().map(|pane| pane.pane_id.as_str()),
    })
}

/// Whether it was started in a pane of this herdr's, and in which.
pub(super) fn own_pane<'a>(launch: &'a Stored, socket: &Path) -> Option<&'a HerdrPane> {
    launch.record.pane.as_ref().filter(|pane| pane.socket == socket)
}

/// Whether it was started in the focused pane. One that was moved to another
/// workspace since has another id now.
fn is_of_pane(launch: &Stored, desk: &Desk) -> bool {
    let Some(focused) = desk.context.pane.as_deref() else { return false };
    let Some(own) = own_pane(launch, &desk.context.socket) else { return false };
    own.pane_id == focused
        || is_open(launch)
            && desk
                .herdr
                .pane(&own.pane_id)
                .is_ok_and(|found| found.is_some_and(|pane| pane.id == focused))
}

/// Whether it is in the focused workspace or in its directory.
fn is_near(launch: &Stored, desk: &Desk) -> bool {
    let context = &desk.context;
    let is_in_workspace = own_pane(launch, &context.socket)
        .and_then(|pane| pane.pane_id.rsplit_once(':'))
        .is_some_and(|(workspace, _)| context.workspace.as_deref() == Some(workspace));
    let directory = context.directories.iter().find_map(|path| path.canonicalize().ok());
    is_in_workspace || directory.is_some_and(|path| path.starts_with(&launch.record.workspace))
}
