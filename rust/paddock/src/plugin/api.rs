//! What the plugin asks of herdr, over its socket: the `herdr` program may have
//! been replaced since the server started, and then refuses to speak to it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::context::Context;
use super::result::{ErrorKind, Failure, safe};
use crate::gate::herdr::{ClientError, HerdrClient};

/// For one request. herdr answers in the loop that draws.
const LIMIT: Duration = Duration::from_secs(3);
/// For all that one action or event asks, together.
const LIMIT_OF_ALL: Duration = Duration::from_secs(15);
/// The longest reply: a list of panes.
const MOST_REPLY: usize = 1 << 20;
/// herdr takes no more of a notification, in characters.
const MOST_TITLE: usize = 80;
const MOST_BODY: usize = 240;

/// Why something could not be had of herdr.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("herdr refuses {method}: {message} ({code})")]
    Refused { method: &'static str, code: String, message: String },
    #[error("herdr's answer to {method} is none of its protocol")]
    Garbage { method: &'static str },
}

impl ApiError {
    /// Whether herdr's word is that there is no such pane.
    pub(super) fn is_no_pane(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "pane_not_found")
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let (kind, next) = match &error {
            ApiError::Client(ClientError::Connect(_)) => {
                (ErrorKind::NotFound, "herdr status server tells whether herdr runs")
            }
            ApiError::Refused { code, .. } => match &**code {
                "pane_not_found"
                | "workspace_not_found"
                | "no_active_pane"
                | "no_active_workspace" => {
                    (ErrorKind::Target, "focus another pane, then try again")
                }
                "plugin_not_found" | "plugin_disabled" | "plugin_pane_not_found" => (
                    ErrorKind::NotFound,
                    "herdr plugin list shows what herdr knows; herdr plugin link DIR adds Paddock",
                ),
                _ => (ErrorKind::Startup, "herdr plugin log list --plugin paddock tells more"),
            },
            ApiError::Client(_) | ApiError::Garbage { .. } => {
                (ErrorKind::Unknown, "try again; herdr status server tells whether herdr answers")
            }
        };
        Self::new(kind, error.to_string()).next(next)
    }
}

/// A pane, by its present id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pane {
    pub(super) id: String,
    pub(super) workspace: String,
    /// The agent that herdr sees in it.
    pub(super) agent: Option<String>,
}

/// What is to be opened.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    /// The id in the manifest.
    pub(super) entrypoint: &'static str,
    pub(super) place: Place,
    pub(super) cwd: Option<PathBuf>,
    pub(super) environment: Vec<(&'static str, String)>,
    pub(super) focus: bool,
}

/// Where a pane is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Beside that pane, `right` or `down`.
    Beside(String, &'static str),
    /// In a tab of that workspace, or of the active one.
    Tab(Option<String>),
    /// Over what is there, until it ends.
    Overlay,
    /// In the middle of the screen, until it ends.
    Popup,
}

/// herdr, as long as it answers: once it has not, nothing more is asked of it.
#[derive(Clone, Debug)]
pub(super) struct Herdr {
    socket: PathBuf,
    plugin: String,
    /// What is left of the time for all questions; none of it goes between them.
    left: Cell<Duration>,
    gives_up: bool,
}

impl Herdr {
    pub(super) fn of(context: &Context) -> Self {
        Self {
            socket: context.socket.clone(),
            plugin: context.plugin.clone(),
            left: Cell::new(LIMIT_OF_ALL),
            gives_up: true,
        }
    }

    /// The same, asked also after it did not answer: for the start of herdr, which
    /// finds everything that is left and comes once.
    pub(super) fn patient(mut self, limit: Duration) -> Self {
        self.gives_up = false;
        self.left = Cell::new(limit);
        self
    }

    /// Asks it once more after it did not answer: to tell the person that.
    pub(super) fn try_again(&self) {
        self.left.set(self.left.get().max(LIMIT));
    }

    /// Sends a request within what is left of the time for all.
    fn send(&self, request: &[u8]) -> Result<Vec<u8>, ClientError> {
        let left = self.left.get();
        if left.is_zero() {
            return Err(ClientError::Deadline);
        }
        let started = Instant::now();
        let reply = HerdrClient::within(&self.socket, LIMIT.min(left), MOST_REPLY).send(request);
        let left = left.saturating_sub(started.elapsed());
        self.left.set(if self.gives_up && reply.is_err() { Duration::ZERO } else { left });
        reply
    }

    fn ask(&self, method: &'static str, params: &Value) -> Result<Value, ApiError> {
        let request = json!({ "id": "paddock", "method": method, "params": params });
        let reply = self.send(format!("{request}\n").as_bytes())?;
        let garbage = || ApiError::Garbage { method };
        let mut reply: Value = serde_json::from_slice(&reply).map_err(|_| garbage())?;
        if let Some(error) = reply["error"].as_object() {
            let text = |key: &str| error.get(key).and_then(Value::as_str).map(safe);
            let code = text("code").ok_or_else(garbage)?;
            return Err(ApiError::Refused {
                method,
                code,
                message: text("message").unwrap_or_default(),
            });
        }
        if reply["result"]["type"].is_string() {
            Ok(reply["result"].take())
        } else {
            Err(garbage())
        }
    }

    /// Whether it answers at all.
    pub(super) fn ping(&self) -> Result<(), ApiError> {
        self.ask("ping", &json!({})).map(drop)
    }

    /// The pane, if there is one, by its present id: one that it had before it was
    /// moved stays good.
    pub(super) fn pane(&self, id: &str) -> Result<Option<Pane>, ApiError> {
        match self.ask("pane.get", &json!({ "pane_id": id })) {
            Ok(result) => pane(&result["pane"], "pane.get").map(Some),
            Err(error) if error.is_no_pane() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first process of a pane, and those in its foreground.
    pub(super) fn processes(&self, id: &str) -> Result<(Option<i32>, Vec<i32>), ApiError> {
        let method = "pane.process_info";
        let result = self.ask(method, &json!({ "pane_id": id }))?;
        let info = result["process_info"].as_object().ok_or(ApiError::Garbage { method })?;
        let number = |value: &Value| value.as_i64().and_then(|n| i32::try_from(n).ok());
        let foreground = info.get("foreground_processes").and_then(Value::as_array);
        let foreground = foreground.into_iter().flatten().filter_map(|one| number(&one["pid"]));
        Ok((info.get("shell_pid").and_then(number), foreground.collect()))
    }

    /// The first process of a pane.
    pub(super) fn first_process(&self, id: &str) -> Result<i32, ApiError> {
        let method = "pane.process_info";
        self.processes(id)?.0.ok_or(ApiError::Garbage { method })
    }

    /// Opens a pane of the plugin's, and tells which; a popup has no id.
    pub(super) fn open(&self, opening: &Opening) -> Result<Option<Pane>, ApiError> {
        let method = "plugin.pane.open";
        let environment: Map<String, Value> = opening
            .environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
            .collect();
        let mut params = json!({
            "plugin_id": self.plugin, "entrypoint": opening.entrypoint, "focus": opening.focus,
            "env": environment,
        });
        if let Some(cwd) = opening.cwd.as_deref().and_then(Path::to_str) {
            params["cwd"] = cwd.into();
        }
        match &opening.place {
            Place::Beside(pane, direction) => {
                params["placement"] = "split".into();
                params["target_pane_id"] = pane.as_str().into();
                params["direction"] = (*direction).into();
            }
            Place::Tab(workspace) => {
                params["placement"] = "tab".into();
                if let Some(workspace) = workspace {
                    params["workspace_id"] = workspace.as_str().into();
                }
            }
            Place::Overlay => params["placement"] = "overlay".into(),
            Place::Popup => params["placement"] = "popup".into(),
        }
        let result = self.ask(method, &params)?;
        if opening.place == Place::Popup {
            return Ok(None);
        }
        pane(&result["plugin_pane"]["pane"], method).map(Some)
    }

    /// Gives the split in which the pane is its share; of `ratio` the first half gets
    /// what it says.
    pub(super) fn set_ratio(&self, pane: &str, path: &[bool], ratio: f64) -> Result<(), ApiError> {
        let params = json!({ "pane_id": pane, "path": path, "ratio": ratio });
        self.ask("layout.set_split_ratio", &params).map(drop)
    }

    /// The layout of the tab that a pane is in: a tree of splits and panes.
    pub(super) fn layout(&self, pane: &str) -> Result<Value, ApiError> {
        let mut result = self.ask("layout.export", &json!({ "pane_id": pane }))?;
        Ok(result["layout"]["root"].take())
    }

    pub(super) fn focus(&self, pane: &str) -> Result<(), ApiError> {
        self.ask("pane.focus", &json!({ "pane_id": pane })).map(drop)
    }

    /// Types into a pane. Only for one whose program is known to be Paddock's.
    pub(super) fn type_into(&self, pane: &str, text: &str) -> Result<(), ApiError> {
        self.ask("pane.send_text", &json!({ "pane_id": pane, "text": text })).map(drop)
    }

    /// Has it read its configuration again.
    pub(super) fn reload_config(&self) -> Result<(), ApiError> {
        let method = "server.reload_config";
        let result = self.ask(method, &json!({}))?;
        match result["status"].as_str() {
            Some("applied" | "partial") => Ok(()),
            Some(status) => Err(ApiError::Refused {
                method,
                code: safe(status),
                message: safe(&result["diagnostics"].to_string()),
            }),
            None => Err(ApiError::Garbage { method }),
        }
    }

    /// Sets what the pane's border says.
    pub(super) fn set_title(&self, pane: &str, title: &str) -> Result<(), ApiError> {
        let source = format!("plugin:{}", self.plugin);
        let title = cut(title, MOST_TITLE);
        let params = json!({ "pane_id": pane, "source": source, "title": title });
        self.ask("pane.report_metadata", &params).map(drop)
    }

    /// Shows a notification, and tells why not where it was not shown.
    pub(super) fn notify(&self, title: &str, body: &str) -> Result<Option<String>, ApiError> {
        let method = "notification.show";
        let params = json!({ "title": cut(title, MOST_TITLE), "body": cut(body, MOST_BODY) });
        let result = self.ask(method, &params)?;
        match (result["shown"].as_bool(), result["reason"].as_str()) {
            (Some(true), _) => Ok(None),
            (Some(false), Some(reason)) => Ok(Some(safe(reason))),
            _ => Err(ApiError::Garbage { method }),
        }
    }
}

fn pane(value: &Value, method: &'static str) -> Result<Pane, ApiError> {
    let id = |key: &str| {
        let id = value[key].as_str().map(std::ffi::OsStr::new);
        id.and_then(crate::gate::herdr::plain_name).ok_or(ApiError::Garbage { method })
    };
    Ok(Pane {
        id: id("pane_id")?,
        workspace: id("workspace_id")?,
        agent: value["agent"].as_str().map(safe),
    })
}

/// The start of a text, on one line.
fn cut(text: &str, most: usize) -> String {
    let text = safe(text).replace('\n', " ");
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn once_herdr_did_not_answer_it_is_asked_no_more_except_by_who_is_patient() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("s");
        let context = Context { socket: socket.clone(), ..Context::default() };
        let herdr = Herdr::of(&context);
        let patient = Herdr::of(&context).patient(LIMIT);
        for herdr in [&herdr, &patient] {
            assert!(matches!(herdr.ping(), Err(ApiError::Client(ClientError::Connect(_)))));
        }
        let listener = UnixListener::bind(&socket).unwrap();
        let serving = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).unwrap();
                let _ = stream.write_all(b"{\"result\":{\"type\":\"pong\"}}\n");
            }
        });
        assert!(matches!(herdr.ping(), Err(ApiError::Client(ClientError::Deadline))));
        patient.ping().unwrap();
        herdr.try_again();
        herdr.ping().unwrap();
        serving.join().unwrap();
    }
}
