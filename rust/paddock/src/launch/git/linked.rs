//! Linked worktrees: a workspace whose repository is elsewhere
//! (`gitrepository-layout(5)`, `git-worktree(1)`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::files::read_plain;
use crate::output::shown;

/// A file that says where a repository is has one path in it.
const MOST: u64 = 8 << 10;

/// Where a linked worktree's repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkedGit {
    /// The common directory; read-only but for `writable`.
    pub(crate) common: PathBuf,
    /// Directories in it that a commit writes: never hooks or configuration.
    pub(crate) writable: Vec<PathBuf>,
    /// The worktree's own directory in it.
    pub(super) private: PathBuf,
    /// What does not work, and why.
    pub(super) told: Vec<String>,
}

/// Why a workspace with a `.git` that is no directory is no linked worktree.
pub(super) enum Not {
    /// Its repository is in it.
    In(PathBuf),
    /// In words.
    Usable(String),
}

/// What a linked worktree needs of its common directory. The `.git` file can be the
/// agent's to write, so it is believed only where the other side points back: into that
/// directory the agent cannot write. No link is followed that an agent could have put there.
pub(super) fn linked_git(root: &Path) -> Result<LinkedGit, Not> {
    let not = |why: String| Not::Usable(format!("git does not work in this launch: {why}"));
    let pointer = root.join(".git");
    let private = read_pointer(&pointer, b"gitdir: ", root).map_err(not)?;
    let elsewhere = shown(&private);
    let real = private.canonicalize().map_err(|e| not(format!("{elsewhere}: {e}")))?;
    if real.starts_with(root) {
        return if super::looks_like_one(&real) {
            Err(Not::In(real))
        } else {
            Err(not(format!("{elsewhere} is no repository")))
        };
    }
    let unknown = |why: String| {
        not(format!("its repository, {elsewhere}, is not in the workspace, and {why}"))
    };
    if is_link(&private) {
        return Err(unknown("that is a symbolic link, which is not followed".into()));
    }
    let back = read_pointer(&real.join("gitdir"), b"", &real).map_err(|_| {
        unknown(
            "that is no linked worktree's; `paddock run --workspace` takes what holds it".into(),
        )
    })?;
    let common = read_pointer(&real.join("commondir"), b"", &real).map_err(unknown)?;
    let common = common.canonicalize().map_err(|e| unknown(e.to_string()))?;
    let is_consistent = back.canonicalize().ok() == pointer.canonicalize().ok()
        && real.parent() == Some(&common.join("worktrees"))
        && is(&common.join("objects"), std::fs::FileType::is_dir)
        && is(&common.join("HEAD"), std::fs::FileType::is_file);
    if !is_consistent {
        return Err(unknown(
            "does not point back at it; `git worktree repair` sets that right".into(),
        ));
    }
    let mut told = Vec::new();
    let mut writable = vec![real.clone()];
    // Of the logs those of the branches: `logs/HEAD` is the main worktree's.
    for name in ["objects", "refs", "logs/refs", "reftable"] {
        let directory = common.join(name);
        let parts = directory.ancestors().take_while(|part| *part != common);
        if let Some(link) = parts.into_iter().find(|part| is_link(part)) {
            let link = shown(link);
            return Err(not(format!("{link} is a symbolic link, which is not followed")));
        }
        if is(&directory, std::fs::FileType::is_dir) {
            writable.push(directory);
        } else if name == "logs/refs" {
            let directory = shown(&directory);
            told.push(format!(
                "commits fail in this launch: git keeps a log of each branch in {directory}, which \
                 is not there; make it (mkdir -p), then start again"
            ));
        }
    }
    Ok(LinkedGit { common, writable, private: real, told })
}

fn is(path: &Path, kind: fn(&std::fs::FileType) -> bool) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| kind(&metadata.file_type()))
}

fn is_link(path: &Path) -> bool {
    is(path, std::fs::FileType::is_symlink)
}

/// The path in a file, which is no link.
fn read_pointer(file: &Path, prefix: &[u8], relative_to: &Path) -> Result<PathBuf, String> {
    let text = read_plain(file, MOST).map_err(|e| format!("{}: {e}", shown(file)))?;
    let path = text.strip_prefix(prefix).map(<[u8]>::trim_ascii_end);
    let path = path.filter(|path| !path.is_empty() && !path.contains(&0));
    let path = path.ok_or_else(|| format!("{} names no repository", shown(file)))?;
    Ok(relative_to.join(Path::new(OsStr::from_bytes(path))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A repository with a linked worktree, laid out by hand as git does.
    fn linked(root: &Path) -> (PathBuf, PathBuf) {
        let common = root.join("repo/.git");
        let worktree = root.join("tree");
        for directory in ["objects", "refs", "logs/refs", "hooks", "worktrees/tree"] {
            fs::create_dir_all(common.join(directory)).unwrap();
        }
        fs::create_dir(&worktree).unwrap();
        let private = common.join("worktrees/tree");
        fs::write(common.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(worktree.join(".git"), format!("gitdir: {}\n", private.display())).unwrap();
        fs::write(private.join("gitdir"), format!("{}\n", worktree.join(".git").display()))
            .unwrap();
        fs::write(private.join("commondir"), "../..\n").unwrap();
        (common, worktree)
    }

    fn why(root: &Path) -> String {
        match linked_git(root) {
            Err(Not::Usable(why)) => why,
            Err(Not::In(at)) => format!("in {}", at.display()),
            Ok(linked) => format!("usable: {linked:?}"),
        }
    }

    fn ground() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let (common, tree) = linked(&root.path().canonicalize().unwrap());
        (root, common, tree)
    }

    #[test]
    fn a_linked_worktree_may_write_objects_and_not_hooks() {
        let (_root, common, worktree) = ground();
        let Ok(git) = linked_git(&worktree) else { panic!("{}", why(&worktree)) };
        assert_eq!(git.common, common);
        let mut writable = git.writable.clone();
        writable.sort();
        let wanted = ["logs/refs", "objects", "refs", "worktrees/tree"].map(|d| common.join(d));
        assert_eq!(writable, wanted);
        assert_eq!(git.told, Vec::<String>::new());
        fs::remove_dir_all(common.join("logs")).unwrap();
        let Ok(git) = linked_git(&worktree) else { panic!("{}", why(&worktree)) };
        assert!(git.told[0].contains("commits fail"), "{:?}", git.told);
    }

    #[test]
    fn a_pointer_that_nothing_points_back_to_is_not_believed() {
        let (_root, common, worktree) = ground();
        assert!(linked_git(&worktree).is_ok(), "control");
        let forged = worktree.parent().unwrap().join("forged");
        fs::create_dir(&forged).unwrap();
        let private = common.join("worktrees/tree");
        fs::write(forged.join(".git"), format!("gitdir: {}\n", private.display())).unwrap();
        assert!(why(&forged).contains("does not point back"), "{}", why(&forged));
        for (text, wanted) in [
            ("gitdir: /none/there\n", "No such file"),
            ("x\n", "names no repository"),
            ("gitdir: ../repo/.git\n", "no linked worktree"),
            ("gitdir: \n", "names no repository"),
        ] {
            fs::write(forged.join(".git"), text).unwrap();
            assert!(why(&forged).contains(wanted), "{text}: {}", why(&forged));
        }
        // One that is in the workspace is the workspace's.
        for name in ["objects", "refs", "HEAD"] {
            fs::create_dir_all(forged.join("own").join(name)).unwrap();
        }
        fs::write(forged.join(".git"), "gitdir: own\n").unwrap();
        assert_eq!(why(&forged), format!("in {}", forged.join("own").display()));
    }

    #[test]
    fn a_link_in_any_place_is_refused_with_words() {
        for place in [
            "tree/.git",
            "repo/.git/worktrees/tree",
            "repo/.git/worktrees/tree/commondir",
            "repo/.git/worktrees/tree/gitdir",
            "repo/.git/worktrees",
            "repo/.git/objects",
            "repo/.git/refs",
            "repo/.git/logs",
            "repo/.git/logs/refs",
        ] {
            let (root, _, worktree) = ground();
            assert!(linked_git(&worktree).is_ok(), "control");
            let at = root.path().join(place);
            let moved = root.path().join("moved");
            fs::rename(&at, &moved).unwrap();
            symlink(&moved, &at).unwrap();
            let why = why(&worktree);
            assert!(why.starts_with("git does not work in this launch: "), "{place}: {why}");
        }
    }
}
