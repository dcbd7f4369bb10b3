//! Where sockets of launches go.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use super::Feature;
use super::errno::named;
use crate::launch::{Directories, LONGEST_SOCKET_PATH, LaunchId, Paths};
use crate::output::{quoted, shown};

const MIB: u64 = 1024 * 1024;
/// What a launch has been seen to take is less than one.
const WANTED: u64 = 16 * MIB;
const OTHER: &str = "set XDG_RUNTIME_DIR to a directory of yours";

/// `runtime-directory` and `socket-path`.
pub(super) fn examine(directories: &Directories) -> Vec<Feature> {
    vec![runtime_directory(&directories.runtime), socket_path(directories)]
}

fn runtime_directory(path: &Path) -> Feature {
    const NAME: &str = "runtime-directory";
    let is = shown(path);
    let (there, what) = match std::fs::symlink_metadata(path) {
        Ok(metadata) => match exposure(path, &metadata) {
            Some((reason, advice)) => return Feature::missing(NAME, reason).advise(advice),
            None => (path, format!("{is}, mode 0700")),
        },
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let Some(above) = path.ancestors().skip(1).find(|p| p.is_dir()) else {
                return Feature::missing(NAME, format!("nothing of {is} is there")).advise(OTHER);
            };
            (above, format!("{is}, which a launch makes"))
        }
        Err(e) => return Feature::missing(NAME, format!("{is}: {}", named(&e))).advise(OTHER),
    };
    if let Err(e) = writable(there, there == path) {
        let reason = format!("{} is not writable for you ({})", shown(there), named(&e));
        return Feature::missing(NAME, reason).advise(OTHER);
    }
    match statvfs(there) {
        Ok(file_system) => {
            let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
            let is_read_only = file_system.f_flag.contains(StatVfsMountFlags::RDONLY);
            // Some file systems do not count files.
            let is_full = file_system.f_files > 0 && file_system.f_favail == 0;
            room(NAME, &what, free, is_read_only, is_full)
        }
        Err(e) => {
            Feature::unknown(NAME, format!("{what}; how much is free, it does not tell ({e})"))
        }
    }
}

/// Makes something in a directory of Paddock's own; others are only asked about.
fn writable(directory: &Path, is_own: bool) -> std::io::Result<()> {
    if !is_own {
        return Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?);
    }
    let made = directory.join(format!("doctor-{}", std::process::id()));
    std::fs::create_dir(&made)?;
    std::fs::remove_dir(&made)
}

/// Why an existing directory is not private, and what to do about it.
fn exposure(path: &Path, metadata: &Metadata) -> Option<(String, String)> {
    let is = shown(path);
    let look = format!("see what it is, then move it away: ls -ld {}", quoted(&is));
    let mode = metadata.mode() & 0o7777;
    if !metadata.is_dir() {
        Some((format!("{is} is a symbolic link or no directory"), look))
    } else if metadata.uid() != rustix::process::geteuid().as_raw() {
        Some((format!("{is} belongs to another user"), look))
    } else if mode & 0o077 != 0 {
        let reason = format!("{is} can be used by others (mode {mode:04o})");
        Some((reason, format!("chmod 700 {}", quoted(&is))))
    } else {
        None
    }
}

fn room(name: &str, what: &str, free: u64, is_read_only: bool, is_full: bool) -> Feature {
    const MAKE_ROOM: &str = "make room there, or set XDG_RUNTIME_DIR to another directory of yours";
    match free {
        _ if is_read_only => {
            Feature::missing(name, format!("{what}: it is mounted read-only")).advise(OTHER)
        }
        _ if is_full => {
            Feature::missing(name, format!("{what}: no more files fit")).advise(MAKE_ROOM)
        }
        0..MIB => Feature::missing(name, format!("{what}: it is full")).advise(MAKE_ROOM),
        MIB..WANTED => {
            Feature::partial(name, format!("{what}, {} MiB free", free / MIB)).advise(MAKE_ROOM)
        }
        _ => Feature::enforced(name, format!("{what}, {} MiB free", free / MIB)),
    }
}

fn socket_path(directories: &Directories) -> Feature {
    const NAME: &str = "socket-path";
    let Ok(id) = LaunchId::random() else {
        return Feature::unknown(NAME, "/dev/urandom cannot be read");
    };
    let sockets = Paths::of(&id, directories).longest_sockets();
    let longest = sockets.iter().map(|path| path.as_os_str().len()).max().unwrap_or_default();
    if longest > LONGEST_SOCKET_PATH {
        return Feature::missing(
            NAME,
            format!("a launch's longest has {longest} bytes; {LONGEST_SOCKET_PATH} are possible"),
        )
        .advise("set XDG_RUNTIME_DIR to a shorter path");
    }
    let told = format!("a launch's longest has {longest} of {LONGEST_SOCKET_PATH} bytes");
    match bind_longest(&directories.runtime) {
        None => Feature::enforced(NAME, told),
        Some(Ok(())) => {
            Feature::enforced(NAME, format!("{told}; one of {LONGEST_SOCKET_PATH} was bound"))
        }
        Some(Err(e)) => Feature::missing(
            NAME,
            format!(
                "no socket of {LONGEST_SOCKET_PATH} bytes in {}: {e}",
                shown(&directories.runtime)
            ),
        )
        .advise("set XDG_RUNTIME_DIR to a directory of yours on a local file system"),
    }
}

/// Binds a socket there whose path is as long as can be. `None` where there is no
/// such directory yet.
fn bind_longest(directory: &Path) -> Option<std::io::Result<()>> {
    let start = format!("doctor-{}-", std::process::id());
    let taken = directory.as_os_str().as_bytes().len() + 1 + start.len();
    let fill = LONGEST_SOCKET_PATH.checked_sub(taken)?;
    if !directory.is_dir() {
        return None;
    }
    let path = directory.join(format!("{start}{}", "x".repeat(fill)));
    let bound = UnixListener::bind(&path).map(drop);
    let _ = std::fs::remove_file(&path);
    Some(bound)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::doctor::State;

    #[test]
    fn only_a_private_directory_with_room_will_do() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("r");
        let state = || runtime_directory(&path).state;
        assert_eq!(state(), State::Enforced, "a launch makes it");
        std::fs::create_dir(&path).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o700);
        assert_eq!(state(), State::Enforced);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "nothing is left");
        mode(0o755);
        let exposed = runtime_directory(&path);
        assert_eq!(exposed.state, State::Missing);
        assert!(
            exposed.reason.ends_with("can be used by others (mode 0755)"),
            "{}",
            exposed.reason
        );
        assert!(exposed.advice.unwrap().starts_with("chmod 700 "));
        std::fs::remove_dir(&path).unwrap();
        symlink(root.path(), &path).unwrap();
        assert_eq!(state(), State::Missing);
        assert_eq!(runtime_directory(Path::new("")).state, State::Missing);
    }

    #[test]
    fn room_is_counted() {
        let state = |free| room("x", "y", free, false, false).state;
        assert_eq!(state(0), State::Missing);
        assert_eq!(state(MIB), State::Partial);
        assert_eq!(state(WANTED), State::Enforced);
        assert_eq!(room("x", "y", WANTED, true, false).state, State::Missing);
        assert_eq!(room("x", "y", WANTED, false, true).state, State::Missing);
    }

    #[test]
    fn the_longest_path_is_bound_where_the_directory_is() {
        let root = tempfile::tempdir().unwrap();
        assert!(bind_longest(root.path()).unwrap().is_ok());
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0, "nothing is left");
        assert!(bind_longest(&root.path().join("none")).is_none());
        assert!(bind_longest(&root.path().join("x".repeat(120))).is_none());
    }
}
