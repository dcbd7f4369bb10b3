//! The pane that the keeper was started in.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::SOURCE;

/// herdr's ids are shorter by far (`w1:p9`).
const MOST_ID_BYTES: usize = 64;

/// The launch's own pane, as the keeper's environment names it, and the agent
/// that runs in it. Nothing that comes from inside changes either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnPane {
    pane_id: String,
    agent: String,
    socket: PathBuf,
}

impl OwnPane {
    /// The pane of this process, if it has one.
    pub(crate) fn of_this_process(agent: &str) -> Option<Self> {
        Self::find(|name| std::env::var_os(name), agent)
    }

    /// The pane that an environment names.
    ///
    /// `variable` gives a variable of it. `agent` is the
    /// kind that herdr knows the agent by.
    pub(super) fn find(variable: impl Fn(&str) -> Option<OsString>, agent: &str) -> Option<Self> {
        let pane_id = plain_name(&variable("HERDR_PANE_ID")?)?;
        let agent = plain_name(OsStr::new(agent))?;
        let socket = PathBuf::from(variable("HERDR_SOCKET_PATH")?);
        socket.is_absolute().then_some(Self { pane_id, agent, socket })
    }

    pub(crate) fn pane_id(&self) -> &str {
        &self.pane_id
    }

    /// The kind that herdr knows the agent by.
    pub(super) fn agent(&self) -> &str {
        &self.agent
    }

    /// herdr's own socket, outside.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What every forwarded request says about whom it is for and from.
    pub(super) fn params(&self) -> Value {
        json!({ "pane_id": self.pane_id, "source": SOURCE, "agent": self.agent })
    }
}

/// A short name of plain characters.
pub(crate) fn plain_name(text: &OsStr) -> Option<String> {
    let text = text.to_str().filter(|text| (1..=MOST_ID_BYTES).contains(&text.len()))?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b":._-".contains(&b);
    text.bytes().all(plain).then(|| text.to_owned())
}
