//! Both halves together, over real sockets, with real shells.
//!
//! Most tests run server and client as threads. Those about signals, terminals and the
//! environment need processes.

mod commands;
mod connections;
mod processes;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;

use super::address::Address;
use super::attach::{Conversation, Manner};
use super::client::Client;
use super::lines::Commands;
use super::link::{Link, wait};
use super::memory::Memory;
use super::password::Password;
use super::protocol::{Frame, VERSION};
use super::serve::{Limits, Server};
use super::signals::Signals;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Long enough for no test to see its end.
const FOR_EVER: &str = "sleep 1000";

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

fn secret() -> Password {
    Password::new(b"correct \xff horse".to_vec()).unwrap()
}

/// A server in this process, in a directory of its own. Dropping it stops it.
struct Running {
    address: Address,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
    directory: TempDir,
}

impl Running {
    fn on_unix() -> Self {
        Self::with(Kind::Unix, Limits::DEFAULT)
    }

    fn with(kind: Kind, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let wanted = match kind {
            Kind::Unix => Address::Unix(directory.path().join("s")),
            Kind::Tcp => "tcp:127.0.0.1:0".parse().unwrap(),
        };
        let server = Server::bind(&wanted, secret(), limits).unwrap();
        let address = server.address().clone();
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let thread = thread::spawn(move || server.run(stopped.as_fd()));
        Self { address, stop: Some(stop), thread: Some(thread), directory }
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.address, &secret(), PATIENCE).unwrap()
    }

    /// A client that has only been greeted.
    fn link(&self) -> Link {
        greeted(&self.address)
    }

    /// A client of which the test sees every frame.
    fn link_let_in(&self) -> Link {
        link_let_in(&self.address)
    }

    /// Runs `commands` as `attach` does; gives status, standard output and standard error.
    fn hold(&self, commands: Commands<File>, manner: Manner) -> (i32, Vec<u8>, Vec<u8>) {
        let (interruptions, _held) = Signals::none().unwrap();
        let (stdout, stderr) = (Vec::new(), Vec::new());
        let client = self.client();
        let mut conversation =
            Conversation { client, memory: Memory::default(), interruptions, stdout, stderr };
        let status = conversation.hold(commands, manner).unwrap();
        (status, conversation.stdout, conversation.stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(self.stop.take());
        } else {
            self.stop();
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Unix,
    Tcp,
}

fn greeted(address: &Address) -> Link {
    let mut link = Link::new(address.connect().unwrap()).unwrap();
    assert_eq!(next(&mut link), Frame::Hello { version: VERSION });
    link
}

fn link_let_in(address: &Address) -> Link {
    let mut link = greeted(address);
    link.send(&Frame::Password(secret().bytes().to_vec())).unwrap();
    assert_eq!(next(&mut link), Frame::Accepted);
    link
}

fn given(commands: &[&[u8]]) -> Commands<File> {
    Commands::Given(commands.iter().map(|command| command.to_vec()).collect())
}

fn next(link: &mut Link) -> Frame {
    let deadline = soon();
    loop {
        if let Some(frame) = link.received().unwrap() {
            return frame;
        }
        assert!(Instant::now() < deadline, "no frame came");
        link.turn(&[], Some(deadline)).unwrap();
    }
}

/// Waits for the end of the connection, and gives the frames that came before it.
fn rest(link: &mut Link) -> Vec<Frame> {
    let deadline = soon();
    let mut frames = Vec::new();
    loop {
        match link.received() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => {
                assert!(Instant::now() < deadline, "the connection stays");
                link.turn(&[], Some(deadline)).unwrap();
            }
            Err(_) => return frames,
        }
    }
}

/// A process that a command told of, held so that its id cannot come to mean another.
struct Watched(OwnedFd);

impl Watched {
    fn pid(text: &[u8]) -> Self {
        let pid = std::str::from_utf8(text).unwrap().trim().parse().unwrap();
        Self(pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap())
    }

    fn ended_before(&self, deadline: Instant) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        wait(&mut polled, Some(deadline)).unwrap() == [true]
    }

    fn lives(&self) -> bool {
        !self.ended_before(Instant::now())
    }

    fn ends(&self) -> bool {
        self.ended_before(soon())
    }
}

/// Runs a command that starts another in its group; gives the two once both are there.
fn start_two(link: &mut Link) -> [Watched; 2] {
    let command = format!("{FOR_EVER} & echo $$ $!; wait");
    link.send(&Frame::Run(command.into_bytes())).unwrap();
    let Frame::Stdout(pids) = next(link) else { panic!("no process ids") };
    let mut pids = pids.split(|byte| *byte == b' ').map(Watched::pid);
    let two = [pids.next().unwrap(), pids.next().unwrap()];
    assert!(two.iter().all(Watched::lives), "the control: both run");
    two
}
