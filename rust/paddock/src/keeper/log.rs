//! What the layers and the agent's server write to their standard output and
//! error: kept, bounded, and shown when a start fails.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;

/// As much as is kept on disk.
const MOST_ON_DISK: usize = 1 << 20;
/// As much as is shown with an error.
const MOST_SHOWN: usize = 2048;
/// As often as is read at once, so that somebody who writes without end keeps
/// nobody: more than a pipe holds.
const MOST_READS: usize = 64;

/// A pipe whose other end is read into a file and a short memory.
pub(super) struct LayerLog {
    writer: OwnedFd,
    kept: Arc<Mutex<Kept>>,
}

impl LayerLog {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        let readable = reader.try_clone()?;
        let kept = Kept { reader: reader.into(), file, on_disk: 0, tail: Vec::new() };
        let kept = Arc::new(Mutex::new(kept));
        let reading = Arc::clone(&kept);
        std::thread::Builder::new().name("layer-log".into()).spawn(move || {
            // Ends when the last writer does.
            loop {
                let mut fds = [PollFd::new(&readable, PollFlags::IN)];
                match poll(&mut fds, None) {
                    Ok(_) if !lock(&reading).take_in() => return,
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        })?;
        Ok(Self { writer, kept })
    }

    /// A descriptor to write to it.
    pub(super) fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.writer.try_clone()
    }

    /// Makes sure that what has been written by now is kept.
    pub(super) fn settle(&self) {
        lock(&self.kept).take_in();
    }

    /// The last that has been written by now, escaped, each line indented;
    /// empty when nothing was.
    pub(super) fn tail(&self) -> String {
        let mut kept = lock(&self.kept);
        kept.take_in();
        let lines = kept.tail.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let mut shown = String::new();
        for line in lines.rev().take(8).collect::<Vec<_>>().into_iter().rev() {
            shown.push_str("\n  | ");
            shown.push_str(&confine::escape::escape_short(line, 300).to_string());
        }
        shown
    }
}

struct Kept {
    reader: File,
    file: File,
    on_disk: usize,
    tail: Vec<u8>,
}

impl Kept {
    /// Takes in what is in the pipe; false when nobody can write to it any more.
    /// Reads on when the file is full, so that no writer ever blocks.
    fn take_in(&mut self) -> bool {
        let mut chunk = [0; 4096];
        for _ in 0..MOST_READS {
            let read = match self.reader.read(&mut chunk) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            let text = &chunk[..read];
            if self.on_disk + read <= MOST_ON_DISK && self.file.write_all(text).is_ok() {
                self.on_disk += read;
            }
            self.tail.extend_from_slice(text);
            let excess = self.tail.len().saturating_sub(MOST_SHOWN);
            self.tail.drain(..excess);
        }
        true
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_told_at_once_and_the_last_of_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log");
        let log = LayerLog::open(&path).unwrap();
        assert_eq!(log.tail(), "");
        let mut writer = File::from(log.descriptor().unwrap());
        for n in 0..500 {
            writeln!(writer, "line {n}\x1b").unwrap();
            assert!(log.tail().ends_with(&format!("\n  | line {n}\\u{{1b}}")), "{}", log.tail());
        }
        assert_eq!(log.tail().lines().count(), 1 + 8);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 500);
    }
}
