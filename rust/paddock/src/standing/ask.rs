//! Asking keepers without waiting for any: all that were asked are listened to at once,
//! so that one that hangs holds up no other, and no thread is needed.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::{Value, json};

use crate::keeper::Request;
use crate::state::Stored;

/// For one keeper to answer: it makes no pass for it, but may be at one for another.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);
/// The longest answer: there are bounds to what is in one.
const MOST: usize = 4 << 20;

/// A keeper that was asked how its launch stands.
pub(crate) struct Asking {
    stream: UnixStream,
    answer: Vec<u8>,
    pub(crate) deadline: Instant,
}

impl Asking {
    /// Asks the keeper of a launch.
    ///
    /// # Errors
    /// When there is none, or so many wait for it already that nobody else may.
    pub(crate) fn begin(launch: &Stored, details: bool) -> io::Result<Self> {
        let path = launch.record.launch_directory.join("control.sock");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(&path)?)?;
        let mut stream = UnixStream::from(socket);
        let request = json!({ "request": Request::Status { details } });
        // It is much shorter than what an empty socket takes.
        stream.write_all(format!("{request}\n").as_bytes())?;
        Ok(Self { stream, answer: Vec::new(), deadline: Instant::now() + LIMIT })
    }

    /// The answer, once it is there whole.
    ///
    /// # Errors
    /// When it is none, or does not come in time.
    pub(crate) fn answer(&mut self) -> io::Result<Option<Value>> {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.answer.extend_from_slice(&buffer[..read]);
                    if self.answer.last() == Some(&b'\n') {
                        return Ok(Some(serde_json::from_slice(&self.answer)?));
                    }
                    if self.answer.len() > MOST {
                        return Err(io::Error::other("the answer is too long"));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let is_late = Instant::now() >= self.deadline;
                    return if is_late { Err(io::ErrorKind::TimedOut.into()) } else { Ok(None) };
                }
                Err(e) => return Err(e),
            }
        }
    }
}

impl AsFd for Asking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
