//! `{name}` in an agent file stands for a value of the launch.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The values of one launch, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(BTreeMap<&'static str, OsString>);

impl Values {
    pub(crate) fn set(&mut self, name: &'static str, value: impl AsRef<OsStr>) {
        self.0.insert(name, value.as_ref().to_owned());
    }

    /// Fills in `template`. Values are bytes and are not looked into again.
    ///
    /// # Errors
    /// The name that is not known, or a brace without its partner.
    pub(crate) fn fill(&self, template: &str) -> Result<OsString, String> {
        let mut filled = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            filled.extend_from_slice(&rest.as_bytes()[..open]);
            let close = rest[open..]
                .find('}')
                .ok_or_else(|| format!("{template:?} has a brace that is not closed"))?;
            let name = &rest[open + 1..open + close];
            let value = self
                .0
                .get(name)
                .ok_or_else(|| format!("{template:?} names {name:?}, unknown here"))?;
            filled.extend_from_slice(value.as_bytes());
            rest = &rest[open + close + 1..];
        }
        filled.extend_from_slice(rest.as_bytes());
        Ok(OsString::from_vec(filled))
    }
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
}
