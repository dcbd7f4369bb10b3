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
const KNOWN: [&str; 11] = [
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
    "--allow-unix-socket-subtree-bind",
];

/// For all of them; who does not answer once is not asked again.
const ALL_LIMIT: Duration = Duration::from_secs(5);

/// What nono says about each, in their order.
pub(super) fn all(plan: &Plan, kinds: impl Iterator<Item = AttemptKind>) -> Vec<Option<bool>> {
    let started = Instant::now();
    let mut answers = true;
    let mut ask = |kind: AttemptKind| {
        if !answers || started.elapsed() > ALL_LIMIT {
            return None;
        }
        let said = why(plan, &kind);
        answers = said.is_ok();
        said.ok().flatten()
    };
    kinds.map(&mut ask).collect()
}

/// nono did not answer.
struct Silent;

/// Whether nono says that the server may do it; `None` for what it cannot be asked
/// about.
fn why(plan: &Plan, kind: &AttemptKind) -> Result<Option<bool>, Silent> {
    let mut arguments: Vec<OsString> = vec!["why".into(), "--json".into()];
    let Some(question) = question(kind) else { return Ok(None) };
    arguments.extend(question);
    let options = plan.server_argv();
    let options: Vec<&OsString> = options.iter().take_while(|word| *word != "--").collect();
    for pair in options.windows(2) {
        if KNOWN.iter().any(|known| pair[0] == known) {
            arguments.extend([pair[0].clone(), pair[1].clone()]);
        }
    }
    let nono = &plan.programs.nono.path;
    let environment = plan.nono_environment("server");
    let answer = ask(nono, &arguments, &environment, &plan.workspace.root, &[], LIMIT);
    let answer = answer.ok().flatten().ok_or(Silent)?;
    let value: Value = serde_json::from_slice(&answer.output).unwrap_or_default();
    Ok(match value["status"].as_str() {
        Some("allowed") => Some(true),
        Some("denied") => Some(false),
        _ => None,
    })
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
