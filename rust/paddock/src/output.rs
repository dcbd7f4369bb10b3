//! What commands print for a person or a script.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Error;

/// Prints one line on standard output. Nobody reading any more is no error:
/// `paddock list | head -1` is a fair thing to type.
///
/// # Errors
/// When it cannot be written, so that a script does not take a part for the whole.
pub(crate) fn print(line: impl Display) -> Result<(), Error> {
    // One write, so that lines of commands that run side by side do not mix.
    let line = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::Output { reason: e.to_string() }),
        _ => Ok(()),
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
