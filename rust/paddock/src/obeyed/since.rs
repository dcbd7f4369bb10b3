//! What is of the time of a launch. A file's time of change (`st_ctime`) is the kernel's
//! own and can be set by nobody without privileges (`inode(7)`).

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::Stat;

/// A time in seconds and nanoseconds, as files have it.
type Time = (i64, i64);

/// File systems without parts of a second have times that are up to this much earlier.
const COARSEST: i64 = 2;

/// A moment, by the clock that files have their times from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    time: Time,
    /// The same moment by two clocks: one that can be set, and one that cannot.
    set: SystemTime,
    steady: Instant,
}

impl Since {
    /// Now, by the time of a file that is made in `directory`.
    pub(super) fn now(directory: &Path) -> io::Result<Self> {
        let path = directory.join("began");
        let file = crate::files::write_new(&path, b"")?;
        let metadata = file.metadata()?;
        std::fs::remove_file(&path)?;
        let time = (metadata.ctime(), metadata.ctime_nsec());
        Ok(Self { time, set: SystemTime::now(), steady: Instant::now() })
    }

    /// The same moment by the clock as it goes now: earlier, where it was set back.
    pub(super) fn by_the_clock_now(mut self) -> Self {
        let gone = self.steady.elapsed();
        let shown = self.set.elapsed().unwrap_or(Duration::ZERO);
        // Set back beyond the moment itself: how far is in the error.
        let beyond = self.set.elapsed().err().map_or(Duration::ZERO, |e| e.duration());
        let back = gone.saturating_sub(shown) + beyond;
        let (seconds, nanos) = (self.time.0, self.time.1 - i64::from(back.subsec_nanos()));
        let seconds = seconds.saturating_sub_unsigned(back.as_secs());
        self.time = if nanos < 0 { (seconds - 1, nanos + 1_000_000_000) } else { (seconds, nanos) };
        self
    }

    /// Whether it was changed since: its content, its name, its mode, anything.
    #[allow(clippy::useless_conversion, reason = "the types differ between machines")]
    pub(super) fn is_new(&self, stat: &Stat) -> bool {
        self.is_later((i64::from(stat.st_ctime), i64::try_from(stat.st_ctime_nsec).unwrap_or(0)))
    }

    /// Whether a directory was moved since, and nothing added to it or taken from it.
    #[allow(clippy::useless_conversion, reason = "the types differ between machines")]
    pub(super) fn was_moved(&self, stat: &Stat) -> bool {
        let content = (i64::from(stat.st_mtime), i64::try_from(stat.st_mtime_nsec).unwrap_or(0));
        self.is_new(stat) && !self.is_later(content)
    }

    fn is_later(&self, time: Time) -> bool {
        time >= self.time || time.1 == 0 && time.0 + COARSEST > self.time.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn stat(path: &Path) -> Stat {
        rustix::fs::lstat(path).unwrap()
    }

    #[test]
    fn what_was_changed_since_is_new_whatever_its_times_were_set_to() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str| root.path().join(name);
        for name in ["old", "written", "moved", "mode"] {
            fs::write(file(name), "x").unwrap();
        }
        fs::create_dir(file("directory")).unwrap();
        fs::create_dir(file("added-to")).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let since = Since::now(root.path()).unwrap();
        let long_ago = fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        fs::File::options()
            .append(true)
            .open(file("written"))
            .unwrap()
            .set_times(long_ago)
            .unwrap();
        fs::rename(file("moved"), file("moved-to")).unwrap();
        fs::set_permissions(file("mode"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        fs::rename(file("directory"), file("renamed")).unwrap();
        fs::write(file("added-to/x"), "").unwrap();
        for name in ["written", "moved-to", "mode", "renamed", "added-to", "added-to/x"] {
            assert!(since.is_new(&stat(&file(name))), "{name}");
        }
        assert!(!since.is_new(&stat(&file("old"))), "control");
        assert!(since.was_moved(&stat(&file("renamed"))));
        assert!(!since.was_moved(&stat(&file("added-to"))));
        assert!(!file("began").exists());
    }

    #[test]
    fn a_clock_that_is_set_back_hides_nothing() {
        let now = Since { time: (1000, 5), set: SystemTime::now(), steady: Instant::now() };
        let (seconds, _) = now.by_the_clock_now().time;
        assert!((999..=1000).contains(&seconds), "control: {seconds}");
        let ahead = SystemTime::now() + Duration::from_secs(100);
        let (seconds, _) = Since { set: ahead, ..now }.by_the_clock_now().time;
        assert!((898..=900).contains(&seconds), "{seconds}");
        // The clock says one second, and ten have gone.
        let earlier = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let shown = SystemTime::now() - Duration::from_secs(1);
        let set_back = Since { set: shown, steady: earlier, ..now };
        let (seconds, nanos) = set_back.by_the_clock_now().time;
        assert!((989..=991).contains(&seconds) && (0..1_000_000_000).contains(&nanos), "{seconds}");
    }

    #[test]
    fn times_without_parts_of_a_second_count_as_late_as_they_can_be() {
        let since = Since { time: (100, 900), set: SystemTime::now(), steady: Instant::now() };
        for (time, later) in [
            ((100, 900), true),
            ((100, 899), false),
            ((100, 0), true),
            ((99, 0), true),
            ((98, 0), false),
            ((99, 999), false),
            ((101, 1), true),
        ] {
            assert_eq!(since.is_later(time), later, "{time:?}");
        }
    }
}
