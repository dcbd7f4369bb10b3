//! Which version an agent's program is. It is not run for that: outside of its
//! sandbox nothing of an agent is.

use std::path::Path;

use serde::Deserialize;

use super::config::AgentSettings;
use crate::agent::Version;
use crate::files::read_plain;

/// A description of a package that is larger is none.
const MOST: u64 = 1 << 20;
/// So far below its package a program may lie.
const DEEPEST: usize = 16;
/// What a package's directory is in.
const PACKAGES: &str = "node_modules";

/// Where a version was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionFrom {
    Configuration,
    Package,
    Path,
}

impl VersionFrom {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Configuration => "the configuration",
            Self::Package => "its package",
            Self::Path => "its path",
        }
    }
}

/// The version of the program at `path`, which has no links in it: as a person says,
/// else as its package says, else a part of the path that is one.
pub(crate) fn version_of(
    path: &Path,
    settings: Option<&AgentSettings>,
) -> Option<(Version, VersionFrom)> {
    if let Some(version) = settings.and_then(|settings| settings.version.as_ref()) {
        return Some((version.clone(), VersionFrom::Configuration));
    }
    if path.components().any(|part| part.as_os_str() == PACKAGES) {
        // The path may have other versions in it: that of Node.
        return Some((of_package(path)?, VersionFrom::Package));
    }
    let mut parts = path.components().rev();
    let version = parts.find_map(|part| of_name(part.as_os_str().to_str()?))?;
    Some((version, VersionFrom::Path))
}

/// All three numbers, and nothing before them: others are of something else.
fn of_name(name: &str) -> Option<Version> {
    let is_whole = name.starts_with(|c: char| c.is_ascii_digit());
    let numbers = name.split(['-', '+']).next()?;
    (is_whole && numbers.split('.').count() == 3).then(|| Version::parse(name)).flatten()
}

/// What the nearest description says that has a version.
fn of_package(program: &Path) -> Option<Version> {
    #[derive(Deserialize)]
    struct Package {
        version: Option<String>,
    }
    let above = program.ancestors().skip(1).take(DEEPEST);
    let below_packages =
        above.take_while(|directory| directory.file_name().is_some_and(|name| name != PACKAGES));
    for directory in below_packages {
        let Ok(text) = read_plain(&directory.join("package.json"), MOST) else { continue };
        let Ok(package) = serde_json::from_slice::<Package>(&text) else { return None };
        if let Some(version) = package.version {
            return Version::parse(&version);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &Path) -> Option<(String, VersionFrom)> {
        version_of(path, None).map(|(version, from)| (version.text().to_owned(), from))
    }

    #[test]
    fn a_version_in_the_path_is_the_programs_own() {
        for (path, wanted) in [
            ("/h/.local/share/claude/versions/2.1.332", Some("2.1.332")),
            ("/opt/agent/1.18.3/bin/agent", Some("1.18.3")),
            ("/opt/1.0.0/agent/1.18.3-beta.1/bin/agent", Some("1.18.3-beta.1")),
            ("/opt/agent-1.18.3/bin/agent", None),
            ("/opt/1.18/bin/agent", None),
            ("/h/.nvm/versions/node/v22.1.0/bin/agent", None),
            ("/usr/bin/agent", None),
            ("/", None),
        ] {
            let wanted = wanted.map(|text| (text.to_owned(), VersionFrom::Path));
            assert_eq!(found(Path::new(path)), wanted, "{path}");
        }
    }

    #[test]
    fn a_packages_word_comes_before_the_path_and_a_persons_before_both() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let package = root.join("node/22.1.0/lib/node_modules/@agent/cli");
        let program = package.join("vendor/x/bin/agent");
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(root.join("node/22.1.0/package.json"), r#"{"version":"9.9.9"}"#).unwrap();
        let write = |text: &str| std::fs::write(package.join("package.json"), text).unwrap();
        assert_eq!(found(&program), None, "not Node's");
        write(r#"{"name":"@agent/cli","version":"0.171.0-linux-x64"}"#);
        assert_eq!(found(&program), Some(("0.171.0-linux-x64".into(), VersionFrom::Package)));
        // Packages have such files for their parts.
        std::fs::write(package.join("vendor/package.json"), r#"{"type":"module"}"#).unwrap();
        assert_eq!(found(&program).unwrap().0, "0.171.0-linux-x64");
        let settings = AgentSettings { version: Version::parse("1.2"), ..AgentSettings::default() };
        let (version, from) = version_of(&program, Some(&settings)).unwrap();
        assert_eq!((version.text(), from), ("1.2", VersionFrom::Configuration));
        for text in ["", "[]", "{}", r#"{"version":1}"#, r#"{"version":"x"}"#] {
            write(text);
            assert_eq!(found(&program), None, "{text}");
        }
        std::fs::rename(package.join("package.json"), package.join("other")).unwrap();
        write(r#"{"version":"1.0.0"}"#);
        assert!(found(&program).is_some(), "control");
        std::fs::rename(package.join("package.json"), package.join("other")).unwrap();
        std::os::unix::fs::symlink(package.join("other"), package.join("package.json")).unwrap();
        assert_eq!(found(&program), None, "a link");
    }
}
