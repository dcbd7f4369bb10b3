//! The wire protocol.
//!
//! A connection carries frames in both directions. A frame is
//!
//! ```text
//! u32, little-endian    length of the payload, at most 65536
//! u8                    kind
//! length bytes          payload
//! ```
//!
//! | kind | name | from | payload |
//! | --- | --- | --- | --- |
//! | 1 | Hello | server | protocol version, u32 little-endian |
//! | 2 | Password | client | the password |
//! | 3 | Accepted | server | none |
//! | 4 | Refused | server | the reason, text for a person |
//! | 5 | Run | client | a shell command |
//! | 6 | Stdout | server | what the command wrote there |
//! | 7 | Stderr | server | what the command wrote there |
//! | 8 | Done | server | exit status, i32 little-endian; 128+n for signal n |
//! | 9 | Cancel | client | none |
//!
//! The server speaks first: Hello, or Refused when it is full. The client answers Hello
//! with Password, and the server that with Accepted, or with Refused and the end of the
//! connection. Then the client sends Run, at most one at a time; the server answers with
//! Stdout and Stderr as they come and one Done. Cancel has the running command interrupted,
//! and killed 2 s after the first Cancel; it still answers Done. Without a running command
//! Cancel means nothing, since it may have crossed with Done. Anything else ends the
//! connection, and that ends the command.
//!
//! Commands and output are bytes. Nothing in a frame has to be UTF-8.

/// The version in Hello.
pub(super) const VERSION: u32 = 1;

/// The most payload one frame carries.
pub(super) const MAX_PAYLOAD: usize = 64 * 1024;

/// Length and kind.
const HEADER: usize = 5;

/// One message. Not `Debug` outside tests, so that no password gets into a message.
#[cfg_attr(test, derive(Debug, Clone, PartialEq, Eq))]
pub(super) enum Frame {
    /// The server's first word.
    Hello {
        /// The protocol the server speaks.
        version: u32,
    },
    /// The client's answer to it.
    Password(Vec<u8>),
    /// The password was right.
    Accepted,
    /// The connection is over; why.
    Refused(Vec<u8>),
    /// Run this command.
    Run(Vec<u8>),
    /// The command wrote this to its standard output.
    Stdout(Vec<u8>),
    /// The command wrote this to its standard error.
    Stderr(Vec<u8>),
    /// The command ended.
    Done(i32),
    /// End the running command.
    Cancel,
}

/// Why bytes are no frame, or a frame cannot be sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// The payload is too large for one frame.
    #[error("a message of {0} bytes is longer than the {MAX_PAYLOAD} that fit")]
    TooLong(usize),
    /// No such kind.
    #[error("unknown message kind {0}")]
    Kind(u8),
    /// The payload is not what the kind has.
    #[error("malformed message of kind {0}")]
    Payload(u8),
}

impl Frame {
    /// Appends the frame's bytes to `out`; on an error appends nothing.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        match self {
            Self::Hello { version } => append(out, 1, &version.to_le_bytes()),
            Self::Password(password) => append(out, 2, password),
            Self::Accepted => append(out, 3, &[]),
            Self::Refused(reason) => append(out, 4, reason),
            Self::Run(command) => append(out, 5, command),
            Self::Stdout(bytes) => append(out, 6, bytes),
            Self::Stderr(bytes) => append(out, 7, bytes),
            Self::Done(status) => append(out, 8, &status.to_le_bytes()),
            Self::Cancel => append(out, 9, &[]),
        }
    }

    fn decode(kind: u8, payload: &[u8]) -> Result<Self, FrameError> {
        let malformed = || FrameError::Payload(kind);
        let empty = |frame| {
            if payload.is_empty() { Ok(frame) } else { Err(malformed()) }
        };
        let four = || <[u8; 4]>::try_from(payload).map_err(|_| malformed());
        match kind {
            1 => Ok(Self::Hello { version: u32::from_le_bytes(four()?) }),
            2 => Ok(Self::Password(payload.to_vec())),
            3 => empty(Self::Accepted),
            4 => Ok(Self::Refused(payload.to_vec())),
            5 => Ok(Self::Run(payload.to_vec())),
            6 => Ok(Self::Stdout(payload.to_vec())),
            7 => Ok(Self::Stderr(payload.to_vec())),
            8 => Ok(Self::Done(i32::from_le_bytes(four()?))),
            9 => empty(Self::Cancel),
            _ => Err(FrameError::Kind(kind)),
        }
    }
}

fn append(out: &mut Vec<u8>, kind: u8, payload: &[u8]) -> Result<(), FrameError> {
    let too_long = FrameError::TooLong(payload.len());
    if payload.len() > MAX_PAYLOAD {
        return Err(too_long);
    }
    let length = u32::try_from(payload.len()).map_err(|_| too_long)?;
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(payload);
    Ok(())
}

/// Cuts received bytes into frames.
#[derive(Default)]
pub(super) struct Decoder {
    received: Vec<u8>,
}

impl Decoder {
    /// Takes more bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` until more bytes have come.
    ///
    /// A length that is not allowed is an error as soon as it is read, so a peer cannot
    /// make the decoder hold more than one frame's bytes.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((&[a, b, c, d, kind], rest)) = self.received.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > MAX_PAYLOAD {
            return Err(FrameError::TooLong(length));
        }
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = Frame::decode(kind, payload)?;
        self.received.drain(..HEADER + length);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<Frame> {
        let bytes: Vec<u8> = (0..=255).collect();
        vec![
            Frame::Hello { version: 0xdead_beef },
            Frame::Password(bytes.clone()),
            Frame::Accepted,
            Frame::Refused(bytes.clone()),
            Frame::Run(Vec::new()),
            Frame::Run(bytes.clone()),
            Frame::Stdout(vec![0xff; MAX_PAYLOAD]),
            Frame::Stderr(bytes),
            Frame::Done(-1),
            Frame::Done(255),
            Frame::Cancel,
        ]
    }

    #[test]
    fn every_frame_comes_back_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        for frame in every_kind() {
            frame.encode(&mut stream).unwrap();
        }
        for piece in [1, 2, 3, 5, 4096, stream.len()] {
            let mut decoder = Decoder::default();
            let mut frames = Vec::new();
            for bytes in stream.chunks(piece) {
                decoder.push(bytes);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    frames.push(frame);
                }
            }
            assert!(frames == every_kind(), "cut into pieces of {piece}");
            assert!(decoder.received.is_empty());
        }
    }

    #[test]
    fn the_bytes_on_the_wire_are_as_documented() {
        let mut bytes = Vec::new();
        Frame::Run(b"ls".to_vec()).encode(&mut bytes).unwrap();
        Frame::Done(258).encode(&mut bytes).unwrap();
        assert_eq!(bytes, b"\x02\0\0\0\x05ls\x04\0\0\0\x08\x02\x01\0\0");
    }

    #[test]
    fn an_oversize_frame_is_neither_sent_nor_read() {
        let mut out = Vec::new();
        let frame = Frame::Run(vec![b'x'; MAX_PAYLOAD + 1]);
        assert_eq!(frame.encode(&mut out), Err(FrameError::TooLong(MAX_PAYLOAD + 1)));
        assert!(out.is_empty());

        // Refused from its header alone, before a byte of the payload is there.
        let mut decoder = Decoder::default();
        decoder.push(&[1, 0, 1, 0, 5]);
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong(MAX_PAYLOAD + 1)));
    }

    #[test]
    fn a_malformed_frame_is_an_error() {
        let cases: [(&[u8], FrameError); 6] = [
            (b"\0\0\0\0\0", FrameError::Kind(0)),
            (b"\0\0\0\0\x0a", FrameError::Kind(10)),
            (b"\x01\0\0\0\x03x", FrameError::Payload(3)),
            (b"\x01\0\0\0\x09x", FrameError::Payload(9)),
            (b"\x03\0\0\0\x01xyz", FrameError::Payload(1)),
            (b"\x05\0\0\0\x08vwxyz", FrameError::Payload(8)),
        ];
        for (bytes, error) in cases {
            let mut decoder = Decoder::default();
            decoder.push(bytes);
            assert_eq!(decoder.next_frame(), Err(error));
        }
    }
}
