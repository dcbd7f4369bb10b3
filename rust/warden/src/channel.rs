//! Frames and descriptors over a connected AF_UNIX socket.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use confine::Pid;
use rustix::io::retry_on_intr;
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
/// Memory for a frame is taken in such steps, as it comes: who only announces one
/// costs no more.
const STEP: usize = 16 << 10;

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
    /// Somebody wrote it who was not to.
    #[error("another process wrote it than the one that connected")]
    OtherWriter,
    /// What the kernel answered.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What a frame from somebody unknown may cost.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Its length.
    pub bytes: usize,
    /// From now until the last byte of it is there.
    pub time: Duration,
    /// The process that must have written every byte of it, by the kernel's word. The
    /// receiving socket must ask for that word ([`demand_writers`]).
    pub writer: Option<Pid>,
}

/// From here on the kernel says of each piece that comes in at `socket`, or at what a
/// listening `socket` accepts, which process wrote it (`unix(7)`, `SO_PASSCRED`).
///
/// # Errors
/// When the kernel refuses.
pub fn demand_writers(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_passcred(socket, true)?)
}

/// Receives what fits into `buffer` at most: how much, which descriptors came along, and
/// the process that wrote it, where the socket asks for that ([`demand_writers`]). What
/// two processes wrote is not received at once then (`unix(7)`).
///
/// # Errors
/// What the kernel answered, an interrupt left out.
pub fn receive_piece(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<(usize, Option<Pid>)> {
    let mut space = [MaybeUninit::uninit();
        rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let mut into = [IoSliceMut::new(&mut *buffer)];
        recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut writer = None;
    for message in ancillary.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(fds) => descriptors.extend(fds),
            RecvAncillaryMessage::ScmCredentials(of) => writer = Some(Pid::from(of.pid)),
            _ => {}
        }
    }
    Ok((received.bytes, writer))
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
        self.receive_frame(MOST_BYTES, None, None)
    }

    /// The same of somebody unknown. The deadline is for all of the frame: who sends a
    /// byte now and then does not stay. It ends every later receive, too, until another
    /// one is set.
    pub fn receive_within<T: DeserializeOwned>(
        &self,
        bounds: Bounds,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let deadline = Instant::now() + bounds.time;
        self.receive_frame(bounds.bytes.min(MOST_BYTES), Some(deadline), bounds.writer)
    }

    fn receive_frame<T: DeserializeOwned>(
        &self,
        most: usize,
        deadline: Option<Instant>,
        writer: Option<Pid>,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut descriptors = Vec::new();
        let mut length = [0; 4];
        self.fill(&mut length, &mut descriptors, deadline, writer)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > most {
            return Err(ChannelError::TooLong(length));
        }
        let mut body = Vec::new();
        while body.len() < length {
            let filled = body.len();
            body.resize(length.min(filled + STEP), 0);
            self.fill(&mut body[filled..], &mut descriptors, deadline, writer)?;
        }
        Ok((serde_json::from_slice(&body)?, descriptors))
    }

    fn fill(
        &self,
        buffer: &mut [u8],
        into: &mut Vec<OwnedFd>,
        deadline: Option<Instant>,
        writer: Option<Pid>,
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
            let socket = self.socket.as_fd();
            let (received, wrote) = receive_piece(socket, &mut buffer[filled..], into)?;
            if into.len() > MOST_DESCRIPTORS {
                return Err(ChannelError::TooLong(into.len()));
            }
            if received == 0 {
                return Err(ChannelError::Closed);
            }
            if writer.is_some() && wrote != writer {
                return Err(ChannelError::OtherWriter);
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
    fn what_is_not_json_is_malformed() {
        let (mut a, b) = pair();
        a.write_all(&3u32.to_be_bytes()).unwrap();
        a.write_all(b"\xff\xff\xff").unwrap();
        assert!(matches!(b.receive::<String>(), Err(ChannelError::Malformed(_))));
    }

    #[test]
    fn who_sends_a_byte_now_and_then_does_not_stay() {
        let (mut a, b) = pair();
        let time = Duration::from_millis(200);
        let drip = std::thread::spawn(move || {
            let frame = [&64u32.to_be_bytes()[..], &[b' '; 64]].concat();
            // Until the other side has gone.
            for byte in frame {
                std::thread::sleep(Duration::from_millis(20));
                if a.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        let began = Instant::now();
        let received = b.receive_within::<String>(Bounds { bytes: 64, time, writer: None });
        assert!(matches!(received, Err(ChannelError::Io(_))), "{received:?}");
        assert!((time..5 * time).contains(&began.elapsed()), "{:?}", began.elapsed());
        drop(b);
        drip.join().unwrap();
    }

    #[test]
    fn a_stranger_has_to_be_brief() {
        let bounds = Bounds { bytes: 7, time: Duration::from_secs(5), writer: None };
        for (text, is_brief) in [("\"hello\"", true), ("\"hello \"", false)] {
            let (mut a, b) = pair();
            a.write_all(&u32::try_from(text.len()).unwrap().to_be_bytes()).unwrap();
            a.write_all(text.as_bytes()).unwrap();
            assert_eq!(b.receive_within::<String>(bounds).is_ok(), is_brief, "{text}");
        }
    }

    #[test]
    fn a_frame_is_its_writers_and_nobody_elses() {
        let me = Pid::of_self();
        let time = Duration::from_secs(10);
        let bounds = |writer| Bounds { bytes: 64, time, writer: Some(writer) };
        let frame = b"\0\0\0\x04\"hi\"";
        for (first, second) in [(8, 0), (0, 8), (4, 4), (6, 2)] {
            let (mut a, b) = pair();
            demand_writers(b.as_fd()).unwrap();
            a.write_all(&frame[..first]).unwrap();
            // The rest is a child's.
            let mut child = std::process::Command::new("tail")
                .args(["-c", &second.to_string()])
                .stdin(std::process::Stdio::piped())
                .stdout(OwnedFd::from(a.try_clone().unwrap()))
                .spawn()
                .unwrap();
            // One that has nothing to write may be gone already.
            let _ = child.stdin.take().unwrap().write_all(frame);
            child.wait().unwrap();
            let received = b.receive_within::<String>(bounds(me));
            if second == 0 {
                assert_eq!(received.unwrap().0, "hi", "control: all of it is its own");
            } else {
                assert!(matches!(received, Err(ChannelError::OtherWriter)), "{received:?}");
            }
        }
    }

    #[test]
    fn nobodys_frame_is_not_taken_for_the_writers() {
        let (a, b) = pair();
        Channel::new(a).send(&"hi", &[]).unwrap();
        let bounds =
            Bounds { bytes: 64, time: Duration::from_secs(10), writer: Some(Pid::of_self()) };
        let received = b.receive_within::<String>(bounds);
        assert!(matches!(received, Err(ChannelError::OtherWriter)), "{received:?}");
    }

    #[test]
    fn what_a_listener_accepts_tells_the_writer_and_descriptors_come_as_well() {
        let directory = std::env::temp_dir().join(format!("channel-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        demand_writers(listener.as_fd()).unwrap();
        let a = Channel::new(UnixStream::connect(&path).unwrap());
        let null = std::fs::File::open("/dev/null").unwrap();
        // Also what was written before it is accepted.
        a.send(&"hi", &[null.as_fd(); MOST_DESCRIPTORS]).unwrap();
        let b = Channel::new(listener.accept().unwrap().0);
        std::fs::remove_dir_all(&directory).unwrap();
        let time = Duration::from_secs(10);
        let bounds = Bounds { bytes: 64, time, writer: Some(Pid::of_self()) };
        let (text, descriptors): (String, _) = b.receive_within(bounds).unwrap();
        assert_eq!((text.as_str(), descriptors.len()), ("hi", MOST_DESCRIPTORS));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>, length in 0u32..64) {
            // As they come, and behind a length that fits or nearly does.
            for frame in [bytes.clone(), [&length.to_be_bytes()[..], &bytes].concat()] {
                let (mut a, b) = pair();
                a.write_all(&frame).unwrap();
                drop(a);
                while b.receive::<crate::ToKeeper>().is_ok() {}
            }
        }

        #[test]
        fn a_frame_arrives_as_it_was_sent(text: String, filler in 0..3 * STEP) {
            let (a, b) = pair();
            let (a, text) = (Channel::new(a), text + &"x".repeat(filler));
            a.send(&text, &[]).unwrap();
            proptest::prop_assert_eq!(b.receive::<String>().unwrap().0, text);
        }

        #[test]
        fn what_announces_too_much_is_refused_before_it_comes(length in 1u32 + (1 << 20)..) {
            let (mut a, b) = pair();
            a.write_all(&length.to_be_bytes()).unwrap();
            let refused = matches!(b.receive::<String>(), Err(ChannelError::TooLong(_)));
            proptest::prop_assert!(refused);
        }
    }
}
