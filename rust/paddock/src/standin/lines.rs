//! Where the client's commands come from.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::link::wait;
use super::protocol::MAX_PAYLOAD;
use super::signals::Signals;

/// Commands, given all at once or read as they are needed.
pub(super) enum Commands<F> {
    /// From the command line.
    Given(VecDeque<Vec<u8>>),
    /// One a line, from a file or a terminal.
    Read(Lines<F>),
}

/// What there is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Run this.
    Command(Vec<u8>),
    /// The person interrupted the client while no command ran.
    Interrupted,
    /// No more commands.
    End,
}

impl<F: AsFd> Commands<F> {
    /// Waits for the next command, its end, or an interruption.
    pub(super) fn next(&mut self, interruptions: &Signals) -> anyhow::Result<Next> {
        match self {
            _ if interruptions.take() => Ok(Next::Interrupted),
            Self::Given(commands) => Ok(commands.pop_front().map_or(Next::End, Next::Command)),
            Self::Read(lines) => lines.next(interruptions),
        }
    }
}

/// Lines of bytes from a descriptor. It reads the descriptor itself, since waiting for an
/// interruption as well needs to know what is buffered.
pub(super) struct Lines<F> {
    from: F,
    buffered: Vec<u8>,
    ended: bool,
}

impl<F: AsFd> Lines<F> {
    /// Reads lines from `from`.
    pub(super) fn new(from: F) -> Self {
        Self { from, buffered: Vec::new(), ended: false }
    }

    fn next(&mut self, interruptions: &Signals) -> anyhow::Result<Next> {
        loop {
            if let Some(end) = self.buffered.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffered.drain(..=end).collect();
                line.pop();
                return Ok(Next::Command(line));
            }
            if self.buffered.len() > MAX_PAYLOAD {
                bail!("a line is longer than the {MAX_PAYLOAD} bytes that a command may have");
            }
            if self.ended {
                let rest = std::mem::take(&mut self.buffered);
                return Ok(if rest.is_empty() { Next::End } else { Next::Command(rest) });
            }
            let mut polled =
                [PollFd::new(interruptions, PollFlags::IN), PollFd::new(&self.from, PollFlags::IN)];
            let ready = wait(&mut polled, None)?;
            if interruptions.take() {
                // The terminal forgets the line being typed, and so does the client.
                self.buffered.clear();
                return Ok(Next::Interrupted);
            }
            if ready.get(1) == Some(&true) {
                self.fill()?;
            }
        }
    }

    fn fill(&mut self) -> anyhow::Result<()> {
        let mut bytes = [0; 4096];
        match rustix::io::read(&self.from, &mut bytes) {
            Ok(0) => self.ended = true,
            Ok(count) => self.buffered.extend_from_slice(bytes.get(..count).unwrap_or_default()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error).context("cannot read commands"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Seek, Write};

    fn file_with(text: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn lines_are_bytes_and_the_last_needs_no_newline() {
        let (none, _held) = Signals::none().unwrap();
        let mut commands = Commands::Read(Lines::new(file_with(b"a\n\n\xff\xfe\nlast")));
        for line in [&b"a"[..], b"", b"\xff\xfe", b"last"] {
            assert_eq!(commands.next(&none).unwrap(), Next::Command(line.to_vec()));
        }
        assert_eq!(commands.next(&none).unwrap(), Next::End);
        assert_eq!(commands.next(&none).unwrap(), Next::End);
    }

    #[test]
    fn a_line_without_end_is_an_error() {
        let (none, _held) = Signals::none().unwrap();
        let mut lines = Lines::new(File::open("/dev/zero").unwrap());
        assert!(lines.next(&none).unwrap_err().to_string().contains("longer than"));
    }

    #[test]
    fn an_interruption_drops_what_was_typed() {
        let (interruptions, interrupt) = Signals::none().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut lines = Lines::new(read);
        lines.buffered = b"half a li".to_vec();
        rustix::io::write(&interrupt, b"!").unwrap();
        assert_eq!(lines.next(&interruptions).unwrap(), Next::Interrupted);
        rustix::io::write(&write, b"whole\n").unwrap();
        assert_eq!(lines.next(&interruptions).unwrap(), Next::Command(b"whole".to_vec()));
    }
}
