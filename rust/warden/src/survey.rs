//! The doctor's attempts where there is no warden: outside every sandbox, and in
//! the veil alone.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::{AttemptKind, Observation, observe};

/// More than any survey needs.
const MOST_BYTES: u64 = 1 << 20;

/// Reads attempts from standard input, makes them, and writes what happened to
/// standard output; JSON both. With `own_terminal` they are made in a session of
/// their own with a terminal of its own, so that nobody else's is touched.
///
/// # Errors
/// When the attempts do not parse, or cannot be answered.
pub fn survey(own_terminal: bool) -> anyhow::Result<()> {
    let mut text = Vec::new();
    std::io::stdin().take(MOST_BYTES).read_to_end(&mut text)?;
    let attempts: Vec<AttemptKind> = serde_json::from_slice(&text).context("the attempts")?;
    let _terminal = own_terminal.then(take_terminal).transpose()?;
    let observed: Vec<Observation> = attempts.iter().map(observe).collect();
    let mut out = std::io::stdout();
    serde_json::to_writer(&mut out, &observed)?;
    Ok(out.flush()?)
}

/// A new session, and a new pseudo-terminal that controls it: a session leader
/// without a terminal gets the first that it opens (`tty(4)`).
fn take_terminal() -> anyhow::Result<[OwnedFd; 2]> {
    // Who leads a session already has no need of a new one.
    let _ = rustix::process::setsid();
    // Which comes when the terminal is closed again.
    confine::sys::ignore_signal(signal_hook::consts::SIGHUP)?;
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let terminal = rustix::fs::open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    Ok([master, terminal])
}
