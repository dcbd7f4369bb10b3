//! The name of a launch.

use std::fmt;
use std::io::Read;

use serde::{Deserialize, Serialize};

/// Twelve letters and digits, drawn at random. Without vowels and look-alikes,
/// so that no id is a word or misread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct LaunchId(String);

const ALPHABET: &[u8; 16] = b"bcdfghjkmnpqrtvz";
const LENGTH: usize = 12;

impl LaunchId {
    /// A new id: 48 random bits.
    pub(crate) fn random() -> std::io::Result<Self> {
        let mut bytes = [0; LENGTH / 2];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let letters = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
        Ok(Self(letters.map(|n| char::from(ALPHABET[usize::from(n)])).collect()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LaunchId {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text.len() == LENGTH && text.bytes().all(|b| ALPHABET.contains(&b)) {
            Ok(Self(text))
        } else {
            Err("not a launch id".into())
        }
    }
}

impl From<LaunchId> for String {
    fn from(id: LaunchId) -> Self {
        id.0
    }
}

impl fmt::Display for LaunchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_text_and_nothing_else_is_one() {
        let id = LaunchId::random().unwrap();
        assert_eq!(LaunchId::try_from(id.to_string()).as_ref(), Ok(&id));
        for text in ["", "bcdf", "../../etc/pas", "BCDFGHJKMNPQ", "aaaaaaaaaaaa"] {
            assert!(LaunchId::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
