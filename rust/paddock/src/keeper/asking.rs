//! A question is put before the person: what may be asked, how it is told, and how
//! long somebody waits for the answer.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use confine::escape::escape;
use confine::pidfd::PidFd;
use serde_json::json;
use warden::Answer;

use super::calls::{Desk, shown, too_often};
use super::grants::covers;
use super::questions::{Question, Reply, Scope, Wanted};
use crate::output::quoted;

/// The longest that anybody waits for a person.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// Whether who asked is there still, and whether it is allowed meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The longest path that is asked for, in bytes: `PATH_MAX` (`path_resolution(7)`).
const LONGEST_PATH: usize = 4096;

impl Desk {
    /// Puts a question before the person, and waits.
    pub(super) fn ask(
        &self,
        process: &PidFd,
        wanted: &Wanted,
        reason: Option<&str>,
        wait: u32,
    ) -> Answer {
        let refuse = |code: &str, why: &str| Answer::Refused { code: code.into(), why: why.into() };
        if self.is_allowed(wanted) {
            return Answer::Granted { scope: "it is allowed already".into() };
        }
        if wait == 0 {
            return refuse("bad-wait", "nobody answers in no time; wait a second or more");
        }
        let Some(question) = self.questions.put(wanted.clone()) else {
            return refuse("too-many", "too many questions wait for the person already");
        };
        // The person has it on the screen already, and answers both.
        if !question.is_repeated {
            if !self.may_tell() {
                return too_often();
            }
            self.announce(&question, wanted, reason);
        }
        let limit = Duration::from_secs(wait.into()).min(LONGEST_WAIT);
        self.wait_for_answer(process, &question, wanted, limit)
    }

    fn announce(&self, question: &Question, wanted: &Wanted, reason: Option<&str>) {
        // In quotes that it cannot end, so that nobody takes it for words of Paddock's.
        let reason = reason.map(|reason| format!(" \"{}\"", shown(reason).replace('"', "'")));
        let (what, scopes, grant) = match wanted {
            Wanted::Host(host) => (
                format!("the host {host}"),
                "--once, --launch, --always or --deny",
                format!("host {host} --once"),
            ),
            Wanted::Path { path, write } => {
                let path = crate::output::shown(path);
                let (to, write) = if *write { ("to write", " --write") } else { ("to read", "") };
                // A sandbox that runs cannot be widened: there is no other scope.
                let grant = format!("path {}{write} --always", quoted(&path));
                (format!("the path {path} {to}"), "--always or --deny", grant)
            }
        };
        // The command is last and whole: it can be copied as it is.
        let text = format!(
            "the agent asks for {what}{}; answer with {scopes}: paddock grant {} {grant}",
            reason.unwrap_or_default(),
            self.launch,
        );
        self.ledger.add_from_outside(
            "question",
            json!({ "number": question.number, "wanted": wanted, "text": text }),
        );
        self.notices.question(&text);
    }

    fn wait_for_answer(
        &self,
        process: &PidFd,
        question: &Question,
        wanted: &Wanted,
        limit: Duration,
    ) -> Answer {
        let deadline = Instant::now() + limit;
        let mut reply = None;
        // Who asked and is gone needs no answer, and blocks nobody else's question.
        while reply.is_none() && Instant::now() < deadline && !process.has_ended().unwrap_or(true) {
            if self.is_allowed(wanted) {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            reply = question.reply.recv_timeout(left.min(LOOK_AGAIN)).ok();
        }
        // What came between the last look and here counts, too.
        match reply.or_else(|| question.take_back()) {
            Some(Reply::Granted(scope)) => granted(wanted, scope),
            Some(Reply::Denied) => Answer::Denied { why: "the person does not allow it".into() },
            None if self.is_allowed(wanted) => {
                Answer::Granted { scope: "it is allowed by now".into() }
            }
            None => Answer::Denied { why: format!("nobody answered in {} s", limit.as_secs()) },
        }
    }

    fn is_allowed(&self, wanted: &Wanted) -> bool {
        matches!(wanted, Wanted::Host(host) if self.guard.allows(host))
    }
}

/// Whether what a person grants answers a question.
pub(super) fn is_answer(granted: &Wanted, scope: Scope, asked: &Wanted) -> bool {
    match (granted, asked) {
        (Wanted::Host(granted), Wanted::Host(asked)) => {
            granted == asked || covers(granted, scope, asked)
        }
        _ => granted == asked,
    }
}

/// Where a path that is asked for leads to, by what the host sees: the person is asked
/// for that. One that is not there is asked for as it is, so that the answer tells
/// nothing about the host.
///
/// # Errors
/// Why nobody is asked for it.
pub(super) fn asked_path(path: &Path) -> Result<PathBuf, String> {
    check_path(path)?;
    let real = path.canonicalize().ok().filter(|real| check_path(real).is_ok());
    Ok(real.unwrap_or_else(|| path.to_owned()))
}

fn check_path(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let refuse = |why: &str| Err(why.to_owned());
    if bytes.len() > LONGEST_PATH {
        return Err(format!("a path has at most {LONGEST_PATH} bytes"));
    }
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return refuse("a path is absolute, and has no `..`");
    }
    if bytes.contains(&b',') {
        return refuse("it has a comma, which nono takes for a separator");
    }
    if escape(bytes).to_string().as_bytes() != bytes {
        return refuse("it has characters that cannot be shown as they are");
    }
    Ok(())
}

fn granted(wanted: &Wanted, scope: Scope) -> Answer {
    let scope = match wanted {
        Wanted::Host(_) => scope.name(),
        Wanted::Path { .. } => {
            "with later launches: a sandbox that runs cannot be widened (Landlock)"
        }
    };
    Answer::Granted { scope: scope.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_cannot_be_shown_or_granted_is_not_asked_for() {
        let long = format!("/{}", "x".repeat(LONGEST_PATH));
        for path in ["a", "./a", "", "/a/../b", "/a,b", "/a\nb", "/a\u{202e}b", "/a\\b", &long] {
            assert!(asked_path(Path::new(path)).is_err(), "{path:?}");
        }
        for path in ["/no/such/path", "/no/such path", &long[..LONGEST_PATH]] {
            assert_eq!(asked_path(Path::new(path)), Ok(path.into()));
        }
    }

    #[test]
    fn the_person_is_asked_for_where_a_path_leads() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (real, link) = (root.join("real"), root.join("link"));
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(asked_path(&link), Ok(real.clone()));
        assert_eq!(asked_path(&real), Ok(real));
    }
}
