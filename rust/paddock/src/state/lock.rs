//! The lock of a launch, which its keeper holds for its life (`flock(2)`): the kernel
//! gives it up when the keeper ends, however it ends, so a lock that can be taken
//! means that no keeper is there, and a process id in a file is never believed on its
//! own.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use confine::Pid;
use rustix::fs::{FlockOperation, flock};

use crate::files::open_plain;

/// The right to be a launch's keeper; given up with the process.
#[derive(Debug)]
pub(crate) struct KeeperLock {
    pub(super) directory: PathBuf,
    _file: File,
}

impl KeeperLock {
    /// Takes the lock of the launch whose state is in `directory`, or finds
    /// that somebody else has it.
    pub(crate) fn take(directory: &Path) -> std::io::Result<Option<Self>> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = open_plain(&mut options, &directory.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { directory: directory.to_owned(), _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// The same, and waits so long for whoever has it.
    pub(crate) fn take_within(directory: &Path, limit: Duration) -> std::io::Result<Option<Self>> {
        let deadline = Instant::now() + limit;
        loop {
            let lock = Self::take(directory)?;
            if lock.is_some() || Instant::now() >= deadline {
                return Ok(lock);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a keeper holds the lock. Asks for a shared one, so that those
    /// who ask do not see each other.
    pub(super) fn is_held(directory: &Path) -> std::io::Result<bool> {
        let file = open_plain(File::options().read(true), &directory.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    /// Who holds it, by the kernel's list (`proc_locks(5)`).
    pub(super) fn holder(directory: &Path) -> Option<Pid> {
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::symlink_metadata(directory.join("lock")).ok()?.ino();
        holder_in(&std::fs::read("/proc/locks").ok()?, inode)
    }
}

/// Who holds the lock (`flock(2)`) on the file with this inode. Who waits for one has
/// an arrow before the kind.
fn holder_in(locks: &[u8], inode: u64) -> Option<Pid> {
    let inode = inode.to_string();
    locks.split(|b| *b == b'\n').find_map(|line| {
        let words: Vec<&str> = str::from_utf8(line).ok()?.split_ascii_whitespace().collect();
        let is_it = words.get(1) == Some(&"FLOCK")
            && words.get(5)?.rsplit(':').next() == Some(inode.as_str());
        is_it.then(|| words.get(4)?.parse().ok().and_then(Pid::new)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_and_who_waits_is_not() {
        let locks = b"1: POSIX  ADVISORY  WRITE 5 fe:01:77 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 6 fe:01:77 0 EOF\n\
            2: -> FLOCK  ADVISORY  READ 7 fe:01:77 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 8 fe:01:78 0 EOF\n";
        assert_eq!(holder_in(locks, 77), Pid::new(6));
        assert_eq!(holder_in(locks, 78), Pid::new(8));
        assert_eq!(holder_in(locks, 7), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_holder_or_none(bytes: Vec<u8>, inode: u64, pid in 1..=i32::MAX) {
            let _ = holder_in(&bytes, inode);
            let line = format!("9: FLOCK  ADVISORY  WRITE {pid} fe:01:{inode} 0 EOF\n");
            proptest::prop_assert_eq!(holder_in(line.as_bytes(), inode), Pid::new(pid));
        }
    }
}
