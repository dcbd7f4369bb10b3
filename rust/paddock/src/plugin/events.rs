//! What herdr tells of: a launch does not outlive its pane or its worktree. Opens
//! no pane, since that is an event, too.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Desk;
use super::launches::end;
use super::result::{ErrorKind, Failure};
use super::target::own_pane;
use crate::commands::is_open;
use crate::launch::real;
use crate::state::{Stored, stored_launches};

/// As herdr writes it; of other events there is nothing to know.
#[derive(Deserialize)]
struct Envelope {
    data: Happened,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Happened {
    PaneClosed {
        pane_id: String,
    },
    PaneExited {
        pane_id: String,
    },
    /// Which panes were in it is not told.
    WorkspaceClosed {},
    WorktreeRemoved {
        worktree: Worktree,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Worktree {
    path: PathBuf,
}

/// Ends the launches that an event concerns.
pub(super) fn run() -> Result<(), Failure> {
    let text = std::env::var("HERDR_PLUGIN_EVENT_JSON").unwrap_or_default();
    let happened = read(&text)?;
    if happened == Happened::Other {
        return Ok(());
    }
    let desk = Desk::here()?;
    let (launches, _) = stored_launches(&desk.directories);
    let concerned = launches.iter().filter(|l| is_open(l) && concerns(&happened, l, &desk));
    // Each, whatever becomes of the others, and none waits for another's end.
    let directories = &desk.directories;
    let mut failures = std::thread::scope(|scope| {
        let ending: Vec<_> =
            concerned.map(|launch| scope.spawn(move || end(launch, directories).err())).collect();
        let ended = ending.into_iter().filter_map(|one| one.join().ok().flatten());
        ended.collect::<Vec<Failure>>().into_iter()
    });
    failures.next().map_or(Ok(()), Err)
}

fn read(text: &str) -> Result<Happened, Failure> {
    serde_json::from_str(text).map(|envelope: Envelope| envelope.data).map_err(|e| {
        let message = format!("HERDR_PLUGIN_EVENT_JSON cannot be read: {e}");
        Failure::new(ErrorKind::Config, message)
            .next("herdr status server tells which herdr runs; 0.7.5 or newer is needed")
    })
}

fn concerns(happened: &Happened, launch: &Stored, desk: &Desk) -> bool {
    let is_gone = || {
        own_pane(launch, &desk.context.socket)
            .is_some_and(|own| matches!(desk.herdr.pane(&own.pane_id), Ok(None)))
    };
    match happened {
        Happened::PaneClosed { pane_id } | Happened::PaneExited { pane_id } => {
            own_pane(launch, &desk.context.socket).is_some_and(|own| own.pane_id == *pane_id)
                // It may have been moved since, and have another id.
                || is_gone()
        }
        Happened::WorkspaceClosed {} => is_gone(),
        Happened::WorktreeRemoved { worktree } => {
            // What is there still has not been removed, whatever an event says.
            worktree.path.symlink_metadata().is_err()
                && is_below(&launch.record.workspace, &worktree.path)
        }
        Happened::Other => false,
    }
}

/// Whether a workspace is in a removed checkout. That is gone: what is left of its
/// path is resolved.
fn is_below(workspace: &Path, removed: &Path) -> bool {
    removed.is_absolute() && workspace.starts_with(real(removed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_that_count_are_read_and_others_are_nothing() {
        let pane = |kind: &str| {
            format!(
                r#"{{"event":"{kind}","data":{{"type":"{kind}","pane_id":"w1:p2","workspace_id":"w1"}}}}"#
            )
        };
        let closed = read(&pane("pane_closed")).unwrap();
        assert_eq!(closed, Happened::PaneClosed { pane_id: "w1:p2".into() });
        let exited = read(&pane("pane_exited")).unwrap();
        assert_eq!(exited, Happened::PaneExited { pane_id: "w1:p2".into() });
        assert_eq!(read(&pane("pane_focused")).unwrap(), Happened::Other);
        let closed = r#"{"data":{"type":"workspace_closed","workspace_id":"w1","workspace":null}}"#;
        assert_eq!(read(closed).unwrap(), Happened::WorkspaceClosed {});
        let removed =
            r#"{"data":{"type":"worktree_removed","worktree":{"path":"/w","label":"x"}}}"#;
        let worktree = Worktree { path: "/w".into() };
        assert_eq!(read(removed).unwrap(), Happened::WorktreeRemoved { worktree });
        for text in ["", "{}", "[]", r#"{"data":{"type":"pane_closed"}}"#] {
            assert_eq!(read(text).unwrap_err().kind, ErrorKind::Config, "{text}");
        }
    }

    #[test]
    fn a_workspace_in_the_removed_checkout_is_concerned_and_one_beside_it_is_not() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        std::os::unix::fs::symlink(base.join("real"), base.join("link")).unwrap();
        let removed = base.join("link/tree");
        assert!(is_below(&base.join("real/tree"), &removed));
        assert!(is_below(&base.join("real/tree/sub"), &removed));
        assert!(!is_below(&base.join("real/tree2"), &removed));
        assert!(!is_below(&base.join("real"), &removed));
        assert!(!is_below(&base.join("real/tree"), Path::new("tree")));
    }
}
