//! `paddock shell`.

use super::run::launch;
use crate::agent::known_agents;
use crate::cli::Shell;
use crate::error::Error;
use crate::launch::{Directories, Form, Request};
use crate::state::find_launch;

/// Launches a shell under the policy of an agent's server.
pub(crate) fn shell(options: Shell) -> Result<u8, Error> {
    launch(options.how, |directories| request(options, directories))
}

fn request(options: Shell, directories: &Directories) -> Result<Request, Error> {
    let mut request = Request {
        form: Some(Form::Shell),
        workspace: options.workspace,
        tier: options.tier,
        arguments: options.arguments,
        ..Request::default()
    };
    let Some(name) = options.of else { return Ok(request) };
    let known = known_agents(&directories.agents());
    if known.contains(&name) {
        request.agent = Some(name);
        return Ok(request);
    }
    let launch = find_launch(Some(&name), directories).map_err(|error| match error {
        Error::LaunchUnknown { prefix: name } => {
            Error::LaunchOrAgentUnknown { name, known: known.join(", ") }
        }
        error => error,
    })?;
    let record = launch.record;
    request.agent = Some(record.agent);
    // A sign-in has none.
    if record.form != Form::Login {
        request.is_recorded = request.workspace.is_none();
        request.workspace.get_or_insert(record.workspace);
    }
    request.recorded = Some((record.launch, record.tier));
    Ok(request)
}
