//! Waiting for a ledger to grow.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use super::out::{Out, Stop};

/// With an announcement of changes: in case that it misses the keeper's end.
const WITH_CHANGES: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Without: a user may have a few hundred at once.
const WITHOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What the kernel says of a directory (`inotify(7)`): that a file in it was
/// made, renamed or written. That a keeper has ended shows by its lock, which it
/// held open for writing.
pub(super) struct Changes(Option<OwnedFd>);

impl Changes {
    pub(super) fn below(directory: &Path) -> Self {
        use inotify::{CreateFlags, WatchFlags};
        let made = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        Self(made.ok().filter(|changes| {
            let of_interest = WatchFlags::CREATE
                | WatchFlags::MODIFY
                | WatchFlags::MOVED_TO
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ONLYDIR;
            inotify::add_watch(changes, directory, of_interest).is_ok()
        }))
    }

    /// Waits for a change, or a little. Who reads the output may leave
    /// meanwhile: the kernel tells that without being asked (`poll(2)`,
    /// `POLLERR` of a pipe).
    pub(super) fn wait(&self, out: &Out) -> Result<(), Stop> {
        let mut watched = vec![PollFd::new(out, PollFlags::empty())];
        watched.extend(self.0.as_ref().map(|changes| PollFd::new(changes, PollFlags::IN)));
        let limit = if self.0.is_some() { WITH_CHANGES } else { WITHOUT };
        // A signal is as good as a change.
        let _ = poll(&mut watched, Some(&limit));
        if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return Err(Stop::NobodyReads);
        }
        if let Some(changes) = &self.0 {
            let mut room = [MaybeUninit::uninit(); 4096];
            // What changed is looked at as a whole.
            while let Ok([_, ..]) =
                rustix::io::read(changes.as_fd(), &mut room[..]).map(|(read, _)| &*read)
            {
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_change_is_announced_and_then_there_is_quiet() {
        let root = tempfile::tempdir().unwrap();
        let changes = Changes::below(root.path());
        let is_quick = || {
            let start = Instant::now();
            assert!(changes.wait(&Out::standard()).is_ok());
            start.elapsed() < Duration::from_millis(900)
        };
        std::fs::write(root.path().join("ledger"), "line").unwrap();
        assert!(is_quick());
        assert!(!is_quick(), "control: it waits when nothing happens");
        std::fs::rename(root.path().join("ledger"), root.path().join("older")).unwrap();
        assert!(is_quick());
    }
}
