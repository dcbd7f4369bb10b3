//! A directory tree in which an agent could write, looked at from outside: no link is
//! followed, no other file system entered, and nothing above it reached.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};

/// The tree.
pub(super) struct Tree {
    pub(super) path: PathBuf,
    top: OwnedFd,
}

/// A name in a directory.
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) kind: FileType,
}

/// The file system's times of change are those of another machine, or of a program
/// (`statfs(2)`): NFS, CIFS, SMB 2, 9P, Ceph, FUSE, AFS.
const TIMED_ELSEWHERE: [u64; 7] =
    [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x6573_5546, 0x5346_414f];

impl Tree {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let top = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?;
        Ok(Self { path: path.to_owned(), top })
    }

    /// Whether times of change in it are not this kernel's.
    pub(super) fn is_timed_elsewhere(&self) -> bool {
        #[allow(
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            reason = "a magic number"
        )]
        let is_one =
            |found: rustix::fs::StatFs| TIMED_ELSEWHERE.contains(&u64::from(found.f_type as u32));
        rustix::fs::fstatfs(&self.top).is_ok_and(is_one)
    }

    /// A directory in it.
    pub(super) fn directory(&self, below: &Path) -> io::Result<OwnedFd> {
        self.open_at(below, DIRECTORY, INSIDE)
    }

    /// What is there, a link itself.
    pub(super) fn stat(&self, below: &Path) -> io::Result<Stat> {
        let found = self.open_at(below, OFlags::PATH | OFlags::NOFOLLOW, INSIDE)?;
        Ok(rustix::fs::fstat(found)?)
    }

    /// What a link leads to, if that is in the tree.
    pub(super) fn stat_of_target(&self, below: &Path) -> io::Result<Stat> {
        let inside = INSIDE.difference(ResolveFlags::NO_SYMLINKS);
        Ok(rustix::fs::fstat(self.open_at(below, OFlags::PATH, inside)?)?)
    }

    /// The directory in the tree to which a link leads, and where that is; none where it
    /// leads to no directory, and an error where it leads out of the tree.
    pub(super) fn directory_of_target(&self, link: &Path) -> io::Result<Option<PathBuf>> {
        let to = rustix::fs::readlinkat(self.holder_of(link)?, name_of(link), Vec::new())?;
        let to = Path::new(OsStr::from_bytes(to.to_bytes()));
        // A path from the root of the file system, which the kernel would take for one outside.
        let inside = INSIDE.difference(ResolveFlags::NO_SYMLINKS);
        let asked = match to.strip_prefix(&self.path) {
            Ok(below) if to.is_absolute() => below,
            _ => link,
        };
        let found = match self.open_at(asked, OFlags::PATH, inside) {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let stat = rustix::fs::fstat(&found)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(None);
        }
        let real = |of: &OwnedFd| std::fs::read_link(format!("/proc/self/fd/{}", of.as_raw_fd()));
        let (found, top) = (real(&found)?, real(&self.top)?);
        let below = found.strip_prefix(top).map_err(|_| io::Error::other("it is elsewhere"))?;
        Ok(Some(below.to_owned()))
    }

    fn holder_of(&self, below: &Path) -> io::Result<OwnedFd> {
        self.directory(below.parent().unwrap_or(Path::new("")))
    }

    /// The content of a plain file of at most `most` bytes.
    pub(super) fn read(&self, below: &Path, most: u64) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let file = File::from(self.open_at(below, flags, INSIDE)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a plain file"));
        }
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= most) {
            return Ok(bytes);
        }
        Err(io::Error::other("it is too large"))
    }

    /// What is in a directory, at most so many names, and whether that is all.
    pub(super) fn names(&self, below: &Path, most: usize) -> io::Result<(Vec<Entry>, bool)> {
        names_in(&self.directory(below)?, most)
    }

    fn open_at(&self, below: &Path, flags: OFlags, resolve: ResolveFlags) -> io::Result<OwnedFd> {
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let flags = flags | OFlags::CLOEXEC;
        // The kernel asks for another try where something was moved meanwhile.
        for _ in 0..8 {
            match rustix::fs::openat2(&self.top, below, flags, Mode::empty(), resolve) {
                Err(rustix::io::Errno::AGAIN) => {}
                opened => return Ok(opened?),
            }
        }
        Err(rustix::io::Errno::AGAIN.into())
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or(path.as_os_str())
}

/// What is in an open directory, at most so many names, and whether that is all.
pub(super) fn names_in(directory: &OwnedFd, most: usize) -> io::Result<(Vec<Entry>, bool)> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if found.len() >= most {
            return Ok((found, false));
        }
        let kind = match entry.file_type() {
            FileType::Unknown => stat_in(directory, name)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        found.push(Entry { name: name.to_owned(), kind });
    }
    Ok((found, true))
}

/// What a name in an open directory is, a link itself.
pub(super) fn stat_in(directory: &OwnedFd, name: &[u8]) -> io::Result<Stat> {
    let name = Path::new(OsStr::from_bytes(name));
    Ok(rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_is_reached_and_no_link_followed() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("in"), root.path().join("out"));
        for directory in [inside.join("a"), outside.clone()] {
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("file"), "text").unwrap();
        }
        symlink(&outside, inside.join("away")).unwrap();
        symlink("a", inside.join("near")).unwrap();
        let tree = Tree::open(&inside).unwrap();
        let read = |path: &str| tree.read(Path::new(path), 9);
        assert_eq!(read("a/file").unwrap(), b"text", "control");
        for path in ["away/file", "near/file", "../out/file", "/etc/passwd", "a"] {
            assert!(read(path).is_err(), "{path}");
        }
        assert!(tree.read(Path::new("a/file"), 3).is_err());
        assert!(tree.directory(Path::new("near")).is_err());
        assert!(tree.directory(Path::new("a")).is_ok());
        let is = |stat: Stat| FileType::from_raw_mode(stat.st_mode);
        assert_eq!(is(tree.stat(Path::new("near")).unwrap()), FileType::Symlink);
        assert_eq!(is(tree.stat_of_target(Path::new("near")).unwrap()), FileType::Directory);
        assert!(tree.stat_of_target(Path::new("away")).is_err());
        let names = |most| tree.names(Path::new(""), most).map(|(found, all)| (found.len(), all));
        assert_eq!((names(9).unwrap(), names(2).unwrap()), ((3, true), (2, false)));
        assert!(Tree::open(&inside.join("near")).is_err());
        assert!(!tree.is_timed_elsewhere());
    }
}
