//! Frames and descriptors over a connected AF_UNIX socket.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest frame. A witness query about every task of a large host fits.
const MOST_BYTES: usize = 1 << 20;
/// The most descriptors in one frame: a child's standard three.
const MOST_DESCRIPTORS: usize = 3;

/// Why a frame could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Nobody is there any more.
    #[error("the other side closed the connection")]
    Closed,
    /// It is longer, or carries more descriptors, than any message does.
    #[error("a frame of {0} bytes is over the limit")]
    TooLong(usize),
    /// It is no message.
    #[error("a frame does not parse: {0}")]
    Malformed(#[from] serde_json::Error),
    /// What the kernel answered.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One end of a gate connection. Sending is safe from several threads;
/// receiving is one thread's.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    sending: Mutex<()>,
}

impl Channel {
    /// An end of a connected stream socket.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, sending: Mutex::new(()) }
    }

    /// Bounds every later receive and send.
    pub fn set_deadline(&self, limit: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(limit)?;
        self.socket.set_write_timeout(limit)
    }

    /// Receives without a deadline from here on, and sends with one.
    pub fn set_patience(&self, sending: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(None)?;
        self.socket.set_write_timeout(Some(sending))
    }

    /// Sends one frame, and descriptors with it.
    pub fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let body = serde_json::to_vec(message)?;
        if body.len() > MOST_BYTES || descriptors.len() > MOST_DESCRIPTORS {
            return Err(ChannelError::TooLong(body.len()));
        }
        let length = u32::try_from(body.len()).map_err(|_| ChannelError::TooLong(body.len()))?;
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend_from_slice(&body);

        let _one_frame_at_a_time =
            self.sending.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if descriptors.is_empty() {
            // write(2), not sendmsg(2): nono's mediation looks into the caller's
            // memory for the address of a sendmsg, and refuses it to a warden,
            // which is undumpable. A plain write it leaves alone.
            return Ok((&self.socket).write_all(&frame)?);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut sent = 0;
        while sent < frame.len() {
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if sent == 0 {
                ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            match sendmsg(
                &self.socket,
                &[IoSlice::new(&frame[sent..])],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            ) {
                Ok(n) => sent += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(io::Error::from(e).into()),
            }
        }
        Ok(())
    }

    /// Waits for a frame, and gives it with the descriptors that came along.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.receive_until(None)
    }

    /// The same until the deadline, however the bytes of it trickle in. Of somebody
    /// who is not trusted, and it leaves a limit on what is received later.
    pub fn receive_by<T: DeserializeOwned>(
        &self,
        deadline: Instant,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.receive_until(Some(deadline))
    }

    fn receive_until<T: DeserializeOwned>(
        &self,
        deadline: Option<Instant>,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut descriptors = Vec::new();
        let mut length = [0; 4];
        self.fill(&mut length, &mut descriptors, deadline)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MOST_BYTES {
            return Err(ChannelError::TooLong(length));
        }
        let mut body = vec![0; length];
        self.fill(&mut body, &mut descriptors, deadline)?;
        Ok((serde_json::from_slice(&body)?, descriptors))
    }

    fn fill(
        &self,
        buffer: &mut [u8],
        into: &mut Vec<OwnedFd>,
        deadline: Option<Instant>,
    ) -> Result<(), ChannelError> {
        let mut filled = 0;
        while filled < buffer.len() {
            if let Some(deadline) = deadline {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::Error::from(io::ErrorKind::TimedOut).into());
                }
                self.socket.set_read_timeout(Some(left))?;
            }
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let received = match recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(&mut buffer[filled..])],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Ok(message) => message.bytes,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(io::Error::from(e).into()),
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    into.extend(fds);
                }
            }
            if into.len() > MOST_DESCRIPTORS {
                return Err(ChannelError::TooLong(into.len()));
            }
            if received == 0 {
                return Err(ChannelError::Closed);
            }
            filled += received;
        }
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixStream, Channel) {
        let (a, b) = UnixStream::pair().unwrap();
        (a, Channel::new(b))
    }

    #[test]
    fn a_frame_and_its_descriptors_arrive() {
        let (a, b) = pair();
        let a = Channel::new(a);
        let null = std::fs::File::open("/dev/null").unwrap();
        a.send(&"hello", &[null.as_fd(), null.as_fd()]).unwrap();
        a.send(&"again", &[]).unwrap();
        let (text, fds): (String, _) = b.receive().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("hello", 2));
        let (text, fds): (String, _) = b.receive().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("again", 0));
    }

    #[test]
    fn an_oversized_frame_is_refused_before_it_is_read() {
        let (mut a, b) = pair();
        a.write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(matches!(b.receive::<String>(), Err(ChannelError::TooLong(_))));
    }

    #[test]
    fn half_a_frame_and_no_frame_are_a_closed_connection() {
        let (mut a, b) = pair();
        a.write_all(&8u32.to_be_bytes()).unwrap();
        a.write_all(b"\"a").unwrap();
        drop(a);
        assert!(matches!(b.receive::<String>(), Err(ChannelError::Closed)));
    }

    #[test]
    fn a_frame_that_trickles_in_is_given_up_at_the_deadline() {
        let (mut a, b) = pair();
        let limit = Duration::from_millis(100);
        let trickle = std::thread::spawn(move || {
            let _ = a.write_all(&1000u32.to_be_bytes());
            while a.write_all(b" ").is_ok() {
                std::thread::sleep(limit / 10);
            }
        });
        let started = Instant::now();
        assert!(matches!(b.receive_by::<String>(started + limit), Err(ChannelError::Io(_))));
        assert!(started.elapsed() >= limit);
        drop(b);
        trickle.join().unwrap();
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        let (mut a, b) = pair();
        a.write_all(&3u32.to_be_bytes()).unwrap();
        a.write_all(b"\xff\xff\xff").unwrap();
        assert!(matches!(b.receive::<String>(), Err(ChannelError::Malformed(_))));
    }
}
