//! A person's own state of an agent, shared with its launches: by the person's explicit
//! choice, and only where the veil can show it at another path.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::process::getuid;
use serde::Deserialize;

use super::Tier;
use super::directories::real;
use super::granted::Kept;
use super::half::{AgentHalf, Client};
use super::plan::Access;
use super::workspace::SECRET;
use crate::agent::Agent;
use crate::error::Error;
use crate::output::{quoted, shown};

/// Whose state an agent works with; the earlier, the stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StateMode {
    /// Its own, in its private home.
    #[default]
    Private,
    /// The person's.
    Shared,
}

impl StateMode {
    pub(crate) fn is_shared(self) -> bool {
        self == Self::Shared
    }
}

impl std::fmt::Display for StateMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Private => "private",
            Self::Shared => "shared",
        })
    }
}

/// A directory of the person's that is there inside, to be read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedState {
    /// On the host.
    pub(crate) own: PathBuf,
    /// The sandbox in whose home it is.
    pub(crate) layer: &'static str,
    /// Inside.
    pub(crate) at: PathBuf,
    /// Which directory it was when the launch was planned.
    pub(super) identity: Identity,
}

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

impl SharedState {
    /// Whether a veil with this `root` shows that very directory. Between the plan and
    /// the veil somebody could have put a link in the place of one on the way to it.
    ///
    /// # Errors
    /// The path, and what it is.
    pub(crate) fn check_in(&self, root: &Path) -> Result<(), String> {
        let at = root.join(self.at.strip_prefix("/").unwrap_or(&self.at));
        let named = || format!("{} at {}", shown(&self.own), shown(&self.at));
        match at.symlink_metadata() {
            Ok(is) if Identity::of(&is) == self.identity => Ok(()),
            Ok(_) => Err(format!("{} is another directory than it was", named())),
            Err(e) => Err(format!("{} cannot be confirmed: {e}", named())),
        }
    }
}

/// A directory of the person's own, no link on the way to it.
fn own_directory(path: &Path) -> Option<Identity> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()?;
    let metadata = File::from(found).metadata().ok()?;
    (metadata.uid() == getuid().as_raw()).then(|| Identity::of(&metadata))
}

/// What of the person's keys and settings `own` has, or is a part of. Settings of the
/// agent's own are below `.config`, as those of others are.
fn secret_of(own: &Path, home: &Path) -> Option<PathBuf> {
    let mut secrets = SECRET.iter().map(|name| (*name, real(&home.join(name))));
    let holds = |name: &str, secret: &Path| {
        secret.starts_with(own) || (name != ".config" && own.starts_with(secret))
    };
    secrets.find(|(name, secret)| holds(name, secret)).map(|(_, secret)| secret)
}

/// Finds what is shared with a launch of `agent`, and has its places made in the homes:
/// the server's, and the client's where that has such a directory, too.
///
/// # Errors
/// When it cannot be shared.
pub(super) fn share(
    agent: &Agent,
    tier: Tier,
    home: &Path,
    kept: &Kept,
    server: &mut AgentHalf,
    mut client: Option<&mut Client>,
) -> Result<Vec<SharedState>, Error> {
    let name = agent.called();
    let refuse = |reason: String, advice: String| {
        Err(Error::SharedState { agent: name.to_owned(), reason, advice })
    };
    let private = format!("or keep it private: [agents.{name}] state = \"private\"");
    if agent.file.state.is_empty() {
        let reason = "its agent file does not say which directories that is".to_owned();
        return refuse(reason, format!("name them there as state = [\".example\"], {private}"));
    }
    if !tier.has_veil() {
        let reason = format!("in the {tier} tier nothing is shown at another path");
        return refuse(reason, format!("use the sealed tier, {private}"));
    }
    let mut shared = Vec::new();
    for below in &agent.file.state {
        let named = home.join(below);
        let own = match kept.check(&named, Access::ReadWrite) {
            Ok(own) => own,
            Err(reason) => {
                let next = format!("see what it is: ls -ld {}, {private}", quoted(&shown(&named)));
                return refuse(format!("{}: {reason}", shown(&named)), next);
            }
        };
        if let Some(secret) = secret_of(&own, home) {
            let reason = format!("{} leads to {}", shown(&named), shown(&own));
            let reason = format!("{reason}: keys and settings are in {}", shown(&secret));
            return refuse(reason, format!("take it out of state in the agent file, {private}"));
        }
        let Some(identity) = own_directory(&own) else {
            let next = format!("see what it is: ls -ld {}, {private}", quoted(&shown(&own)));
            return refuse(format!("{} is no directory of yours", shown(&own)), next);
        };
        let mut put = |layer, half: &mut AgentHalf, is_asked: bool| {
            let (at, has_it) = (half.home.join(below), half.directories.contains(below));
            // A half in the other's home has what is there.
            let is_done = shared.iter().any(|shared: &SharedState| shared.at == at);
            if is_done || !has_it && !is_asked {
                return;
            }
            if !has_it {
                half.directories.push(below.clone());
            }
            shared.push(SharedState { own: own.clone(), layer, at, identity });
        };
        put("server", server, true);
        if let Some(client) = client.as_deref_mut() {
            put("client", &mut client.half, false);
        }
    }
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_the_veil_shows_is_the_directory_that_was_planned() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().canonicalize().unwrap();
        let (own, root) = (path.join("own"), path.join("root"));
        for directory in [&own, &root, &path.join("other")] {
            std::fs::create_dir(directory).unwrap();
        }
        let identity = own_directory(&own).unwrap();
        let at = PathBuf::from("/state");
        let shared = SharedState { own: own.clone(), layer: "server", at, identity };
        assert!(shared.check_in(&root).unwrap_err().contains("cannot be confirmed"));
        // As mounted there.
        std::fs::rename(&own, root.join("state")).unwrap();
        assert_eq!(shared.check_in(&root), Ok(()));
        std::fs::remove_dir(root.join("state")).unwrap();
        symlink(path.join("other"), &own).unwrap();
        std::fs::rename(path.join("other"), root.join("state")).unwrap();
        assert!(shared.check_in(&root).unwrap_err().contains("another directory"));
        // Nor is one with a link on the way to it planned.
        std::fs::create_dir(path.join("other")).unwrap();
        assert_eq!(own_directory(&own), None);
        assert!(own_directory(&path.join("other")).is_some(), "control");
    }
}
