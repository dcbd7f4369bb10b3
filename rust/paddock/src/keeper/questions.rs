//! Questions that a program in a sandbox has for the person. They wait here, each
//! with whoever asked, until somebody outside answers.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// More at once are refused: a person answers them.
const MOST: usize = 16;

/// How long something is granted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scope {
    /// For one connection.
    Once,
    /// For as long as the launch lives.
    Launch,
    /// For this and later launches of the agent.
    Always,
}

impl Scope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Launch => "launch",
            Self::Always => "always",
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wanted {
    /// As `name` or `name:port`, canonical.
    Host(String),
    Path {
        path: std::path::PathBuf,
        write: bool,
    },
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Granted(Scope),
    Denied,
}

/// Those that wait.
#[derive(Clone, Default)]
pub(super) struct Questions(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    last: u64,
    waiting: BTreeMap<u64, Pending>,
}

struct Pending {
    wanted: Wanted,
    asker: SyncSender<Reply>,
}

/// A question that was put; it is taken back when this is dropped.
pub(super) struct Question {
    pub(super) number: u64,
    /// Somebody else waits for the same.
    pub(super) is_repeated: bool,
    pub(super) reply: Receiver<Reply>,
    questions: Questions,
}

impl Questions {
    /// Puts a question; `None` when too many wait already.
    pub(super) fn put(&self, wanted: Wanted) -> Option<Question> {
        let (asker, reply) = sync_channel(1);
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.waiting.len() >= MOST {
            return None;
        }
        pending.last += 1;
        let number = pending.last;
        let is_repeated = pending.waiting.values().any(|p| p.wanted == wanted);
        pending.waiting.insert(number, Pending { wanted, asker });
        drop(pending);
        Some(Question { number, is_repeated, reply, questions: self.clone() })
    }

    /// Answers every question for what `fits`, and tells how many there were.
    pub(super) fn answer(&self, fits: impl Fn(&Wanted) -> bool, reply: Reply) -> usize {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = pending.waiting.iter().filter(|(_, p)| fits(&p.wanted));
        let fits: Vec<u64> = fits.map(|(number, _)| *number).collect();
        for number in &fits {
            if let Some(answered) = pending.waiting.remove(number) {
                let _ = answered.asker.try_send(reply);
            }
        }
        fits.len()
    }

    /// Those that wait, in the order in which they were put.
    pub(super) fn waiting(&self) -> Vec<(u64, Wanted)> {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.waiting.iter().map(|(number, p)| (*number, p.wanted.clone())).collect()
    }
}

impl Question {
    /// Takes the question back. Nobody can answer it any more, but an answer may have
    /// come before.
    pub(super) fn take_back(&self) -> Option<Reply> {
        let mut pending = self.questions.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.waiting.remove(&self.number);
        drop(pending);
        self.reply.try_recv().ok()
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.take_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reaches_everybody_who_asked_for_that_and_nobody_else() {
        let questions = Questions::default();
        let host = |name: &str| Wanted::Host(name.to_owned());
        let (a, b) = (questions.put(host("a")).unwrap(), questions.put(host("b")).unwrap());
        let again = questions.put(host("a")).unwrap();
        assert_eq!(questions.waiting().len(), 3);
        assert!(again.is_repeated && !a.is_repeated && !b.is_repeated);
        assert_eq!(questions.answer(|w| *w == host("a"), Reply::Granted(Scope::Launch)), 2);
        for asker in [&a, &again] {
            assert_eq!(asker.reply.try_recv().unwrap(), Reply::Granted(Scope::Launch));
        }
        assert!(b.reply.try_recv().is_err());
        assert_eq!(questions.answer(|w| *w == host("c"), Reply::Denied), 0);
        drop(b);
        assert!(questions.waiting().is_empty(), "who asked is gone");
    }

    #[test]
    fn an_answer_of_the_last_moment_is_found() {
        let questions = Questions::default();
        let question = questions.put(Wanted::Host("a".into())).unwrap();
        assert_eq!(questions.answer(|_| true, Reply::Denied), 1);
        assert_eq!(question.take_back(), Some(Reply::Denied));
        let question = questions.put(Wanted::Host("a".into())).unwrap();
        assert_eq!(question.take_back(), None);
        assert_eq!(questions.answer(|_| true, Reply::Denied), 0, "it was taken back");
    }

    #[test]
    fn too_many_at_once_are_refused() {
        let questions = Questions::default();
        let all: Vec<_> = (0..=MOST).map(|n| questions.put(Wanted::Host(n.to_string()))).collect();
        assert!(all[..MOST].iter().all(Option::is_some) && all[MOST].is_none());
    }
}
