//! `{name}` in an agent file stands for a value of the launch.
//!
//! A name is a letter with letters, digits, dashes and underscores after it, and must
//! be known. Every other brace stands for itself, so that JSON can be written as it
//! is; so does one behind `$`, which is a shell's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The values of one launch, by name.
#[derive(Clone, Debug)]
pub(crate) struct Values(BTreeMap<&'static str, OsString>);

impl Default for Values {
    /// What is the same in every launch of this user's.
    fn default() -> Self {
        let uid = rustix::process::getuid().as_raw().to_string();
        Self([("brace", "{".into()), ("uid", uid.into())].into())
    }
}

/// The names that a launch has values for.
pub(crate) const NAMES: [&str; 11] = [
    "brace",
    "bridge",
    "home",
    "link",
    "paddock",
    "password-sha256",
    "port",
    "program",
    "temporary",
    "uid",
    "workspace",
];

impl Values {
    /// Some value for each name that a launch has one for: to find out whether a template
    /// can be filled in.
    pub(crate) fn of_any_launch() -> Self {
        let mut any = Self::default();
        for name in NAMES {
            any.0.entry(name).or_insert_with(|| "x".into());
        }
        any
    }

    /// The same but for values that are not everybody's.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        self.0.retain(|name, _| !names.contains(name));
        self
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl AsRef<OsStr>) {
        debug_assert!(NAMES.contains(&name), "{name}");
        self.0.insert(name, value.as_ref().to_owned());
    }

    /// Fills in `template`. Values are bytes and are not looked into again.
    ///
    /// # Errors
    /// The name that is not known, or one without its second brace.
    pub(crate) fn fill(&self, template: &str) -> Result<OsString, String> {
        let mut filled = Vec::new();
        for piece in pieces(template) {
            match piece {
                Piece::Text(text) => filled.extend_from_slice(text.as_bytes()),
                Piece::Name(name) => {
                    let value = self.0.get(name).ok_or_else(|| {
                        let start: String = template.chars().take(60).collect();
                        format!("{start:?} names {name:?}, unknown here")
                    })?;
                    filled.extend_from_slice(value.as_bytes());
                }
                Piece::Open(name) => {
                    return Err(format!("the brace of \"{{{name}\" is not closed"));
                }
            }
        }
        Ok(OsString::from_vec(filled))
    }
}

/// A part of a template.
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
    /// A name that the template ends with, without its second brace.
    Open(&'a str),
}

fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut text, mut at) = (0, 0);
    while let Some(open) = template[at..].find('{').map(|found| at + found) {
        let rest = &template[open + 1..];
        at = open + 1;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = &rest[..length];
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_name || template[..open].ends_with('$') {
            continue;
        }
        let piece = match rest[length..].chars().next() {
            Some('}') => Piece::Name(name),
            None => Piece::Open(name),
            Some(_) => continue,
        };
        pieces.push(Piece::Text(&template[text..open]));
        pieces.push(piece);
        at = (open + 1 + length + 1).min(template.len());
        text = at;
    }
    pieces.push(Piece::Text(&template[text..]));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_values_are_not_read_again() {
        let mut values = Values::default();
        values.set("port", "4600");
        values.set("home", "/h/{port}");
        assert_eq!(values.fill("ws://127.0.0.1:{port}/x").unwrap(), "ws://127.0.0.1:4600/x");
        assert_eq!(values.fill("{home}{port}").unwrap(), "/h/{port}4600");
        assert_eq!(values.fill("plain").unwrap(), "plain");
        assert!(values.fill("{prot}").is_err());
        assert!(values.fill("{port").is_err());
    }

    #[test]
    fn braces_that_are_no_names_stand_for_themselves() {
        let mut values = Values::default();
        values.set("port", "4600");
        for (template, wanted) in [
            (r#"{"a":{"b":{}},"c":"{port}"}"#, r#"{"a":{"b":{}},"c":"4600"}"#),
            ("{}{ port }{1}{env:KEY}{", "{}{ port }{1}{env:KEY}{"),
            ("echo ${port} ${HOME", "echo ${port} ${HOME"),
            ("{brace}port}", "{port}"),
            ("{{port}}", "{4600}"),
            ("ü{port}ü", "ü4600ü"),
            ("", ""),
        ] {
            assert_eq!(values.fill(template).unwrap(), wanted, "{template}");
        }
        let uid = rustix::process::getuid().as_raw().to_string();
        assert_eq!(values.fill("{uid}").unwrap(), *uid);
        for template in ["{HOME}", "{port_}", "{ports}", "{{prot}}", "a{port"] {
            assert!(values.fill(template).is_err(), "{template}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_text_without_names_stays_what_it_is(text: String) {
            let values = Values::default();
            if let Ok(filled) = values.fill(&text)
                && !text.contains("{brace}") && !text.contains("{uid}")
            {
                proptest::prop_assert_eq!(filled, OsString::from(text));
            }
        }
    }
}
