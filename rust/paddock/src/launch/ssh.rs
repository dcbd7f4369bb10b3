//! How git in the server sandbox finds SSH: as what says that there is none, or, where the
//! person chose it, as the real one through the guard.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The variables for git (`git(1)`, Environment Variables); `warden` is what Paddock runs
/// inside.
pub(super) fn variables(warden: &Path, is_allowed: bool) -> Vec<(OsString, OsString)> {
    let warden = warden.as_os_str().as_bytes();
    let command =
        if is_allowed { through_guard(warden) } else { [&quoted(warden)[..], b" ssh"].concat() };
    vec![
        ("GIT_SSH_COMMAND".into(), OsString::from_vec(command)),
        // git would try to find out which SSH this is by what it does.
        ("GIT_SSH_VARIANT".into(), "ssh".into()),
    ]
}

/// SSH looks for its own files in the home that the system's user list names, which is not
/// there inside (`ssh_config(5)`).
const FILES: &str = "ssh -o 'UserKnownHostsFile=${HOME}/.ssh/known_hosts' \
                     -o 'IdentityFile=${HOME}/.ssh/id_ed25519' -o ";

fn through_guard(warden: &[u8]) -> Vec<u8> {
    // SSH replaces what begins with a percent sign, and gives the rest to a shell.
    let command: Vec<u8> = quoted(warden)
        .into_iter()
        .flat_map(|byte| std::iter::repeat_n(byte, if byte == b'%' { 2 } else { 1 }))
        .collect();
    let option = [b"ProxyCommand=", &command[..], b" tunnel %h:%p"].concat();
    [FILES.as_bytes(), &quoted(&option)].concat()
}

/// As one word for a shell.
fn quoted(word: &[u8]) -> Vec<u8> {
    let mut text = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => text.extend(br"'\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// What a shell makes of `words`, one a line.
    fn split(words: &OsStr) -> Vec<String> {
        let script = [b"printf '%s\\n' ", words.as_bytes()].concat();
        let mut shell = std::process::Command::new("sh");
        let output = shell.arg("-c").arg(OsStr::from_bytes(&script)).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_program_is_found_whatever_its_path() {
        for path in ["/opt/paddock-warden", "/home/it's $HOME/%h"] {
            let refusing = variables(Path::new(path), false);
            assert_eq!(split(&refusing[0].1), [path, "ssh"]);
            let allowed = variables(Path::new(path), true);
            let words = split(&allowed[0].1);
            let option = words.last().unwrap().strip_prefix("ProxyCommand=").unwrap();
            let option = option.replace("%%", "%");
            assert_eq!(split(OsStr::new(&option)), [path, "tunnel", "%h:%p"]);
        }
    }
}
