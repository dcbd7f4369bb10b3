//! What an agent finds in its private home at its start. Another launch of the same
//! agent may be at work in there: every step goes from an opened directory to the next,
//! and none over a link (`openat(2)`, `O_NOFOLLOW`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, linkat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::error::Error;
use crate::launch::{LOOK, LaunchId};

/// Makes `directories` in the home at `home`, and those of the files `seeds` that are
/// not there.
pub(super) fn furnish(
    home: &Path,
    directories: &[PathBuf],
    seeds: &[(PathBuf, OsString)],
) -> Result<(), Error> {
    let opened = open(home).map_err(|e| unusable(home, &e.into()))?;
    for path in directories {
        let mut whole = home.to_owned();
        step_into(&opened, &mut whole, path, Strictness::Private)?;
    }
    for (path, text) in seeds {
        let mut whole = home.to_owned();
        let above = path.parent().unwrap_or(Path::new(""));
        let directory = step_into(&opened, &mut whole, above, Strictness::Own)?;
        let name = path.file_name().unwrap_or_default();
        let written = write_if_absent(&directory, name, text.as_bytes());
        written.map_err(|e| unusable(&whole.join(name), &e))?;
    }
    Ok(())
}

/// What a directory must be that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// This user's, and of no use to others.
    Private,
    /// This user's: agents make theirs as they like, and others cannot get into the home.
    Own,
}

/// Opens the directory `path` below `home`, and makes what is missing of it. `whole`
/// follows, for what is said when that fails.
fn step_into(
    home: &OwnedFd,
    whole: &mut PathBuf,
    path: &Path,
    strictness: Strictness,
) -> Result<OwnedFd, Error> {
    let mut at = home.try_clone().map_err(|e| unusable(whole, &e))?;
    for part in path {
        whole.push(part);
        match mkdirat(&at, part, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(unusable(whole, &e.into())),
        }
        let exposed = |reason, remedy| {
            Err(Error::DirectoryNotPrivate { path: whole.clone(), reason, remedy })
        };
        at = match openat(&at, part, FLAGS, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return exposed("it is a symbolic link or no directory", LOOK);
            }
            opened => opened.map_err(|e| unusable(whole, &e.into()))?,
        };
        let stat = fstat(&at).map_err(|e| unusable(whole, &e.into()))?;
        if stat.st_uid != rustix::process::getuid().as_raw() {
            return exposed("it belongs to another user", LOOK);
        }
        if strictness == Strictness::Private && stat.st_mode & 0o077 != 0 {
            return exposed("others can use it", "chmod 700");
        }
    }
    Ok(at)
}

const FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, FLAGS, Mode::empty())
}

/// Whatever is there stays, also a link that leads nowhere. The file has its name only
/// when all of it is written.
fn write_if_absent(directory: &OwnedFd, name: &OsStr, text: &[u8]) -> io::Result<()> {
    if rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    let temporary = format!(".paddock-seed-{}", LaunchId::random()?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(directory, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let written = File::from(file).write_all(text).and_then(|()| {
        match linkat(directory, &temporary, directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(e) => Err(e.into()),
        }
    });
    let removed = unlinkat(directory, &temporary, AtFlags::empty());
    written.and_then(|()| Ok(removed?))
}

fn unusable(path: &Path, e: &io::Error) -> Error {
    Error::DirectoryUnusable { path: path.to_owned(), reason: e.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn seed(path: &str, text: &str) -> (PathBuf, OsString) {
        (path.into(), text.into())
    }

    #[test]
    fn a_seed_is_written_once_and_for_this_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path();
        let seeds = [seed("a/b/one.json", "{}"), seed("two", "2")];
        furnish(home, &["d/e".into()], &seeds).unwrap();
        for (path, wanted) in
            [("a", 0o700), ("a/b", 0o700), ("a/b/one.json", 0o600), ("two", 0o600), ("d/e", 0o700)]
        {
            assert_eq!(mode(&home.join(path)), wanted, "{path}");
        }
        assert_eq!(std::fs::read(home.join("a/b/one.json")).unwrap(), b"{}");
        std::fs::write(home.join("two"), "the agent's").unwrap();
        std::fs::set_permissions(home.join("a"), PermissionsExt::from_mode(0o755)).unwrap();
        furnish(home, &[], &seeds).unwrap();
        assert_eq!(std::fs::read(home.join("two")).unwrap(), b"the agent's");
        let names = std::fs::read_dir(home.join("a/b")).unwrap();
        assert_eq!(names.count(), 1, "no temporary file is left");
        std::fs::set_permissions(home.join("d"), PermissionsExt::from_mode(0o755)).unwrap();
        assert!(furnish(home, &["d/e".into()], &[]).is_err(), "a directory of others");
    }

    #[test]
    fn no_link_in_the_home_is_followed() {
        let root = tempfile::tempdir().unwrap();
        let (home, outside) = (root.path().join("home"), root.path().join("outside"));
        for directory in [&home, &outside] {
            std::fs::create_dir(directory).unwrap();
        }
        furnish(&home, &["plain".into()], &[seed("plain/control", "x")]).unwrap();
        symlink(&outside, home.join("directory")).unwrap();
        symlink(outside.join("new"), home.join("file")).unwrap();
        furnish(&home, &[], &[seed("file", "x")]).unwrap();
        for path in ["directory/file", "directory/below/file"] {
            let refused = furnish(&home, &[], &[seed(path, "x")]).unwrap_err().to_string();
            assert!(refused.contains("it is a symbolic link"), "{refused}");
        }
        assert!(furnish(&home, &["directory/new".into()], &[]).is_err());
        assert!(furnish(&home.join("directory"), &[], &[seed("x", "x")]).is_err());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}
