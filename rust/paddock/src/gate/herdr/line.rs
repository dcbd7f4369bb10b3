//! A line from a socket, within a number of bytes and a deadline.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Reads to the first newline and gives what stands before it; what comes after
/// is nobody's. Of a line that has more than `most` bytes it gives more than
/// `most`, and not all.
///
/// # Errors
/// `TimedOut` at the deadline, however the bytes trickle in; `UnexpectedEof` when
/// there is no newline before the end; what the kernel answered.
pub(crate) fn read_line(
    mut stream: &UnixStream,
    most: usize,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    read_line_by(stream, most, deadline, |buffer| stream.read(buffer))
}

/// The same, received by `receive`, which reads from `stream` into what it is given.
///
/// # Errors
/// As [`read_line`].
pub(crate) fn read_line_by(
    stream: &UnixStream,
    most: usize,
    deadline: Instant,
    mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    while line.len() <= most {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        let read = match receive(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => &buffer[..read],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            // A socket's time-out (socket(7), `SO_RCVTIMEO`).
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(e) => return Err(e),
        };
        if let Some(end) = read.iter().position(|b| *b == b'\n') {
            line.extend_from_slice(&read[..end]);
            break;
        }
        line.extend_from_slice(read);
    }
    Ok(line)
}

/// What is left of a limit, which is never nothing: no limit is what that would be
/// to the kernel.
///
/// # Errors
/// `TimedOut` when nothing is.
pub(super) fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(100);

    fn read(written: &[u8], most: usize) -> io::Result<Vec<u8>> {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(written).unwrap();
        drop(ours);
        read_line(&theirs, most, Instant::now() + LONG)
    }

    #[test]
    fn a_line_ends_at_its_first_newline_and_nowhere_else() {
        assert_eq!(read(b"one\ntwo\n", 3).unwrap(), b"one");
        assert_eq!(read(b"\n", 3).unwrap(), b"");
        for cut in [&b""[..], b"on", b"one"] {
            assert_eq!(read(cut, 3).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        assert!(read(&[b'x'; 9000], 3).unwrap().len() > 3, "it is told that it is too long");
    }

    #[test]
    fn a_byte_at_a_time_wins_no_time() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let trickle = std::thread::spawn(move || {
            while ours.write_all(b"x").is_ok() {
                std::thread::sleep(SHORT / 10);
            }
        });
        let started = Instant::now();
        let error = read_line(&theirs, 1 << 20, started + SHORT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= SHORT);
        drop(theirs);
        trickle.join().unwrap();
    }
}
