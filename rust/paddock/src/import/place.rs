//! Writing into a private home. The agent may have put links there, and may be at work
//! there: every step goes by the directory that was opened, and follows none.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fchmod, mkdirat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

/// So many backups of one file are kept.
const MOST_BACKUPS: usize = 99;

/// What became of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    Copied,
    /// Something is there already, and was left.
    There,
    /// What was there has that name now.
    Replaced(OsString),
}

/// Whether something is at that place already, whatever it is.
pub(crate) fn is_there(home: &Path, to: &Path) -> bool {
    home.join(to).symlink_metadata().is_ok()
}

/// Writes `text` as a new file at `to` below `home`, for this user alone; with `replace`
/// what is there is given another name first.
///
/// # Errors
/// When it cannot be written, or a part of the way is no directory.
pub(crate) fn place(
    home: &Path,
    to: &Path,
    text: &[u8],
    is_program: bool,
    replace: bool,
) -> io::Result<Placed> {
    let name = to.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut directory = open_directory(CWD, home.as_os_str())?;
    for part in to.parent().into_iter().flat_map(Path::components) {
        let part = part.as_os_str();
        match mkdirat(&directory, part, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
        directory = open_directory(&directory, part)?;
    }
    let mut placed = Placed::Copied;
    let file = match create(&directory, name) {
        Err(Errno::EXIST) if !replace => return Ok(Placed::There),
        Err(Errno::EXIST) => {
            placed = Placed::Replaced(set_aside(&directory, name)?);
            create(&directory, name)?
        }
        created => created?,
    };
    let mut file = File::from(file);
    let mode = if is_program { Mode::RWXU } else { Mode::RUSR | Mode::WUSR };
    // Whatever the umask took away.
    let written = fchmod(&file, mode).map_err(io::Error::from).and_then(|()| file.write_all(text));
    if let Err(e) = written {
        let _ = unlinkat(&directory, name, AtFlags::empty());
        return Err(e);
    }
    Ok(placed)
}

fn open_directory<D: std::os::fd::AsFd>(at: D, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty()).map_err(|e| match e {
        Errno::LOOP | Errno::NOTDIR => {
            let name = confine::escape::escape(name.as_encoded_bytes());
            io::Error::other(format!("{name} is a link or no directory in the private home"))
        }
        e => e.into(),
    })
}

/// `O_EXCL` follows no link, not even one that leads nowhere (`open(2)`).
fn create(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::RUSR | Mode::WUSR)
}

fn set_aside(directory: &OwnedFd, name: &OsStr) -> io::Result<OsString> {
    for n in 1..=MOST_BACKUPS {
        let mut aside = name.to_owned();
        aside.push(format!(".before-import-{n}"));
        match renameat_with(directory, name, directory, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(aside),
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(io::Error::other(format!("there are {MOST_BACKUPS} earlier ones of it")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_made_for_its_owner_alone_and_nothing_is_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path();
        let put = |to: &str, text: &str, replace| {
            place(home, Path::new(to), text.as_bytes(), to.ends_with("sh"), replace)
        };
        assert_eq!(put("a/b/c.toml", "one", false).unwrap(), Placed::Copied);
        assert_eq!(put("a/run.sh", "x", false).unwrap(), Placed::Copied);
        assert_eq!(mode(&home.join("a/b")), 0o700);
        assert_eq!(mode(&home.join("a/b/c.toml")), 0o600);
        assert_eq!(mode(&home.join("a/run.sh")), 0o700);
        assert_eq!(put("a/b/c.toml", "two", false).unwrap(), Placed::There);
        for n in 1..=2 {
            let aside = format!("c.toml.before-import-{n}");
            let placed = put("a/b/c.toml", "two", true).unwrap();
            assert_eq!(placed, Placed::Replaced(aside.clone().into()));
            assert!(home.join("a/b").join(aside).is_file());
        }
        assert_eq!(std::fs::read(home.join("a/b/c.toml.before-import-1")).unwrap(), b"one");
        assert_eq!(std::fs::read(home.join("a/b/c.toml")).unwrap(), b"two");
    }

    #[test]
    fn no_link_is_written_through() {
        let root = tempfile::tempdir().unwrap();
        let (home, outside) = (root.path().join("home"), root.path().join("outside"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("file"), "kept").unwrap();
        symlink(&outside, home.join("dir")).unwrap();
        symlink(outside.join("file"), home.join("file")).unwrap();
        symlink(outside.join("new"), home.join("new")).unwrap();
        let put = |to: &str, replace| place(&home, Path::new(to), b"text", false, replace);
        for replace in [false, true] {
            let refused = put("dir/x", replace).unwrap_err().to_string();
            assert_eq!(refused, "dir is a link or no directory in the private home");
        }
        assert_eq!(put("file", false).unwrap(), Placed::There);
        assert_eq!(put("new", false).unwrap(), Placed::There);
        assert!(matches!(put("file", true).unwrap(), Placed::Replaced(_)));
        assert!(matches!(put("new", true).unwrap(), Placed::Replaced(_)));
        assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"kept");
        assert!(!outside.join("new").exists() && !outside.join("x").exists());
        assert_eq!(std::fs::read(home.join("file")).unwrap(), b"text");
        let link = root.path().join("link");
        symlink(&home, &link).unwrap();
        assert!(place(&link, Path::new("y"), b"", false, false).is_err(), "the home itself");
    }
}
