//! What is there to copy. Everything is read now, into memory: a file that changes later is
//! not the one that was shown.

use std::collections::BTreeSet;
use std::fs::File as OpenFile;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::executed::executed;
use super::{File, Gathered, Left};
use crate::agent::{Import, Imported};
use crate::files::open_plain;
use crate::output::shown;

/// A larger file is no configuration.
const LARGEST: u64 = 4 << 20;
/// Nor is more in all.
const MOST_BYTES: usize = 32 << 20;
const MOST_FILES: usize = 2_000;
/// Links that lead around in a circle end here.
const DEEPEST: usize = 12;

/// Where it comes from.
#[derive(Debug)]
pub(crate) struct Source {
    /// The person's home, or what takes its place.
    pub(crate) home: PathBuf,
    /// Links are copied as what they lead to.
    pub(crate) follow_links: bool,
}

/// Finds and reads what `import` names.
///
/// # Errors
/// When there is too much of it, or the home is not there.
pub(crate) fn gather(import: &Import, source: &Source) -> io::Result<Gathered> {
    let home = source.home.canonicalize()?;
    let mut walk = Walk {
        source,
        never: Never::of(import, &home),
        met: BTreeSet::new(),
        bytes: 0,
        found: Gathered::default(),
    };
    for never in &import.never {
        let path = home.join(never.path.path());
        if path.symlink_metadata().is_ok() {
            walk.leave(&path, never.reason.clone());
        }
    }
    for imported in &import.files {
        let path = home.join(imported.from.path());
        walk.entry(imported, Way { path: &path, straight: &path, to: &imported.to, depth: 0 })?;
    }
    Ok(walk.found)
}

/// What is never copied, under whatever name it is met.
struct Never {
    paths: Vec<(PathBuf, String)>,
    /// Of the files among them: device and inode.
    files: BTreeSet<(u64, u64)>,
}

impl Never {
    fn of(import: &Import, home: &Path) -> Self {
        let (mut paths, mut files) = (Vec::new(), BTreeSet::new());
        for never in &import.never {
            let path = home.join(never.path.path());
            if let Ok(metadata) = std::fs::metadata(&path)
                && metadata.is_file()
            {
                files.insert((metadata.dev(), metadata.ino()));
            }
            let real = path.canonicalize().unwrap_or(path);
            paths.push((real, never.reason.clone()));
        }
        Self { paths, files }
    }

    fn reason(&self, real: &Path) -> Option<&str> {
        let (_, reason) = self.paths.iter().find(|(path, _)| real.starts_with(path))?;
        Some(reason)
    }
}

struct Walk<'a> {
    source: &'a Source,
    never: Never,
    /// Directories that were met, so that links among them are followed to an end.
    met: BTreeSet<PathBuf>,
    bytes: usize,
    found: Gathered,
}

/// Where a file or a directory is met.
#[derive(Clone, Copy)]
struct Way<'a> {
    /// By its name in the person's home.
    path: &'a Path,
    /// Where it is, unless it is a link.
    straight: &'a Path,
    /// Its place in the private home.
    to: &'a Path,
    depth: usize,
}

impl Walk<'_> {
    fn leave(&mut self, path: &Path, reason: impl Into<String>) {
        self.found.left.push(Left { path: path.to_owned(), reason: reason.into() });
    }

    fn entry(&mut self, imported: &Imported, way: Way<'_>) -> io::Result<()> {
        let path = way.path;
        if path.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            return Ok(());
        }
        let found = path.canonicalize().and_then(|real| Ok((real.metadata()?, real)));
        let (metadata, real) = match found {
            Ok(found) => found,
            Err(e) => {
                self.leave(path, format!("where it leads cannot be told: {e}"));
                return Ok(());
            }
        };
        if let Some(reason) = self.never.reason(&real) {
            let reason = reason.to_owned();
            self.leave(path, reason);
        } else if real != way.straight && !self.source.follow_links {
            let target = shown(&real);
            self.leave(path, format!("it leads to {target}; --follow-links copies what is there"));
        } else if metadata.is_dir() {
            self.directory(imported, way, &real)?;
        } else if metadata.is_file() {
            self.file(imported, way, &real)?;
        } else {
            self.leave(path, "it is no file and no directory");
        }
        Ok(())
    }

    fn directory(&mut self, imported: &Imported, way: Way<'_>, real: &Path) -> io::Result<()> {
        let Way { path, to, depth, .. } = way;
        if depth == DEEPEST {
            self.leave(path, format!("it is deeper than {DEEPEST} directories"));
            return Ok(());
        }
        if !self.met.insert(real.to_owned()) {
            self.leave(path, "it leads to a directory that is copied already");
            return Ok(());
        }
        let entries = match std::fs::read_dir(real) {
            Ok(entries) => entries,
            Err(e) => {
                self.leave(path, e.to_string());
                return Ok(());
            }
        };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            let (path, straight, to) = (path.join(&name), real.join(&name), to.join(&name));
            let way = Way { path: &path, straight: &straight, to: &to, depth: depth + 1 };
            self.entry(imported, way)?;
        }
        Ok(())
    }

    fn file(&mut self, imported: &Imported, way: Way<'_>, real: &Path) -> io::Result<()> {
        let Way { path, to, .. } = way;
        let opened = open_plain(OpenFile::options().read(true), real).and_then(|file| {
            let metadata = file.metadata()?;
            let mut text = Vec::new();
            file.take(LARGEST + 1).read_to_end(&mut text)?;
            Ok((metadata, text))
        });
        let (metadata, text) = match opened {
            Ok(opened) => opened,
            Err(e) => {
                self.leave(path, e.to_string());
                return Ok(());
            }
        };
        if self.never.files.contains(&(metadata.dev(), metadata.ino())) {
            self.leave(path, "it is a file that is never copied");
            return Ok(());
        }
        if text.len() as u64 > LARGEST {
            self.leave(path, format!("it is larger than {} MiB", LARGEST >> 20));
            return Ok(());
        }
        self.bytes += text.len() * imported.homes.len();
        if self.bytes > MOST_BYTES || self.found.files.len() >= MOST_FILES {
            return Err(io::Error::other(format!(
                "it is more than {MOST_FILES} files or {} MiB, the last one {}",
                MOST_BYTES >> 20,
                shown(path)
            )));
        }
        self.found.executed.extend(executed(path, &text, &imported.runs));
        for home in &imported.homes {
            self.found.files.push(File {
                from: path.to_owned(),
                leads_to: (real != path).then(|| real.to_owned()),
                home: *home,
                to: to.to_owned(),
                text: text.clone(),
                is_program: metadata.mode() & 0o100 != 0,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const IMPORT: &str = "files = [{ from = \"~/.x/config.toml\", to = \".x/config.toml\", \
        homes = [\"server\", \"client\"], runs = [\"mcp\"] }, \
        { from = \"~/.x/skills\", to = \".x/skills\" }]\n\
        never = [{ path = \"~/.x/auth.json\", reason = \"it rotates\" }]\n";

    fn home() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap().join("home");
        std::fs::create_dir_all(home.join(".x/skills/one")).unwrap();
        std::fs::write(home.join(".x/config.toml"), "[mcp.a]\ncommand = \"npx\"\n").unwrap();
        std::fs::write(home.join(".x/skills/one/SKILL.md"), "do\n").unwrap();
        std::fs::write(home.join(".x/auth.json"), "secret\n").unwrap();
        (root, home)
    }

    fn gathered(home: &Path, follow_links: bool) -> Gathered {
        let import: Import = toml::from_str(IMPORT).unwrap();
        gather(&import, &Source { home: home.to_owned(), follow_links }).unwrap()
    }

    fn copied(found: &Gathered) -> Vec<(&str, &str)> {
        found.files.iter().map(|file| (file.home.name(), file.to.to_str().unwrap())).collect()
    }

    #[test]
    fn files_and_directories_are_found_and_what_is_never_copied_is_told() {
        let (_root, home) = home();
        let found = gathered(&home, false);
        let wanted = [
            ("server", ".x/config.toml"),
            ("client", ".x/config.toml"),
            ("server", ".x/skills/one/SKILL.md"),
        ];
        assert_eq!(copied(&found), wanted);
        assert_eq!(found.left.len(), 1);
        assert_eq!(found.left[0].reason, "it rotates");
        assert_eq!(found.executed.len(), 1, "{:?}", found.executed);
        assert_eq!(found.executed[0].what, "mcp.a.command: npx");
    }

    #[test]
    fn a_link_is_followed_only_when_it_is_said_and_never_to_what_is_never_copied() {
        let (_root, home) = home();
        let dotfiles = home.join("dotfiles");
        std::fs::create_dir_all(dotfiles.join("skill")).unwrap();
        std::fs::write(dotfiles.join("skill/SKILL.md"), "x").unwrap();
        std::fs::rename(home.join(".x/config.toml"), dotfiles.join("config.toml")).unwrap();
        symlink(dotfiles.join("config.toml"), home.join(".x/config.toml")).unwrap();
        symlink(dotfiles.join("skill"), home.join(".x/skills/two")).unwrap();
        symlink(home.join(".x/auth.json"), home.join(".x/skills/auth")).unwrap();
        std::fs::hard_link(home.join(".x/auth.json"), home.join(".x/skills/hard")).unwrap();
        symlink(&home, home.join(".x/skills/round")).unwrap();

        let found = gathered(&home, false);
        assert_eq!(copied(&found), [("server", ".x/skills/one/SKILL.md")]);
        let reasons: Vec<&str> = found.left.iter().map(|left| left.reason.as_str()).collect();
        let told = format!("it leads to {}", dotfiles.join("config.toml").display());
        assert!(reasons.iter().any(|reason| reason.starts_with(&told)), "{reasons:?}");

        std::fs::remove_file(home.join(".x/skills/round")).unwrap();
        let found = gathered(&home, true);
        let copied = copied(&found);
        assert!(copied.contains(&("client", ".x/config.toml")), "{copied:?}");
        assert!(copied.contains(&("server", ".x/skills/two/SKILL.md")), "{copied:?}");
        assert!(!found.files.iter().any(|file| file.text == b"secret\n"), "{copied:?}");
        let led: Vec<_> = found.files.iter().filter_map(|file| file.leads_to.clone()).collect();
        assert!(led.contains(&dotfiles.join("config.toml")), "{led:?}");
    }

    #[test]
    fn links_in_a_circle_end() {
        let (_root, home) = home();
        symlink(home.join(".x/skills"), home.join(".x/skills/round")).unwrap();
        let found = gathered(&home, true);
        assert_eq!(copied(&found), copied(&gathered(&home, false)));
        let is_round = |left: &Left| left.reason.contains("copied already");
        assert!(found.left.iter().any(is_round), "{:?}", found.left);
    }

    #[test]
    fn a_directory_that_is_a_link_as_a_whole_is_one_link() {
        let (root, home) = home();
        let elsewhere = root.path().canonicalize().unwrap().join("elsewhere");
        std::fs::rename(home.join(".x"), &elsewhere).unwrap();
        symlink(&elsewhere, home.join(".x")).unwrap();
        let found = gathered(&home, false);
        assert!(found.files.is_empty(), "{:?}", copied(&found));
        assert_eq!(copied(&gathered(&home, true)).len(), 3);
    }

    #[test]
    fn what_is_too_large_or_no_file_is_left() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let (_root, home) = home();
        let large = OpenFile::create(home.join(".x/skills/large")).unwrap();
        large.set_len(LARGEST + 1).unwrap();
        mknodat(CWD, home.join(".x/skills/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let found = gathered(&home, false);
        assert_eq!(copied(&found).len(), 3);
        let reasons: Vec<&str> = found.left.iter().map(|left| left.reason.as_str()).collect();
        assert_eq!(reasons[1..], ["it is larger than 4 MiB", "it is no file and no directory"]);
        for n in 0..MOST_FILES {
            std::fs::write(home.join(format!(".x/skills/{n}")), "").unwrap();
        }
        let import: Import = toml::from_str(IMPORT).unwrap();
        assert!(gather(&import, &Source { home, follow_links: false }).is_err());
    }
}
