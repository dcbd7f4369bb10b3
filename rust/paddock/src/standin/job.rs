//! One running command: the server's tool.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use super::link::{Link, LinkError};
use super::password;
use super::protocol::Frame;

/// How long a cancelled command may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// With this much waiting to be sent, a command's output is left in its pipes: a client
/// that does not read slows the command down instead of filling the server's memory.
const ENOUGH_QUEUED: usize = 256 * 1024;

/// How much is read from a pipe at once. At most what fits a frame.
const CHUNK: usize = 32 * 1024;

/// A command that was started and is not reaped. Dropping it ends its process group.
///
/// Reaping, dropping and sending signals all need the job itself, so no signal can be sent
/// once the process id may belong to somebody else.
pub(super) struct Job {
    group: Group,
    /// Becomes readable when the shell has ended.
    ended: OwnedFd,
    outputs: [Output; 2],
    /// When a cancelled command has had its time.
    kill_at: Option<Instant>,
    cancelled: bool,
}

impl Job {
    /// Starts `command` in a shell, in a process group of its own.
    pub(super) fn start(command: &[u8]) -> io::Result<Self> {
        let mut group = Group { child: shell(command).spawn()?, reaped: false };
        let ended = pidfd_open(group.pid(), PidfdFlags::empty())?;
        let stdout = Output::new(group.child.stdout.take().map(OwnedFd::from), Frame::Stdout)?;
        let stderr = Output::new(group.child.stderr.take().map(OwnedFd::from), Frame::Stderr)?;
        Ok(Self { group, ended, outputs: [stdout, stderr], kill_at: None, cancelled: false })
    }

    /// What has to be polled to hear of the command's end and, unless enough is queued for
    /// the client already, of its output.
    pub(super) fn sources(&self, queued: usize) -> impl Iterator<Item = BorrowedFd<'_>> {
        let outputs = self.outputs.iter().filter(move |_| queued < ENOUGH_QUEUED);
        std::iter::once(self.ended.as_fd())
            .chain(outputs.filter_map(|output| output.pipe.as_ref().map(AsFd::as_fd)))
    }

    /// When [`Job::step`] must be called even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.kill_at
    }

    /// Interrupts the command, and gives it a little time to end. Asked again, interrupts it
    /// again, as a terminal would, but gives it no more time.
    pub(super) fn cancel(&mut self) {
        if !self.cancelled {
            self.cancelled = true;
            self.kill_at = Some(Instant::now() + GRACE);
        }
        self.group.signal(Signal::INT);
    }

    /// Passes on output; when the command has ended, reaps it and gives its status.
    pub(super) fn step(&mut self, link: &mut Link) -> Result<Option<i32>, LinkError> {
        if self.kill_at.is_some_and(|at| Instant::now() >= at) {
            self.kill_at = None;
            self.group.signal(Signal::KILL);
        }
        // Asked first: what the shell wrote is then in the pipes already.
        let ended = self.group.has_ended()?;
        for output in &mut self.outputs {
            if ended {
                output.drain(link)?;
            } else if link.queued() < ENOUGH_QUEUED {
                output.pass_on(CHUNK, link)?;
            }
        }
        if !ended {
            return Ok(None);
        }
        // What the shell put in the background may outlive it, but not a cancelled shell.
        if self.cancelled {
            self.group.signal(Signal::KILL);
        }
        Ok(Some(self.group.reap()?))
    }
}

/// The shell that runs `command`.
fn shell(command: &[u8]) -> Command {
    let mut shell = Command::new("/bin/sh");
    // After `--` no command looks like an option.
    shell.args(["-c", "--"]).arg(OsStr::from_bytes(command));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell.env_remove(password::VARIABLE).process_group(0);
    shell
}

/// A child that leads a process group.
struct Group {
    child: Child,
    reaped: bool,
}

impl Group {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Signals every member. While the leader is not reaped, its id cannot be reused.
    fn signal(&self, signal: Signal) {
        if !self.reaped {
            let _ = kill_process_group(self.pid(), signal);
        }
    }

    /// Whether the leader has ended, without reaping it.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid()), options)?.is_some())
    }

    /// Reaps the leader, and gives its status as a shell would.
    fn reap(&mut self) -> io::Result<i32> {
        let status = self.child.wait()?;
        self.reaped = true;
        let signal = status.signal().map(|signal| 128 + signal);
        Ok(status.code().or(signal).unwrap_or(255))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            let _ = self.reap();
        }
    }
}

/// The reading end of one of the command's outputs, until its end.
struct Output {
    pipe: Option<OwnedFd>,
    frame: fn(Vec<u8>) -> Frame,
}

impl Output {
    fn new(pipe: Option<OwnedFd>, frame: fn(Vec<u8>) -> Frame) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            // Only this end: the command's has a description of its own.
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { pipe, frame })
    }

    /// Queues at most `most` bytes, and tells how many.
    fn pass_on(&mut self, most: usize, link: &mut Link) -> Result<usize, LinkError> {
        let Some(pipe) = &self.pipe else {
            return Ok(0);
        };
        let mut bytes = vec![0; most];
        match rustix::io::read(pipe, &mut bytes) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                bytes.truncate(count);
                link.send(&(self.frame)(bytes))?;
                return Ok(count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        Ok(0)
    }

    /// Queues what is in the pipe now, and no more: a background process may hold the other
    /// end, and write for ever.
    fn drain(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let Some(pipe) = &self.pipe else {
            return Ok(());
        };
        let there = rustix::io::ioctl_fionread(pipe).map_err(io::Error::from)?;
        let mut left = usize::try_from(there).unwrap_or(usize::MAX);
        while left > 0 {
            match self.pass_on(left.min(CHUNK), link)? {
                0 => break,
                count => left -= count,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_taken_out_of_the_environment() {
        let shell = shell(b"true");
        let changed: Vec<_> = shell.get_envs().collect();
        assert_eq!(changed, [(OsStr::new(password::VARIABLE), None)]);
    }
}
