//! Chords in herdr's notations: which of them mean the same keys.

use std::collections::BTreeSet;

/// What has to be pressed. Two notations of one chord are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    is_after_prefix: bool,
    modifiers: BTreeSet<&'static str>,
    key: String,
}

impl Keys {
    /// Reads `prefix+shift+a`, `prefix+A`, `shift+prefix+a`. herdr wants the prefix
    /// first and written small; that it may take others one day costs nothing here.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut keys =
            Self { is_after_prefix: false, modifiers: BTreeSet::new(), key: String::new() };
        for part in text.split('+').map(str::trim) {
            let lower = part.to_lowercase();
            match lower.as_str() {
                "" => return None,
                "prefix" => keys.is_after_prefix = true,
                word => match modifier(word) {
                    Some(modifier) => {
                        keys.modifiers.insert(modifier);
                    }
                    None if !keys.key.is_empty() => return None,
                    None => keys.put(part, lower),
                },
            }
        }
        (!keys.key.is_empty()).then_some(keys)
    }

    /// A capital is its letter with shift.
    fn put(&mut self, part: &str, lower: String) {
        if part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_uppercase()) {
            self.modifiers.insert("shift");
        }
        self.key = lower;
    }

    /// Whether pressing the prefix twice would be these keys.
    pub(super) fn is_prefix_key(&self, prefix: &Self) -> bool {
        self.is_after_prefix && self.modifiers == prefix.modifiers && self.key == prefix.key
    }
}

fn modifier(word: &str) -> Option<&'static str> {
    Some(match word {
        "ctrl" | "control" => "ctrl",
        "shift" => "shift",
        "alt" | "option" | "meta" => "alt",
        "cmd" | "command" | "super" => "super",
        "hyper" => "hyper",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_of_a_chord_is_that_chord() {
        let ours = Keys::parse("prefix+shift+a").unwrap();
        for same in [
            "prefix+A",
            "prefix+SHIFT+a",
            " prefix + shift + a ",
            "prefix+shift+A",
            "shift+prefix+a",
            "Prefix+Shift+a",
        ] {
            assert_eq!(Keys::parse(same).as_ref(), Some(&ours), "{same}");
        }
        for other in ["prefix+a", "shift+a", "A", "prefix+ctrl+shift+a", "prefix+shift+b", "a"] {
            let keys = Keys::parse(other);
            assert!(keys.is_some() && keys.as_ref() != Some(&ours), "{other}");
        }
        for none in ["", "prefix", "prefix+", "shift", "prefix+a+b", "+a", "prefix++"] {
            assert_eq!(Keys::parse(none), None, "{none}");
        }
        let control = |text| Keys::parse(text).unwrap();
        assert_eq!(control("prefix+control+option+x"), control("prefix+alt+ctrl+x"));
    }

    #[test]
    fn the_prefix_itself_is_no_chord_after_it() {
        let ours = Keys::parse("prefix+shift+a").unwrap();
        for (prefix, is_it) in [("A", true), ("shift+a", true), ("a", false), ("ctrl+b", false)] {
            assert_eq!(ours.is_prefix_key(&Keys::parse(prefix).unwrap()), is_it, "{prefix}");
        }
    }
}
