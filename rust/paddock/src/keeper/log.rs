//! What the layers and the agent's server write to their standard output and
//! error: kept, bounded, and shown when a start fails.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// As much as is kept on disk.
const MOST_ON_DISK: usize = 1 << 20;
/// As much as is shown with an error.
const MOST_SHOWN: usize = 2048;

/// A pipe whose other end reads into a file and a short memory.
pub(super) struct LayerLog {
    writer: OwnedFd,
    tail: Arc<Mutex<Vec<u8>>>,
}

impl LayerLog {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let tail = Arc::new(Mutex::new(Vec::new()));
        let kept = tail.clone();
        std::thread::Builder::new().name("layer-log".into()).spawn(move || {
            let mut reader = File::from(reader);
            let mut on_disk = 0;
            let mut chunk = [0; 4096];
            // Ends when the last writer does; reads on when the file is full,
            // so that no writer ever blocks.
            while let Ok(read @ 1..) = reader.read(&mut chunk) {
                let text = &chunk[..read];
                if on_disk + read <= MOST_ON_DISK && file.write_all(text).is_ok() {
                    on_disk += read;
                }
                let mut tail = kept.lock().unwrap_or_else(PoisonError::into_inner);
                tail.extend_from_slice(text);
                let excess = tail.len().saturating_sub(MOST_SHOWN);
                tail.drain(..excess);
            }
        })?;
        Ok(Self { writer, tail })
    }

    /// A descriptor to write to it.
    pub(super) fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.writer.try_clone()
    }

    /// The last that was written, escaped, each line indented; empty when
    /// nothing was.
    pub(super) fn tail(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = tail.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let mut shown = String::new();
        for line in lines.rev().take(8).collect::<Vec<_>>().into_iter().rev() {
            shown.push_str("\n  | ");
            shown.push_str(&confine::escape::escape_short(line, 300).to_string());
        }
        shown
    }
}
