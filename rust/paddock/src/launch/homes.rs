//! The private homes of agents, one for each sandbox: the same in every workspace, never a
//! person's own.

use std::path::{Path, PathBuf};

use super::{Directories, private_directory};
use crate::agent::Agent;
use crate::error::Error;

/// Where what runs in the sandbox `sandbox` (`server` or `client`) has its home; `data` is
/// where Paddock keeps data.
pub(crate) fn private_home(data: &Path, agent: &Agent, sandbox: &str) -> PathBuf {
    data.join("homes").join(&agent.file.name).join(sandbox)
}

/// Makes that home, where it is not there.
///
/// # Errors
/// When it cannot be made, or is open to others.
pub(crate) fn make_private_home(
    directories: &Directories,
    agent: &Agent,
    home: &Path,
) -> Result<(), Error> {
    make_holder_of_homes(directories, agent)?;
    private_directory(home)
}

/// Makes the directory that holds the agent's homes, where it is not there.
///
/// # Errors
/// As [`make_private_home`].
pub(crate) fn make_holder_of_homes(
    directories: &Directories,
    agent: &Agent,
) -> Result<PathBuf, Error> {
    let homes = directories.data.join("homes");
    let of_agent = homes.join(&agent.file.name);
    let all: [&Path; 3] = [&directories.data, &homes, &of_agent];
    all.into_iter().try_for_each(private_directory)?;
    Ok(of_agent)
}
