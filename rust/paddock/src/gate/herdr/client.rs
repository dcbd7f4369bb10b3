//! One request to the real herdr, and its reply, within a deadline and a size.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::line::{left_until, read_line};

/// How long herdr has for one report: as long as its own hooks wait.
const LIMIT: Duration = Duration::from_millis(500);
/// The longest reply to a report. It is a hundred bytes.
const MOST_REPLY_BYTES: usize = 16 << 10;

/// Why herdr's reply could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("herdr cannot be reached: {}", .0.kind())]
    Connect(io::Error),
    #[error("herdr did not answer in time")]
    Deadline,
    #[error("herdr closed the connection without an answer")]
    Closed,
    #[error("herdr's answer is too long")]
    TooLong,
    #[error("the connection to herdr failed: {}", .0.kind())]
    Io(io::Error),
}

impl From<io::Error> for ClientError {
    /// A socket's time-out is `EAGAIN` (socket(7), `SO_SNDTIMEO`).
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Deadline,
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// Sends requests to herdr, each over a connection of its own, as herdr serves
/// them.
#[derive(Clone, Debug)]
pub(crate) struct HerdrClient {
    socket: PathBuf,
    limit: Duration,
    most_reply: usize,
}

impl HerdrClient {
    /// Sends reports to the herdr that listens at `socket`. Nothing is opened yet.
    pub(crate) fn new(socket: &Path) -> Self {
        Self::within(socket, LIMIT, MOST_REPLY_BYTES)
    }

    /// Sends other requests, each with that limit, to be answered in so many bytes.
    pub(crate) fn within(socket: &Path, limit: Duration, most_reply: usize) -> Self {
        Self { socket: socket.to_owned(), limit, most_reply }
    }

    #[cfg(test)]
    pub(super) fn with_limit(socket: &Path, limit: Duration) -> Self {
        Self::within(socket, limit, MOST_REPLY_BYTES)
    }

    /// Sends `line`, and gives the line that answers it.
    pub(crate) fn send(&self, line: &[u8]) -> Result<Vec<u8>, ClientError> {
        let deadline = Instant::now() + self.limit;
        let mut stream = self.connect()?;
        stream.set_write_timeout(Some(left_until(deadline)?))?;
        stream.write_all(line)?;
        let reply = read_line(&stream, self.most_reply, deadline)?;
        if reply.len() > self.most_reply { Err(ClientError::TooLong) } else { Ok(reply) }
    }

    fn connect(&self) -> Result<UnixStream, ClientError> {
        let failed = |e: rustix::io::Errno| match ClientError::from(io::Error::from(e)) {
            ClientError::Io(error) => ClientError::Connect(error),
            other => other,
        };
        let address = SocketAddrUnix::new(&self.socket).map_err(failed)?;
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .map_err(failed)?;
        let stream = UnixStream::from(socket);
        // It bounds connect(2) as well, which waits while the listener's queue
        // is full (socket(7), `SO_SNDTIMEO`).
        stream.set_write_timeout(Some(self.limit))?;
        retry_on_intr(|| connect(&stream, &address)).map_err(failed)?;
        Ok(stream)
    }
}
