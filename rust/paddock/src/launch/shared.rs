//! A person's own state of an agent, shared with its launches: by the person's explicit
//! choice, and only where the veil can show it at another path.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
        let is_mine = own.metadata().is_ok_and(|metadata| {
            metadata.is_dir() && metadata.uid() == rustix::process::getuid().as_raw()
        });
        if !is_mine {
            let next = format!("see what it is: ls -ld {}, {private}", quoted(&shown(&own)));
            return refuse(format!("{} is no directory of yours", shown(&own)), next);
        }
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
            shared.push(SharedState { own: own.clone(), layer, at });
        };
        put("server", server, true);
        if let Some(client) = client.as_deref_mut() {
            put("client", &mut client.half, false);
        }
    }
    Ok(shared)
}
