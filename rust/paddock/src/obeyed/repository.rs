//! A repository of git's: the files in it by which git runs programs, or finds others
//! (`gitrepository-layout(5)`).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FileType;

use super::LIMIT;
use super::found::{Collector, What};
use super::gitconfig::{self, Settings};
use super::since::Since;
use super::table::Kind;
use super::tree::{Entry, Tree};

/// Repositories in a repository are looked for so deep.
const DEEPEST: usize = 8;
/// How many of them are remembered from the start.
const MOST_REMEMBERED: usize = 128;
/// Of one of them.
const MOST_HOOKS: usize = 1_000;
/// How many linked worktrees of one are looked at.
const MOST_WORKTREES: usize = 1_000;
/// Why there may be more.
const TOO_MANY: &str = "a repository has too many submodules or worktrees";

/// What a repository was when the launch began.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// Which directory it was.
    inode: u64,
    /// Its files of settings; `None` where there was none, or none to be read.
    settings: BTreeMap<PathBuf, Option<Settings>>,
    /// Its hooks, and which directory they were in.
    hooks: Option<(u64, BTreeSet<Vec<u8>>)>,
    /// Its linked worktrees' directories, by name.
    worktrees: BTreeMap<Vec<u8>, Worktree>,
}

/// What the directory of a linked worktree was.
#[derive(Clone, Debug)]
struct Worktree {
    inode: u64,
    has_commondir: bool,
    /// Git writes this file anew from day to day, with the same text.
    gitdir: Option<Vec<u8>>,
}

impl Before {
    /// What it set, each with the file that did; the repository is at `path`.
    pub(super) fn settings_at(&self, path: &Path) -> Vec<(PathBuf, Settings)> {
        let set = self.settings.iter();
        set.filter_map(|(name, set)| Some((path.join(name), set.clone()?))).collect()
    }
}

/// Those of a tree, by where they are in it.
pub(super) type Remembered = BTreeMap<PathBuf, Before>;

const SETTINGS: [&str; 2] = ["config", "config.worktree"];
/// Beside settings and hooks: what has git run a program, or look elsewhere for settings.
/// A list of a rebase may have `exec` lines.
const OTHERS: [&str; 3] = ["commondir", "info/attributes", "rebase-merge/git-rebase-todo"];
/// In the directory of a linked worktree. Without `commondir` it is a repository of its own.
const OF_WORKTREE: [&str; 7] = [
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "hooks",
    "info/attributes",
    "rebase-merge/git-rebase-todo",
];
/// What a repository itself has that is no repository of a submodule.
const OWN_DIRECTORIES: [&[u8]; 7] =
    [b"objects", b"refs", b"logs", b"hooks", b"info", b"modules", b"worktrees"];

/// Whether a directory with these names is a repository, as git judges: what else it
/// needs can be where `commondir` says.
pub(super) fn is_repository(has: impl Fn(&[u8]) -> bool) -> bool {
    has(b"HEAD") && (has(b"commondir") || has(b"objects") && has(b"refs"))
}

/// What looking at repositories may cost: an agent can have made any number of names.
pub(super) struct Budget {
    names: Cell<usize>,
    until: Instant,
}

impl Budget {
    pub(super) fn new(names: usize, limit: Duration) -> Self {
        Self { names: Cell::new(names), until: Instant::now() + limit }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.names.get() == 0 || Instant::now() >= self.until
    }

    fn names(&self, tree: &Tree, at: &Path, most: usize) -> (Vec<Entry>, bool) {
        if self.is_spent() {
            return (Vec::new(), false);
        }
        let left = self.names.get();
        let (names, is_all) = tree.names(at, most.min(left)).unwrap_or((Vec::new(), true));
        self.names.set(left - names.len());
        (names, is_all)
    }
}

/// Remembers the repository at `at`, and those of its submodules, while there is budget.
pub(super) fn remember(tree: &Tree, at: &Path, remembered: &mut Remembered, budget: &Budget) {
    if budget.is_spent() {
        return;
    }
    let Ok(stat) = tree.stat(at) else { return };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return;
    }
    let settings = SETTINGS.map(|name| {
        let path = at.join(name);
        let read = tree.read(&path, gitconfig::MOST).ok();
        (PathBuf::from(name), read.and_then(|text| gitconfig::parse(&text)))
    });
    let hooks =
        tree.stat(&at.join("hooks")).ok().map(|stat| (stat.st_ino, hooks(tree, at, budget)));
    let worktrees = worktrees(tree, at, budget);
    let before = Before { inode: stat.st_ino, settings: settings.into(), hooks, worktrees };
    remembered.insert(at.to_owned(), before);
    for module in modules(tree, at, MOST_REMEMBERED.saturating_sub(remembered.len()), budget).found
    {
        if remembered.len() < MOST_REMEMBERED {
            remember(tree, &module, remembered, budget);
        }
    }
}

/// The hooks that git could run.
fn hooks(tree: &Tree, repository: &Path, budget: &Budget) -> BTreeSet<Vec<u8>> {
    let names = budget.names(tree, &repository.join("hooks"), MOST_HOOKS).0;
    names.into_iter().map(|entry| entry.name).filter(|name| !is_sample(name)).collect()
}

/// What git lays out and does not run.
fn is_sample(name: &[u8]) -> bool {
    name.ends_with(b".sample")
}

/// The directories of linked worktrees.
fn worktrees(tree: &Tree, repository: &Path, budget: &Budget) -> BTreeMap<Vec<u8>, Worktree> {
    let all = repository.join("worktrees");
    let (names, _) = budget.names(tree, &all, MOST_WORKTREES);
    let known = names.into_iter().filter_map(|entry| {
        let at = all.join(OsStr::from_bytes(&entry.name));
        let worktree = Worktree {
            inode: tree.stat(&at).ok()?.st_ino,
            has_commondir: tree.stat(&at.join("commondir")).is_ok(),
            gitdir: tree.read(&at.join("gitdir"), 4096).ok(),
        };
        Some((entry.name, worktree))
    });
    known.collect()
}

/// What is below `modules` in a repository.
#[derive(Default)]
struct Modules {
    /// The repositories of submodules.
    found: Vec<PathBuf>,
    /// Links on the way.
    links: Vec<PathBuf>,
    is_all: bool,
}

/// The repositories of submodules in `repository`; their names may have slashes, also
/// such that one seems to lie in another.
fn modules(tree: &Tree, repository: &Path, most: usize, budget: &Budget) -> Modules {
    let mut modules = Modules { is_all: true, ..Modules::default() };
    let mut pending = vec![(repository.join("modules"), 0)];
    let mut looked_into = 0;
    while let Some((directory, depth)) = pending.pop() {
        looked_into += 1;
        if budget.is_spent() || modules.found.len() >= most || looked_into > 4 * MOST_REMEMBERED {
            modules.is_all = false;
            break;
        }
        let (names, is_all) = budget.names(tree, &directory, 10_000);
        modules.is_all &= is_all;
        let is_one = is_repository(|name| names.iter().any(|entry| entry.name == name));
        for entry in names {
            let path = directory.join(OsStr::from_bytes(&entry.name));
            if entry.kind == FileType::Symlink {
                modules.links.push(path);
            } else if entry.kind == FileType::Directory
                && !(is_one && OWN_DIRECTORIES.contains(&&*entry.name))
            {
                modules.is_all &= depth < DEEPEST;
                pending.extend((depth < DEEPEST).then_some((path, depth + 1)));
            }
        }
        if is_one {
            modules.found.push(directory);
        }
    }
    modules
}

/// Looks at repositories of a tree.
pub(super) struct Repositories<'a> {
    pub(super) tree: &'a Tree,
    pub(super) since: Since,
    pub(super) remembered: &'a Remembered,
    pub(super) out: &'a Collector,
}

impl Repositories<'_> {
    /// The repository at `at`; `is_moved` where it lies in what was moved there.
    pub(super) fn look(&self, at: &Path, is_moved: bool) {
        self.look_to(at, is_moved, 0);
    }

    fn look_to(&self, at: &Path, is_moved: bool, depth: usize) {
        if self.out.room().is_none() {
            return;
        }
        self.out.looked_at(1);
        let Ok(stat) = self.tree.stat(at) else { return };
        let before = self.remembered.get(at);
        let is_moved = is_moved
            || self.since.was_moved(&stat)
            || before.is_some_and(|before| before.inode != stat.st_ino);
        for name in SETTINGS {
            self.settings(at, name, before, is_moved, depth > 0);
        }
        self.hooks(at, before, is_moved);
        for name in OTHERS {
            self.file(&at.join(name), is_moved);
        }
        // Where to fetch from, as git had it before its settings did.
        for name in ["remotes", "branches"] {
            let directory = at.join(name);
            let Ok((names, is_all)) = self.tree.names(&directory, 1_000) else { continue };
            if !is_all {
                self.out.gap("it has too many files");
            }
            let is_moved = is_moved || self.is_moved_in(at, &directory);
            for entry in names {
                self.out.looked_at(1);
                self.file(&directory.join(OsStr::from_bytes(&entry.name)), is_moved);
            }
        }
        self.links(at, is_moved);
        self.worktrees(at, before, is_moved);
        let budget = Budget::new(self.out.room().unwrap_or(0), LIMIT);
        let modules = modules(self.tree, at, 4 * MOST_REMEMBERED, &budget);
        for link in &modules.links {
            self.file(link, is_moved);
        }
        if !modules.is_all || depth >= DEEPEST && !modules.found.is_empty() {
            self.out.gap(TOO_MANY);
        }
        for module in modules.found.iter().filter(|_| depth < DEEPEST) {
            // What was not there when all were remembered was put there.
            let is_new = before.is_some()
                && self.remembered.len() < MOST_REMEMBERED
                && !self.remembered.contains_key(module);
            self.look_to(module, is_moved || is_new || self.is_moved_in(at, module), depth + 1);
        }
    }

    /// Whether a directory between these was moved.
    fn is_moved_in(&self, above: &Path, below: &Path) -> bool {
        let between = below.ancestors().take_while(|path| *path != above);
        between.into_iter().any(|path| self.tree.stat(path).is_ok_and(|s| self.since.was_moved(&s)))
    }

    /// Links in a directory of git's, which has none of its own.
    fn links(&self, at: &Path, is_moved: bool) {
        let Ok((names, is_all)) = self.tree.names(at, 10_000) else { return };
        if !is_all {
            self.out.gap("it has too many files");
        }
        for entry in names.iter().filter(|entry| entry.kind == FileType::Symlink) {
            self.out.looked_at(1);
            self.file(&at.join(OsStr::from_bytes(&entry.name)), is_moved);
        }
    }

    /// What a file sets that it did not set before.
    fn settings(
        &self,
        at: &Path,
        name: &str,
        before: Option<&Before>,
        is_moved: bool,
        is_module: bool,
    ) {
        let path = at.join(name);
        let whole = || self.tree.path.join(&path);
        let was = before.and_then(|before| before.settings.get(Path::new(name))?.as_ref());
        let Ok(stat) = self.tree.stat(&path) else {
            if was.is_some() {
                self.out.add(Kind::Git, whole(), What::Removed);
            }
            return;
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return self.file(&path, is_moved);
        }
        if !is_moved && !self.since.is_new(&stat) {
            return;
        }
        let read = self.tree.read(&path, gitconfig::MOST).ok();
        let Some(is) = read.and_then(|text| gitconfig::parse(&text)) else {
            return self.out.add(Kind::Git, whole(), What::Changed);
        };
        let names = match was {
            Some(was) => gitconfig::differences(was, &is),
            // Of a repository that was not known what any new one has is no news.
            None => gitconfig::programs(&is),
        };
        if !names.is_empty() || is_module && was.is_none() {
            self.out.add_settings(whole(), &names);
        }
    }

    fn hooks(&self, at: &Path, before: Option<&Before>, is_moved: bool) {
        let directory = at.join("hooks");
        let was = before.and_then(|before| before.hooks.as_ref());
        let names = hooks(self.tree, at, &Budget::new(MOST_HOOKS, LIMIT));
        for gone in was.iter().flat_map(|(_, was)| was.difference(&names)) {
            let path = directory.join(OsStr::from_bytes(gone));
            self.out.add(Kind::Git, self.tree.path.join(path), What::Removed);
        }
        let Ok(stat) = self.tree.stat(&directory) else { return };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return self.file(&directory, is_moved);
        }
        let is_other = was.is_some_and(|(inode, _)| *inode != stat.st_ino);
        let is_moved = is_moved || is_other || self.since.was_moved(&stat);
        for name in names {
            self.out.looked_at(1);
            self.file(&directory.join(OsStr::from_bytes(&name)), is_moved);
        }
    }

    /// A directory of hooks that is not in a repository, or a file of more settings.
    pub(super) fn led_to(&self, at: &Path) {
        let Ok(stat) = self.tree.stat(at) else { return };
        self.file(at, false);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return;
        }
        let Ok((names, _)) = self.tree.names(at, 1_000) else { return };
        for entry in names {
            self.out.looked_at(1);
            if entry.kind != FileType::Directory && !is_sample(&entry.name) {
                self.file(&at.join(OsStr::from_bytes(&entry.name)), self.since.was_moved(&stat));
            }
        }
    }

    fn file(&self, at: &Path, is_moved: bool) {
        let Ok(stat) = self.tree.stat(at) else { return };
        let what = if self.since.is_new(&stat) {
            What::Changed
        } else if is_moved {
            What::Moved
        } else if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
            && self.tree.stat_of_target(at).is_ok_and(|target| self.since.is_new(&target))
        {
            What::Target
        } else {
            return;
        };
        self.out.add(Kind::Git, self.tree.path.join(at), what);
    }

    /// The directories of linked worktrees: in each is where the repository is.
    fn worktrees(&self, at: &Path, before: Option<&Before>, is_moved: bool) {
        let all = at.join("worktrees");
        let Ok((names, is_all)) = self.tree.names(&all, MOST_WORKTREES) else { return };
        if !is_all {
            self.out.gap(TOO_MANY);
        }
        self.links(&all, is_moved);
        for entry in names {
            self.out.looked_at(1);
            let worktree = all.join(OsStr::from_bytes(&entry.name));
            let Ok(stat) = self.tree.stat(&worktree) else { continue };
            let known = before.and_then(|before| before.worktrees.get(&entry.name));
            let is_other = match known {
                Some(known) => known.inode != stat.st_ino,
                None => before.is_some_and(|before| before.worktrees.len() < MOST_WORKTREES),
            };
            let is_moved = is_moved || is_other || self.is_moved_in(at, &worktree);
            self.links(&worktree, is_moved);
            for name in OF_WORKTREE {
                let path = worktree.join(name);
                let was = known.and_then(|known| known.gitdir.as_ref());
                let is_same =
                    |was: &Vec<u8>| self.tree.read(&path, 4096).is_ok_and(|is| is == *was);
                if name != "gitdir" || !was.is_some_and(is_same) {
                    self.file(&path, is_moved);
                }
            }
            let commondir = worktree.join("commondir");
            let had_one = known.is_some_and(|known| known.has_commondir);
            if had_one && self.tree.stat(&commondir).is_err() {
                self.out.add(Kind::Git, self.tree.path.join(commondir), What::Removed);
            }
        }
    }

    /// A `.git` that is no directory says where the repository is. One that leads to git's
    /// own places for it is listed as well: what is there can be any repository.
    pub(super) fn pointer(&self, at: &Path, is_moved: bool) {
        self.file(at, is_moved);
    }
}

/// A path as its words say, without asking where they lead.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The directories and files in the tree to which settings of git lead: hooks, and more
/// settings (`core.hooksPath`, `include.path`).
pub(super) fn led_to(settings: &Settings, tree: &Path, config: &Path, home: &Path) -> Vec<PathBuf> {
    let values = |name: &str| {
        settings.get(name.as_bytes()).into_iter().flatten().flatten().filter(|v| !v.is_empty())
    };
    let place = |value: &[u8], relative_to: &Path| match value.strip_prefix(b"~/") {
        Some(below) => home.join(OsStr::from_bytes(below)),
        None => relative_to.join(OsStr::from_bytes(value)),
    };
    let above = config.parent().unwrap_or(tree);
    let conditional = settings
        .iter()
        .filter(|(name, _)| name.starts_with(b"includeif.") && name.ends_with(b".path"));
    let conditional = conditional.flat_map(|(_, values)| values.iter().flatten());
    let included = values("include.path").chain(conditional).map(|value| place(value, above));
    let relative = ["core.hookspath", "core.attributesfile"].into_iter().flat_map(values);
    let all = relative.map(|value| place(value, tree)).chain(included);
    all.filter_map(|path| without_dots(&path).strip_prefix(tree).ok().map(Path::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_settings_lead_to_in_the_tree_is_known() {
        let text = "[core]\nhooksPath = tools/../hooks\n[include]\npath = ../more\n\
            path = /etc/x\npath = ~/w/mine\n[includeIf \"onbranch:x\"]\npath=y\n";
        let settings = gitconfig::parse(text.as_bytes()).unwrap();
        let found =
            led_to(&settings, Path::new("/h/w"), Path::new("/h/w/.git/config"), Path::new("/h"));
        assert_eq!(found, ["hooks", "more", "mine", ".git/y"].map(PathBuf::from));
    }

    #[test]
    fn what_is_remembered_has_one_budget() {
        let root = tempfile::tempdir().unwrap();
        for module in 0..9 {
            for name in ["HEAD", "objects", "refs", "hooks"] {
                let module = root.path().join(format!(".git/modules/{module}"));
                std::fs::create_dir_all(module.join(name)).unwrap();
            }
        }
        let tree = Tree::open(root.path()).unwrap();
        let remembered = |budget: Budget| {
            let mut found = Remembered::new();
            remember(&tree, Path::new(".git"), &mut found, &budget);
            (found.len(), budget.is_spent())
        };
        assert_eq!(remembered(Budget::new(1_000, LIMIT)), (10, false), "control");
        let (few, is_spent) = remembered(Budget::new(20, LIMIT));
        assert!(few < 10 && is_spent, "{few}");
        assert_eq!(remembered(Budget::new(1_000, Duration::ZERO)), (0, true));
    }
}
