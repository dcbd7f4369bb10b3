//! What became different in a workspace, while a launch had it, of that which the host
//! runs or obeys later: hooks, settings, files of builds, editors and other agents.
//!
//! Nothing is listed when a launch begins but a few files; what changed is known by the
//! kernel's times of change ([`since`]).

mod found;
mod gitconfig;
mod repository;
mod since;
mod table;
mod tree;
mod walk;
mod words;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use found::Collector;
use gitconfig::Settings;
use repository::{Budget, Remembered, Repositories};
use since::Since;
use tree::Tree;

pub(crate) use found::{Found, What};
pub(crate) use table::Kind;
#[cfg(test)]
pub(crate) use walk::NOT_LOOKED_INTO;
pub(crate) use words::{lines, short_lines, told};

/// The end of a launch waits no longer than this.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);
/// No more names are looked at.
pub(crate) const MOST: usize = 300_000;

/// Git includes no deeper (`MAX_INCLUDE_DEPTH` of its `config.c`).
const DEEPEST_INCLUDE: usize = 10;
/// So many files and directories that settings of git lead to are looked at.
const MOST_LED_TO: usize = 1_000;

/// What is said of a file system with times of another clock.
const TIMED_ELSEWHERE: &str = "its file system has times that are not this kernel's";

/// Where something could be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// A directory with whatever is in it.
    Tree(PathBuf),
    /// A repository of git's: the common directory of a linked worktree.
    Repository(PathBuf),
}

impl Root {
    fn path(&self) -> &Path {
        match self {
            Self::Tree(path) | Self::Repository(path) => path,
        }
    }
}

/// What is remembered of the moment before an agent starts.
#[derive(Debug)]
pub(crate) struct Began {
    since: Since,
    home: PathBuf,
    places: Vec<Place>,
    /// There was no time for all of it, or there were too many names.
    is_partial: bool,
}

#[derive(Debug)]
struct Place {
    root: Root,
    /// Names that are obeyed, and were there, at its top.
    names: BTreeSet<(Kind, &'static [u8])>,
    repositories: Remembered,
    /// What settings of git led to.
    led_to: BTreeSet<PathBuf>,
}

impl Began {
    /// Remembers those places. `own` is a directory that nobody else writes, of the
    /// kernel's own file systems.
    ///
    /// # Errors
    /// When the time cannot be told.
    pub(crate) fn now(roots: Vec<Root>, own: &Path, home: &Path) -> std::io::Result<Self> {
        let since = Since::now(own)?;
        let budget = Budget::new(MOST, LIMIT);
        let remember = |root| Place::remember(root, &budget);
        let mut places: Vec<Place> = roots.into_iter().map(remember).collect();
        let is_partial = budget.is_spent();
        // Of the person's own, and of a repository that is elsewhere.
        let elsewhere: Vec<(PathBuf, Settings)> = persons_settings(home)
            .into_iter()
            .chain(places.iter().filter(|p| !p.is_tree()).flat_map(Place::settings))
            .collect();
        for place in places.iter_mut().filter(|place| place.is_tree()) {
            place.led_to = place.led_to(elsewhere.iter().cloned().chain(place.settings()), home);
        }
        Ok(Self { since, home: home.to_owned(), places, is_partial })
    }

    /// What is different by now, as far as it can be found in time.
    pub(crate) fn look(self) -> Found {
        let collector = Collector::new(Instant::now() + LIMIT, MOST);
        let (done, is_done) = channel::<()>();
        if self.is_partial {
            collector.gap("not all repositories in it were remembered");
        }
        let out = collector.clone();
        let looking = std::thread::Builder::new().name("obeyed".into()).spawn(move || {
            let since = self.since.by_the_clock_now();
            for place in &self.places {
                place.look(since, &self.home, &out);
            }
            drop(done);
        });
        // A file system that does not answer holds up that thread alone.
        let waited = looking.map(|_| is_done.recv_timeout(LIMIT + Duration::from_millis(100)));
        match waited {
            Ok(Err(RecvTimeoutError::Timeout)) => collector.gap("there was no time for more"),
            Ok(_) => {}
            Err(_) => collector.gap("there is no thread for it"),
        }
        collector.take()
    }
}

impl Place {
    fn remember(root: Root, budget: &Budget) -> Self {
        let mut place = Self {
            names: BTreeSet::new(),
            repositories: Remembered::new(),
            led_to: BTreeSet::new(),
            root,
        };
        let Ok(tree) = Tree::open(place.root.path()) else { return place };
        let is_there = |name: &[u8]| tree.stat(Path::new(OsStr::from_bytes(name))).is_ok();
        place.repositories = own_repositories(&tree, budget);
        if place.is_tree() {
            let git = (Kind::Git, &b".git"[..]);
            let names = table::plain_names().chain([git]);
            place.names = names.filter(|(_, name)| is_there(name)).collect();
        }
        place
    }

    fn is_tree(&self) -> bool {
        matches!(self.root, Root::Tree(_))
    }

    /// What its repositories set when they were remembered.
    fn settings(&self) -> impl Iterator<Item = (PathBuf, Settings)> {
        let path = self.root.path();
        self.repositories.iter().flat_map(|(at, before)| before.settings_at(&path.join(at)))
    }

    /// What in it settings lead to, also those of files that they include, as deep as git
    /// follows them.
    fn led_to(
        &self,
        settings: impl Iterator<Item = (PathBuf, Settings)>,
        home: &Path,
    ) -> BTreeSet<PathBuf> {
        let top = self.root.path();
        let tree = Tree::open(top).ok();
        let read = |path: &Path| {
            let text = tree.as_ref()?.read(path, gitconfig::MOST).ok()?;
            gitconfig::parse(&text)
        };
        let mut found = BTreeSet::new();
        let mut files: Vec<(PathBuf, Settings)> = settings.collect();
        for _ in 0..=DEEPEST_INCLUDE {
            let led = files.iter().flat_map(|(at, set)| repository::led_to(set, top, at, home));
            let room = MOST_LED_TO.saturating_sub(found.len());
            let led: BTreeSet<PathBuf> =
                led.filter(|path| !found.contains(path)).take(room).collect();
            files = led.iter().filter_map(|path| Some((top.join(path), read(path)?))).collect();
            found.extend(led);
        }
        found
    }

    fn look(&self, since: Since, home: &Path, out: &Collector) {
        let Ok(tree) = Tree::open(self.root.path()) else {
            return out.gap("a directory is not there any more");
        };
        if tree.is_timed_elsewhere() {
            out.gap(TIMED_ELSEWHERE);
        }
        let of = Repositories { tree: &tree, since, remembered: &self.repositories, out };
        if !self.is_tree() {
            return of.look(Path::new(""), false);
        }
        // What acts with the least of the person's doing comes first.
        let git = Path::new(".git");
        of.look(git, false);
        if !self.repositories.contains_key(git) && tree.directory(git).is_ok() {
            out.add(Kind::Git, tree.path.join(git), What::Changed);
        }
        let now = own_repositories(&tree, &Budget::new(MOST, LIMIT));
        let now = now.iter().flat_map(|(at, now)| now.settings_at(&tree.path.join(at)));
        let now = self.led_to(now, home);
        if now.len().max(self.led_to.len()) >= MOST_LED_TO {
            out.gap("settings of git lead to too many files");
        }
        for path in self.led_to.union(&now) {
            of.led_to(path);
        }
        for (kind, name) in &self.names {
            let path = Path::new(OsStr::from_bytes(name));
            if tree.stat(path).is_err() {
                out.add(*kind, tree.path.join(path), What::Removed);
            }
        }
        walk::walk(&of);
    }
}

/// The repository that is the tree's own: the tree itself, or in it.
fn own_repositories(tree: &Tree, budget: &Budget) -> Remembered {
    let mut found = Remembered::new();
    let is_there = |name: &[u8]| tree.stat(Path::new(OsStr::from_bytes(name))).is_ok();
    if repository::is_repository(is_there) {
        repository::remember(tree, Path::new(""), &mut found, budget);
    }
    repository::remember(tree, Path::new(".git"), &mut found, budget);
    found
}

/// What the person has set for every repository.
fn persons_settings(home: &Path) -> Vec<(PathBuf, Settings)> {
    let files = [home.join(".gitconfig"), home.join(".config/git/config")];
    let read = |path: PathBuf| {
        let text = std::fs::File::open(&path).and_then(|file| {
            let mut text = Vec::new();
            file.take(gitconfig::MOST).read_to_end(&mut text).map(|_| text)
        });
        Some((path, gitconfig::parse(&text.ok()?)?))
    };
    files.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests;
