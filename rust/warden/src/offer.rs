//! `offer`: an agent's server that speaks on its standard input and output, behind the
//! one socket where its client finds it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use crate::NOT_FOUND;
use crate::bridge::{ACCEPTED, PASSWORD_VARIABLE};

/// For a caller to say the password: it does before anything else.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// For a server to end when nobody speaks to it any more, and again when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens at `socket` and runs `argv` for each connection, one after the other: the next
/// caller waits until the server of the last has ended.
///
/// # Errors
/// When there is no such socket to be had, or `argv` does not start.
pub fn offer(socket: &Path, argv: &[OsString]) -> anyhow::Result<ExitCode> {
    let password = std::env::var_os(PASSWORD_VARIABLE)
        .with_context(|| format!("{PASSWORD_VARIABLE} is not set"))?;
    let listener =
        UnixListener::bind(socket).with_context(|| format!("no socket at {}", socket.display()))?;
    serve(&listener, &password, argv)
}

fn serve(listener: &UnixListener, password: &OsStr, argv: &[OsString]) -> anyhow::Result<ExitCode> {
    loop {
        let (connection, _) = listener.accept().context("no connection to be had")?;
        if !is_accepted(&connection, password) {
            continue;
        }
        let mut server = match start(argv, &connection) {
            Ok(server) => server,
            Err(error) => {
                let is_missing = error.kind() == io::ErrorKind::NotFound;
                let error = anyhow::Error::new(error).context("the agent's server does not start");
                if !is_missing {
                    return Err(error);
                }
                let _ = writeln!(io::stderr(), "paddock: {error:#}");
                return Ok(ExitCode::from(NOT_FOUND));
            }
        };
        see_to_the_end(&mut server, &connection).context("the agent's server is lost")?;
        // What it started may hold its output still; what it wrote is read all the same.
        let _ = connection.shutdown(Shutdown::Both);
    }
}

/// Whether who connected knows the password of the launch. Who does not is told nothing.
fn is_accepted(mut connection: &UnixStream, password: &OsStr) -> bool {
    let password = password.as_encoded_bytes();
    let mut said = vec![0; password.len()];
    let deadline = Instant::now() + GREETING_LIMIT;
    let mut filled = 0;
    while filled < said.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || connection.set_read_timeout(Some(left)).is_err() {
            return false;
        }
        match connection.read(&mut said[filled..]) {
            Ok(0) => return false,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    // Every byte is looked at, wherever one differs.
    let differs = said.iter().zip(password).fold(0, |differs, (a, b)| differs | (a ^ b));
    differs == 0
        && connection.set_read_timeout(None).is_ok()
        && connection.write_all(&[ACCEPTED]).is_ok()
}

/// Starts the server on the connection, the first of a group of its own. What it says of
/// itself goes to the launch's log.
fn start(argv: &[OsString], connection: &UnixStream) -> io::Result<Child> {
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let stdio = || connection.try_clone().map(|own| Stdio::from(OwnedFd::from(own)));
    Command::new(program)
        .args(arguments)
        .env_remove(PASSWORD_VARIABLE)
        .stdin(stdio()?)
        .stdout(stdio()?)
        .process_group(0)
        .spawn()
}

/// Waits until the server has ended, and ends it when the other side has gone; then what
/// is left of its group.
fn see_to_the_end(server: &mut Child, connection: &UnixStream) -> io::Result<()> {
    let group = Pid::from_child(server);
    let handle = pidfd_open(group, PidfdFlags::empty())?;
    if wait_for_either(&handle, connection)? == First::CallerGone {
        // It has read the end of its input.
        let steps = [None, Some(Signal::TERM), Some(Signal::KILL)];
        for signal in steps {
            if let Some(signal) = signal {
                let _ = kill_process_group(group, signal);
            }
            if has_ended_within(&handle, PATIENCE)? {
                break;
            }
        }
    }
    // Not reaped yet: its number is still its own, and so is its group's.
    waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let _ = kill_process_group(group, Signal::KILL);
    server.wait().map(drop)
}

#[derive(PartialEq, Eq)]
enum First {
    ServerEnded,
    CallerGone,
}

fn wait_for_either(server: &OwnedFd, connection: &UnixStream) -> io::Result<First> {
    loop {
        // That the other side has gone is told unasked (`POLLHUP`, `poll(2)`); that it
        // says no more is not.
        let mut watched =
            [PollFd::new(server, PollFlags::IN), PollFd::new(connection, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(_) if !watched[0].revents().is_empty() => return Ok(First::ServerEnded),
            Ok(_) if !watched[1].revents().is_empty() => return Ok(First::CallerGone),
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn has_ended_within(server: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(server, PollFlags::IN)], Some(&limit)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests;
