//! How the keeper starts the outermost layer.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use confine::sys::{Room, SpawnSetup, prepare_spawn};
use confine::{Pid, ProcessId};
use rustix::io::FdFlags;

/// What is orphaned below the keeper becomes its child, not the host's.
pub(super) fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// The verifier keeps two files open per task, the guard two sockets per
/// connection: the usual soft limit of 1,024 is soon reached.
pub(super) fn allow_many_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    // Room for the first of them while there is only one thread: enlarging the
    // table later holds up a pass ([`Room`]).
    let _ = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 1023);
}

/// Starts a layer in a session of its own: whatever is below it has no
/// controlling terminal of the person's, so nono can raise no prompt there and
/// nothing can push input into it.
pub(super) fn start_layer(
    argv: &[OsString],
    environment: &[(OsString, OsString)],
    directory: &Path,
    log: OwnedFd,
) -> io::Result<ProcessId> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(n, v)| (n, v)))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    prepare_spawn(
        &mut command,
        SpawnSetup {
            new_session: true,
            dies_with_parent: true,
            default_signals: true,
            // Standard input is null; bubblewrap and nono close what they inherit.
            room: Room::Inherited,
            ..SpawnSetup::default()
        },
    );
    let child = command.spawn()?;
    let pid = Pid::new(child.id().cast_signed()).ok_or_else(|| io::Error::other("no id"))?;
    Ok(ProcessId { pid, start: confine::proc::start_time(pid)? })
}

/// A pipe on which bubblewrap tells of its child. The writing end survives
/// `exec`, so it may only be made right before bubblewrap is started, and must
/// be dropped right after.
pub(super) struct StatusPipe {
    reader: std::fs::File,
    writer: OwnedFd,
}

impl StatusPipe {
    pub(super) fn open() -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::fcntl_setfd(&writer, FdFlags::empty())?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        Ok(Self { reader: reader.into(), writer })
    }

    /// The descriptor's number in the child.
    pub(super) fn number(&self) -> i32 {
        self.writer.as_fd().as_raw_fd()
    }

    /// The reading end alone, once bubblewrap has the other.
    pub(super) fn into_reader(self) -> StatusReader {
        StatusReader(self.reader)
    }
}

/// Where bubblewrap tells of its child.
pub(super) struct StatusReader(std::fs::File);

impl StatusReader {
    /// The first process inside, as bubblewrap reports it (`--json-status-fd`,
    /// `bwrap(1)`).
    pub(super) fn first_process(self, limit: Duration) -> io::Result<Pid> {
        let deadline = Instant::now() + limit;
        let mut reader = self.0;
        let mut text = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout =
                rustix::event::Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            let mut fds = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            let mut chunk = [0; 512];
            match reader.read(&mut chunk) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(n) => text.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(e) => return Err(e),
            }
            let mut values =
                serde_json::Deserializer::from_slice(&text).into_iter::<serde_json::Value>();
            if let Some(Ok(value)) = values.next()
                && let Some(pid) = value.get("child-pid").and_then(serde_json::Value::as_i64)
            {
                return i32::try_from(pid)
                    .ok()
                    .and_then(Pid::new)
                    .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
            }
            if text.len() > 65_536 {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
        }
    }
}
