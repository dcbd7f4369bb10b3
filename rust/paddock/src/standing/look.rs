//! Looking at launches: each by its record, and by what its keeper says.

use std::io;
use std::time::{Duration, Instant};

use confine::escape::escape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::ask::{Asking, LIMIT};
use super::{Held, Standing};
use crate::commands::{is_suspended, living_keepers, state_name};
use crate::gate::herdr as sign;
use crate::keeper::{Status, members_left};
use crate::launch::Directories;
use crate::state::{Phase, Stored};

/// A verdict of a pass that is older says nothing any more. There is one every 250 ms.
const OLDEST_PASS: Duration = Duration::from_secs(5);

/// Looks at launches, and remembers what is dear to find out and changes seldom.
#[derive(Default)]
pub(crate) struct Looker {
    /// What was left of launches without a keeper, and when that was looked at: it
    /// takes a look at every process of the user.
    left: Vec<(String, Instant, usize)>,
}

/// How long what was left is believed.
const LEFT_FOR: Duration = Duration::from_secs(5);

impl Looker {
    /// Looks at one launch, and waits for its keeper. With `details` the tasks and sums
    /// are asked for, too.
    pub(crate) fn look(
        &mut self,
        launch: &Stored,
        directories: &Directories,
        details: bool,
    ) -> Standing {
        if !launch.is_kept {
            return self.without_keeper(launch, directories);
        }
        if is_suspended(launch) {
            return suspended(launch);
        }
        let answer = Asking::begin(launch, details).and_then(|mut asking| {
            loop {
                if let Some(answer) = asking.answer()? {
                    return Ok(answer);
                }
                wait_for_any(std::slice::from_ref(&asking), asking.deadline);
            }
        });
        of_answer(launch, answer)
    }

    fn without_keeper(&mut self, launch: &Stored, directories: &Directories) -> Standing {
        let standing = of_record(launch);
        if launch.record.phase == Phase::Ended {
            return standing;
        }
        let (held, what) = match self.left_of(launch, directories) {
            0 => (Held::Unknown, "its keeper is gone, and nothing of it is left running".into()),
            n => (Held::Unconfined, format!("its keeper is gone and {n} of its processes run")),
        };
        Standing { held, what: Some(what), ..standing }
    }

    fn left_of(&mut self, launch: &Stored, directories: &Directories) -> usize {
        let id = launch.record.launch.as_str();
        self.left.retain(|(_, at, _)| at.elapsed() < LEFT_FOR);
        if let Some((.., left)) = self.left.iter().find(|(known, ..)| known == id) {
            return *left;
        }
        let left = members_left(&launch.record, &living_keepers(directories)).len();
        self.left.push((id.to_owned(), Instant::now(), left));
        left
    }
}

/// Waits until one of them has something to say, or for the deadline.
fn wait_for_any<'a>(all: impl IntoIterator<Item = &'a Asking>, deadline: Instant) {
    let mut watched: Vec<PollFd<'_>> =
        all.into_iter().map(|asking| PollFd::new(asking, PollFlags::IN)).collect();
    let left = deadline.saturating_duration_since(Instant::now());
    // A signal is as good as an answer.
    let _ = poll(&mut watched, Timespec::try_from(left).ok().as_ref());
}

/// Looks at all of `launches`, at once, in their order.
pub(crate) fn look_at_all(launches: &[Stored], directories: &Directories) -> Vec<Standing> {
    let mut looker = Looker::default();
    let mut waiting: Vec<(usize, Asking)> = Vec::new();
    let mut found: Vec<Option<Standing>> = Vec::new();
    for (place, launch) in launches.iter().enumerate() {
        found.push(match launch.is_kept {
            false => Some(looker.look(launch, directories, false)),
            true if is_suspended(launch) => Some(suspended(launch)),
            true => match Asking::begin(launch, false) {
                Err(e) => Some(of_answer(launch, Err(e))),
                Ok(asking) => {
                    waiting.push((place, asking));
                    None
                }
            },
        });
    }
    while let Some(deadline) = waiting.iter().map(|(_, asking)| asking.deadline).min() {
        wait_for_any(waiting.iter().map(|(_, asking)| asking), deadline);
        waiting.retain_mut(|(place, asking)| {
            let answer = asking.answer().transpose();
            if let Some(answer) = answer {
                found[*place] = Some(of_answer(&launches[*place], answer));
                return false;
            }
            true
        });
    }
    found.into_iter().flatten().collect()
}

fn of_record(launch: &Stored) -> Standing {
    let record = &launch.record;
    Standing {
        launch: record.launch.as_str().to_owned(),
        agent: record.agent.clone(),
        form: record.form,
        tier: record.tier.name(),
        workspace: record.workspace.clone(),
        pane: record.pane.clone(),
        directory: launch.directory.clone(),
        state: state_name(launch),
        held: Held::Ended,
        what: record.reason.as_ref().map(|reason| escape(reason.as_bytes()).to_string()),
        started: record.started,
        ended: record.ended,
        told: None,
    }
}

fn unknown(launch: &Stored, what: String) -> Standing {
    Standing { held: Held::Unknown, what: Some(what), ..of_record(launch) }
}

fn suspended(launch: &Stored) -> Standing {
    let keeper = launch.record.keeper.pid;
    let what = format!("its keeper is stopped and watches nothing; kill -CONT {keeper}");
    Standing { state: "suspended", ..unknown(launch, what) }
}

/// How a launch stands by what its keeper answered.
pub(crate) fn of_answer(launch: &Stored, answer: io::Result<Value>) -> Standing {
    let answer = match answer {
        Ok(answer) => answer,
        Err(_) if launch.record.phase == Phase::Starting => {
            return unknown(launch, "it is starting".into());
        }
        Err(e) => {
            let why = match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("its keeper does not answer within {} s", LIMIT.as_secs())
                }
                _ => format!("its keeper does not answer: {}", escape(e.to_string().as_bytes())),
            };
            return unknown(launch, why);
        }
    };
    let Ok(told) = <Status as serde::Deserialize>::deserialize(&answer) else {
        let why = answer["error"].as_str().unwrap_or("its answer is none");
        let what = format!("its keeper does not tell: {}", escape(why.as_bytes()));
        return unknown(launch, what);
    };
    let (held, what) = judge(&told);
    Standing { held, what, told: Some(told), ..of_record(launch) }
}

/// What is held of a launch whose keeper says this.
fn judge(told: &Status) -> (Held, Option<String>) {
    let oldest = u64::try_from(OLDEST_PASS.as_millis()).unwrap_or(u64::MAX);
    match (told.holds, told.pass_age) {
        (Some(false), _) => {
            let what = told.failure.as_ref().map(|failure| failure.what.clone());
            // Of a pass that failed, or could not tell of a task, nothing is known.
            match told.verdict {
                None | Some(sign::Standing::Unconfined) => (Held::Unconfined, what),
                Some(_) => (Held::Unknown, what.or_else(|| Some("the last pass failed".into()))),
            }
        }
        (Some(true), Some(age)) if age <= oldest && told.tasks > 0 => (Held::Confined, None),
        (Some(true), Some(age)) => {
            (Held::Unknown, Some(format!("the last pass was {} s ago", age / 1000)))
        }
        _ => (Held::Unknown, Some("no pass has been made yet".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::Failure;

    #[test]
    fn a_launch_is_confined_when_its_last_pass_held_and_was_just_now() {
        let told = |holds, pass_age, tasks| Status {
            ok: true,
            holds,
            pass_age,
            tasks,
            ..Status::default()
        };
        for (told, held) in [
            (told(Some(true), Some(0), 9), Held::Confined),
            (told(Some(true), Some(5_000), 9), Held::Confined),
            (told(Some(true), Some(5_001), 9), Held::Unknown),
            (told(Some(true), None, 9), Held::Unknown),
            (told(Some(true), Some(0), 0), Held::Unknown),
            (told(None, None, 0), Held::Unknown),
            (told(Some(false), Some(0), 9), Held::Unconfined),
            (told(Some(false), Some(60_000), 9), Held::Unconfined),
        ] {
            let (found, what) = judge(&told);
            assert_eq!(found, held, "{told:?}");
            // What is wrong is always said, but for a failure that came without words.
            assert_eq!(what.is_none(), matches!(held, Held::Confined | Held::Unconfined));
        }
        for (verdict, held) in [
            (sign::Standing::Unknown, Held::Unknown),
            (sign::Standing::Unconfined, Held::Unconfined),
        ] {
            let told = Status { verdict: Some(verdict), ..told(Some(false), Some(0), 9) };
            assert_eq!(judge(&told).0, held, "{told:?}");
        }
        let failure = Failure { what: "process 7".into(), ..Failure::default() };
        let told = Status { failure: Some(failure), ..told(Some(false), Some(0), 9) };
        assert_eq!(judge(&told).1.as_deref(), Some("process 7"));
    }
}
