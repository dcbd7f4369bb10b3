//! What herdr tells a command of the plugin: where it listens, and what was
//! focused when it was started.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde::Deserialize;

use super::result::{ErrorKind, Failure};
use crate::gate::herdr::plain_name;

/// The plugin's id, unless herdr says another.
const PLUGIN: &str = "paddock";

/// Where an action was started, as herdr told it then: focus may have moved since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// Where herdr listens.
    pub(super) socket: PathBuf,
    pub(super) plugin: String,
    pub(super) workspace: Option<String>,
    pub(super) pane: Option<String>,
    /// Directories that the person may mean, the surest first.
    pub(super) directories: Vec<PathBuf>,
    /// The herdr of the pane it was typed in is not known to have it as a plugin.
    pub(super) is_typed: bool,
}

/// As herdr writes it; all may be missing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    workspace_id: Option<String>,
    workspace_cwd: Option<PathBuf>,
    focused_pane_id: Option<String>,
    focused_pane_cwd: Option<PathBuf>,
    worktree: Option<Worktree>,
}

#[derive(Deserialize)]
struct Worktree {
    checkout_path: PathBuf,
}

impl Context {
    /// That of this process.
    ///
    /// # Errors
    /// When herdr is not there, or says what cannot be read.
    pub(super) fn here() -> Result<Self, Failure> {
        Self::from(|name| std::env::var_os(name), std::env::current_dir().ok())
    }

    /// That of an environment, and of a current directory for what is typed in a
    /// pane.
    fn from(
        variable: impl Fn(&str) -> Option<OsString>,
        current: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let socket = variable("HERDR_SOCKET_PATH").map(PathBuf::from);
        let socket = socket.filter(|path| path.is_absolute()).ok_or_else(|| {
            Failure::new(ErrorKind::Config, "herdr's socket is not known: HERDR_SOCKET_PATH is not set")
                .next("type it in a pane of herdr's, or bind the action to a key: paddock herdr install-keybindings")
        })?;
        let json = variable("HERDR_PLUGIN_CONTEXT_JSON");
        let (told, is_typed) = match json {
            Some(json) => (read(&json)?, false),
            None => (typed(&variable, current), true),
        };
        let plugin = match variable("HERDR_PLUGIN_ID") {
            Some(id) => checked("plugin", &id)?,
            None => PLUGIN.to_owned(),
        };
        let id = |what, id: Option<String>| id.map(|id| checked(what, OsStr::new(&id))).transpose();
        let directories = [
            told.worktree.map(|worktree| worktree.checkout_path),
            told.focused_pane_cwd,
            told.workspace_cwd,
        ];
        Ok(Self {
            socket,
            plugin,
            workspace: id("workspace", told.workspace_id)?,
            pane: id("pane", told.focused_pane_id)?,
            directories: directories.into_iter().flatten().filter(|d| d.is_absolute()).collect(),
            is_typed,
        })
    }
}

fn read(json: &OsStr) -> Result<Told, Failure> {
    let unusable = |why: String| {
        Failure::new(ErrorKind::Config, format!("HERDR_PLUGIN_CONTEXT_JSON cannot be read: {why}"))
            .next("herdr status server tells which herdr runs; 0.7.5 or newer is needed")
    };
    let text = json.to_str().ok_or_else(|| unusable("it is not UTF-8".into()))?;
    serde_json::from_str(text).map_err(|e| unusable(e.to_string()))
}

/// What the variables of a pane say to what is typed in it.
fn typed(variable: &impl Fn(&str) -> Option<OsString>, current: Option<PathBuf>) -> Told {
    let text = |name| variable(name).and_then(|value: OsString| value.into_string().ok());
    Told {
        workspace_id: text("HERDR_WORKSPACE_ID"),
        focused_pane_id: text("HERDR_PANE_ID"),
        focused_pane_cwd: current,
        ..Told::default()
    }
}

fn checked(what: &str, id: &OsStr) -> Result<String, Failure> {
    plain_name(id).ok_or_else(|| {
        Failure::new(ErrorKind::Config, format!("herdr's id of the {what} is none that it gives"))
            .next("herdr status server tells which herdr runs; 0.7.5 or newer is needed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(variables: &[(&str, &str)]) -> Result<Context, Failure> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Context::from(variable, Some("/here".into()))
    }

    const SOCKET: (&str, &str) = ("HERDR_SOCKET_PATH", "/run/herdr.sock");

    #[test]
    fn the_worktree_comes_before_the_panes_directory_and_unknown_keys_are_nothing() {
        let json = r#"{"workspace_id":"w1","workspace_cwd":"/c","focused_pane_id":"w1:pA",
            "focused_pane_cwd":"/b","new":[1],"worktree":{"checkout_path":"/a","repo_key":"k"}}"#;
        let found = context(&[SOCKET, ("HERDR_PLUGIN_CONTEXT_JSON", json)]).unwrap();
        assert_eq!(found.directories, ["/a", "/b", "/c"].map(PathBuf::from));
        assert_eq!(
            (found.workspace.as_deref(), found.pane.as_deref()),
            (Some("w1"), Some("w1:pA"))
        );
        assert_eq!((&*found.plugin, found.is_typed), ("paddock", false));
    }

    #[test]
    fn what_is_typed_in_a_pane_is_about_that_pane() {
        let found = context(&[SOCKET, ("HERDR_PANE_ID", "w1:p2")]).unwrap();
        assert_eq!((found.pane.as_deref(), found.is_typed), (Some("w1:p2"), true));
        assert_eq!(found.directories, [PathBuf::from("/here")]);
    }

    #[test]
    fn without_herdr_or_with_ids_that_are_none_it_says_so() {
        let json = |text| [SOCKET, ("HERDR_PLUGIN_CONTEXT_JSON", text)];
        let failed: [&[(&str, &str)]; 6] = [
            &[],
            &[("HERDR_SOCKET_PATH", "herdr.sock")],
            &json("{"),
            &json(r#"{"focused_pane_id":"w1:p1\n"}"#),
            &json(r#"{"workspace_id":""}"#),
            &[SOCKET, ("HERDR_PLUGIN_ID", "../x")],
        ];
        for variables in failed {
            let failure = context(variables).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Config, "{variables:?}");
            assert!(failure.next.is_some(), "{variables:?}");
        }
    }
}
