//! What of an agent a launch starts.

use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Half, LinkSettings};
use crate::error::Error;

/// What of an agent a launch starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    /// Its server and its client, each in a sandbox of its own. The client has the
    /// terminal.
    #[default]
    Pair,
    /// Its one process, under the server's policy and with the terminal.
    Solo,
    /// A shell in place of that process.
    Shell,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Solo => "solo",
            Self::Shell => "shell",
        }
    }
}

/// What an agent file says of a form.
pub(super) struct Chosen<'a> {
    pub(super) form: Form,
    /// What runs under the server's policy.
    pub(super) server: &'a Half,
    pub(super) client: Option<(&'a Half, LinkSettings)>,
}

/// What the agent's file says of the form that is wanted; a pair, where it is one and
/// nothing is said.
///
/// # Errors
/// When the agent does not have that form.
pub(super) fn choose(agent: &Agent, wanted: Option<Form>) -> Result<Chosen<'_>, Error> {
    let file = &agent.file;
    let form = wanted.unwrap_or(if file.pair.is_some() { Form::Pair } else { Form::Solo });
    let pair = file.pair.as_ref();
    let chosen = match form {
        Form::Pair => pair.map(|pair| (&pair.server, Some((&pair.client, pair.link)))),
        Form::Solo => file.solo.as_ref().map(|solo| (solo, None)),
        Form::Shell => file.under_server_policy().map(|half| (half, None)),
    };
    let (server, client) = chosen.ok_or_else(|| Error::FormMissing {
        agent: agent.called().to_owned(),
        form: form.name(),
    })?;
    Ok(Chosen { form, server, client })
}
