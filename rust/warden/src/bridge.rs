//! `paddock-bridge`, as an agent's client finds it: a command that speaks as the agent's
//! server does on its standard input and output.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The variable that names the socket of the agent's server.
pub const LINK_VARIABLE: &str = "PADDOCK_LINK";
/// The variable that carries the launch's password, which is said there first.
pub const PASSWORD_VARIABLE: &str = "PADDOCK_LINK_PASSWORD";
/// What is answered to who knows it, once a server is started for them.
pub(crate) const ACCEPTED: u8 = b'\n';

/// The socket is there a moment before somebody listens.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const CONNECT_INTERVAL: Duration = Duration::from_millis(10);
/// Longer waits are told.
const WAIT_TOLD_AFTER: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// Carries standard input to a server of the agent's own, and what that answers to
/// standard output, until the server ends or nobody reads the output.
///
/// # Errors
/// When there is no such server, or it refuses.
pub fn bridge(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    if !arguments.is_empty() {
        bail!("the bridge takes no arguments: those of the agent's server are in its agent file");
    }
    let value = |name| {
        let hint = "is not set; the client's own environment has it: it has to pass it on";
        std::env::var_os(name).with_context(|| format!("{name} {hint}"))
    };
    let (link, password) = (value(LINK_VARIABLE)?, value(PASSWORD_VARIABLE)?);
    let link = Path::new(&link);
    let mut server = connect(link)
        .with_context(|| format!("the agent's server is not at {}", link.display()))?;
    let closed = "the agent's server was refused, or has ended";
    server.write_all(password.as_encoded_bytes()).context(closed)?;
    if !is_accepted(&server).context(closed)? {
        return Ok(ExitCode::SUCCESS);
    }
    let to = server.try_clone()?;
    std::thread::spawn(move || {
        let _ = carry(rustix::stdio::stdin(), to.as_fd());
        // It may still have much to say.
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut bytes = vec![0; 64 * 1024];
    while is_read(&server)? {
        match rustix::io::read(&server, &mut bytes) {
            Ok(0) => break,
            Ok(read) if write_all(rustix::stdio::stdout(), &bytes[..read]).is_ok() => {}
            Err(Errno::INTR) => {}
            // Nobody reads any more, or nobody writes.
            _ => break,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn connect(link: &Path) -> io::Result<UnixStream> {
    let deadline = Instant::now() + CONNECT_LIMIT;
    loop {
        match UnixStream::connect(link) {
            Err(e)
                if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(CONNECT_INTERVAL);
            }
            result => return result,
        }
    }
}

/// Waits for this caller's turn; not when nobody waits for the answers any more.
fn is_accepted(server: &UnixStream) -> anyhow::Result<bool> {
    let mut limit = Some(&WAIT_TOLD_AFTER);
    loop {
        match wait(server, limit)? {
            Woken::ToRead => break,
            Woken::Unread => return Ok(false),
            Woken::Nothing => {
                limit = None;
                let _ = writeln!(
                    io::stderr(),
                    "paddock: waiting: the agent's server speaks to one at a time"
                );
            }
        }
    }
    let mut answer = [0];
    match rustix::io::read(server, &mut answer)? {
        1 if answer[0] == ACCEPTED => Ok(true),
        _ => bail!("it was closed"),
    }
}

/// Whether there is something to read for somebody who reads it.
fn is_read(server: &UnixStream) -> io::Result<bool> {
    Ok(wait(server, None)? == Woken::ToRead)
}

#[derive(PartialEq, Eq)]
enum Woken {
    ToRead,
    /// Nobody reads standard output.
    Unread,
    Nothing,
}

fn wait(server: &UnixStream, limit: Option<&Timespec>) -> io::Result<Woken> {
    let stdout = rustix::stdio::stdout();
    loop {
        // That a pipe or socket has no reader is told unasked (`POLLERR`, `POLLHUP`,
        // `poll(2)`).
        let mut watched = [
            PollFd::new(server, PollFlags::IN),
            PollFd::from_borrowed_fd(stdout, PollFlags::empty()),
        ];
        match poll(&mut watched, limit) {
            Ok(0) => return Ok(Woken::Nothing),
            Ok(_) if !watched[1].revents().is_empty() => return Ok(Woken::Unread),
            Ok(_) => return Ok(Woken::ToRead),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Passes everything on as it comes, also where whoever started this does not wait on the
/// other end of its pipes (`O_NONBLOCK`).
fn carry(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match rustix::io::read(from, &mut bytes) {
            Ok(0) => return Ok(()),
            Ok(read) => write_all(to, &bytes[..read])?,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until_ready(from, PollFlags::IN)?,
            Err(e) => return Err(e),
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until_ready(to, PollFlags::OUT)?,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn wait_until_ready(descriptor: BorrowedFd<'_>, flags: PollFlags) -> Result<(), Errno> {
    match poll(&mut [PollFd::from_borrowed_fd(descriptor, flags)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e),
    }
}
