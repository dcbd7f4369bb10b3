//! What is found out about launches, some of which have keepers that say nothing.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use super::store;
use crate::keeper::Status;
use crate::launch::Directories;
use crate::overlay::collect::{Row, Slot, Snapshot, Teller, start};
use crate::overlay::terminal::Waker;
use crate::standing::Held;
use crate::state::Phase;

/// For what is waited for to come.
const LIMIT: Duration = Duration::from_mins(1);

/// A collector, and what it shows.
struct Collecting {
    slot: Arc<Slot>,
    woken: OwnedFd,
    _teller: Teller,
}

impl Collecting {
    fn start(own: &Directories) -> Self {
        let (slot, (waker, woken)) = (Arc::<Slot>::default(), Waker::new().unwrap());
        let teller = start(own, slot.clone(), waker).unwrap();
        Self { slot, woken, _teller: teller }
    }

    /// The first snapshot that is as wanted.
    fn wait_for(&self, is_it: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let deadline = Instant::now() + LIMIT;
        let mut last = None;
        while Instant::now() < deadline {
            if let Some(snapshot) = self.slot.take() {
                if is_it(&snapshot) {
                    return snapshot;
                }
                last = Some(snapshot);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut watched = [PollFd::new(&self.woken, PollFlags::IN)];
            let _ = poll(&mut watched, Timespec::try_from(left).ok().as_ref());
            let _ = rustix::io::read(&self.woken, &mut [0_u8; 8]);
        }
        panic!("not as wanted: {last:?}");
    }
}

/// The socket of a keeper's, and how often it was called. One that answers says each time
/// that there is a task more.
fn serve(own: &Directories, id: &str, answers: bool) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(own.runtime.join(id).join("control.sock")).unwrap();
    let calls = Arc::<AtomicUsize>::default();
    let told = calls.clone();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let tasks = told.fetch_add(1, Ordering::SeqCst) + 1;
            if !answers {
                silent.push(stream);
                continue;
            }
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            let (holds, pass_age) = (Some(true), Some(0));
            let status = Status { ok: true, holds, pass_age, tasks, ..Status::default() };
            let _ = (&stream).write_all(format!("{}\n", json!(status)).as_bytes());
        }
    });
    calls
}

fn row<'a>(snapshot: &'a Snapshot, id: &str) -> Option<&'a Row> {
    snapshot.launches.iter().find(|row| row.standing.launch == id)
}

fn tasks(snapshot: &Snapshot, id: &str) -> usize {
    row(snapshot, id).and_then(|row| row.standing.told.as_ref()).map_or(0, |told| told.tasks)
}

#[test]
fn a_keeper_that_takes_a_question_and_is_silent_holds_up_nobody() {
    let root = tempfile::tempdir().unwrap();
    let own = Directories::below(root.path());
    // The one that is silent is asked first.
    let (silent, other) = ("bcdfbcdfbcdf", "cdfgcdfgcdfg");
    let _locks = [silent, other].map(|id| store(&own, id, Phase::Running));
    let (asked, answered) = (serve(&own, silent, false), serve(&own, other, true));
    let collecting = Collecting::start(&own);

    let first = collecting.wait_for(|snapshot| row(snapshot, other).is_some());
    assert_eq!(row(&first, other).unwrap().standing.held, Held::Confined);
    assert!(row(&first, silent).is_none(), "its deadline is not waited for: {first:?}");
    let late = collecting.wait_for(|snapshot| row(snapshot, silent).is_some());
    let standing = &row(&late, silent).unwrap().standing;
    assert_eq!(standing.held, Held::Unknown);
    assert_eq!(standing.what.as_deref(), Some("its keeper does not answer within 2 s"));
    assert!(asked.load(Ordering::SeqCst) > 0, "control: it took the question");
    let seen = tasks(&late, other);
    assert!(seen > 1, "the other was asked again meanwhile: {late:?}");
    collecting.wait_for(|snapshot| tasks(snapshot, other) > seen + 1);
    assert!(answered.load(Ordering::SeqCst) > seen + 1);
}

#[test]
fn of_launches_that_have_ended_the_newest_are_shown_and_the_others_counted() {
    let root = tempfile::tempdir().unwrap();
    let own = Directories::below(root.path());
    let letters = b"bcdfghjkmnpqrtvz";
    let ids: Vec<String> = (0..53)
        .map(|n| {
            let letter = |n: usize| char::from(letters[n % 16]);
            format!("bbbbbbbbbb{}{}", letter(n / 16), letter(n))
        })
        .collect();
    for id in &ids {
        drop(store(&own, id, Phase::Ended));
    }
    let running = "zzzzzzzzzzzz";
    let _lock = store(&own, running, Phase::Running);
    serve(&own, running, true);
    let snapshot = Collecting::start(&own).wait_for(|snapshot| snapshot.launches.len() > 50);
    assert_eq!((snapshot.launches.len(), snapshot.ended_left_out), (51, 3));
    assert_eq!(snapshot.launches[0].standing.launch, running);
}
