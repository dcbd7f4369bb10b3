//! Actions that a command of Paddock's does: run as a program of its own, so that
//! it can be ended when it takes too long.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Desk;
use super::keybindings::{KeybindingError, Place, State, install};
use super::result::{Done, ErrorKind, Failure, safe};
use crate::doctor::{needs, reaches};
use crate::launch::Tier;
use crate::output::shown;

/// The matrix starts every layer and tries some hundred operations.
const DOCTOR_LIMIT: Duration = Duration::from_mins(3);
const PRUNE_LIMIT: Duration = Duration::from_secs(30);

/// Finds out what this host can do, and tries every escape.
pub(super) fn doctor(_desk: &Desk) -> Result<Done, Failure> {
    let report = json_of(&["doctor", "--json"], DOCTOR_LIMIT)?;
    let tier = |value: &Value| serde_json::from_value::<Tier>(value.clone()).ok();
    let (wanted, reached) =
        (tier(&report["wanted"]).unwrap_or_default(), tier(&report["host"]["tier"]));
    if report["ok"] == json!(true) {
        let done = Done::told(format!("this host reaches the {wanted} tier; nothing got through"));
        return Ok(done.with("tier", json!(reached)));
    }
    let next = "paddock doctor shows everything that was tried";
    let failed = |kind, message: String| Err(Failure::new(kind, message).next(next));
    if !reaches(reached, wanted) {
        let features = report["host"]["features"].as_array().into_iter().flatten();
        let lacking: Vec<&str> = features
            .filter(|feature| matches!(feature["state"].as_str(), Some("missing" | "unknown")))
            .filter(|feature| needs(wanted).any(|name| feature["name"] == name))
            .filter_map(|feature| feature["reason"].as_str())
            .collect();
        let what = lacking.join("; ");
        let message = format!("this host does not reach the {wanted} tier: {what}");
        return failed(ErrorKind::Startup, message);
    }
    if let Some(failure) = report["failure"].as_str() {
        return failed(ErrorKind::Startup, failure.to_owned());
    }
    if report["matrix"]["holds"] == json!(false) {
        let rows = report["matrix"]["rows"].as_array().into_iter().flatten();
        let through: Vec<String> = rows
            .filter(|row| row["escapes"].as_array().is_some_and(|escapes| !escapes.is_empty()))
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
                format!("{} {}", text("group"), text("operation"))
            })
            .collect();
        let what = match through.len() {
            0 => "too much could not be tried".into(),
            _ => format!("got through: {}", through.join(", ")),
        };
        return failed(ErrorKind::Unconfined, what);
    }
    let pins = report["pins"].as_array().into_iter().flatten();
    let refused: Vec<&str> = pins
        .filter(|pin| matches!(pin["state"].as_str(), Some("refused" | "unknown")))
        .filter_map(|pin| pin["reason"].as_str())
        .collect();
    failed(ErrorKind::PinMismatch, refused.join("; "))
}

/// Removes what is known of launches that have ended.
pub(super) fn prune(_desk: &Desk) -> Result<Done, Failure> {
    let report = json_of(&["prune", "--json"], PRUNE_LIMIT)?;
    let of = |outcome: &str| -> Vec<String> {
        let launches = report["launches"].as_array().into_iter().flatten();
        let found = launches.filter(|launch| launch["outcome"] == outcome);
        found.filter_map(|launch| launch["launch"].as_str().map(str::to_owned)).collect()
    };
    let (removed, left, failed) = (of("removed"), of("processes-left"), of("failed"));
    let stay: Vec<String> = left.into_iter().chain(failed).collect();
    if stay.is_empty() {
        let done = Done::told(format!("{} launches that had ended were removed", removed.len()));
        return Ok(done.with("removed", removed));
    }
    let message = format!("launches that could not be removed: {}", stay.join(", "));
    Err(Failure::new(ErrorKind::Conflict, message)
        .next("paddock prune tells why of each")
        .with("removed", removed)
        .with("launches", stay))
}

/// Binds the usual keys in herdr's configuration.
pub(super) fn install_keybindings(desk: &Desk) -> Result<Done, Failure> {
    let installed = Place::find().and_then(|place| install(&place))?;
    let file = shown(&installed.file);
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    let mut taken = Vec::new();
    for (chord, state) in &installed.chords {
        let (state, what) = match state {
            State::Added => ("added", format!("{} is bound to {}", chord.key, chord.action)),
            State::Present { key } => {
                ("present", format!("{} was bound already: {}", chord.action, safe(key)))
            }
            State::Taken { by } => {
                taken.push(chord.action);
                ("taken", format!("{} does something else: {}", chord.key, safe(by)))
            }
        };
        rows.push(json!({ "key": chord.key, "action": chord.action, "state": state }));
        lines.push(what);
    }
    if installed.needs_reload()
        && let Err(error) = desk.herdr.reload_config()
    {
        let failure = Failure::from(error).with("chords", rows).with("file", file);
        return Err(
            failure.next("the keys are written; to have them type: herdr server reload-config")
        );
    }
    if !taken.is_empty() {
        return Err(Failure::new(ErrorKind::Conflict, lines.join("; "))
            .next(format!("bind {} to keys of your own, in {file}", taken.join(", ")))
            .with("chords", rows)
            .with("file", file));
    }
    Ok(Done::told("the keys are bound")
        .lines(lines)
        .with("chords", rows)
        .with("file", file)
        .with("backup", json!(installed.backup.as_deref().map(shown))))
}

impl From<KeybindingError> for Failure {
    fn from(error: KeybindingError) -> Self {
        let kind = match &error {
            KeybindingError::Changed { .. } => ErrorKind::Conflict,
            KeybindingError::NoProgram { .. } => ErrorKind::NotFound,
            KeybindingError::Write { .. } => ErrorKind::Permission,
            KeybindingError::CheckHangs { .. } | KeybindingError::Program { .. } => {
                ErrorKind::Unknown
            }
            KeybindingError::NoPlace { .. }
            | KeybindingError::RefusedBefore { .. }
            | KeybindingError::Refused { .. }
            | KeybindingError::Unusable { .. } => ErrorKind::Config,
        };
        Self::new(kind, error.to_string()).next(error.advice())
    }
}

/// What `paddock ARGUMENTS` prints as JSON.
fn json_of(arguments: &[&str], limit: Duration) -> Result<Value, Failure> {
    let command = format!("paddock {}", arguments.join(" "));
    let next = format!("type it in a shell to see more: {command}");
    let failed = |message: String| Failure::new(ErrorKind::Unknown, message).next(&*next);
    let mut child = Command::new("/proc/self/exe")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(format!("{command} could not be started: {e}")))?;
    let (output, errors) = (gather(child.stdout.take()), gather(child.stderr.take()));
    let ended = wait(&mut child, limit);
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
        return Err(failed(format!("{command} did not end in {} s", limit.as_secs())));
    }
    // Neither waits: what it started has ended with it, or keeps what is its own.
    let read = |reader: Reader| reader.recv_timeout(Duration::from_secs(2)).unwrap_or_default();
    let (output, errors) = (read(output), read(errors));
    serde_json::from_slice(&output).map_err(|_| {
        let errors = String::from_utf8_lossy(&errors);
        let first = errors.lines().next().unwrap_or("it printed nothing");
        failed(first.strip_prefix("paddock: ").unwrap_or(first).to_owned())
    })
}

type Reader = std::sync::mpsc::Receiver<Vec<u8>>;

/// Reads a pipe to its end on a thread of its own, as long as this process lives.
fn gather(pipe: Option<impl Read + Send + 'static>) -> Reader {
    /// More than any command prints.
    const MOST: u64 = 16 << 20;
    let (sender, receiver) = std::sync::mpsc::channel();
    if let Some(pipe) = pipe {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.take(MOST).read_to_end(&mut bytes);
            let _ = sender.send(bytes);
        });
    }
    receiver
}

fn wait(child: &mut Child, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => return false,
            _ => return true,
        }
    }
}
