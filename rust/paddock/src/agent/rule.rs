//! Who may ask the gate for what: `[[gate]]` in `agent.toml`. What no rule allows is
//! refused.

use serde::{Deserialize, Serialize};

use confine::Layer;

/// One rule: it allows these requests to callers that fit all the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct GateRule {
    pub(crate) requests: Vec<RequestKind>,
    /// The sandbox that the caller is in; either when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<Sandbox>,
    /// What the caller runs.
    #[serde(default)]
    pub(crate) program: CallersProgram,
    /// The agent's own process is among the caller's parents, or is the caller.
    #[serde(default)]
    pub(crate) from_agent: bool,
}

/// What a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RequestKind {
    /// What the sandbox may do.
    Grants,
    /// herdr's own protocol, as far as it is spoken here.
    Herdr,
    /// Tell the person something.
    Notify,
    /// The agent's state.
    Report,
    /// Ask the person for a host or a path.
    Request,
}

impl RequestKind {
    /// As in an agent file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Grants => "grants",
            Self::Herdr => "herdr",
            Self::Notify => "notify",
            Self::Report => "report",
            Self::Request => "request",
        }
    }
}

/// One of the two sandboxes in the pen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sandbox {
    Server,
    Client,
}

/// Which programs a rule is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CallersProgram {
    /// Whatever runs there.
    #[default]
    Any,
    /// The agent's own, by file and hash, with no code of others in it.
    Agent,
}

impl Sandbox {
    /// Its layer.
    pub(crate) fn layer(self) -> Layer {
        match self {
            Self::Server => Layer::Server,
            Self::Client => Layer::Client,
        }
    }
}
