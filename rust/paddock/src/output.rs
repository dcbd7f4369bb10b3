//! What commands print for a person or a script.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use confine::escape::is_safe;

use crate::error::Error;

/// Prints one line on standard output. Nobody reading any more is no error:
/// `paddock list | head -1` is a fair thing to type.
///
/// # Errors
/// When it cannot be written, so that a script does not take a part for the whole.
pub(crate) fn print(line: impl Display) -> Result<(), Error> {
    // One write, so that lines of commands that run side by side do not mix.
    let line = format!("{}\n", tame(&line.to_string()));
    let mut out = std::io::stdout().lock();
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::Output { reason: e.to_string() }),
        _ => Ok(()),
    }
}

/// A line as a terminal may have it. Texts for a person are escaped before; a string of
/// JSON still may hold what turns the direction of what follows, or commands a terminal
/// (C1). Such characters are written as JSON can write them, which is the same to whoever
/// parses it.
pub(crate) fn tame(line: &str) -> Cow<'_, str> {
    let draws = |c: char| c == '\u{7f}' || !c.is_ascii() && !is_safe(c);
    if !line.chars().any(draws) {
        return Cow::Borrowed(line);
    }
    let mut tamed = String::with_capacity(line.len());
    for c in line.chars() {
        if draws(c) { push_escaped(&mut tamed, c) } else { tamed.push(c) }
    }
    Cow::Owned(tamed)
}

/// JSON from elsewhere as it is, but for characters that would draw on a terminal: in a
/// text they are the same when they are escaped, and elsewhere there is only space.
pub(crate) fn as_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_safe(c) {
            shown.push(c);
        } else if c.is_ascii_whitespace() {
            shown.push(' ');
        } else {
            push_escaped(&mut shown, c);
        }
    }
    shown
}

fn push_escaped(text: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(text, "\\u{unit:04x}");
    }
}

/// A path for a person.
pub(crate) fn shown(path: &Path) -> String {
    confine::escape::escape(path.as_os_str().as_bytes()).to_string()
}

/// A word as a shell would take it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:=,@%+{}".contains(&b));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Says something on standard error. Where that is full or closed nobody is to
/// be told, and what is being done goes on.
pub(crate) fn complain(what: impl Display) {
    let _ = std::io::stderr().lock().write_all(format!("paddock: {what}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_draws_is_written_as_json_writes_it() {
        for (text, shown) in [
            ("plain \u{e9}\u{4e2d}", "\"plain \u{e9}\u{4e2d}\""),
            ("\u{9b}2J", "\"\\u009b2J\""),
            ("\u{202e}x\u{7f}", "\"\\u202ex\\u007f\""),
            ("\u{e0041}", "\"\\udb40\\udc41\""),
            ("\u{1b}[2J\n", "\"\\u001b[2J\\n\""),
        ] {
            assert_eq!(tame(&json!(text).to_string()), shown);
        }
    }

    #[test]
    fn json_that_could_draw_means_the_same_and_does_not() {
        let value =
            json!({ "a": "\u{9b}2J\u{202e}\u{7f}\u{e0041}\u{1b}\n", "b": "jos\u{e9} \u{1f984}" });
        let shown = as_json(&value.to_string());
        assert!(shown.chars().all(is_safe), "{shown:?}");
        assert!(shown.contains("jos\u{e9} \u{1f984}"), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        assert_eq!(as_json("{\t\"a\":1}\r"), "{ \"a\":1} ");
    }

    proptest! {
        #[test]
        fn whoever_parses_it_has_the_same_and_nothing_draws(text in any::<String>()) {
            let line = json!({ &text: [text] }).to_string();
            let tamed = tame(&line);
            prop_assert_eq!(serde_json::from_str::<Value>(&tamed).unwrap(), json!({ &text: [text] }));
            prop_assert!(tamed.chars().all(confine::escape::is_safe), "{}", tamed);
        }
    }
}
