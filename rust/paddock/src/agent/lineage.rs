//! An agent file with those that it extends, and what of them holds for a version of
//! the agent's program.
//!
//! A file's own words come after those of what it extends, and those for a version
//! after the plain ones of the same file: the later takes the place of the earlier.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::AgentFile;
use super::version::{Requirement, Version};

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In this directory.
    Own(PathBuf),
    /// In the program, under that name.
    Shipped(&'static str),
}

/// One file, without `extends`.
#[derive(Clone, Debug)]
pub(super) struct Generation {
    pub(super) place: Place,
    pub(super) text: String,
    plain: Table,
    /// In the order in which they stand in the file.
    versions: Vec<(Requirement, Table)>,
}

/// Keys that are not of one version.
const OF_ALL_VERSIONS: [&str; 5] = ["extends", "herdr", "name", "program", "versions"];

/// A file, and each that it extends after it.
#[derive(Clone, Debug)]
pub(super) struct Lineage(pub(super) Vec<Generation>);

/// What of a text is in it, and which other it extends.
///
/// # Errors
/// When it is not TOML, or `extends` or `versions` are not of their form.
pub(super) fn read(text: &str, place: Place) -> Result<(Generation, Option<String>), String> {
    let mut plain: Table = toml::from_str(text).map_err(|e| e.to_string())?;
    let extends = match plain.remove("extends") {
        None => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => return Err("extends is the name of an agent".into()),
    };
    let mut versions = Vec::new();
    match plain.remove("versions") {
        None => {}
        Some(Value::Table(tables)) => {
            for (name, table) in tables {
                let Value::Table(table) = table else {
                    return Err(format!("versions.{name:?} is no table"));
                };
                if let Some(key) = OF_ALL_VERSIONS.iter().find(|key| table.contains_key(**key)) {
                    return Err(format!("versions.{name:?}: {key} is the same for all versions"));
                }
                let requirement = Requirement::try_from(name)?;
                versions.push((requirement, table));
            }
        }
        Some(_) => return Err("versions is a table of tables".into()),
    }
    Ok((Generation { place, text: text.to_owned(), plain, versions }, extends))
}

impl Lineage {
    /// The file that was asked for.
    pub(super) fn own(&self) -> &Generation {
        &self.0[0]
    }

    /// All that holds for `version`; where it is not known, what holds for any.
    pub(super) fn at(&self, version: Option<&Version>) -> Table {
        self.merged(|requirement| version.is_some_and(|version| requirement.matches(version)))
    }

    fn merged(&self, holds: impl Fn(&Requirement) -> bool) -> Table {
        let mut merged = Table::new();
        for generation in self.0.iter().rev() {
            // Whose home and records these are.
            merged.remove("name");
            merge(&mut merged, generation.plain.clone());
            for (_, table) in generation.versions.iter().filter(|(required, _)| holds(required)) {
                merge(&mut merged, table.clone());
            }
        }
        if let (Place::Own(directory), false) = (&self.own().place, merged.contains_key("name"))
            && let Some(name) = directory.file_name().and_then(std::ffi::OsStr::to_str)
        {
            merged.insert("name".into(), Value::String(name.to_owned()));
        }
        merged
    }

    /// The file that holds for `version`, as text and read.
    ///
    /// # Errors
    /// What of it is not of the form.
    pub(super) fn file(&self, version: Option<&Version>) -> Result<(String, AgentFile), String> {
        let table = self.at(version);
        // What is as it was written can be told with its line.
        let is_as_written = match self.0.as_slice() {
            [only] => only.versions.is_empty() && table == only.plain,
            _ => false,
        };
        if is_as_written {
            let text = self.own().text.clone();
            let file = toml::from_str(&text).map_err(|e| e.to_string())?;
            return Ok((text, file));
        }
        let text = toml::to_string(&table).map_err(|e| e.to_string())?;
        let file = AgentFile::deserialize(table).map_err(|e| e.to_string())?;
        Ok((text, file))
    }

    /// What would hold for each version that is named, as far as it is of the form.
    pub(super) fn variants(&self) -> Vec<(String, AgentFile)> {
        let named = self.0.iter().flat_map(|generation| &generation.versions);
        let file = |named| AgentFile::deserialize(self.merged(|requirement| requirement == named));
        named.filter_map(|(named, _)| Some((named.to_string(), file(named).ok()?))).collect()
    }

    /// Looks at what would hold for each version that is named.
    ///
    /// # Errors
    /// The first that is not of the form.
    pub(super) fn check(&self) -> Result<(), String> {
        let has_client = |file: &AgentFile| file.pair.is_some();
        let always = has_client(&self.file(None)?.1);
        for (named, _) in self.0.iter().flat_map(|generation| &generation.versions) {
            let wrong = |reason: &str| format!("versions.\"{named}\": {}", reason.trim_end());
            let table = self.merged(|requirement| requirement == named);
            let file = AgentFile::deserialize(table).map_err(|e| wrong(&e.to_string()))?;
            if has_client(&file) != always {
                // There is one policy for all, or none.
                return Err(wrong("an agent has a client in all its versions or in none"));
            }
        }
        Ok(())
    }

    /// The directory or the shipped agent that has the policies: the first that has
    /// that file.
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter().map(|generation| &generation.place)
    }
}

/// Puts `over` over `base`: tables key by key, everything else in the place of what was.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Whether a directory of that name can be an agent's.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The directory of the agent `name` in `own`, if a file of it is there.
pub(super) fn own_directory(name: &str, own: &Path) -> Option<PathBuf> {
    let directory = own.join(name);
    // A link that leads nowhere is not passed over for the shipped one.
    directory.join("agent.toml").symlink_metadata().is_ok().then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(texts: &[&str]) -> Lineage {
        let place = |n: usize| Place::Own(format!("/agents/a{n}").into());
        Lineage(texts.iter().enumerate().map(|(n, text)| read(text, place(n)).unwrap().0).collect())
    }

    fn version(text: &str) -> Option<Version> {
        Version::parse(text)
    }

    #[test]
    fn tables_are_merged_and_all_else_is_replaced() {
        let mut base: Table =
            toml::from_str("a = [1, 2]\nb = \"x\"\n[t]\nk = 1\nl = 2\n[t.u]\nm = 1\n[v]\nx = 1\n")
                .unwrap();
        let over =
            toml::from_str("a = [3]\nv = 1\n[t]\nl = 3\n[t.u]\nn = 2\n[b]\ny = 1\n").unwrap();
        merge(&mut base, over);
        let wanted: Table =
            toml::from_str("a = [3]\nv = 1\n[b]\ny = 1\n[t]\nk = 1\nl = 3\n[t.u]\nm = 1\nn = 2\n")
                .unwrap();
        assert_eq!(base, wanted);
    }

    #[test]
    fn the_later_word_holds_and_that_for_a_version_after_the_plain_one() {
        let lineage = lineage(&[
            "title = \"own\"\n[versions.\">=3\"]\nx = \"own 3\"\n",
            "name = \"base\"\ntitle = \"base\"\nx = \"base\"\ny = \"base\"\n\
             [versions.\">=2\"]\nx = \"base 2\"\ny = \"base 2\"\ntitle = \"base 2\"\n\
             [versions.\">=2.5\"]\ny = \"base 2.5\"\n",
        ]);
        let of = |version: Option<Version>, key: &str| {
            lineage.at(version.as_ref())[key].as_str().unwrap().to_owned()
        };
        for (at, title, x, y) in [
            (None, "own", "base", "base"),
            (version("1"), "own", "base", "base"),
            (version("2"), "own", "base 2", "base 2"),
            (version("2.6"), "own", "base 2", "base 2.5"),
            (version("3"), "own", "own 3", "base 2.5"),
        ] {
            let found = ["title", "x", "y"].map(|key| of(at.clone(), key));
            assert_eq!(found, [title, x, y], "{at:?}");
        }
        assert_eq!(of(None, "name"), "a0", "a home of its own");
    }

    #[test]
    fn what_is_not_of_the_form_is_refused_for_every_version() {
        let head = "title = \"x\"\nprogram.names = [\"x\"]\nsolo.argv = [\"x\"]\n";
        let check = |text: &str| lineage(&[&format!("{head}{text}")]).check();
        check("[versions.\">=2\"]\nhosts = [\"a.test\"]\n").unwrap();
        for text in [
            "[versions.\">=2\"]\nhost = [\"a.test\"]\n",
            "[versions.\">=2\".solo]\narg = []\n",
            "[versions.\">=2\"]\nsolo = 1\n",
            "[versions.\">=2\"]\nlink.kind = \"tcp\"\nserver.argv = []\nclient.argv = []\n",
        ] {
            let refused = check(text).unwrap_err();
            assert!(refused.starts_with("versions.\">=2\": "), "{refused}");
        }
        for text in [
            "versions = 1",
            "[versions]\n\">=2\" = 1",
            "[versions.two]\n",
            "[versions.\"2\"]\nname = \"x\"",
            "[versions.\"2\"]\nprogram.names = []",
            "extends = 1",
            "= ",
        ] {
            assert!(read(text, Place::Shipped("x")).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_file_is_reading_it_ends(text: String, lines in "([a-z.\\[\\]\"=><{}0-9 \n]{0,40})") {
            for text in [text, lines] {
                let Ok((generation, _)) = read(&text, Place::Shipped("x")) else { continue };
                let lineage = Lineage(vec![generation.clone(), generation]);
                let _ = lineage.check();
                for version in [None, Version::parse("2")] {
                    let _ = lineage.file(version.as_ref());
                }
            }
        }
    }
}
