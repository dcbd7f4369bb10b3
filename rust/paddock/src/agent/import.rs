//! What of a person's own configuration of an agent can be copied into its private home:
//! `[import]` in `agent.toml`.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::output::shown;

/// What can be copied, and what not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Import {
    /// Files and directories to copy.
    pub(crate) files: Vec<Imported>,
    /// What is never copied, wherever it is met.
    #[serde(default)]
    pub(crate) never: Vec<Never>,
}

/// A file or a directory to copy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Imported {
    /// Where a person has it.
    pub(crate) from: BelowHome,
    /// Its place in the private home.
    pub(crate) to: PathBuf,
    /// Whose private homes get it.
    #[serde(default = "of_the_server")]
    pub(crate) homes: Vec<ImportHome>,
    /// Keys of a TOML or JSON file, with dots, below which it names programs to run.
    #[serde(default)]
    pub(crate) runs: Vec<String>,
}

/// What is not copied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Never {
    pub(crate) path: BelowHome,
    /// Why not.
    pub(crate) reason: String,
}

/// Whose private home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ImportHome {
    Server,
    Client,
}

impl ImportHome {
    /// The sandbox whose home it is.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

fn of_the_server() -> Vec<ImportHome> {
    vec![ImportHome::Server]
}

/// A path below the person's home; written with `~/`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct BelowHome(PathBuf);

impl BelowHome {
    /// Below that home.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<String> for BelowHome {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let below = text.strip_prefix("~/").map(Path::new);
        let below = below.filter(|path| stays_below(path));
        let wrong = || format!("{text:?} is no path below the home, as ~/.example/settings is");
        below.map(|path| Self(path.to_owned())).ok_or_else(wrong)
    }
}

/// Whether a path leads from a directory to something below it.
pub(crate) fn stays_below(path: &Path) -> bool {
    !path.as_os_str().is_empty()
        && path.components().all(|part| matches!(part, Component::Normal(_)))
}

impl Import {
    /// What the types do not say.
    pub(super) fn check(&self, has_client: bool) -> Result<(), String> {
        for file in &self.files {
            if !stays_below(&file.to) {
                return Err(format!("import: {} is not a path below the home", shown(&file.to)));
            }
            if !has_client && file.homes.contains(&ImportHome::Client) {
                return Err(format!(
                    "import: {} is for a client, and there is none",
                    shown(&file.to)
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_the_home_and_never_above() {
        for (text, wanted) in [
            ("~/.codex/config.toml", Some(".codex/config.toml")),
            ("~/.codex", Some(".codex")),
            ("~/", None),
            ("~", None),
            ("/etc/passwd", None),
            (".codex", None),
            ("~/../other", None),
            ("~//etc", None),
        ] {
            let path = BelowHome::try_from(text.to_owned());
            assert_eq!(path.ok().as_ref().map(BelowHome::path), wanted.map(Path::new), "{text}");
        }
    }
}
