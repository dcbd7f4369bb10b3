//! `paddock ask`, as programs inside a sandbox find it: asks the gate.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::{Answer, Call, Channel, ChannelError, PROTOCOL_VERSION, ToKeeper};

/// The variable that names the gate inside.
pub const GATE_VARIABLE: &str = "PADDOCK_GATE";

/// How long to wait for a person when nothing is said.
const PATIENCE: u32 = 600;

/// Beyond what was asked to be waited for.
const MARGIN: Duration = Duration::from_secs(10);

/// Who holds a place at the gate and says nothing whole is let go of within ten seconds.
const BUSY: Duration = Duration::from_secs(15);
/// Before the next attempt.
const PAUSE: Duration = Duration::from_millis(50);

const USAGE: &str = "usage, inside a sandbox:
  paddock ask grants [--json]                       what may I do here?
  paddock ask host NAME[:PORT] [--wait S] [WHY...]  ask the person for a host, and wait
  paddock ask path PATH [--write] [--wait S] [WHY...]
  paddock ask notify TITLE [BODY...]                tell the person something
  paddock ask report STATE [MESSAGE...]             working, blocked, idle or done
Exit status: 0 done or granted, 1 denied, 2 not understood, 125 refused or failed.";

/// Asks, prints the answer, and gives the exit status.
///
/// # Errors
/// When the gate cannot be reached, or the answer cannot be written.
pub fn ask(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let words: Option<Vec<&str>> = arguments.iter().map(|word| word.to_str()).collect();
    let Some((call, as_json)) = words.and_then(|words| parse(&words)) else {
        writeln!(std::io::stderr(), "{USAGE}")?;
        return Ok(ExitCode::from(2));
    };
    let wait = match &call {
        Call::RequestHost { wait, .. } | Call::RequestPath { wait, .. } => *wait,
        _ => 0,
    };
    let gate = std::env::var_os(GATE_VARIABLE).map(PathBuf::from);
    let gate = gate.with_context(|| format!("{GATE_VARIABLE} is not set: not inside a sandbox"))?;
    let call = ToKeeper::Call { version: PROTOCOL_VERSION, call };
    let limit = Duration::from_secs(wait.into()) + MARGIN;
    let began = Instant::now();
    let answer = loop {
        let socket = UnixStream::connect(&gate)
            .with_context(|| format!("the gate at {} cannot be reached", gate.display()))?;
        match exchange(socket, &call, limit) {
            Err(error) if was_let_go(&error) && began.elapsed() < BUSY => {
                std::thread::sleep(PAUSE);
            }
            answer => break answer.context("the gate gave no answer")?,
        }
    };
    tell(&answer, as_json)
}

fn exchange(socket: UnixStream, call: &ToKeeper, limit: Duration) -> Result<Answer, ChannelError> {
    let channel = Channel::new(socket);
    channel.set_deadline(Some(limit))?;
    channel.send(call, &[])?;
    Ok(channel.receive()?.0)
}

/// Whether the gate hung up before it had heard anything: it has too many callers.
fn was_let_go(error: &ChannelError) -> bool {
    match error {
        ChannelError::Closed => true,
        ChannelError::Io(e) => {
            matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
        }
        _ => false,
    }
}

fn parse(words: &[&str]) -> Option<(Call, bool)> {
    let (what, rest) = words.split_first()?;
    let text = |words: &[&str]| (!words.is_empty()).then(|| words.join(" "));
    Some(match (*what, rest) {
        ("grants", []) => (Call::Grants, false),
        ("grants", ["--json"]) => (Call::Grants, true),
        ("host", [host, rest @ ..]) if !host.starts_with('-') => {
            let (wait, _, rest) = options(rest)?;
            let host = (*host).to_owned();
            (Call::RequestHost { host, reason: text(rest), wait }, false)
        }
        ("path", [path, rest @ ..]) if !path.starts_with('-') => {
            let (wait, write, rest) = options(rest)?;
            let path = std::path::absolute(path).ok()?;
            (Call::RequestPath { path, write, reason: text(rest), wait }, false)
        }
        ("notify", [title, body @ ..]) => {
            (Call::Notify { title: (*title).to_owned(), body: text(body) }, false)
        }
        ("report", [state, message @ ..]) => {
            (Call::Report { state: (*state).to_owned(), message: text(message) }, false)
        }
        _ => return None,
    })
}

/// Leading options: how long to wait, whether to write, and what is left.
fn options<'a>(mut words: &'a [&'a str]) -> Option<(u32, bool, &'a [&'a str])> {
    let (mut wait, mut write) = (PATIENCE, false);
    loop {
        match words {
            ["--wait", seconds, rest @ ..] => (wait, words) = (seconds.parse().ok()?, rest),
            ["--write", rest @ ..] => (write, words) = (true, rest),
            [option, ..] if option.starts_with("--") => return None,
            _ => return Some((wait, write, words)),
        }
    }
}

fn tell(answer: &Answer, as_json: bool) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    match answer {
        Answer::Done { result } if as_json => writeln!(out, "{result}")?,
        Answer::Done { result } => show(&mut out, result)?,
        Answer::Granted { scope } => writeln!(out, "granted: {scope}")?,
        Answer::Denied { why } => {
            writeln!(out, "denied: {why}")?;
            return Ok(ExitCode::from(1));
        }
        Answer::Refused { code, why } => bail!("refused: {code}: {why}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// An object as lines; nothing for what has no result.
fn show(out: &mut impl Write, result: &Value) -> std::io::Result<()> {
    for (key, value) in result.as_object().into_iter().flatten() {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match value {
            Value::Array(items) => {
                for item in items {
                    writeln!(out, "{key:<10} {}", text(item))?;
                }
            }
            plain => writeln!(out, "{key:<10} {}", text(plain))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_understood_or_not() {
        let host = |reason: Option<&str>, wait| {
            let reason = reason.map(str::to_owned);
            Some((Call::RequestHost { host: "a.test:1".into(), reason, wait }, false))
        };
        for (words, wanted) in [
            (&["grants"][..], Some((Call::Grants, false))),
            (&["grants", "--json"], Some((Call::Grants, true))),
            (&["host", "a.test:1"], host(None, PATIENCE)),
            (&["host", "a.test:1", "--wait", "3", "to", "fetch"], host(Some("to fetch"), 3)),
            (&["host", "a.test:1", "--wait", "x"], None),
            (&["host", "--wait"], None),
            (&["host"], None),
            (&["grants", "more"], None),
            (&[], None),
        ] {
            assert_eq!(parse(words), wanted, "{words:?}");
        }
        let Some((Call::RequestPath { path, write, .. }, _)) = parse(&["path", "/x", "--write"])
        else {
            panic!("a path");
        };
        assert!(write && path == std::path::Path::new("/x"));
    }

    #[test]
    fn who_finds_the_gate_full_asks_again_and_who_is_answered_does_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("gate");
        let gate = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let serving = std::thread::spawn(move || {
            // Before it is heard, and after.
            drop(gate.accept().unwrap());
            let full = Channel::new(gate.accept().unwrap().0);
            drop(full.receive::<ToKeeper>().unwrap());
            drop(full);
            let channel = Channel::new(gate.accept().unwrap().0);
            channel.receive::<ToKeeper>().unwrap();
            channel.send(&Answer::Denied { why: "no".into() }, &[]).unwrap();
            gate
        });
        let call = ToKeeper::Call { version: PROTOCOL_VERSION, call: Call::Grants };
        let limit = Duration::from_secs(10);
        for let_go in [true, true, false] {
            let answer = exchange(UnixStream::connect(&path).unwrap(), &call, limit);
            assert_eq!(answer.as_ref().is_err_and(was_let_go), let_go, "{answer:?}");
        }
        serving.join().unwrap();
    }
}
