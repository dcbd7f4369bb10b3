//! The server: takes connections, and runs commands for those that know the password.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::address::Address;
use super::link::{Link, LinkError, wait};
use super::listener::{ListenError, Listener};
use super::password::Password;
use super::session::{Session, pause};
use super::signals::Signals;

/// What a server puts up with.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// How many connections there may be at a time.
    pub(super) connections: usize,
    /// How long a client may take to send the password.
    pub(super) handshake: Duration,
    /// How long a wrong password waits for its answer, which makes guessing slow.
    pub(super) refusal: Duration,
}

impl Limits {
    /// What `serve` runs with.
    pub(super) const DEFAULT: Self = Self {
        connections: 64,
        handshake: Duration::from_secs(10),
        refusal: Duration::from_millis(500),
    };
}

/// Serves until a signal asks it to end.
pub(super) fn run(arguments: &super::Serve) -> anyhow::Result<ExitCode> {
    let password = Password::from_environment()?;
    // If whoever started the server ignores SIGCHLD, so does the server, and the kernel
    // then reaps commands by itself: their ids could be reused while they are still held.
    // A handler, any handler, undoes that.
    signal_hook::flag::register(SIGCHLD, Arc::default())?;
    let stop = Signals::handle(&[SIGTERM, SIGINT, SIGHUP])?;
    let server = Server::bind(&arguments.listen, password, Limits::DEFAULT)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    say(&format!("listening on {}", server.address()));
    server.run(stop.as_fd())?;
    Ok(ExitCode::SUCCESS)
}

/// Tells whoever started the server. That nobody listens is no reason to end.
pub(super) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "standin: {text}");
}

/// A server that listens.
pub(super) struct Server {
    listener: Listener,
    password: Password,
    limits: Limits,
    connections: AtomicUsize,
}

impl Server {
    /// Starts to listen.
    pub(super) fn bind(
        address: &Address,
        password: Password,
        limits: Limits,
    ) -> Result<Self, ListenError> {
        let listener = Listener::bind(address)?;
        Ok(Self { listener, password, limits, connections: AtomicUsize::new(0) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Serves until `stop` becomes readable, and ends every running command then.
    ///
    /// Nobody reads from `stop`, so every connection's thread sees it too.
    pub(super) fn run(&self, stop: BorrowedFd<'_>) -> io::Result<()> {
        thread::scope(|scope| {
            loop {
                let mut polled = [
                    PollFd::from_borrowed_fd(stop, PollFlags::IN),
                    PollFd::new(&self.listener, PollFlags::IN),
                ];
                let ready = wait(&mut polled, None)?;
                if ready.first() == Some(&true) {
                    return Ok(());
                }
                if ready.get(1) == Some(&true) {
                    self.accept(scope, stop);
                }
            }
        })
    }

    fn accept<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        stop: BorrowedFd<'scope>,
    ) {
        let accepted = self.listener.accept().and_then(|socket| self.admit(scope, stop, socket));
        if let Err(error) = accepted
            && !matches!(
                error.kind(),
                io::ErrorKind::WouldBlock
                    | io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
            )
        {
            say(&format!("cannot take a connection: {error}"));
            // Most likely out of descriptors or threads, and the connection is still there:
            // not at once again.
            pause(stop, Duration::from_millis(100));
        }
    }

    fn admit<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        stop: BorrowedFd<'scope>,
        socket: OwnedFd,
    ) -> io::Result<()> {
        let mut link = Link::new(socket)?;
        let Some(seat) = Seat::take(&self.connections, self.limits.connections) else {
            // As far as that goes at once: nobody waits for a client that is not served.
            let _ = link.refuse("too many connections", Instant::now());
            return Ok(());
        };
        thread::Builder::new().name("connection".into()).spawn_scoped(scope, move || {
            let _seat = seat;
            let mut session = Session::new(link, stop, &self.password, self.limits);
            match session.hold() {
                Ok(()) | Err(LinkError::Closed) => {}
                Err(error) => say(&format!("connection ended: {error}")),
            }
        })?;
        Ok(())
    }
}

/// One of the connections that a server may have.
struct Seat<'a>(&'a AtomicUsize);

impl<'a> Seat<'a> {
    fn take(taken: &'a AtomicUsize, most: usize) -> Option<Self> {
        let one_more = |count| (count < most).then_some(count + 1);
        taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Self(taken))
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
