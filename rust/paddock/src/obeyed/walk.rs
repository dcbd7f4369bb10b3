//! The walk through a workspace once its launch is over: the nearest directories first.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::found::What;
use super::repository::{Repositories, is_repository};
use super::table::{self, Kind};
use super::tree::{Tree, names_in, stat_in};

/// Not looked into: what package managers and builds fill, large and of no use without
/// the files beside it that name it.
pub(crate) const NOT_LOOKED_INTO: [&str; 11] = [
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".hg",
    ".svn",
    ".jj",
];

/// What is said of one.
pub(super) const ANOTHER_FILE_SYSTEM: &str = "another file system is mounted in it";

/// A directory that waits for its turn.
struct Waiting {
    /// Its names, from the tree's top.
    names: Vec<Vec<u8>>,
    /// Who obeys all that lies in it.
    kind: Option<Kind>,
    is_moved: bool,
}

/// Looks at the whole tree, as far as there is room.
pub(super) fn walk(repositories: &Repositories<'_>) {
    let mut pending = VecDeque::from([Waiting { names: Vec::new(), kind: None, is_moved: false }]);
    while let Some(next) = pending.pop_front() {
        if repositories.out.room().is_none() {
            return;
        }
        look_into(repositories, &next, &mut pending);
    }
}

fn look_into(of: &Repositories<'_>, here: &Waiting, pending: &mut VecDeque<Waiting>) {
    let (tree, out, since) = (of.tree, of.out, &of.since);
    let below = path_of(&here.names);
    let directory = match tree.directory(&below) {
        Ok(directory) => directory,
        Err(e) => {
            // What another user has closed is not the agent's to write either.
            if !tree.stat(&below).is_ok_and(|stat| stat.st_uid != own_user()) {
                out.gap(why_not(&e));
            }
            return;
        }
    };
    let Ok(own) = rustix::fs::fstat(&directory) else { return };
    // The top was where it is, whatever became of its name.
    let is_top = here.names.is_empty();
    let is_moved = here.is_moved || !is_top && since.was_moved(&own);
    let Some(room) = out.room() else { return };
    let Ok((entries, is_all)) = names_in(&directory, room) else {
        return out.gap("a directory could not be read");
    };
    out.looked_at(entries.len().max(1));
    if !is_all {
        out.gap("it has too many files");
    }
    if is_repository(|name| entries.iter().any(|entry| entry.name == name)) {
        of.look(&below, is_moved);
    }
    let mut told = 0;
    for entry in entries {
        let path = below.join(OsStr::from_bytes(&entry.name));
        if entry.name == b".git" {
            match entry.kind {
                FileType::Directory => of.look(&path, is_moved),
                _ => of.pointer(&path, is_moved),
            }
            continue;
        }
        let is_directory = entry.kind == FileType::Directory;
        if is_directory && NOT_LOOKED_INTO.iter().any(|name| name.as_bytes() == entry.name) {
            continue;
        }
        let mut kind = here.kind.or_else(|| table::obeyed(&here.names, &entry.name));
        if is_directory || entry.kind == FileType::Symlink && kind.is_none() {
            let mut names = here.names.clone();
            names.push(entry.name.clone());
            let all = here.kind.or_else(|| table::obeyed_below(&names));
            if is_directory {
                pending.push_back(Waiting { names, kind: all, is_moved });
                continue;
            }
            let is_changed =
                || is_moved || stat_in(&directory, &entry.name).is_ok_and(|s| since.is_new(&s));
            kind = all.or_else(|| (is_changed() && leads_astray(tree, &path)).then_some(Kind::Git));
        }
        let Some(kind) = kind else { continue };
        let Ok(stat) = stat_in(&directory, &entry.name) else { continue };
        let what = if since.is_new(&stat) {
            What::Changed
        } else if is_moved {
            What::Moved
        } else if entry.kind == FileType::Symlink
            && tree.stat_of_target(&path).is_ok_and(|target| since.is_new(&target))
        {
            What::Target
        } else {
            continue;
        };
        told += 1;
        out.add(kind, tree.path.join(path), what);
    }
    if let Some(kind) = here.kind.filter(|_| told == 0 && since.is_new(&own)) {
        out.add(kind, tree.path.join(below), What::Directory);
    }
}

/// Whether a link leads to a directory of which more is obeyed than is looked at: a
/// repository, one that is not looked into, or one outside of the tree.
fn leads_astray(tree: &Tree, link: &Path) -> bool {
    let Ok(target) = tree.directory_of_target(link) else { return true };
    let Some(target) = target else { return false };
    let is_skipped =
        |part: &OsStr| part == ".git" || NOT_LOOKED_INTO.iter().any(|name| part == *name);
    let is_there = |name: &&str| tree.stat(&target.join(name)).is_ok();
    target.iter().any(is_skipped) || [".git", "HEAD"].iter().any(is_there)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn path_of(names: &[Vec<u8>]) -> PathBuf {
    names.iter().map(|name| Path::new(OsStr::from_bytes(name))).collect()
}

fn why_not(error: &std::io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::XDEV) => ANOTHER_FILE_SYSTEM,
        Some(Errno::NAMETOOLONG) => "it is too deep",
        Some(Errno::NOSYS | Errno::PERM) => "the kernel has no openat2 here",
        _ => "a directory could not be read",
    }
}
