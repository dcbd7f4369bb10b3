//! The shell of `paddock shell`: which one, and how it reads and writes no file of the
//! person's or of the agent's when it starts and ends.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::programs::found;
use super::{Config, Found};
use crate::error::Error;

/// Where programs are that every sandbox may run.
const SYSTEM: [&str; 3] = ["/bin", "/sbin", "/usr"];

/// A shell that was chosen.
#[derive(Debug)]
pub(super) struct Shell {
    /// As it was named: some programs are many by their names.
    path: PathBuf,
    pub(super) found: Found,
    kind: Kind,
}

/// What it understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bash,
    Fish,
    /// POSIX's.
    Plain,
    Zsh,
}

impl Kind {
    fn of(path: &Path) -> Option<Self> {
        Some(match path.file_name()?.to_str()? {
            "bash" => Self::Bash,
            "fish" => Self::Fish,
            "sh" | "dash" => Self::Plain,
            "zsh" => Self::Zsh,
            _ => return None,
        })
    }
}

impl Shell {
    /// The configured one; else the person's own, `named` by `SHELL`, where it is one
    /// that is known and there inside; else `/bin/sh`. `granted` is what the server may
    /// read beside the system.
    ///
    /// # Errors
    /// When the configured one cannot be used, or there is none.
    pub(super) fn choose(
        config: &Config,
        named: Option<&OsStr>,
        granted: &[&Path],
    ) -> Result<Self, Error> {
        if let Some(path) = &config.shell {
            let refuse = |reason| Err(Error::Shell { path: path.clone(), reason });
            return match Self::at(path, granted) {
                Ok(shell) => Ok(shell),
                Err(reason) => refuse(reason),
            };
        }
        let own = named.map(Path::new).and_then(|path| Self::at(path, granted).ok());
        let plain = Path::new("/bin/sh");
        let missing = |reason| Error::Shell { path: plain.to_owned(), reason };
        own.map_or_else(|| Self::at(plain, granted).map_err(missing), Ok)
    }

    fn at(path: &Path, granted: &[&Path]) -> Result<Self, String> {
        if !path.is_absolute() {
            return Err("its path is not absolute".into());
        }
        let kind = Kind::of(path).ok_or("it is none of bash, dash, fish, sh and zsh")?;
        let found = found("the shell", path, "a shell".into()).map_err(|e| e.to_string())?;
        let system = SYSTEM.map(Path::new);
        let mut visible = system.iter().chain(granted);
        if !visible.any(|place| found.path.starts_with(place)) {
            return Err("the agent's server may not read it".into());
        }
        Ok(Self { path: path.to_owned(), found, kind })
    }

    /// Its arguments, and the person's after them.
    pub(super) fn argv(&self, agent: &str, arguments: &[OsString]) -> Vec<OsString> {
        let fish_prompt = format!(
            "function fish_prompt; echo -n \"[paddock {agent}] \"(prompt_pwd)\" > \"; end; \
             function fish_greeting; end"
        );
        let options: &[&str] = match self.kind {
            Kind::Bash => &["--noprofile", "--norc"],
            Kind::Fish => &["--no-config", "--init-command", &fish_prompt],
            // Without `-l` it reads the file that ENV names, and there is none.
            Kind::Plain => &[],
            Kind::Zsh => &["-f"],
        };
        let own = [self.path.clone().into_os_string()].into_iter();
        own.chain(options.iter().map(OsString::from)).chain(arguments.iter().cloned()).collect()
    }

    /// Its variables, to be set after all others.
    pub(super) fn variables(&self, agent: &str) -> Vec<(OsString, OsString)> {
        let prompt = match self.kind {
            Kind::Bash => format!("[paddock {agent}] \\w \\$ "),
            Kind::Zsh => format!("[paddock {agent}] %~ %# "),
            Kind::Fish | Kind::Plain => format!("[paddock {agent}] $PWD $ "),
        };
        [
            ("SHELL", self.path.as_os_str()),
            ("PS1", OsStr::new(&prompt)),
            // Where there is none bash would make one in the home.
            ("HISTFILE", OsStr::new("")),
            ("fish_history", OsStr::new("")),
            // Else bash reads `~/.inputrc`, which can bind keys to commands.
            ("INPUTRC", OsStr::new("/dev/null")),
        ]
        .map(|(name, value)| (name.into(), value.to_owned()))
        .into()
    }

    /// Variables that would have it read a file.
    pub(super) fn is_refused(name: &OsStr) -> bool {
        ["BASH_ENV", "ENV", "ZDOTDIR"].iter().any(|refused| name == *refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(shell: Option<&str>) -> Config {
        Config { shell: shell.map(PathBuf::from), ..Config::default() }
    }

    fn chosen(shell: Option<&str>, named: Option<&str>) -> Result<PathBuf, Error> {
        Shell::choose(&config(shell), named.map(OsStr::new), &[]).map(|shell| shell.path)
    }

    #[test]
    fn the_configured_shell_comes_first_then_the_persons_own_if_it_is_there_inside() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let copy = root.path().join("bash");
        std::fs::copy("/bin/sh", &copy).unwrap();
        let plain = PathBuf::from("/bin/sh");
        assert_eq!(chosen(None, None).unwrap(), plain);
        assert_eq!(chosen(None, Some("/usr/bin/sh")).unwrap(), Path::new("/usr/bin/sh"));
        assert_eq!(chosen(Some("/usr/bin/sh"), Some("/bin/sh")).unwrap(), Path::new("/usr/bin/sh"));
        for own in ["sh", "/usr/bin/env", "/usr/bin/none/bash", copy.to_str().unwrap(), ""] {
            assert_eq!(chosen(None, Some(own)).unwrap(), plain, "{own}");
            assert!(matches!(chosen(Some(own), None), Err(Error::Shell { .. })), "{own}");
        }
        let granted = [root.path().canonicalize().unwrap()];
        let granted: Vec<&Path> = granted.iter().map(PathBuf::as_path).collect();
        let shell = Shell::choose(&config(None), Some(copy.as_os_str()), &granted).unwrap();
        assert_eq!((&shell.path, shell.kind), (&copy, Kind::Bash));
        // A link that leads out of what is granted is none that can be run.
        let (dir, link) = (tempfile::tempdir().unwrap(), root.path().join("zsh"));
        std::fs::copy("/bin/sh", dir.path().join("zsh")).unwrap();
        symlink(dir.path().join("zsh"), &link).unwrap();
        assert!(Shell::choose(&config(Some(link.to_str().unwrap())), None, &granted).is_err());
    }

    #[test]
    fn no_shell_is_told_to_read_or_keep_a_file() {
        for (name, wanted) in [
            ("bash", &["--noprofile", "--norc"][..]),
            ("fish", &["--no-config"]),
            ("zsh", &["-f"]),
            ("sh", &[]),
        ] {
            let path = Path::new("/usr/bin").join(name);
            let found = found("the shell", Path::new("/bin/sh"), String::new()).unwrap();
            let shell = Shell { kind: Kind::of(&path).unwrap(), path: path.clone(), found };
            let argv = shell.argv("codex", &["-c".into(), "true".into()]);
            assert_eq!(argv[0], path.as_os_str());
            assert!(wanted.iter().all(|option| argv.contains(&option.into())), "{argv:?}");
            assert_eq!(argv[argv.len() - 2..], ["-c", "true"]);
            let variables = shell.variables("codex");
            assert!(variables.contains(&("HISTFILE".into(), "".into())));
            let is_told = |text: &OsStr| text.to_string_lossy().contains("[paddock codex]");
            assert!(variables.iter().any(|(_, v)| is_told(v)) || argv.iter().any(|a| is_told(a)));
        }
    }
}
