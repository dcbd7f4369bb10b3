//! The repository of a workspace: what git in a launch needs of it, and what of it is
//! kept from the agent. Found without running git, which would run what a repository's
//! settings name.

mod kept;
mod linked;

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

pub(crate) use kept::{Kept, check_mounts};
pub(crate) use linked::LinkedGit;
use linked::linked_git;

use super::Form;
use super::plan::{Access, Grant, Plan};
use crate::files::read_plain;
use crate::obeyed::Root;

/// What a person sets about git.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GitRules {
    /// A repository's hooks and settings.
    pub(crate) settings: GitSettings,
}

/// What an agent may do with a repository's hooks and settings; the earlier, the stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GitSettings {
    /// Read them.
    #[default]
    ReadOnly,
    /// Write them, too.
    Writable,
}

impl fmt::Display for GitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "read-only",
            Self::Writable => "writable",
        })
    }
}

/// The repository of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repository {
    /// Where it is, if it is in the workspace.
    own: Option<PathBuf>,
    /// Where it is, if the workspace is a linked worktree.
    pub(crate) linked: Option<LinkedGit>,
    /// Why git does not work in a launch, if there is a repository all the same.
    unusable: Option<String>,
}

impl Repository {
    /// That of the workspace `root`.
    pub(crate) fn of(root: &Path) -> Self {
        let at = root.join(".git");
        let Ok(metadata) = std::fs::symlink_metadata(&at) else {
            let own = looks_like_one(root).then(|| root.to_owned());
            return Self { own, ..Self::default() };
        };
        if metadata.is_dir() {
            return Self { own: Some(at), ..Self::default() };
        }
        match linked_git(root) {
            Ok(linked) => Self { linked: Some(linked), ..Self::default() },
            Err(linked::Not::In(own)) => Self { own: Some(own), ..Self::default() },
            Err(linked::Not::Usable(why)) => Self { unusable: Some(why), ..Self::default() },
        }
    }

    /// What nobody sees by itself: why git does not work in a launch, or not all of it.
    pub(crate) fn told(&self, granted: &[Grant]) -> Vec<String> {
        let mut told: Vec<String> = self.unusable.iter().cloned().collect();
        told.extend(self.linked.iter().flat_map(|linked| linked.told.iter().cloned()));
        let common = self.linked.as_ref().map(|linked| &linked.common);
        if let Some(repository) = self.own.as_ref().or(common) {
            told.extend(objects_elsewhere(repository, granted));
        }
        told
    }
}

impl Plan {
    /// Of the workspace's repository: what is kept, and what does not work.
    pub(crate) fn told_of_git(&self) -> Vec<String> {
        let told = self.workspace.git.told(&self.granted);
        told.into_iter().chain(self.kept_of_git.told.iter().cloned()).collect()
    }

    /// For people and scripts.
    pub(super) fn describe_git(&self) -> serde_json::Value {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        json!({
            "settings": self.git_settings.to_string(),
            "common": self.workspace.git.linked.as_ref().map(|linked| text(&linked.common)),
            "readOnly": self.kept_of_git.read_only.iter().map(text).collect::<Vec<_>>(),
            "told": self.told_of_git(),
        })
    }

    /// Where the agent may change what the host obeys later.
    pub(crate) fn places_to_look(&self) -> Vec<Root> {
        let linked = self.workspace.git.linked.as_ref();
        let common = linked.map(|linked| Root::Repository(linked.common.clone()));
        let writes = self.granted.iter().filter(|g| g.access == Access::ReadWrite && !g.is_file);
        let granted = writes.map(|grant| Root::Tree(grant.path.clone()));
        // Which the agent runs without a sandbox when it is started without Paddock.
        let shared = self.shared_directories().into_iter().map(|own| Root::Tree(own.to_owned()));
        // That of a sign-in is the agent's private home, which nothing on the host reads.
        let workspace = (self.form != Form::Login).then(|| Root::Tree(self.workspace.root.clone()));
        workspace.into_iter().chain(common).chain(granted).chain(shared).collect()
    }
}

/// Whether git takes the directory itself for a repository.
fn looks_like_one(directory: &Path) -> bool {
    let is = |name: &str| std::fs::symlink_metadata(directory.join(name)).is_ok();
    ["HEAD", "objects", "refs"].into_iter().all(is)
}

/// The objects of a repository can be in part in another's (`objects/info/alternates`).
/// That file can be the agent's to write, so nothing is granted by it.
fn objects_elsewhere(repository: &Path, granted: &[Grant]) -> Option<String> {
    let objects = repository.join("objects");
    let text = read_plain(&objects.join("info/alternates"), 64 << 10).ok()?;
    let lines = text.split(|b| *b == b'\n').filter(|line| !line.is_empty() && line[0] != b'#');
    let mut places = lines.map(|line| objects.join(OsStr::from_bytes(line)));
    let reads = [Access::Read, Access::ReadWrite];
    let place = places.find(|place| {
        let Ok(real) = place.canonicalize() else { return true };
        let is_granted = |g: &Grant| reads.contains(&g.access) && real.starts_with(&g.path);
        !real.starts_with(repository) && !granted.iter().any(is_granted)
    })?;
    let place = crate::output::shown(&place);
    Some(format!(
        "objects of the repository are in {place}, which is not granted, so git does not find \
         them; grants.read in your configuration can have it"
    ))
}
