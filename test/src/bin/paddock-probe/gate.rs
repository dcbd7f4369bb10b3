//! Asks the gate, as no program of Paddock's would.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use warden::{Answer, Call, Channel, PROTOCOL_VERSION, ToKeeper};

/// `grants`, `report` or `notify`, at the gate of the environment, or at `KIND@PATH`.
pub(crate) fn ask(argument: &str) -> io::Result<()> {
    let (kind, gate) = match argument.split_once('@') {
        Some((kind, path)) => (kind, path.into()),
        None => (argument, std::env::var_os(warden::GATE_VARIABLE).unwrap_or_default()),
    };
    call(&Channel::new(UnixStream::connect(gate)?), kind)
}

/// Asks once, and becomes another program, which asks on the same connection.
pub(crate) fn ask_and_become(program: &Path) -> io::Result<()> {
    let gate = std::env::var_os(warden::GATE_VARIABLE).unwrap_or_default();
    let channel = Channel::new(UnixStream::connect(gate)?);
    call(&channel, "grants")?;
    println!("gate-then ok");
    let connection = channel.as_fd().try_clone_to_owned()?;
    Err(Command::new(program).arg("gate-on").stdin(connection).exec())
}

/// Asks on a connection that was opened before this program ran: its standard input.
pub(crate) fn ask_on() -> io::Result<()> {
    let connection = rustix::stdio::stdin().try_clone_to_owned()?;
    call(&Channel::new(connection.into()), "grants")
}

/// Connects, and leaves it to a child to ask there.
pub(crate) fn ask_by_child() -> io::Result<()> {
    let gate = std::env::var_os(warden::GATE_VARIABLE).unwrap_or_default();
    let connection = UnixStream::connect(gate)?;
    let mut child = Command::new(std::env::current_exe()?);
    child.arg("gate-on").stdin(std::os::fd::OwnedFd::from(connection.try_clone()?));
    child.status().map(drop)
}

fn call(channel: &Channel, kind: &str) -> io::Result<()> {
    let call = match kind {
        "grants" => Call::Grants,
        "report" => Call::Report { state: "working".into(), message: None },
        _ => Call::Notify { title: "a probe".into(), body: None },
    };
    channel.set_deadline(Some(super::LIMIT))?;
    let sent = channel.send(&ToKeeper::Call { version: PROTOCOL_VERSION, call }, &[]);
    sent.map_err(io::Error::other)?;
    match channel.receive::<Answer>().map_err(io::Error::other)?.0 {
        Answer::Done { .. } => Ok(()),
        Answer::Refused { code, why } => Err(io::Error::other(format!("{code}: {why}"))),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}
