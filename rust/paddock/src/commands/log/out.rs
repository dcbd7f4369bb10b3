//! Standard output for many lines.

use std::io::{BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::error::Error;

/// Why no more is printed.
pub(super) enum Stop {
    /// Who read is gone.
    NobodyReads,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Collects lines, and writes many at once.
pub(super) struct Out(BufWriter<StdoutLock<'static>>);

impl Out {
    pub(super) fn standard() -> Self {
        Self(BufWriter::with_capacity(1 << 16, std::io::stdout().lock()))
    }

    /// Whether a person looks at it who has not asked for plain text
    /// (<https://no-color.org>).
    pub(super) fn takes_colour(&self) -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        self.0.get_ref().is_terminal()
            && !is_set("NO_COLOR")
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    pub(super) fn line(&mut self, line: &str) -> Result<(), Stop> {
        judged(self.0.write_all(line.as_bytes()).and_then(|()| self.0.write_all(b"\n")))
    }

    /// Writes what was collected.
    pub(super) fn flush(&mut self) -> Result<(), Stop> {
        judged(self.0.flush())
    }
}

impl AsFd for Out {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

fn judged(written: std::io::Result<()>) -> Result<(), Stop> {
    written.map_err(|e| match e.kind() {
        ErrorKind::BrokenPipe => Stop::NobodyReads,
        _ => Error::Output { reason: e.to_string() }.into(),
    })
}
