//! The server's side of one connection.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::job::Job;
use super::link::{Link, LinkError, wait};
use super::password::Password;
use super::protocol::{Frame, VERSION};
use super::serve::{Limits, say};

/// How long the last words to a client may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// One client, from its greeting to its end.
pub(super) struct Session<'a> {
    link: Link,
    /// Becomes readable when the server is to stop.
    stop: BorrowedFd<'a>,
    password: &'a Password,
    limits: Limits,
}

impl<'a> Session<'a> {
    /// A session that has yet to be held.
    pub(super) fn new(
        link: Link,
        stop: BorrowedFd<'a>,
        password: &'a Password,
        limits: Limits,
    ) -> Self {
        Self { link, stop, password, limits }
    }

    /// Greets the client and runs its commands, until it leaves or the server stops.
    pub(super) fn hold(&mut self) -> Result<(), LinkError> {
        self.link.send(&Frame::Hello { version: VERSION })?;
        let Some(offered) = self.offered_password()? else {
            return Ok(());
        };
        if !self.password.is(&offered) {
            say("refused a wrong password");
            pause(self.stop, self.limits.refusal);
            return self.link.refuse("wrong password", Instant::now() + FAREWELL);
        }
        self.link.send(&Frame::Accepted)?;
        self.run_commands()
    }

    /// Waits for a password; `None` if it does not come in time.
    fn offered_password(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let deadline = Instant::now() + self.limits.handshake;
        loop {
            match self.link.received()? {
                Some(Frame::Password(offered)) => return Ok(Some(offered)),
                Some(_) => return Err(LinkError::Unexpected),
                None => {}
            }
            let stopped = self.link.turn(&[self.stop], Some(deadline))?.contains(&true);
            if stopped || Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }

    /// Runs commands, one at a time. However this returns, the one that still runs ends
    /// with it.
    fn run_commands(&mut self) -> Result<(), LinkError> {
        let mut job: Option<Job> = None;
        loop {
            while let Some(frame) = self.link.received()? {
                match (frame, &mut job) {
                    (Frame::Run(command), None) => job = self.start(&command)?,
                    (Frame::Cancel, Some(running)) => running.cancel(),
                    (Frame::Cancel, None) => {}
                    _ => return Err(LinkError::Unexpected),
                }
            }
            let mut sources = vec![self.stop];
            sources.extend(job.iter().flat_map(|running| running.sources(self.link.queued())));
            let ready = self.link.turn(&sources, job.as_ref().and_then(Job::deadline))?;
            if ready.first() == Some(&true) {
                return Ok(());
            }
            if let Some(running) = &mut job
                && let Some(status) = running.step(&mut self.link)?
            {
                self.link.send(&Frame::Done(status))?;
                job = None;
            }
        }
    }

    fn start(&mut self, command: &[u8]) -> Result<Option<Job>, LinkError> {
        match Job::start(command) {
            Ok(started) => Ok(Some(started)),
            Err(error) => {
                let text = format!("standin: cannot run the command: {error}\n");
                self.link.send(&Frame::Stderr(text.into_bytes()))?;
                self.link.send(&Frame::Done(126))?;
                Ok(None)
            }
        }
    }
}

/// Waits for `time`, or until the server is to stop.
pub(super) fn pause(stop: BorrowedFd<'_>, time: Duration) {
    let until = Instant::now() + time;
    let mut stopped = false;
    while !stopped && Instant::now() < until {
        let mut polled = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        stopped = wait(&mut polled, Some(until)).map_or(true, |ready| ready.contains(&true));
    }
}
