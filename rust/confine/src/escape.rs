//! Bytes from the kernel or the agent, made safe to show.
//!
//! A process names itself, and a name may hold terminal sequences, newlines or
//! direction marks. Everything shown to a person passes through here.

use std::fmt;

/// Shows bytes on one line: printable text as it is, everything else escaped.
///
/// Backslash is escaped too, so that the text shown names the bytes uniquely.
#[derive(Clone, Copy)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
    most: usize,
}

/// Escapes all of `bytes`.
pub fn escape(bytes: &[u8]) -> Escaped<'_> {
    Escaped { bytes, most: usize::MAX }
}

/// Escapes `bytes` and cuts what is shown after about `most` characters.
pub fn escape_short(bytes: &[u8], most: usize) -> Escaped<'_> {
    Escaped { bytes, most }
}

/// Whether a character shows as itself and does nothing else. Some that do more
/// are letters to Unicode: direction overrides, joiners, line separators, tags.
pub fn is_safe(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{115f}'..='\u{1160}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{10ffff}')
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = 0;
        for chunk in self.bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                if shown >= self.most {
                    return f.write_str("...");
                }
                shown += 1;
                match c {
                    '\\' => f.write_str("\\\\")?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    c if is_safe(c) => write!(f, "{c}")?,
                    c => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                }
            }
            for byte in chunk.invalid() {
                if shown >= self.most {
                    return f.write_str("...");
                }
                shown += 1;
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_draws_is_escaped_and_plain_text_is_not() {
        for (bytes, shown) in [
            (&b"codex app-server"[..], "codex app-server"),
            ("jos\u{e9} \u{65e5}".as_bytes(), "jos\u{e9} \u{65e5}"),
            (b"a\x1b[2Jb", "a\\u{1b}[2Jb"),
            (b"a\nb\tc\rd", "a\\nb\\tc\\rd"),
            (b"\xff\xfe", "\\xff\\xfe"),
            ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
            ("\u{202e}gpj".as_bytes(), "\\u{202e}gpj"),
            (b"a\\x1b", "a\\\\x1b"),
            (b"", ""),
        ] {
            assert_eq!(escape(bytes).to_string(), shown);
        }
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        assert_eq!(escape_short(b"abcdef", 3).to_string(), "abc...");
        assert_eq!(escape_short(b"abc", 3).to_string(), "abc");
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_could_draw_is_left(bytes: Vec<u8>) {
            let shown = escape(&bytes).to_string();
            proptest::prop_assert!(shown.chars().all(is_safe));
        }
    }
}
