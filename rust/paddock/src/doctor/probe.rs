//! Processes that exist to try something: this program once more, by a command
//! that is not for people.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Subcommand;
use confine::Pid;
use confine::sys::{SpawnSetup, prepare_spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::namespaces;
use crate::output::print;

/// How long such a process may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What one of them tries.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Probe {
    /// Make namespaces of each kind, and tell what came of it
    Namespaces,
    /// Be the first process of a pid namespace
    FirstProcess,
    /// Be another process; not dumpable once a line was read
    Other,
}

impl Probe {
    fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::FirstProcess => "first-process",
            Self::Other => "other",
        }
    }

    /// This program, about to try that.
    pub(super) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .args(["doctor-probe", self.word()])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }
}

/// What such a process does.
pub(crate) fn run(probe: Probe) -> ExitCode {
    let done = match probe {
        Probe::Namespaces => tell(&namespaces::try_each()),
        Probe::FirstProcess => tell(&namespaces::try_as_first_process()),
        Probe::Other => be_another(),
    };
    if done.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(steps: &[namespaces::Step]) -> Option<()> {
    print(serde_json::to_string(steps).ok()?).ok()
}

/// Lives until its standard input ends.
fn be_another() -> Option<()> {
    print("ready").ok()?;
    let mut lines = io::stdin().lock().lines();
    while let Some(Ok(_)) = lines.next() {
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .ok()?;
        print("opaque").ok()?;
    }
    Some(())
}

/// A process of that kind under way; ended when dropped.
pub(super) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
}

impl Running {
    /// Starts it. It ends with the thread that started it at the latest.
    pub(super) fn start(probe: Probe, program: &Path) -> io::Result<Self> {
        let mut command = probe.command(program);
        command.stdin(Stdio::piped());
        prepare_spawn(&mut command, SpawnSetup { dies_with_parent: true, ..SpawnSetup::default() });
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        let Some(stdout) = child.stdout.take() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Self { child, stdin, stdout })
    }

    /// Another process, which has begun.
    pub(super) fn another(program: &Path) -> io::Result<Self> {
        let mut other = Self::start(Probe::Other, program)?;
        other.expect("ready")?;
        Ok(other)
    }

    pub(super) fn pid(&self) -> io::Result<Pid> {
        Pid::new(self.child.id().cast_signed()).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Makes it one that cannot be looked into (`PR_SET_DUMPABLE`, `prctl(2)`).
    pub(super) fn become_opaque(&mut self) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Err(io::ErrorKind::BrokenPipe.into()) };
        stdin.write_all(b"\n")?;
        self.expect("opaque")
    }

    fn expect(&mut self, word: &str) -> io::Result<()> {
        let line = read_line(&mut self.stdout, PATIENCE)?;
        if line.trim_end() == word { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// What it printed.
    pub(super) fn line(&mut self) -> io::Result<String> {
        read_line(&mut self.stdout, PATIENCE)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Not reaped yet, so its id is its own still.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a child of a probe printed on its one line; it is waited for.
pub(super) fn line_of(mut command: Command) -> io::Result<String> {
    let mut child = command.spawn()?;
    let Some(stdout) = child.stdout.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let mut line = String::new();
    BufReader::new(stdout.take(65_536)).read_line(&mut line)?;
    child.wait()?;
    Ok(line)
}

/// Reads up to the end of a line, or of the output.
fn read_line(from: &mut ChildStdout, limit: Duration) -> io::Result<String> {
    const MOST: usize = 65_536;
    let deadline = Instant::now() + limit;
    let mut text = Vec::new();
    while !text.ends_with(b"\n") && text.len() < MOST {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&*from, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        let mut part = [0; 4096];
        match from.read(&mut part)? {
            0 => break,
            n => text.extend_from_slice(&part[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
