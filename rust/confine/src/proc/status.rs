//! `/proc/P/task/T/status` (`proc_pid_status(5)`).

use crate::Pid;

/// What a task is doing, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Running, sleeping or waiting.
    Alive,
    /// Stopped by a signal (`T`).
    Stopped,
    /// Stopped by its tracer (`t`).
    TracedStop,
    /// Ended (`Z` or `X`): runs nothing, holds nothing.
    Dead,
}

/// The fields of a task's `status` that are evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The name the task gave itself, as the kernel escapes it: no evidence.
    pub name: Vec<u8>,
    /// Dead or alive.
    pub state: State,
    /// The process that the task belongs to.
    pub tgid: Pid,
    /// This task.
    pub task: Pid,
    /// The parent process, `None` where that is outside the reader's namespace.
    pub parent: Option<Pid>,
    /// Who traces the task.
    pub tracer: Option<Pid>,
    /// Real, effective, saved and file-system user ids.
    pub uids: [u32; 4],
    /// The task's id in each nested pid namespace, outermost first.
    pub ids_by_namespace: Vec<i32>,
    /// How many tasks the process has.
    pub threads: u32,
    /// Inheritable, permitted, effective and ambient capabilities, united.
    pub capabilities: u64,
    /// `no_new_privs` is set (`prctl(2)`); it cannot be cleared.
    pub no_new_privs: bool,
    /// Seccomp mode: 2 is "filter" (`seccomp(2)`).
    pub seccomp_mode: u32,
    /// How many seccomp filters apply; none can be removed. `None` before
    /// Linux 5.9.
    pub seccomp_filters: Option<u32>,
}

impl Status {
    /// The task's id in the pid namespace that is `depth` levels below the
    /// reader's: 0 is the reader's own. A task may be in a deeper one still,
    /// which numbers it anew.
    pub fn id_at(&self, depth: usize) -> Option<Pid> {
        self.ids_by_namespace.get(depth).copied().and_then(Pid::new)
    }
}

/// The file is not as documented; what is missing or malformed is named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("/proc status has no usable field {0:?}")]
pub struct ParseError(pub &'static str);

impl Status {
    /// Reads the file's text. The kernel escapes newlines in the name, so a
    /// line is a field; a field that is not there is an error, never a default.
    ///
    /// # Errors
    /// The first field that is missing or malformed.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        // In the kernel's order, so that one look through the text finds all.
        let mut fields = Fields { all: text, rest: text };
        let name = fields.get("Name")?.to_vec();
        let state = match fields.get("State")?.first() {
            Some(b'Z' | b'X' | b'x') => State::Dead,
            Some(b'T') => State::Stopped,
            Some(b't') => State::TracedStop,
            Some(_) => State::Alive,
            None => return Err(ParseError("State")),
        };
        let tgid = Pid::new(fields.number("Tgid")?).ok_or(ParseError("Tgid"))?;
        let task = Pid::new(fields.number("Pid")?).ok_or(ParseError("Pid"))?;
        let parent = Pid::new(fields.number("PPid")?);
        let tracer = Pid::new(fields.number("TracerPid")?);
        let mut uids = [0; 4];
        let mut words = fields.words("Uid")?;
        for uid in &mut uids {
            *uid = words.next().and_then(|w| w.parse().ok()).ok_or(ParseError("Uid"))?;
        }
        let ids_by_namespace = fields
            .words("NSpid")?
            .map(|w| w.parse().map_err(|_| ParseError("NSpid")))
            .collect::<Result<_, _>>()?;
        let threads = fields.number("Threads")?;
        let mut capabilities = 0;
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let text = fields.text(set)?;
            capabilities |= u64::from_str_radix(text, 16).map_err(|_| ParseError(set))?;
        }
        let no_new_privs = match fields.number::<u32>("NoNewPrivs")? {
            0 => false,
            1 => true,
            _ => return Err(ParseError("NoNewPrivs")),
        };
        Ok(Self {
            name,
            state,
            tgid,
            task,
            parent,
            tracer,
            uids,
            ids_by_namespace,
            threads,
            capabilities,
            no_new_privs,
            seccomp_mode: fields.number("Seccomp")?,
            seccomp_filters: fields.number("Seccomp_filters").ok(),
        })
    }
}

/// The lines of the file.
struct Fields<'a> {
    all: &'a [u8],
    /// Those after the one that was found last.
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn get(&mut self, key: &'static str) -> Result<&'a [u8], ParseError> {
        let (value, rest) =
            find(self.rest, key).or_else(|| find(self.all, key)).ok_or(ParseError(key))?;
        self.rest = rest;
        Ok(value)
    }

    fn text(&mut self, key: &'static str) -> Result<&'a str, ParseError> {
        std::str::from_utf8(self.get(key)?).map_err(|_| ParseError(key))
    }

    fn number<N: std::str::FromStr>(&mut self, key: &'static str) -> Result<N, ParseError> {
        self.text(key)?.parse().map_err(|_| ParseError(key))
    }

    fn words(
        &mut self,
        key: &'static str,
    ) -> Result<std::str::SplitAsciiWhitespace<'a>, ParseError> {
        Ok(self.text(key)?.split_ascii_whitespace())
    }
}

/// The value of the first line that has this key, and the lines after it.
fn find<'a>(mut lines: &'a [u8], key: &str) -> Option<(&'a [u8], &'a [u8])> {
    while !lines.is_empty() {
        let (line, after) = match lines.iter().position(|&b| b == b'\n') {
            Some(end) => (&lines[..end], &lines[end + 1..]),
            None => (lines, &[][..]),
        };
        if let Some(value) =
            line.strip_prefix(key.as_bytes()).and_then(|line| line.strip_prefix(b":"))
        {
            return Some((value.trim_ascii(), after));
        }
        lines = after;
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::{Strategy, prop_oneof};

    use super::*;

    pub(crate) const EXAMPLE: &str = "Name:\tbash\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t41\nNgid:\t0\n\
        Pid:\t42\nPPid:\t40\nTracerPid:\t0\nUid:\t1001\t1001\t1001\t1001\nGid:\t1001\t1001\t1001\t1001\n\
        FDSize:\t64\nGroups:\t \nNStgid:\t41\t8\nNSpid:\t42\t9\nNSpgid:\t41\t8\nNSsid:\t41\t8\nKthread:\t0\n\
        Threads:\t2\nSigQ:\t0/1\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
        CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\n\
        NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\nSpeculation_Store_Bypass:\tvulnerable\n";

    #[test]
    fn a_status_is_read() {
        let status = Status::parse(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(status.state, State::Alive);
        assert_eq!((status.tgid.get(), status.task.get()), (41, 42));
        assert_eq!(status.parent, Pid::new(40));
        assert_eq!(status.tracer, None);
        assert_eq!(status.uids, [1001; 4]);
        assert_eq!((status.id_at(0), status.id_at(1)), (Pid::new(42), Pid::new(9)));
        assert_eq!(status.id_at(2), None);
        assert_eq!(status.capabilities, 0);
        assert!(status.no_new_privs);
        assert_eq!((status.seccomp_mode, status.seccomp_filters), (2, Some(3)));
    }

    #[test]
    fn every_field_that_is_evidence_must_be_there() {
        for key in [
            "Name",
            "State",
            "Tgid",
            "Pid",
            "PPid",
            "TracerPid",
            "Uid",
            "NSpid",
            "Threads",
            "CapInh",
            "CapPrm",
            "CapEff",
            "CapAmb",
            "NoNewPrivs",
            "Seccomp",
        ] {
            let without: String = EXAMPLE
                .lines()
                .filter(|line| !line.starts_with(&format!("{key}:")))
                .flat_map(|line| [line, "\n"])
                .collect();
            assert!(Status::parse(without.as_bytes()).is_err(), "{key}");
        }
        assert_eq!(
            Status::parse(EXAMPLE.replace("Seccomp_filters:\t3\n", "").as_bytes())
                .map(|s| s.seccomp_filters),
            Ok(None)
        );
    }

    #[test]
    fn a_name_cannot_stand_in_for_a_field() {
        // The kernel writes a newline in a name as backslash and n.
        let hostile = EXAMPLE
            .replace("NoNewPrivs:\t1", "NoNewPrivs:\t0")
            .replace("Name:\tbash", "Name:\tx\\nNoNewPrivs:\t1");
        assert!(!Status::parse(hostile.as_bytes()).unwrap().no_new_privs);
    }

    #[test]
    fn the_states_that_run_nothing_are_dead() {
        for (letter, state) in [
            ("Z (zombie)", State::Dead),
            ("X (dead)", State::Dead),
            ("T (stopped)", State::Stopped),
            ("t (tracing stop)", State::TracedStop),
            ("R (running)", State::Alive),
            ("D (disk sleep)", State::Alive),
        ] {
            let text = EXAMPLE.replace("S (sleeping)", letter);
            assert_eq!(Status::parse(text.as_bytes()).unwrap().state, state);
        }
    }

    /// Names that a task can give itself: at most 15 bytes without a NUL
    /// (`PR_SET_NAME` in `prctl(2)`), with more of what could mislead than chance has.
    pub(crate) fn hostile_name() -> impl Strategy<Value = Vec<u8>> {
        let misleading = b"\n\t\\ :)(\r".to_vec();
        let byte = prop_oneof![1u8..=255, proptest::sample::select(misleading)];
        let told = ["\nSeccomp:\t0", "\nPPid:\t1", ") S 1 1 1 0", "(deleted)", "\\nUid:\t0"];
        let told = told.map(|name| name.as_bytes().to_vec()).to_vec();
        prop_oneof![
            4 => proptest::collection::vec(byte, 0..=15),
            1 => proptest::sample::select(told),
        ]
    }

    /// As the kernel writes a name there: newline and backslash escaped, any other
    /// byte as it is (`proc_task_name` in its `fs/proc/array.c`).
    fn as_the_kernel_writes(name: &[u8]) -> Vec<u8> {
        let escaped = |b: &u8| match b {
            b'\n' => b"\\n".to_vec(),
            b'\\' => b"\\\\".to_vec(),
            other => vec![*other],
        };
        name.iter().flat_map(escaped).collect()
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_error_or_a_status(bytes: Vec<u8>) {
            let _ = Status::parse(&bytes);
        }

        #[test]
        fn a_status_with_bytes_overwritten_is_an_error_or_a_status(
            at in 0..EXAMPLE.len(), bytes: Vec<u8>,
        ) {
            let mut text = EXAMPLE.as_bytes().to_vec();
            let end = text.len().min(at + bytes.len());
            text.splice(at..end, bytes);
            let _ = Status::parse(&text);
        }

        #[test]
        fn whatever_the_name_the_fields_are_the_same(name in hostile_name()) {
            let wanted = Status::parse(EXAMPLE.as_bytes()).unwrap();
            let mut text = b"Name:\t".to_vec();
            text.extend(as_the_kernel_writes(&name));
            text.extend(EXAMPLE.as_bytes().strip_prefix(b"Name:\tbash").unwrap());
            let found = Status::parse(&text).unwrap();
            let name = found.name.clone();
            proptest::prop_assert_eq!(found, Status { name, ..wanted });
        }
    }
}
