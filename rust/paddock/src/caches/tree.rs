//! Trees that an agent made: measured and removed by way of open directories. No link is
//! followed, whatever is put where, and a tree may be as deep and as closed as it likes.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

/// So many directories are open at a time, one in the other.
const DEEPEST: usize = 64;

/// The directory `name` in another, to be read.
pub(super) fn open_in(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

/// The directory that holds what is at `path` below another, and its name there. `None`
/// where one of the directories on the way is not there, or is none.
///
/// # Errors
/// The directory on the way that cannot be opened, and why.
pub(super) fn holder_of<'a>(
    directory: BorrowedFd<'_>,
    path: &'a Path,
) -> Result<Option<(OwnedFd, &'a OsStr)>, (PathBuf, io::Error)> {
    let Some(name) = path.file_name() else { return Ok(None) };
    let mut way = PathBuf::new();
    let mut holder = directory.try_clone_to_owned().map_err(|e| (way.clone(), e))?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        way.push(part);
        holder = match open_in(holder.as_fd(), part.as_os_str()) {
            Ok(opened) => opened,
            Err(e) if is_not_there(&e) => return Ok(None),
            Err(e) => return Err((way, e)),
        };
    }
    Ok(Some((holder, name)))
}

/// Nothing is there, or no directory: a link is none.
fn is_not_there(error: &io::Error) -> bool {
    let nothing = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP];
    nothing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// How much the directory `name` takes up on disk, what has several names once. `None`
/// where there is no directory. What is deeper than [`DEEPEST`] is not counted.
pub(super) fn measure(holder: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<u64>> {
    let top = match open_in(holder, name) {
        Ok(top) => top,
        Err(e) if is_not_there(&e) => return Ok(None),
        // A closed one can be removed all the same.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(Some(0)),
        Err(e) => return Err(e),
    };
    let mut bytes = on_disk(&fstat(&top)?);
    let mut seen = HashSet::new();
    let mut open = vec![Dir::new(top)?];
    while let Some(directory) = open.last_mut() {
        let Some(entry) = directory.read() else {
            open.pop();
            continue;
        };
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let holder = directory.fd()?;
        let Ok(found) = statat(holder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if found.st_nlink > 1 && !is_directory(&found) && !seen.insert((found.st_dev, found.st_ino))
        {
            continue;
        }
        bytes += on_disk(&found);
        if is_directory(&found)
            && open.len() < DEEPEST
            && let Some(Ok(inner)) = open.last().and_then(|d| Some(open_in(d.fd().ok()?, name)))
        {
            open.push(Dir::new(inner)?);
        }
    }
    Ok(Some(bytes))
}

fn on_disk(found: &rustix::fs::Stat) -> u64 {
    // Always in blocks of 512 bytes (`stat(2)`).
    u64::try_from(found.st_blocks).unwrap_or(0) * 512
}

fn is_directory(found: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir()
}

/// One directory that is being emptied.
struct Level {
    name: OsString,
    opened: OwnedFd,
    left: Vec<OsString>,
}

impl Level {
    fn open(holder: BorrowedFd<'_>, name: OsString) -> io::Result<Self> {
        let opened = open_up(holder, &name)?;
        let mut left = Vec::new();
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                left.push(name.to_owned());
            }
        }
        Ok(Self { name, opened, left })
    }
}

/// Removes the directory `name`, and all that is in it.
pub(super) fn remove(holder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let mut levels = vec![Level::open(holder, name.to_owned())?];
    let mut moved = 0u64;
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.left.pop() else {
            let Some(emptied) = levels.pop() else { break };
            let above = levels.last().map_or(holder, |above| above.opened.as_fd());
            unlinkat(above, &emptied.name, AtFlags::REMOVEDIR)?;
            continue;
        };
        match unlinkat(&level.opened, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR) => {}
            Err(e) => return Err(e.into()),
        }
        if levels.len() < DEEPEST {
            let inner = Level::open(levels[levels.len() - 1].opened.as_fd(), name)?;
            levels.push(inner);
        } else {
            move_up(&mut levels, &name, &mut moved)?;
        }
    }
    Ok(())
}

/// Moves a directory that lies too deep into the first, under a name that is free there.
fn move_up(levels: &mut [Level], name: &OsStr, moved: &mut u64) -> io::Result<()> {
    let deep = &levels[levels.len() - 1].opened;
    // Who moves a directory writes its entry for the one above it.
    drop(open_up(deep.as_fd(), name)?);
    loop {
        *moved += 1;
        let free = OsString::from(format!("paddock-moved-{moved}"));
        match renameat(deep, name, &levels[0].opened, &free) {
            Ok(()) => {
                levels[0].left.push(free);
                return Ok(());
            }
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Opens a directory whose owner may not be allowed to read, search or change it (Go's
/// modules are so), and allows it.
fn open_up(holder: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let opened = match open_in(holder, name) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = openat(holder, name, flags, Mode::empty())?;
            // The place itself, by its descriptor: no name is looked up.
            let itself = format!("/proc/self/fd/{}", place.as_raw_fd());
            rustix::fs::chmod(&itself, Mode::RWXU)?;
            open_in(place.as_fd(), OsStr::new("."))?
        }
        opened => opened?,
    };
    if Mode::from_raw_mode(fstat(&opened)?.st_mode) & Mode::RWXU != Mode::RWXU {
        fchmod(&opened, Mode::RWXU)?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn opened(path: &Path) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    #[test]
    fn closed_and_read_only_directories_go_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (tree, outside) = (root.path().join("tree"), root.path().join("outside"));
        fs::create_dir_all(tree.join("mod/pkg@v1/deep")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("keep"), "x").unwrap();
        fs::write(tree.join("mod/pkg@v1/go.mod"), "x").unwrap();
        fs::hard_link(outside.join("keep"), tree.join("mod/same")).unwrap();
        symlink(&outside, tree.join("mod/link")).unwrap();
        for (path, mode) in [("mod/pkg@v1/deep", 0o000), ("mod/pkg@v1", 0o555), ("mod", 0o500)] {
            fs::set_permissions(tree.join(path), Permissions::from_mode(mode)).unwrap();
        }
        remove(opened(root.path()).as_fd(), OsStr::new("tree")).unwrap();
        assert!(!tree.exists());
        assert_eq!(fs::read(outside.join("keep")).unwrap(), b"x");
    }

    #[test]
    fn a_link_in_the_place_of_a_cache_or_above_it_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        fs::create_dir_all(root.path().join("outside/registry")).unwrap();
        fs::create_dir(&home).unwrap();
        symlink(root.path().join("outside"), home.join(".cargo")).unwrap();
        symlink(root.path().join("outside"), home.join(".cache")).unwrap();
        let (below, cache) = (opened(&home), OsStr::new(".cache"));
        assert!(holder_of(below.as_fd(), Path::new(".cargo/registry")).unwrap().is_none());
        assert_eq!(measure(below.as_fd(), cache).unwrap(), None);
        assert!(remove(below.as_fd(), cache).is_err());
        assert!(root.path().join("outside/registry").exists());
        // The control: a directory in the same place is found, measured and removed.
        fs::remove_file(home.join(".cargo")).unwrap();
        fs::create_dir_all(home.join(".cargo/registry")).unwrap();
        fs::write(home.join(".cargo/registry/crate"), vec![1; 20_000]).unwrap();
        let (holder, name) =
            holder_of(below.as_fd(), Path::new(".cargo/registry")).unwrap().unwrap();
        assert!(measure(holder.as_fd(), name).unwrap() >= Some(20_000));
        remove(holder.as_fd(), name).unwrap();
        assert!(home.join(".cargo").exists() && !home.join(".cargo/registry").exists());
    }

    #[test]
    fn a_tree_deeper_than_there_are_descriptors_goes() {
        let root = tempfile::tempdir().unwrap();
        let mut at = opened(root.path());
        // The names that deep ones are moved to are taken already.
        fs::create_dir_all(root.path().join("d/paddock-moved-1/full")).unwrap();
        fs::write(root.path().join("d/paddock-moved-2"), "x").unwrap();
        for depth in 0..3_000 {
            if depth > 0 {
                rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            }
            at = open_in(at.as_fd(), OsStr::new("d")).unwrap();
            rustix::fs::symlinkat("/", &at, "root").unwrap();
        }
        assert!(measure(opened(root.path()).as_fd(), OsStr::new("d")).unwrap().is_some());
        remove(opened(root.path()).as_fd(), OsStr::new("d")).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
