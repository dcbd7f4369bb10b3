//! What of an agent a launch starts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Request, Workspace};
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
    /// The program with which a person signs in, once, under the server's policy and with
    /// the terminal.
    Login,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Solo => "solo",
            Self::Shell => "shell",
            Self::Login => "login",
        }
    }

    /// Whether the agent itself is started: then there is something to come back to.
    pub(crate) fn is_agent(self) -> bool {
        matches!(self, Self::Pair | Self::Solo)
    }

    /// What was launched, for a person: the agent by its name, else what it was of it.
    pub(crate) fn of(self, agent: &str) -> String {
        match self {
            Self::Pair | Self::Solo => agent.to_owned(),
            Self::Shell | Self::Login => format!("{agent} {}", self.name()),
        }
    }
}

/// What an agent file says of a form.
pub(super) struct Chosen<'a> {
    pub(super) form: Form,
    /// What runs under the server's policy.
    pub(super) server: Cow<'a, Half>,
    pub(super) client: Option<(&'a Half, &'a LinkSettings)>,
}

/// What the agent's file says of the form that is wanted. Where nothing is said, a pair if
/// it is one: but for a first argument that only the one process knows, or does well in
/// `workspace`.
///
/// # Errors
/// When the agent does not have that form.
pub(super) fn choose<'a>(
    agent: &'a Agent,
    request: &Request,
    workspace: &Workspace,
) -> Result<Chosen<'a>, Error> {
    let file = &agent.file;
    let pair = file.pair.as_ref();
    let first = request.arguments.first().filter(|_| !request.resume);
    let is_first = |words: &[String]| {
        words.iter().any(|word| first.is_some_and(|first| first == word.as_str()))
    };
    let is_for_one = || {
        file.solo.as_ref().is_some_and(|solo| {
            is_first(&solo.instead_for) || (is_first(&solo.without_git) && !workspace.is_git())
        })
    };
    let form = request
        .form
        .unwrap_or_else(|| if pair.is_none() || is_for_one() { Form::Solo } else { Form::Pair });
    let chosen = match form {
        Form::Pair => {
            pair.map(|pair| (Cow::Borrowed(&pair.server), Some((&pair.client, &pair.link))))
        }
        Form::Solo => file.solo.as_ref().map(|solo| (Cow::Borrowed(solo), None)),
        Form::Shell => file.under_server_policy().map(|half| (Cow::Borrowed(half), None)),
        Form::Login => file.to_sign_in().map(|half| (Cow::Owned(half), None)),
    };
    let (server, client) = chosen.ok_or_else(|| Error::FormMissing {
        agent: agent.called().to_owned(),
        form: form.name(),
    })?;
    Ok(Chosen { form, server, client })
}
