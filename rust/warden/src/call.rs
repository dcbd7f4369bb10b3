//! What a program in a sandbox may ask of the gate, and what it is told.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request. Strings are the caller's own and may hold anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Call {
    /// What may I do?
    Grants,
    /// The agent's state, for whoever looks at its pane.
    Report {
        /// `working`, `blocked`, `idle` or `done`.
        state: String,
        /// What it is about, in a line.
        message: Option<String>,
    },
    /// Something for the person to know.
    Notify {
        /// In a line.
        title: String,
        /// More of it.
        body: Option<String>,
    },
    /// Ask the person for a host, and wait for the answer.
    RequestHost {
        /// As `name` or `name:port`.
        host: String,
        /// What for.
        reason: Option<String>,
        /// How long to wait, in seconds.
        wait: u32,
    },
    /// Ask the person for a path, and wait for the answer.
    RequestPath {
        /// Absolute.
        path: PathBuf,
        /// To write there, too.
        write: bool,
        /// What for.
        reason: Option<String>,
        /// How long to wait, in seconds.
        wait: u32,
    },
}

impl Call {
    /// The word by which rules name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Grants => "grants",
            Self::Report { .. } => "report",
            Self::Notify { .. } => "notify",
            Self::RequestHost { .. } | Self::RequestPath { .. } => "request",
        }
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answer {
    /// It was done.
    Done {
        /// What was asked for, if anything.
        result: Value,
    },
    /// The person allows it.
    Granted {
        /// `once`, `launch` or `always`; for a path what to do to have it.
        scope: String,
    },
    /// The person does not, or nobody answered in time.
    Denied {
        /// Why.
        why: String,
    },
    /// The gate does not serve this caller, or not with this.
    Refused {
        /// A word that does not change.
        code: String,
        /// Why, and what to do about it.
        why: String,
    },
}
