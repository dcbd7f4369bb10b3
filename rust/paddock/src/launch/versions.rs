//! What a program said its version is, kept so that it is asked once and not at
//! every launch. An answer belongs to one state of one file.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use confine::proc::FileId;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// An answer, and the file it came from.
#[derive(Serialize, Deserialize)]
struct Kept {
    file: Stamp,
    version: String,
}

/// Which file, and in which state: whatever writes to a file, or puts another
/// in its place, changes one of these. The time of the last change cannot be
/// set back (`inode(7)`, "ctime").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The file at `path` as it is now.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Some(Self::with(path, &std::fs::metadata(path).ok()?))
    }

    /// The file that was opened at `path`, as it is now.
    pub(crate) fn of_open(path: &Path, file: &File) -> std::io::Result<Self> {
        Ok(Self::with(path, &file.metadata()?))
    }

    /// Where it was found.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Which file it is.
    pub(crate) fn file(&self) -> FileId {
        FileId { device: self.device, inode: self.inode }
    }

    /// Whether the last change was that long ago. A time to come tells nothing.
    pub(crate) fn is_older_than(&self, age: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
        changed.is_some_and(|(seconds, nanoseconds)| {
            let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
            SystemTime::now().duration_since(changed).is_ok_and(|passed| passed >= age)
        })
    }

    fn with(path: &Path, metadata: &std::fs::Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Where answers are kept: in the state directory, which is this user's alone.
pub(super) struct Versions<'a>(pub(super) &'a Path);

impl Versions<'_> {
    fn file(&self, program: &str) -> PathBuf {
        self.0.join(format!("version-of-{program}.json"))
    }

    /// What the program at `path` said, if it is the same still.
    pub(super) fn known(&self, program: &str, path: &Path) -> Option<String> {
        let mut text = Vec::new();
        File::options()
            .read(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(self.file(program))
            .and_then(|file| file.take(65_536).read_to_end(&mut text))
            .ok()?;
        let kept: Kept = serde_json::from_slice(&text).ok()?;
        (kept.file == Stamp::of(path)?).then_some(kept.version)
    }

    /// Keeps the answer of a file that was as `asked` says before it was asked.
    /// Where that does not work the program is asked again.
    pub(super) fn keep(&self, program: &str, asked: Stamp, version: &str) {
        let Ok(text) = serde_json::to_vec(&Kept { file: asked, version: version.to_owned() })
        else {
            return;
        };
        // Launches may start side by side: each writes a file of its own.
        let new = self.0.join(format!("version-of-{program}.{}", std::process::id()));
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| std::fs::rename(&new, self.file(program)));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_of_one_state_of_one_file() {
        let root = tempfile::tempdir().unwrap();
        let versions = Versions(root.path());
        let (program, other) = (root.path().join("a"), root.path().join("b"));
        std::fs::write(&program, "one").unwrap();
        std::fs::write(&other, "one").unwrap();
        assert_eq!(versions.known("x", &program), None);
        versions.keep("x", Stamp::of(&program).unwrap(), "1.2.3");
        assert_eq!(versions.known("x", &program).as_deref(), Some("1.2.3"));
        assert_eq!(versions.known("y", &program), None);
        assert_eq!(versions.known("x", &other), None);
        std::fs::write(&program, "other").unwrap();
        assert_eq!(versions.known("x", &program), None, "changed");
        versions.keep("x", Stamp::of(&program).unwrap(), "1.2.4");
        std::fs::rename(&other, &program).unwrap();
        assert_eq!(versions.known("x", &program), None, "another file in its place");
    }

    #[test]
    fn what_is_no_answer_is_none() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("a");
        std::fs::write(&program, "one").unwrap();
        Versions(root.path()).keep("x", Stamp::of(&program).unwrap(), "1.2.3");
        let kept = root.path().join("version-of-x.json");
        let outside = root.path().join("outside");
        std::fs::rename(&kept, &outside).unwrap();
        std::os::unix::fs::symlink(&outside, &kept).unwrap();
        assert_eq!(Versions(root.path()).known("x", &program), None, "a link");
        std::fs::remove_file(&kept).unwrap();
        std::fs::write(&kept, "{").unwrap();
        assert_eq!(Versions(root.path()).known("x", &program), None, "half a file");
    }
}
