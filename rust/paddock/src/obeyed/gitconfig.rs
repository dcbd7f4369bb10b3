//! A file of git's configuration, read as data (`git-config(1)`, "Syntax"): git itself
//! would run what such a file names.

use std::collections::BTreeMap;

/// A larger one is not read: that it changed is all that is told.
pub(super) const MOST: u64 = 1 << 20;

/// What a file sets: each name as `git config --list` writes it, with its values in
/// order; no value is `true`.
pub(crate) type Settings = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

/// What `text` sets; `None` where git would refuse it, too.
pub(crate) fn parse(text: &[u8]) -> Option<Settings> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { text, at: 0 };
    let mut settings = Settings::new();
    let mut section: Option<Vec<u8>> = None;
    while let Some(byte) = reader.next() {
        match byte {
            b'#' | b';' => reader.skip_line(),
            b'[' => section = Some(reader.section()?),
            byte if byte.is_ascii_whitespace() || byte == 0x0b => {}
            byte if byte.is_ascii_alphabetic() => {
                // Before the first section git takes a name alone.
                let mut name = section.clone().unwrap_or_default();
                if section.is_some() {
                    name.push(b'.');
                }
                let value = reader.variable(byte, &mut name).ok()?;
                settings.entry(name).or_default().push(value);
            }
            _ => return None,
        }
    }
    Some(settings)
}

/// The names whose values differ, those first that can have git run a program.
pub(super) fn differences(before: &Settings, after: &Settings) -> Vec<Vec<u8>> {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let differ = after.iter().filter(|(name, values)| before.get(*name) != Some(values));
    let mut names: Vec<Vec<u8>> = gone.chain(differ.map(|(name, _)| name)).cloned().collect();
    names.sort_by_key(|name| !runs_program(name, after));
    names
}

/// The names that can have git run a program.
pub(super) fn programs(settings: &Settings) -> Vec<Vec<u8>> {
    settings.keys().filter(|name| runs_program(name, settings)).cloned().collect()
}

/// Whether the value of `name` is run, names what is run, or leads to more settings.
fn runs_program(name: &[u8], settings: &Settings) -> bool {
    let Some(dot) = name.iter().position(|b| *b == b'.') else { return false };
    let last = name.iter().rposition(|b| *b == b'.').unwrap_or(dot);
    let (section, key) = (&name[..dot], &name[last + 1..]);
    let is = |list: &[(&str, &str)]| {
        list.iter().any(|(s, k)| s.as_bytes() == section && (*k == "*" || k.as_bytes() == key))
    };
    let starts = |with: &[u8]| {
        let values = settings.get(name).into_iter().flatten().flatten();
        values.into_iter().any(|value| value.starts_with(with))
    };
    if dot == last {
        return is(PLAIN);
    }
    is(NAMED)
        // `ext::` runs a command (`git-remote-ext(1)`); a `!` does in an update.
        || section == b"remote" && key.ends_with(b"url") && starts(b"ext::")
        || section == b"submodule" && key == b"update" && starts(b"!")
}

/// `section.key`.
const PLAIN: &[(&str, &str)] = &[
    ("alias", "*"),
    ("pager", "*"),
    ("core", "alternaterefscommand"),
    ("core", "askpass"),
    ("core", "attributesfile"),
    ("core", "editor"),
    ("core", "fsmonitor"),
    ("core", "gitproxy"),
    ("core", "hookspath"),
    ("core", "pager"),
    ("core", "sshcommand"),
    ("core", "worktree"),
    ("credential", "helper"),
    ("diff", "external"),
    ("diff", "tool"),
    ("diff", "guitool"),
    ("extensions", "worktreeconfig"),
    ("gpg", "program"),
    ("imap", "tunnel"),
    ("include", "path"),
    ("init", "templatedir"),
    ("interactive", "difffilter"),
    ("merge", "tool"),
    ("merge", "guitool"),
    ("sendemail", "*"),
    ("sequence", "editor"),
    ("uploadpack", "packobjectshook"),
    ("web", "browser"),
];

/// `section.anything.key`.
const NAMED: &[(&str, &str)] = &[
    ("alias", "*"),
    ("browser", "*"),
    ("credential", "helper"),
    ("diff", "command"),
    ("diff", "textconv"),
    ("difftool", "*"),
    ("filter", "*"),
    ("gpg", "*"),
    ("guitool", "*"),
    ("hook", "*"),
    ("includeif", "path"),
    ("lfs", "*"),
    ("man", "*"),
    ("merge", "driver"),
    ("mergetool", "*"),
    ("protocol", "allow"),
    ("remote", "receivepack"),
    ("remote", "uploadpack"),
    ("remote", "vcs"),
    ("sendemail", "*"),
    ("tar", "command"),
    ("trailer", "cmd"),
    ("trailer", "command"),
    ("url", "insteadof"),
    ("url", "pushinsteadof"),
];

/// It is none that git would take.
struct Refused;

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next byte; the end of a line of another system is one byte, too.
    fn next(&mut self) -> Option<u8> {
        if self.text[self.at..].starts_with(b"\r\n") {
            self.at += 1;
        }
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip_line(&mut self) {
        while !matches!(self.next(), None | Some(b'\n')) {}
    }

    /// What follows `[`, up to and with `]`.
    fn section(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => return Some(name),
                b' ' | b'\t' => break,
                byte if is_name(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
        let mut byte = self.next()?;
        while matches!(byte, b' ' | b'\t') {
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        name.push(b'.');
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next()? {
                    b'\n' => return None,
                    byte => name.push(byte),
                },
                byte => name.push(byte),
            }
        }
        (self.next()? == b']').then_some(name)
    }

    /// A variable whose name begins with `first`; the name is added to `name`.
    fn variable(&mut self, first: u8, name: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Refused> {
        name.push(first.to_ascii_lowercase());
        let mut byte = self.next();
        while let Some(part) = byte.filter(|byte| is_name(*byte)) {
            name.push(part.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        match byte {
            None | Some(b'\n') => Ok(None),
            Some(b'=') => self.value().map(Some).ok_or(Refused),
            Some(_) => Err(Refused),
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        // Up to where it is kept: space at its end is not.
        let mut kept = 0;
        let (mut is_quoted, mut is_comment) = (false, false);
        loop {
            let byte = self.next().unwrap_or(b'\n');
            match byte {
                b'\n' if is_quoted => return None,
                b'\n' => {
                    value.truncate(kept);
                    return Some(value);
                }
                _ if is_comment => {}
                b'#' | b';' if !is_quoted => is_comment = true,
                byte if !is_quoted && byte.is_ascii_whitespace() => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                }
                b'"' => {
                    is_quoted = !is_quoted;
                    kept = value.len();
                }
                b'\\' => {
                    match self.next()? {
                        b'\n' => continue,
                        b't' => value.push(b'\t'),
                        b'b' => value.push(8),
                        b'n' => value.push(b'\n'),
                        byte @ (b'\\' | b'"') => value.push(byte),
                        _ => return None,
                    }
                    kept = value.len();
                }
                byte => {
                    value.push(byte);
                    kept = value.len();
                }
            }
        }
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What git says that `text` sets; `None` where it refuses it or is not there.
    fn by_git(text: &[u8]) -> Option<Settings> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut command = Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let told = command.args(["config", "--list", "-z", "--file"]).arg(file.path()).output();
        let told = told.ok().filter(|told| told.status.success())?;
        let mut settings = Settings::new();
        for entry in told.stdout.split(|b| *b == 0).filter(|entry| !entry.is_empty()) {
            let mut parts = entry.splitn(2, |b| *b == b'\n');
            let name = parts.next().unwrap().to_vec();
            settings.entry(name).or_default().push(parts.next().map(<[u8]>::to_vec));
        }
        Some(settings)
    }

    const TEXTS: &[&str] = &[
        "",
        "[core]\n\tbare = false\n[Core]\nEditor=vi # x\n",
        "[remote \"Or\\\"i\\\\g\"]\r\n  url = a b  ; c\r\n",
        "[a]b=1\n[a] c\n[a \"\"]d = \" x \" y\\\n z\n",
        "\u{feff}[a.B.c]\nx = \"a;b\" # no\ny = \\t\\n\\\\\\\"\n",
        "[a]\nx = \"\"\nx =\nx\n; [b]\n#\n",
        "[a]\nx = 1 \t \n\n   y   =   2",
        "x = 1\n[a]\ny",
        "[includeIf \"gitdir:~/x/\"]\npath = y\n",
    ];

    #[test]
    fn it_is_read_as_git_reads_it() {
        if Command::new("git").arg("--version").output().is_err() {
            return;
        }
        for text in TEXTS {
            assert_eq!(parse(text.as_bytes()), by_git(text.as_bytes()), "{text:?}");
        }
        for text in ["[a\nb=1]", "[a]\n=1", "[a]\nx = \"y\n", "[a]\nx = \\q\n", "[a b]"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
            assert_eq!(by_git(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn what_runs_programs_is_named_first() {
        let parse = |text: &str| parse(text.as_bytes()).unwrap();
        let before = parse("[core]\nbare = false\n[user]\nname = a\n[alias]\nst = status\n");
        let after = parse(
            "[core]\nbare = false\nfsmonitor = x\n[user]\nname = b\n\
             [filter \"l f s\"]\nclean = y\n[remote \"o\"]\nurl = ext::sh\n",
        );
        let names = differences(&before, &after);
        let names: Vec<&str> = names.iter().map(|name| str::from_utf8(name).unwrap()).collect();
        assert_eq!(
            names,
            ["alias.st", "core.fsmonitor", "filter.l f s.clean", "remote.o.url", "user.name"]
        );
        assert_eq!(programs(&before).len(), 1);
        assert!(differences(&after, &after).is_empty());
    }

    proptest::proptest! {
        // Each asks git.
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_are_settings_or_none(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn what_looks_like_it_is_read_as_git_reads_it(text in "(\\[[aB.]{1,3}( \"[x\\\\\"]{0,2}\")?\\]|[ab]|=|\"|\\\\|[ \t\n#;]|\r\n){0,24}") {
            // Where git refuses nothing more is to be known than that it changed.
            if let Some(settings) = by_git(text.as_bytes()) {
                proptest::prop_assert_eq!(parse(text.as_bytes()), Some(settings));
            }
        }
    }
}
