//! Asking every launch how it stands, with a deadline each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use confine::escape::escape;

use super::{Held, Standing};
use crate::commands::{is_suspended, living_keepers, state_name};
use crate::keeper::{Request, Status, ask_keeper_within, members_left};
use crate::launch::Directories;
use crate::state::{Phase, Stored};

/// For one keeper to answer: it makes no pass for it, but may be at one for another.
const LIMIT: Duration = Duration::from_secs(2);
/// A verdict of a pass that is older says nothing any more. There is one every 250 ms.
const OLDEST_PASS: Duration = Duration::from_secs(5);
/// So many are asked at once.
const MOST_AT_ONCE: usize = 8;

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
    /// Looks at one launch. With `details` the tasks and sums are asked for, too.
    pub(crate) fn look(
        &mut self,
        launch: &Stored,
        directories: &Directories,
        details: bool,
    ) -> Standing {
        if launch.is_kept {
            return ask(launch, details);
        }
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

/// Looks at all of `launches`, several at once, in their order.
pub(crate) fn look_at_all(launches: &[Stored], directories: &Directories) -> Vec<Standing> {
    let next = AtomicUsize::new(0);
    let mut all: Vec<(usize, Standing)> = std::thread::scope(|scope| {
        let look = || {
            let (mut looker, mut seen) = (Looker::default(), Vec::new());
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(launch) = launches.get(place) else { return seen };
                seen.push((place, looker.look(launch, directories, false)));
            }
        };
        let helpers: Vec<_> =
            (1..launches.len().min(MOST_AT_ONCE)).map(|_| scope.spawn(look)).collect();
        let mut all = look();
        for helper in helpers {
            all.extend(helper.join().unwrap_or_default());
        }
        all
    });
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, standing)| standing).collect()
}

fn of_record(launch: &Stored) -> Standing {
    let record = &launch.record;
    Standing {
        launch: record.launch.as_str().to_owned(),
        agent: record.agent.clone(),
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

fn ask(launch: &Stored, details: bool) -> Standing {
    let mut standing = of_record(launch);
    let unknown = |state: Option<&'static str>, what: String| {
        let standing = of_record(launch);
        let state = state.unwrap_or(standing.state);
        Standing { held: Held::Unknown, what: Some(what), state, ..standing }
    };
    if is_suspended(launch) {
        let keeper = launch.record.keeper.pid;
        let what = format!("its keeper is stopped and watches nothing; kill -CONT {keeper}");
        return unknown(Some("suspended"), what);
    }
    let socket = launch.record.launch_directory.join("control.sock");
    let answer = match ask_keeper_within(&socket, &Request::Status { details }, LIMIT) {
        Ok(answer) => answer,
        Err(_) if standing.state == "starting" => return unknown(None, "it is starting".into()),
        Err(e) => {
            let why = match e.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                    format!("its keeper does not answer within {} s", LIMIT.as_secs())
                }
                _ => format!("its keeper does not answer: {}", escape(e.to_string().as_bytes())),
            };
            return unknown(None, why);
        }
    };
    let Ok(told) = serde_json::from_value::<Status>(answer.clone()) else {
        let why = answer["error"].as_str().unwrap_or("its answer is none");
        return unknown(None, format!("its keeper does not tell: {}", escape(why.as_bytes())));
    };
    (standing.held, standing.what) = judge(&told);
    standing.told = Some(told);
    standing
}

/// What is held of a launch whose keeper says this.
fn judge(told: &Status) -> (Held, Option<String>) {
    let oldest = u64::try_from(OLDEST_PASS.as_millis()).unwrap_or(u64::MAX);
    match (told.holds, told.pass_age) {
        (Some(false), _) => {
            let what = told.failure.as_ref().map(|failure| failure.what.clone());
            (Held::Unconfined, what)
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
        let failure = Failure { what: "process 7".into(), ..Failure::default() };
        let told = Status { failure: Some(failure), ..told(Some(false), Some(0), 9) };
        assert_eq!(judge(&told).1.as_deref(), Some("process 7"));
    }
}
