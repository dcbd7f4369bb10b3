//! What git finds in the place of SSH where SSH does not leave the sandbox: a program
//! that says so, and names the remote that works.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use confine::escape::escape;

/// The status of SSH itself when it fails (`ssh(1)`, EXIT STATUS).
const FAILED: u8 = 255;

/// Options of SSH that are followed by a value (`ssh(1)`, SYNOPSIS).
const WITH_VALUE: &[u8] = b"BbcDEeFIiJLlmOoPpRSWw";

/// Says on standard error that SSH does not leave the sandbox, and which remote to use
/// instead of the one in `arguments`, which are those that git gives to SSH:
/// `[OPTION...] [USER@]HOST COMMAND`, the command being `git-upload-pack 'PATH'`.
pub fn refuse_ssh(arguments: &[OsString]) -> ExitCode {
    let words: Vec<&[u8]> = arguments.iter().map(|word| word.as_encoded_bytes()).collect();
    let mut text = String::from("paddock: SSH does not leave this sandbox; git works over HTTPS\n");
    if let Some(remote) = remote(&words) {
        let remote = escape(&remote).to_string();
        text.push_str("use this remote: ");
        text.push_str(&remote);
        text.push_str("\nnext: git remote set-url origin ");
        text.push_str(&remote);
        text.push('\n');
    }
    // Where standard error is full or closed, nobody is to be told.
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(FAILED)
}

/// The HTTPS remote of the same repository. A port is SSH's, and left out.
fn remote(words: &[&[u8]]) -> Option<Vec<u8>> {
    let mut words = words.iter();
    let destination = loop {
        match *words.next()? {
            [b'-', option, rest @ ..] if *option != b'-' => {
                if rest.is_empty() && WITH_VALUE.contains(option) {
                    words.next()?;
                }
            }
            b"--" => break *words.next()?,
            word => break word,
        }
    };
    let host = destination.rsplit(|byte| *byte == b'@').next().filter(|host| !host.is_empty())?;
    let command = words.next()?;
    let space = command.iter().position(|byte| *byte == b' ')?;
    let path = unquoted(command[space..].trim_ascii());
    let first = path.iter().position(|byte| *byte != b'/')?;
    Some([b"https://", host, b"/", &path[first..]].concat())
}

/// The first word, as git quotes it for a shell: `'` around all of it, and `'\''` for
/// one within.
fn unquoted(words: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut is_quoted = false;
    let mut bytes = words.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\'' => is_quoted = !is_quoted,
            b'\\' if !is_quoted => text.extend(bytes.next()),
            b' ' if !is_quoted => break,
            byte => text.push(*byte),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_is_that_of_the_same_repository() {
        let of = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            remote(&words).map(|remote| String::from_utf8(remote).unwrap())
        };
        let wanted = Some("https://a.test/o/r.git".to_owned());
        for words in [
            &["git@a.test", "git-upload-pack 'o/r.git'"][..],
            &["-o", "SendEnv=GIT_PROTOCOL", "git@a.test", "git-upload-pack 'o/r.git'"],
            &[
                "-oSendEnv=GIT_PROTOCOL",
                "-4",
                "-p",
                "2222",
                "a.test",
                "git-receive-pack '/o/r.git'",
            ],
            &["-p2222", "--", "a.test", "git-receive-pack '//o/r.git'"],
            &["a.test", "git-lfs-authenticate o/r.git download"],
        ] {
            assert_eq!(of(words), wanted, "{words:?}");
        }
        let quoted = of(&["a.test", r"git-upload-pack '/it'\''s'\!''"]);
        assert_eq!(quoted.as_deref(), Some("https://a.test/it's!"));
        for words in [
            &[][..],
            &["-p"],
            &["-p", "1"],
            &["a.test"],
            &["git@", "git-upload-pack 'r'"],
            &["a.test", "git-upload-pack"],
            &["a.test", "git-upload-pack '/'"],
        ] {
            assert_eq!(of(words), None, "{words:?}");
        }
    }
}
