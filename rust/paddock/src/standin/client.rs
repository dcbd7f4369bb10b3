//! The client's side of a connection.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::address::Address;
use super::link::{Link, LinkError};
use super::password::Password;
use super::protocol::{Frame, VERSION};
use super::signals::Signals;

/// How long a server that has been reached may take to let the client in.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How often a server that is not there yet is looked for.
const RETRY: Duration = Duration::from_millis(50);

/// How a command ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Its exit status, 128+n for signal n.
    pub(super) status: i32,
    /// Whether this client had it cancelled.
    pub(super) cancelled: bool,
}

/// A client that the server has let in.
pub(super) struct Client {
    link: Link,
}

impl Client {
    /// Connects and shows the password. For as long as `patience` lasts, a server that
    /// cannot be reached is taken for one that is still starting.
    pub(super) fn connect(
        address: &Address,
        password: &Password,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let mut client = Self { link: Link::new(reach(address, patience)?)? };
        client.enter(password).with_context(|| format!("no access to {address}"))?;
        Ok(client)
    }

    fn enter(&mut self, password: &Password) -> anyhow::Result<()> {
        let deadline = Instant::now() + HANDSHAKE;
        match self.next_before(deadline)? {
            Frame::Hello { version: VERSION } => {}
            Frame::Hello { version } => {
                bail!("the server speaks version {version} of the protocol, not {VERSION}")
            }
            other => return Err(refusal(&other)),
        }
        self.link.send(&Frame::Password(password.bytes().to_vec()))?;
        match self.next_before(deadline)? {
            Frame::Accepted => Ok(()),
            other => Err(refusal(&other)),
        }
    }

    fn next_before(&mut self, deadline: Instant) -> anyhow::Result<Frame> {
        loop {
            if let Some(frame) = self.link.received()? {
                return Ok(frame);
            }
            if Instant::now() >= deadline {
                bail!("the server does not answer");
            }
            self.link.turn(&[], Some(deadline))?;
        }
    }

    /// Has the server run `command`, and passes on what it prints as it comes. An
    /// interruption cancels the command, which is then waited for.
    pub(super) fn run(
        &mut self,
        command: Vec<u8>,
        interruptions: &Signals,
        stdout: &mut impl Write,
        stderr: &mut impl Write,
    ) -> anyhow::Result<Outcome> {
        self.link.send(&Frame::Run(command))?;
        let mut cancelled = false;
        loop {
            while let Some(frame) = self.link.received()? {
                match frame {
                    Frame::Stdout(bytes) => write_through(stdout, &bytes)?,
                    Frame::Stderr(bytes) => write_through(stderr, &bytes)?,
                    Frame::Done(status) => return Ok(Outcome { status, cancelled }),
                    _ => return Err(LinkError::Unexpected.into()),
                }
            }
            self.link.turn(&[interruptions.as_fd()], None)?;
            if interruptions.take() {
                cancelled = true;
                self.link.send(&Frame::Cancel)?;
            }
        }
    }
}

fn reach(address: &Address, patience: Duration) -> anyhow::Result<OwnedFd> {
    let deadline = Instant::now() + patience;
    loop {
        match address.connect() {
            Ok(socket) => return Ok(socket),
            Err(_) if Instant::now() < deadline => thread::sleep(RETRY),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("cannot reach {address}, tried for {} s", patience.as_secs())
                });
            }
        }
    }
}

/// What it means that the server does not let the client in.
fn refusal(answer: &Frame) -> anyhow::Error {
    match answer {
        // Whoever answers there is not known to be the server yet.
        Frame::Refused(reason) => {
            anyhow::anyhow!("refused: {}", String::from_utf8_lossy(reason).escape_debug())
        }
        _ => LinkError::Unexpected.into(),
    }
}

fn write_through(to: &mut impl Write, bytes: &[u8]) -> anyhow::Result<()> {
    to.write_all(bytes).and_then(|()| to.flush()).context("cannot pass on the command's output")
}
