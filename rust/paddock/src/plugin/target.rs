//! Which launch an action is about: that of the focused pane, else the only one of
//! the workspace.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::Desk;
use super::result::{ErrorKind, Failure};
use crate::commands::{is_open, state_name};
use crate::output::shown;
use crate::state::{HerdrPane, Stored, stored_launches};

/// The launch that runs, or was left by its keeper.
///
/// # Errors
/// When there is none, or it is not clear which.
pub(super) fn open_launch(desk: &Desk) -> Result<Stored, Failure> {
    choose(all(desk), &Focus::of(desk)).map_err(NotOne::into)
}

/// The same; `None` where none runs here.
///
/// # Errors
/// When it is not clear which.
pub(super) fn open_launch_if_any(desk: &Desk) -> Result<Option<Stored>, Failure> {
    match choose(all(desk), &Focus::of(desk)) {
        Ok(launch) => Ok(Some(launch)),
        Err(NotOne::None(_)) => Ok(None),
        Err(several) => Err(several.into()),
    }
}

/// The launch, whether it has ended or not: of those that have ended the newest.
///
/// # Errors
/// As [`open_launch`].
pub(super) fn launch(desk: &Desk) -> Result<Stored, Failure> {
    let focus = Focus::of(desk);
    let mut launches = all(desk);
    if let Some(at) = launches.iter().rposition(|launch| focus.is_of_pane(launch)) {
        return Ok(launches.swap_remove(at));
    }
    match choose(launches, &focus) {
        Err(NotOne::None(failure)) => {
            // A shell leaves nothing to come back to, nor does a sign-in.
            let was_agent = |launch: &Stored| launch.record.form.is_agent();
            let newest = all(desk).into_iter().rfind(|l| was_agent(l) && focus.is_near(l));
            newest.ok_or(failure)
        }
        chosen => chosen.map_err(NotOne::into),
    }
}

/// Why it is not clear which launch is meant.
enum NotOne {
    /// None runs here.
    None(Failure),
    Several(Failure),
}

impl From<NotOne> for Failure {
    fn from(why: NotOne) -> Self {
        let (NotOne::None(failure) | NotOne::Several(failure)) = why;
        failure
    }
}

fn all(desk: &Desk) -> Vec<Stored> {
    // What cannot be read is another launch's, or was told when it ran.
    stored_launches(&desk.directories).0
}

/// One of those that have not ended.
fn choose(launches: Vec<Stored>, focus: &Focus<'_>) -> Result<Stored, NotOne> {
    let mut wanted: Vec<Stored> = launches.into_iter().filter(is_open).collect();
    if let Some(at) = wanted.iter().rposition(|launch| focus.is_of_pane(launch)) {
        return Ok(wanted.swap_remove(at));
    }
    let (mut near, far): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|launch| focus.is_near(launch));
    let (first, second) = (near.pop(), near.pop());
    match (first, second) {
        (Some(only), None) => Ok(only),
        (None, _) => {
            let message = "no launch runs in this pane or workspace";
            let failure = Failure::new(ErrorKind::Target, message);
            Err(NotOne::None(match far.len() {
                0 => failure.next("the action start-agent launches one"),
                n => failure.next(format!(
                    "focus the pane of one of the {n} that run elsewhere: paddock list"
                )),
            }))
        }
        (Some(one), Some(other)) => {
            near.extend([other, one]);
            let names: Vec<&str> = near.iter().map(|l| l.record.launch.as_str()).collect();
            let message = format!("several launches run in this workspace: {}", names.join(", "));
            let failure = Failure::new(ErrorKind::Target, message)
                .next("focus the pane of the one that is meant, then try again")
                .with("launches", near.iter().map(described).collect::<Vec<_>>());
            Err(NotOne::Several(failure))
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

/// What was focused, and what herdr said of other panes: it is asked once of each.
struct Focus<'a> {
    desk: &'a Desk,
    moved: RefCell<BTreeMap<String, bool>>,
}

impl<'a> Focus<'a> {
    fn of(desk: &'a Desk) -> Self {
        Self { desk, moved: RefCell::default() }
    }

    /// Whether the launch was started in the focused pane. One that was moved to
    /// another workspace since has another id now.
    fn is_of_pane(&self, launch: &Stored) -> bool {
        let context = &self.desk.context;
        let Some(focused) = context.pane.as_deref() else { return false };
        let Some(own) = own_pane(launch, &context.socket) else { return false };
        own.pane_id == focused || is_open(launch) && self.is_now(&own.pane_id, focused)
    }

    /// Whether the pane that had that id is the focused one.
    fn is_now(&self, id: &str, focused: &str) -> bool {
        if let Some(known) = self.moved.borrow().get(id) {
            return *known;
        }
        let found = self.desk.herdr.pane(id);
        let is_it = found.is_ok_and(|found| found.is_some_and(|pane| pane.id == focused));
        self.moved.borrow_mut().insert(id.to_owned(), is_it);
        is_it
    }

    /// Whether it is in the focused workspace or in its directory.
    fn is_near(&self, launch: &Stored) -> bool {
        let context = &self.desk.context;
        let is_in_workspace = own_pane(launch, &context.socket)
            .and_then(|pane| pane.pane_id.rsplit_once(':'))
            .is_some_and(|(workspace, _)| context.workspace.as_deref() == Some(workspace));
        let directory = context.directories.iter().find_map(|path| path.canonicalize().ok());
        is_in_workspace || directory.is_some_and(|path| path.starts_with(&launch.record.workspace))
    }
}
