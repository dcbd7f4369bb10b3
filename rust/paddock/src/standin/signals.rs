//! Signals as something to poll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

/// A descriptor that becomes readable when one of some signals arrives.
pub(super) struct Signals(OwnedFd);

impl Signals {
    /// Handles `signals` from now on, for as long as the process lives.
    pub(super) fn handle(signals: &[i32]) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        for &signal in signals {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(Self(read))
    }

    /// Whether one arrived since this was last asked.
    pub(super) fn take(&self) -> bool {
        let mut arrived = false;
        let mut bytes = [0; 64];
        while rustix::io::read(&self.0, &mut bytes).is_ok_and(|count| count > 0) {
            arrived = true;
        }
        arrived
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
impl Signals {
    /// Signals that never arrive: this process's own are not a test's to handle.
    pub(super) fn none() -> io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok((Self(read), write))
    }
}
