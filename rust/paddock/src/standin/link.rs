//! One connection, seen from either side: frames out, frames in, never blocking but in
//! [`poll`].

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::protocol::{Decoder, Frame, FrameError};

/// A connection with what is still to be sent and what has been received.
pub(super) struct Link {
    // Read and written as a plain descriptor. `send` and `recv` would do the same, but a
    // supervisor that mediates sockets may have to look at every `send`, and never does at
    // `write`. The runtime ignores SIGPIPE, so a peer that is gone is an error here.
    socket: OwnedFd,
    outgoing: Vec<u8>,
    incoming: Decoder,
    closed: bool,
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// The peer went away.
    #[error("the other side closed the connection")]
    Closed,
    /// The peer sent, or this side tried to send, something that is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer sent a frame that has no meaning at this point.
    #[error("the other side does not keep to the protocol")]
    Unexpected,
    /// Something went wrong on this side.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Link {
    /// Takes over a connected stream socket.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        // Frames are small and each is waited for. A Unix socket has no such delay to turn
        // off, and says so.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        Ok(Self { socket, outgoing: Vec::new(), incoming: Decoder::default(), closed: false })
    }

    /// Queues a frame; [`Link::turn`] sends it.
    pub(super) fn send(&mut self, frame: &Frame) -> Result<(), FrameError> {
        frame.encode(&mut self.outgoing)
    }

    /// How many bytes are queued.
    pub(super) fn queued(&self) -> usize {
        self.outgoing.len()
    }

    /// The next frame that has been received, or `None` if [`Link::turn`] must be called
    /// first. Reports that the peer is gone only after its last frame.
    pub(super) fn received(&mut self) -> Result<Option<Frame>, LinkError> {
        match self.incoming.next_frame()? {
            None if self.closed => Err(LinkError::Closed),
            frame => Ok(frame),
        }
    }

    /// Waits until the connection or one of `others` has something, or `deadline` passes;
    /// then sends and receives what goes without waiting. Tells which of `others` are ready.
    pub(super) fn turn(
        &mut self,
        others: &[BorrowedFd<'_>],
        deadline: Option<Instant>,
    ) -> io::Result<Vec<bool>> {
        let mut wanted = PollFlags::IN;
        if !self.outgoing.is_empty() {
            wanted |= PollFlags::OUT;
        }
        let mut polled = vec![PollFd::new(&self.socket, wanted)];
        polled.extend(others.iter().map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN)));
        let ready = wait(&mut polled, deadline)?;
        if ready.first().is_some_and(|socket| *socket) {
            self.transmit()?;
            self.receive()?;
        }
        Ok(ready.into_iter().skip(1).collect())
    }

    /// Sends what is queued, as far as that goes until `deadline`.
    fn flush(&mut self, deadline: Instant) -> io::Result<()> {
        while !self.outgoing.is_empty() && !self.closed {
            self.turn(&[], Some(deadline))?;
            if Instant::now() >= deadline {
                break;
            }
        }
        Ok(())
    }

    /// Tells a client why it is not served, as far as that goes until `deadline`.
    pub(super) fn refuse(&mut self, reason: &str, deadline: Instant) -> Result<(), LinkError> {
        self.send(&Frame::Refused(reason.into()))?;
        Ok(self.flush(deadline)?)
    }

    fn transmit(&mut self) -> io::Result<()> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        match rustix::io::write(&self.socket, &self.outgoing) {
            Ok(count) => {
                self.outgoing.drain(..count);
                Ok(())
            }
            Err(Errno::PIPE | Errno::CONNRESET) => {
                // Why the peer went may still be there to be read.
                self.receive()?;
                self.closed = true;
                Ok(())
            }
            Err(error) => pass_over_waiting(error),
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; 8192];
        match rustix::io::read(&self.socket, &mut bytes) {
            Ok(0) | Err(Errno::CONNRESET) => self.closed = true,
            Ok(count) => self.incoming.push(bytes.get(..count).unwrap_or_default()),
            Err(error) => pass_over_waiting(error)?,
        }
        Ok(())
    }
}

/// Polls, and tells which descriptors have something: data, their end, or an error that the
/// next operation on them will name. An interruption counts as nothing ready.
pub(super) fn wait(polled: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<Vec<bool>> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; polled.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Would block and interrupted mean: later.
fn pass_over_waiting(error: Errno) -> io::Result<()> {
    if error == Errno::AGAIN || error == Errno::INTR { Ok(()) } else { Err(error.into()) }
}
