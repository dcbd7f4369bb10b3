//! Actions that a command of Paddock's does: run as a program of its own, so that
//! it can be ended when it takes too long.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::Desk;
use super::api::{ApiError, Herdr};
use super::keybindings::{KeybindingError, Place, State, install};
use super::result::{Done, ErrorKind, Failure, safe};
use crate::doctor::{needs, reaches};
use crate::gate::herdr::ClientError;
use crate::launch::{Config, Tier, ask};
use crate::output::shown;

/// The matrix starts every layer and tries some hundred operations.
const DOCTOR_LIMIT: Duration = Duration::from_mins(3);
const PRUNE_LIMIT: Duration = Duration::from_secs(30);

/// Finds out what this host can do, and tries every escape.
pub(super) fn doctor(desk: &Desk) -> Result<Done, Failure> {
    // Here what is wrong with it has its kind.
    Config::load(&desk.directories.config_file())?;
    examined(&ask_own(&["doctor", "--json"], DOCTOR_LIMIT)?)
}

/// What a report of `paddock doctor` comes to.
fn examined(Told { report, code }: &Told) -> Result<Done, Failure> {
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
        .map(|pin| pin["reason"].as_str().unwrap_or("a pin is not known to hold"))
        .collect();
    if refused.is_empty() {
        let ended = code.map_or_else(|| "by a signal".into(), |code| format!("with status {code}"));
        let message = format!("paddock doctor ended {ended} and does not say why");
        return failed(ErrorKind::Unknown, message);
    }
    failed(ErrorKind::PinMismatch, refused.join("; "))
}

/// Removes what is known of launches that have ended.
pub(super) fn prune(_desk: &Desk) -> Result<Done, Failure> {
    pruned(&ask_own(&["prune", "--json"], PRUNE_LIMIT)?)
}

/// What a report of `paddock prune` comes to.
fn pruned(Told { report, code }: &Told) -> Result<Done, Failure> {
    let of = |outcome: &str| -> Vec<String> {
        let launches = report["launches"].as_array().into_iter().flatten();
        let found = launches.filter(|launch| launch["outcome"] == outcome);
        found.filter_map(|launch| launch["launch"].as_str().map(str::to_owned)).collect()
    };
    let (removed, left, failed) = (of("removed"), of("processes-left"), of("failed"));
    let stay: Vec<String> = left.into_iter().chain(failed).collect();
    let errors: Vec<&Value> = report["errors"].as_array().into_iter().flatten().collect();
    let told = errors.iter().filter_map(|error| error["error"].as_str());
    let told: Vec<&str> = told.collect();
    let (kind, message) = if !stay.is_empty() {
        let message = format!("launches that could not be removed: {}", stay.join(", "));
        (ErrorKind::Conflict, message)
    } else if !errors.is_empty() {
        (ErrorKind::Unknown, format!("launches that could not be looked at: {}", told.join("; ")))
    } else if *code != Some(0) {
        let ended = code.map_or_else(|| "by a signal".into(), |code| format!("with status {code}"));
        (ErrorKind::Unknown, format!("paddock prune ended {ended} and does not say why"))
    } else {
        let done = Done::told(format!("{} launches that had ended were removed", removed.len()));
        return Ok(done.with("removed", removed));
    };
    let advice = errors.iter().find_map(|error| error["next"].as_str());
    let next = advice.filter(|_| stay.is_empty()).unwrap_or("paddock prune tells why of each");
    Err(Failure::new(kind, message)
        .next(next)
        .with("removed", removed)
        .with("launches", stay)
        .with("errors", told))
}

/// Binds the usual keys in herdr's configuration. A herdr that runs reads it again.
pub(super) fn install_keybindings(herdr: Option<&Herdr>) -> Result<Done, Failure> {
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
    let reloaded = match herdr {
        Some(herdr) if installed.needs_reload() => herdr.reload_config(),
        _ => Ok(()),
    };
    if let Err(ApiError::Client(ClientError::Connect(_))) = reloaded {
        // It reads them when it starts.
    } else if let Err(error) = reloaded {
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

/// What `paddock ARGUMENTS` printed, and the status that it ended with.
struct Told {
    report: Value,
    code: Option<i32>,
}

/// Runs `paddock ARGUMENTS`, which prints JSON.
fn ask_own(arguments: &[&str], limit: Duration) -> Result<Told, Failure> {
    let command = format!("paddock {}", arguments.join(" "));
    let next = format!("type it in a shell to see more: {command}");
    let failed = |message: String| Failure::new(ErrorKind::Unknown, message).next(&*next);
    let words: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let environment: Vec<_> = std::env::vars_os().collect();
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let program = Path::new("/proc/self/exe");
    let answer = ask(program, &words, &environment, &directory, b"", limit)
        .map_err(|e| failed(format!("{command} could not be run: {e}")))?
        .ok_or_else(|| failed(format!("{command} did not end in {} s", limit.as_secs())))?;
    if let Ok(report) = serde_json::from_slice(&answer.output) {
        return Ok(Told { report, code: answer.code });
    }
    let errors = String::from_utf8_lossy(&answer.errors);
    let ended = match answer.code {
        Some(code) => format!("{command} ended with status {code}"),
        None => format!("{command} was ended by a signal"),
    };
    let mut lines = errors.lines().map(|line| line.strip_prefix("paddock: ").unwrap_or(line));
    let why = lines.next().unwrap_or("it printed nothing");
    let failure = failed(format!("{ended}: {why}"));
    let advice = lines.find_map(|line| line.trim().strip_prefix("next: ").map(str::to_owned));
    Err(match advice {
        Some(advice) => failure.next(advice),
        None => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(report: Value, code: Option<i32>) -> Told {
        Told { report, code }
    }

    #[test]
    fn a_doctor_that_fails_without_a_word_is_no_pin_mismatch() {
        let host = json!({ "tier": "sealed" });
        let report =
            json!({ "ok": false, "wanted": "sealed", "host": host, "pins": [{ "state": "held" }] });
        let failure = examined(&told(report.clone(), Some(1))).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Unknown);
        assert!(failure.message.contains("status 1"), "{failure:?}");
        let mut refused = report;
        refused["pins"] = json!([{ "state": "refused", "reason": "not as recorded" }]);
        let failure = examined(&told(refused, Some(1))).unwrap_err();
        let wanted = (ErrorKind::PinMismatch, "not as recorded");
        assert_eq!((failure.kind, &*failure.message), wanted, "control");
    }

    #[test]
    fn launches_that_prune_could_not_read_fail_it() {
        let removed = json!([{ "launch": "bcdf", "outcome": "removed" }]);
        let report = |errors: Value| json!({ "launches": removed, "errors": errors });
        let done = pruned(&told(report(json!([])), Some(0))).unwrap();
        assert_eq!(done.fields["removed"], json!(["bcdf"]), "control");
        let error = json!([{ "error": "a record cannot be used", "next": "look at it" }]);
        let failure = pruned(&told(report(error), Some(125))).unwrap_err();
        assert!(failure.message.contains("a record cannot be used"), "{failure:?}");
        assert_eq!(failure.next.as_deref(), Some("look at it"));
        assert_eq!(failure.fields["removed"], json!(["bcdf"]));
        assert!(pruned(&told(report(json!([])), Some(125))).is_err());
    }
}
