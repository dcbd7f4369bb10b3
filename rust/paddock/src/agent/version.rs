//! Versions of agents' programs, and what an agent file requires of them.

use std::fmt;

use semver::{BuildMetadata, Prerelease};
use serde::Deserialize;

/// The version of a program, as it was found and as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Version {
    text: String,
    number: semver::Version,
}

/// Longer texts are no versions.
const LONGEST: usize = 64;

impl Version {
    /// Reads `1`, `1.2`, `1.2.3`, each with or without `v` before it and what a
    /// pre-release or a build has after it. A pre-release counts as what it leads to.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_plain = text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic());
        let bare = text.strip_prefix('v').unwrap_or(text);
        let end = bare.find(['-', '+']).unwrap_or(bare.len());
        let parts: Vec<&str> = bare[..end].split('.').collect();
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !is_plain || parts.len() > 3 || !parts.iter().all(is_number) {
            return None;
        }
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(&parts) {
            *number = part.parse().ok()?;
        }
        let [major, minor, patch] = numbers;
        let number = semver::Version {
            major,
            minor,
            patch,
            pre: Prerelease::EMPTY,
            build: BuildMetadata::EMPTY,
        };
        Some(Self { text: text.to_owned(), number })
    }

    /// As it was found.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no version (as 1.2.3)"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Versions that something is true of, as Cargo writes them: `>=1.18, <3`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Requirement {
    text: String,
    required: semver::VersionReq,
}

impl TryFrom<String> for Requirement {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let required = semver::VersionReq::parse(&text)
            .map_err(|e| format!("{text:?} says of no version whether it is meant: {e}"))?;
        Ok(Self { text, required })
    }
}

impl Requirement {
    pub(crate) fn matches(&self, version: &Version) -> bool {
        self.required.matches(&version.number)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_compared_by_its_numbers() {
        let meets = |requirement: &str, version: &str| {
            let requirement = Requirement::try_from(requirement.to_owned()).unwrap();
            requirement.matches(&Version::parse(version).unwrap())
        };
        for (requirement, version, wanted) in [
            (">=2", "2", true),
            (">=2", "v2.0.0", true),
            (">=2", "1.99.9", false),
            (">=2", "2.1.0-beta.1", true),
            (">=1.18, <3", "2.5", true),
            (">=1.18, <3", "3.0.0", false),
            (">=1.18, <3", "3.0.0-beta", false),
            (">=0.171", "0.171.0-linux-x64", true),
            (">=2026.7", "2026.07.01", true),
            ("*", "0.0.1", true),
        ] {
            assert_eq!(meets(requirement, version), wanted, "{requirement} {version}");
        }
        for text in
            ["", "v", "1.2.3.4", "1..2", "x", "1.x", "1.2.3 4", "-1", "99999999999999999999"]
        {
            assert_eq!(Version::parse(text), None, "{text}");
        }
        assert!(Requirement::try_from("two".to_owned()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn whatever_it_is_reading_it_ends(text: String, digits in "[0-9v.+-]{0,70}") {
            for text in [text, digits] {
                if let Some(version) = Version::parse(&text) {
                    proptest::prop_assert_eq!(version.text(), text.trim());
                }
                let _ = Requirement::try_from(text);
            }
        }
    }
}
