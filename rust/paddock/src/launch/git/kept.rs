//! What of a repository the veil keeps read-only, though it lies where the agent may
//! write: hooks, settings, and what leads git to others.

use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::plan::{Access, Grant};
use super::super::{Tier, Workspace};
use super::{GitSettings, looks_like_one};
use crate::files::read_plain;
use crate::output::shown;

/// So many repositories of submodules and linked worktrees are kept each by itself; of
/// more than that, all of them as a whole.
const MOST: usize = 64;
/// So many directories are looked into for them, so deep.
const MOST_LOOKED_INTO: usize = 512;
/// So many names are read for it: an agent can make any number of them.
const MOST_NAMES: usize = 10_000;
const DEEPEST: usize = 8;

/// By which git runs programs or finds others.
const SETTINGS: [&str; 5] = ["config", "config.worktree", "commondir", "hooks", "info/attributes"];
/// Of the main worktree alone, in a directory that all write.
const OF_MAIN: [&str; 3] = ["refs/bisect", "refs/rewritten", "refs/worktree"];

/// What of a repository is kept read-only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Nobody in the launch can write them, or put others in their place.
    pub(crate) read_only: Vec<PathBuf>,
    /// Nobody in the launch can move them away, with what is kept in them.
    pub(crate) held: Vec<PathBuf>,
    /// What could not be kept, in words.
    pub(crate) told: Vec<String>,
}

impl Kept {
    /// What can be kept of the repository of the workspace `root`. What a person granted
    /// by name stays writable.
    pub(crate) fn of(
        workspace: &Workspace,
        tier: Tier,
        settings: GitSettings,
        granted: &[Grant],
    ) -> Self {
        let (root, repository) = (&workspace.root, &workspace.git);
        let mut kept = Self::default();
        if settings == GitSettings::Writable || !tier.has_veil() {
            return kept;
        }
        let Ok(device) = std::fs::symlink_metadata(root).map(|metadata| metadata.dev()) else {
            return kept;
        };
        let mut keeper = Keeper { device, kept: &mut kept };
        if let Some(own) = &repository.own {
            if own == root || keeper.hold(root, own) {
                keeper.settings_of(own);
                keeper.modules_of(own);
                keeper.worktrees_of(root, own);
            }
            if root.join(".git") != *own {
                keeper.keep(root, Path::new(".git"));
            }
        }
        if let Some(linked) = &repository.linked {
            keeper.keep(root, Path::new(".git"));
            if let Ok(metadata) = std::fs::symlink_metadata(&linked.private) {
                let mut keeper = Keeper { device: metadata.dev(), kept: &mut kept };
                for name in ["commondir", "config.worktree", "gitdir"] {
                    keeper.keep(&linked.private, Path::new(name));
                }
                for name in OF_MAIN {
                    keeper.keep(&linked.common, Path::new(name));
                }
            }
        }
        let is_granted = |path: &Path| {
            let writes = granted.iter().filter(|grant| grant.access == Access::ReadWrite);
            let mut within = writes.filter(|grant| !root.starts_with(&grant.path));
            within.any(|grant| path.starts_with(&grant.path))
        };
        kept.read_only.retain(|path| !is_granted(path));
        kept.held.retain(|path| !is_granted(path));
        kept
    }

    /// As what the veil shows: a directory that is held is shown on itself.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = (Access, &PathBuf)> {
        let held = self.held.iter().map(|path| (Access::ReadWrite, path));
        held.chain(self.read_only.iter().map(|path| (Access::Read, path)))
    }
}

struct Keeper<'a> {
    /// The file system on which all is: what is mounted in a workspace stays as it is.
    device: u64,
    kept: &'a mut Kept,
}

impl Keeper<'_> {
    /// Whether `path` is there, and can be kept: no link, on the same file system.
    fn is_fit(&mut self, path: &Path) -> bool {
        let Ok(metadata) = std::fs::symlink_metadata(path) else { return false };
        let why = if metadata.is_symlink() {
            "it is a symbolic link"
        } else if metadata.dev() != self.device {
            "it is on another file system"
        } else {
            return metadata.is_dir() || metadata.is_file();
        };
        let path = shown(path);
        self.kept.told.push(format!("{path} is not kept read-only in this launch: {why}"));
        false
    }

    /// Holds each directory from below `top` down to `directory`.
    fn hold(&mut self, top: &Path, directory: &Path) -> bool {
        let mut parts: Vec<&Path> = directory.ancestors().take_while(|part| *part != top).collect();
        parts.reverse();
        for part in parts {
            if self.kept.held.iter().any(|held| held == part) {
                continue;
            }
            if !self.is_fit(part) {
                return false;
            }
            self.kept.held.push(part.to_owned());
        }
        true
    }

    fn keep(&mut self, directory: &Path, name: &Path) {
        let path = directory.join(name);
        if std::fs::symlink_metadata(&path).is_err() {
            return;
        }
        let above = path.parent().unwrap_or(directory).to_owned();
        if (above == directory || self.hold(directory, &above)) && self.is_fit(&path) {
            self.kept.read_only.push(path);
        }
    }

    fn settings_of(&mut self, repository: &Path) {
        for name in SETTINGS {
            self.keep(repository, Path::new(name));
        }
    }

    /// The repositories of submodules, each with hooks and settings of its own.
    fn modules_of(&mut self, repository: &Path) {
        let all = repository.join("modules");
        let mut found: Vec<PathBuf> = Vec::new();
        let mut pending = vec![(all.clone(), 0)];
        let (mut looked_into, mut left) = (0, MOST_NAMES);
        while let Some((directory, depth)) = pending.pop() {
            looked_into += 1;
            if found.len() > MOST || looked_into > MOST_LOOKED_INTO {
                return self.keep_whole(&all, "submodules");
            }
            if looks_like_one(&directory) {
                pending.push((directory.join("modules"), depth));
                found.push(directory);
                continue;
            }
            match directories_in(&directory, &mut left) {
                Some(below) if depth < DEEPEST || below.is_empty() => {
                    pending.extend(below.into_iter().map(|path| (path, depth + 1)));
                }
                _ => return self.keep_whole(&all, "submodules"),
            }
        }
        for module in found {
            if self.hold(repository, &module) {
                self.settings_of(&module);
            }
        }
    }

    /// The directories of linked worktrees that are not in the workspace: of those that
    /// are the agent can write the other end, too.
    fn worktrees_of(&mut self, root: &Path, repository: &Path) {
        let all = repository.join("worktrees");
        let Some(there) = directories_in(&all, &mut { MOST_LOOKED_INTO }) else {
            return self.keep_whole(&all, "linked worktrees");
        };
        let outside = there.into_iter().filter(|private| {
            let text = read_plain(&private.join("gitdir"), 8 << 10).unwrap_or_default();
            let place = private.join(Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii_end())));
            place.canonicalize().is_ok_and(|place| !place.starts_with(root))
        });
        let outside: Vec<PathBuf> = outside.take(MOST + 1).collect();
        if outside.len() > MOST {
            return self.keep_whole(&all, "linked worktrees");
        }
        for private in outside {
            if self.hold(repository, &private) {
                for name in ["commondir", "config.worktree", "gitdir"] {
                    self.keep(&private, Path::new(name));
                }
            }
        }
    }

    fn keep_whole(&mut self, directory: &Path, of: &str) {
        if self.is_fit(directory) {
            self.kept.read_only.push(directory.to_owned());
            let directory = shown(directory);
            self.kept.told.push(format!(
                "{directory} is read-only in this launch, as a whole: more than {MOST} \
                 repositories of {of} are in it, or not all of it could be looked into"
            ));
        }
    }
}

/// The directories in one, if all of its names can be read, and are no more than are
/// `left`.
fn directories_in(directory: &Path, left: &mut usize) -> Option<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Some(Vec::new());
        }
        Err(_) => return None,
    };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry.ok()?;
        *left = left.checked_sub(1)?;
        if entry.file_type().ok()?.is_dir() {
            directories.push(entry.path());
        }
    }
    Some(directories)
}

/// Whether each of `kept` is, in that mount table (`proc_pid_mountinfo(5)`), a mount of the
/// very file or directory of that name, and read-only where it is to be; else which is not.
/// Between the plan and the veil somebody could have put a link there.
///
/// # Errors
/// The path, and what it is.
pub(crate) fn check_mounts(mountinfo: &[u8], kept: &Kept) -> Result<(), String> {
    let mounts: Vec<Mount> = mountinfo.split(|b| *b == b'\n').filter_map(Mount::parse).collect();
    // The last one at a place is the one that shows.
    let at = |path: &Path| mounts.iter().rev().find(|mount| mount.place == path);
    for (access, path) in kept.mounts() {
        let above = path.ancestors().skip(1).find_map(|part| Some((part, at(part)?)));
        let Some((base, above)) = above else {
            return Err(format!("{} is on no mount", shown(path)));
        };
        let below = path.strip_prefix(base).unwrap_or(path);
        let wanted = above.root.join(below);
        match at(path) {
            None => return Err(format!("{} is no mount", shown(path))),
            Some(mount) if mount.device != above.device || mount.root != wanted => {
                return Err(format!("{} is another file than it was", shown(path)));
            }
            Some(mount) if access == Access::Read && !mount.is_read_only => {
                return Err(format!("{} can be written", shown(path)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A line of a mount table.
struct Mount {
    device: Vec<u8>,
    root: PathBuf,
    place: PathBuf,
    is_read_only: bool,
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|b| *b == b' ').skip(2);
        let device = fields.next()?.to_owned();
        let mut path = || fields.next().map(unescaped);
        let (root, place) = (path()?, path()?);
        let options = fields.next()?;
        let is_read_only = options.split(|b| *b == b',').any(|option| option == b"ro");
        Some(Self { device, root, place, is_read_only })
    }
}

/// White space and backslashes are in a mount table in octal.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, more)) = rest.split_first() {
        let octal = more
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &more[3..] } else { more };
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::Repository;
    use super::*;

    fn repository(root: &Path) {
        for directory in ["hooks", "info", "objects", "refs", "worktrees/in", "worktrees/out"] {
            fs::create_dir_all(root.join(".git").join(directory)).unwrap();
        }
        for file in ["HEAD", "config", "info/attributes"] {
            fs::write(root.join(".git").join(file), "").unwrap();
        }
    }

    fn kept_with(root: &Path, tier: Tier, settings: GitSettings, granted: &[Grant]) -> Kept {
        let workspace = Workspace { root: root.to_owned(), git: Repository::of(root) };
        Kept::of(&workspace, tier, settings, granted)
    }

    fn kept(root: &Path, granted: &[Grant]) -> Kept {
        kept_with(root, Tier::Sealed, GitSettings::ReadOnly, granted)
    }

    fn below(root: &Path, paths: &[PathBuf]) -> Vec<String> {
        let below = paths.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string());
        let mut below: Vec<String> = below.collect();
        below.sort();
        below
    }

    #[test]
    fn hooks_settings_submodules_and_worktrees_elsewhere_are_kept() {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path().canonicalize().unwrap().join("ws");
        repository(&root);
        for (name, place) in [("in", root.join("tree/.git")), ("out", root.join("../out/.git"))] {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, "").unwrap();
            let private = root.join(".git/worktrees").join(name);
            fs::write(private.join("gitdir"), format!("{}\n", place.display())).unwrap();
            fs::write(private.join("commondir"), "../..\n").unwrap();
        }
        for name in ["objects", "refs", "hooks"] {
            fs::create_dir_all(root.join(".git/modules/libs/a").join(name)).unwrap();
        }
        fs::write(root.join(".git/modules/libs/a/HEAD"), "").unwrap();
        let found = kept(&root, &[]);
        assert_eq!(
            below(&root, &found.read_only),
            [
                ".git/config",
                ".git/hooks",
                ".git/info/attributes",
                ".git/modules/libs/a/hooks",
                ".git/worktrees/out/commondir",
                ".git/worktrees/out/gitdir",
            ]
        );
        assert_eq!(
            below(&root, &found.held),
            [
                ".git",
                ".git/info",
                ".git/modules",
                ".git/modules/libs",
                ".git/modules/libs/a",
                ".git/worktrees",
                ".git/worktrees/out",
            ]
        );
        assert_eq!(found.told, Vec::<String>::new());
        let writable = kept_with(&root, Tier::Sealed, GitSettings::Writable, &[]);
        let without_veil = kept_with(&root, Tier::Isolated, GitSettings::ReadOnly, &[]);
        assert_eq!((writable, without_veil), (Kept::default(), Kept::default()));
        // What a person granted by name is theirs to give.
        let path = root.join(".git/hooks");
        let grant = Grant { layer: "server", access: Access::ReadWrite, path, is_file: false };
        assert_eq!(kept(&root, &[grant]).read_only.len(), found.read_only.len() - 1);
    }

    #[test]
    fn what_is_too_deep_or_too_much_is_kept_as_a_whole() {
        let whole = |name: &str, make: &dyn Fn(&Path)| {
            let ground = tempfile::tempdir().unwrap();
            let root = ground.path().canonicalize().unwrap();
            repository(&root);
            let all = root.join(".git").join(name);
            make(&all);
            let found = kept(&root, &[]);
            let told = found.told.iter().any(|told| told.contains("as a whole"));
            assert_eq!(told, found.read_only.contains(&all), "{found:?}");
            told
        };
        let deep = |parts: &str| {
            let parts = parts.to_owned();
            move |all: &Path| {
                let module = all.join(&parts);
                for name in ["objects", "refs", "hooks"] {
                    fs::create_dir_all(module.join(name)).unwrap();
                }
                fs::write(module.join("HEAD"), "").unwrap();
            }
        };
        assert!(!whole("modules", &deep("1/2/3/4/5/6/7/8")), "control");
        assert!(whole("modules", &deep("1/2/3/4/5/6/7/8/9")));
        let many = |count: usize| {
            move |all: &Path| {
                fs::create_dir_all(all).unwrap();
                (0..count).for_each(|n| fs::write(all.join(n.to_string()), "").unwrap());
            }
        };
        assert!(!whole("modules", &many(9)) && !whole("worktrees", &many(9)), "control");
        assert!(whole("modules", &many(MOST_NAMES + 1)));
        assert!(whole("worktrees", &many(MOST_LOOKED_INTO + 1)));
    }

    #[test]
    fn a_link_is_not_kept_and_that_is_said() {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path().canonicalize().unwrap();
        repository(&root);
        fs::remove_dir(root.join(".git/hooks")).unwrap();
        symlink("/etc", root.join(".git/hooks")).unwrap();
        let found = kept(&root, &[]);
        assert!(!found.read_only.iter().any(|path| path.ends_with("hooks")));
        assert!(found.told[0].contains("hooks is not kept read-only"), "{:?}", found.told);
        // No repository at all: nothing to keep, and nothing to say.
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(kept(&empty.path().canonicalize().unwrap(), &[]), Kept::default());
    }

    #[test]
    fn many_submodules_are_kept_as_one() {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path().canonicalize().unwrap();
        repository(&root);
        for n in 0..=MOST {
            for name in ["objects", "refs", "HEAD"] {
                fs::create_dir_all(root.join(format!(".git/modules/{n}/{name}"))).unwrap();
            }
        }
        let found = kept(&root, &[]);
        assert!(found.read_only.contains(&root.join(".git/modules")), "{found:?}");
        assert_eq!(found.told.len(), 1);
    }

    const TABLE: &str = "1 0 8:1 / / ro - ext4 x rw\n\
        2 1 8:2 /home/a/w\\040s /w\\040s rw,nosuid - ext4 x rw\n\
        3 2 8:2 /home/a/w\\040s/.git /w\\040s/.git rw - ext4 x rw\n";

    #[test]
    fn what_is_mounted_has_to_be_what_was_kept() {
        let kept = Kept {
            held: vec!["/w s/.git".into()],
            read_only: vec!["/w s/.git/hooks".into()],
            told: Vec::new(),
        };
        let check = |line: &str| check_mounts(format!("{TABLE}{line}").as_bytes(), &kept);
        let good = "4 3 8:2 /home/a/w\\040s/.git/hooks /w\\040s/.git/hooks ro,nosuid - ext4 x rw\n";
        assert_eq!(check(good), Ok(()), "control");
        for (from, to) in [
            ("ro,", "rw,"),
            ("8:2", "8:3"),
            ("/home/a/w\\040s/.git/hooks /w", "/home/a/.ssh /w"),
            (" /w\\040s/.git/hooks", " /w\\040s/.git/other"),
            ("4 3", "x\n"),
        ] {
            assert!(check(&good.replace(from, to)).is_err(), "{to}");
        }
        // Of two at one place the later one counts.
        assert!(check(&format!("{good}{}", good.replace("ro,", "rw,"))).is_err());
        assert!(check("").is_err() && check_mounts(b"", &kept).is_err());
        assert_eq!(check_mounts(b"", &Kept::default()), Ok(()));
    }

    proptest::proptest! {
        #[test]
        fn any_table_is_read(bytes: Vec<u8>) {
            let kept = Kept { held: vec!["/".into(), "/a".into()], ..Kept::default() };
            let _ = check_mounts(&bytes, &kept);
        }
    }
}
