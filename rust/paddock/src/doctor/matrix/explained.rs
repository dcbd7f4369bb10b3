//! What nono itself says about an operation (`nono why`), beside what happened.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use warden::AttemptKind;

use crate::launch::{Plan, ask};

/// For one question; it takes some milliseconds.
const LIMIT: Duration = Duration::from_secs(2);

/// Options of `nono run` that `nono why` knows, too; each has a value.
const KNOWN: [&str; 10] = [
    "--profile",
    "--workdir",
    "--read",
    "--read-file",
    "--allow",
    "--allow-file",
    "--allow-unix-socket",
    "--allow-unix-socket-bind",
    "--allow-unix-socket-dir",
    "--allow-unix-socket-dir-bind",
];

/// For all of them. A nono that does not answer is not asked again.
const ALL_LIMIT: Duration = Duration::from_secs(5);

/// What nono says about each, in their order.
pub(super) fn all(plan: &Plan, kinds: impl Iterator<Item = AttemptKind>) -> Vec<Option<bool>> {
    let started = Instant::now();
    kinds.map(|kind| (started.elapsed() < ALL_LIMIT).then(|| why(plan, &kind)).flatten()).collect()
}

/// Whether nono says that the server may do it; `None` for what it cannot be asked
/// about, and for no answer.
fn why(plan: &Plan, kind: &AttemptKind) -> Option<bool> {
    let mut arguments: Vec<OsString> = vec!["why".into(), "--json".into()];
    arguments.extend(question(kind)?);
    let options = plan.server_argv();
    let options: Vec<&OsString> = options.iter().take_while(|word| *word != "--").collect();
    for pair in options.windows(2) {
        if KNOWN.iter().any(|known| pair[0] == known) {
            arguments.extend([pair[0].clone(), pair[1].clone()]);
        }
    }
    let nono = &plan.programs.nono.path;
    let environment = plan.nono_environment("server");
    let answer = ask(nono, &arguments, &environment, &plan.workspace.root, &[], LIMIT).ok()??;
    let value: Value = serde_json::from_slice(&answer.output).ok()?;
    match value["status"].as_str()? {
        "allowed" => Some(true),
        "denied" => Some(false),
        _ => None,
    }
}

fn question(kind: &AttemptKind) -> Option<[OsString; 4]> {
    let of_path = |path: &Path, operation: &str| {
        ["--path".into(), path.into(), "--op".into(), operation.into()]
    };
    let of_socket = |path: &Path, operation: &str| {
        ["--unix-socket".into(), path.into(), "--socket-op".into(), operation.into()]
    };
    Some(match kind {
        AttemptKind::ReadFile(path) | AttemptKind::ListDirectory(path) => of_path(path, "read"),
        AttemptKind::WriteFile(path) | AttemptKind::CreateFile(path) => of_path(path, "write"),
        AttemptKind::ConnectStream(path) | AttemptKind::ConnectSeqpacket(path) => {
            of_socket(path, "connect")
        }
        AttemptKind::BindSocket(path) => of_socket(path, "bind"),
        _ => return None,
    })
}
