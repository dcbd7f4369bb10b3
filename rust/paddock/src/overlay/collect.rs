//! Finding out how launches stand, on threads of its own: whatever of it waits, the
//! screen does not. What was found is handed over whole, and only when it is other than
//! before.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::policy::Policy;
use super::terminal::Waker;
use crate::commands::is_open;
use crate::launch::Directories;
use crate::standing::{Asking, Looker, Standing, of_answer, short_time};
use crate::state::{Stored, now_ms, stored_launches};

/// How often a launch is asked, and the one that is looked at closely.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_CLOSELY: Duration = Duration::from_millis(500);
/// One that does not answer is asked less often: who asks waits for it.
const EVERY_SILENT: Duration = Duration::from_secs(10);
/// One without a keeper: it takes a look at every process of the user.
const EVERY_STALE: Duration = Duration::from_secs(5);
/// Records are read again when one was written; and every so often anyway.
const RECORDS_ANYWAY: Duration = Duration::from_secs(10);
/// Launches without a keeper, or with one that hangs, are looked at by so many threads.
const LOOKERS: usize = 3;
/// Of those that have ended the newest are shown.
const MOST_ENDED: usize = 50;

/// All that is shown, as it was at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// Those that run first, the oldest first; then what has ended, the newest first.
    pub(super) launches: Vec<Row>,
    /// How many more have ended.
    pub(super) ended_left_out: usize,
    /// What cannot be read.
    pub(super) errors: Vec<String>,
}

/// One launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) standing: Standing,
    /// How long it has been there, as it is shown.
    pub(super) age: String,
    /// Of the launch that is looked at closely.
    pub(super) policy: Option<Arc<Policy>>,
}

/// Where the newest snapshot lies until it is taken: one that nobody took is replaced.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Arc<Snapshot>>>);

impl Slot {
    pub(super) fn take(&self) -> Option<Arc<Snapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, snapshot: Arc<Snapshot>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }
}

/// What the collector is told.
pub(super) enum Told {
    /// This launch is looked at closely.
    Selected(Option<String>),
    /// Something was done: look at everything again.
    LookAgain,
    Found(String, Box<Standing>),
}

/// How the collector is told.
#[derive(Clone)]
pub(super) struct Teller {
    sender: Sender<Told>,
    waker: Waker,
}

impl Teller {
    pub(super) fn tell(&self, told: Told) {
        let _ = self.sender.send(told);
        self.waker.wake();
    }
}

/// Starts collecting.
///
/// # Errors
/// When a thread cannot be started.
pub(super) fn start(
    directories: &Directories,
    slot: Arc<Slot>,
    waker: Waker,
) -> std::io::Result<Teller> {
    let (sender, told) = channel();
    let (own_waker, woken) = Waker::new()?;
    let teller = Teller { sender, waker: own_waker };
    let work = Arc::new(Work::default());
    for _ in 0..LOOKERS {
        let (work, directories, teller) = (work.clone(), directories.clone(), teller.clone());
        std::thread::Builder::new().name("look".into()).spawn(move || {
            let mut looker = Looker::default();
            loop {
                let (launch, closely) = work.next();
                let standing = looker.look(&launch, &directories, closely);
                let id = launch.record.launch.as_str().to_owned();
                teller.tell(Told::Found(id, Box::new(standing)));
            }
        })?;
    }
    let collector = Collector {
        directories: directories.clone(),
        launches: BTreeMap::new(),
        ended_left_out: 0,
        errors: Vec::new(),
        selected: None,
        work,
        records: None,
        is_other: true,
        shown: None,
        slot,
        waker,
    };
    std::thread::Builder::new()
        .name("collect".into())
        .spawn(move || collector.run(&told, &woken))?;
    Ok(teller)
}

/// Launches that take long to look at: those without a keeper, and those whose keeper
/// did not answer.
#[derive(Default)]
struct Work {
    queue: Mutex<VecDeque<(Arc<Stored>, bool)>>,
    is_there: Condvar,
}

impl Work {
    fn add(&self, launch: Arc<Stored>, closely: bool) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // Who is looked at does not wait behind who is not.
        if closely {
            queue.push_front((launch, closely));
        } else {
            queue.push_back((launch, closely));
        }
        self.is_there.notify_one();
    }

    fn next(&self) -> (Arc<Stored>, bool) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match queue.pop_front() {
                Some(launch) => return launch,
                None => {
                    queue = self.is_there.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// What is known of one launch.
struct Known {
    stored: Arc<Stored>,
    standing: Option<Standing>,
    /// Its keeper has been asked, and has not answered yet.
    asked: Option<Asking>,
    /// It did not answer last time.
    is_silent: bool,
    /// It is being looked at elsewhere.
    is_looked_at: bool,
    /// `None` where asking again tells nothing new.
    next: Option<Instant>,
    policy: Option<Arc<Policy>>,
}

struct Collector {
    directories: Directories,
    launches: BTreeMap<String, Known>,
    ended_left_out: usize,
    errors: Vec<String>,
    selected: Option<String>,
    work: Arc<Work>,
    /// When the records were read, and what they looked like.
    records: Option<(Instant, Vec<Stamp>)>,
    /// Something was found that may not be shown yet.
    is_other: bool,
    shown: Option<Arc<Snapshot>>,
    slot: Arc<Slot>,
    waker: Waker,
}

/// By which a change of a record shows.
type Stamp = (std::ffi::OsString, Option<(u64, SystemTime)>);

impl Collector {
    fn run(mut self, told: &Receiver<Told>, woken: &OwnedFd) {
        let mut next_records = Instant::now();
        loop {
            if Instant::now() >= next_records {
                self.read_records();
                // Ages change with the clock alone.
                self.is_other = true;
                next_records = Instant::now() + EVERY;
            }
            self.ask_who_is_due();
            self.show();
            let ready = self.wait(next_records, woken);
            self.take_answers(&ready);
            loop {
                match told.try_recv() {
                    Ok(told) => self.hear(told),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
        }
    }

    /// Waits for an answer, for whoever tells something, and for the next that is due.
    /// Which of those that were asked have something to say, or are late, in their order.
    fn wait(&self, next_records: Instant, woken: &OwnedFd) -> Vec<bool> {
        let due = |known: &Known| match (&known.asked, known.is_looked_at) {
            (Some(asking), _) => Some(asking.deadline),
            (None, true) => None,
            (None, false) => known.next,
        };
        let next = self.launches.values().filter_map(due).min();
        let next = next.map_or(next_records, |due| due.min(next_records));
        let mut watched = vec![PollFd::new(woken, PollFlags::IN)];
        let asked = self.launches.values().filter_map(|known| known.asked.as_ref());
        watched.extend(asked.map(|asking| PollFd::new(asking, PollFlags::IN)));
        let left = next.saturating_duration_since(Instant::now());
        let _ = poll(&mut watched, Timespec::try_from(left).ok().as_ref());
        let mut ready = watched.iter().map(|fd| !fd.revents().is_empty());
        if ready.next() == Some(true) {
            let _ = rustix::io::read(woken, &mut [0_u8; 8]);
        }
        let now = Instant::now();
        let asked = self.launches.values().filter_map(|known| known.asked.as_ref());
        asked.zip(ready).map(|(asking, ready)| ready || asking.deadline <= now).collect()
    }

    fn take_answers(&mut self, ready: &[bool]) {
        let mut found = Vec::new();
        let asked = self.launches.iter_mut().filter(|(_, known)| known.asked.is_some());
        for ((id, known), _) in asked.zip(ready).filter(|(_, ready)| **ready) {
            let Some(answer) = known.asked.as_mut().and_then(|asking| asking.answer().transpose())
            else {
                continue;
            };
            known.asked = None;
            if answer.is_err() {
                // Why, is told by who looks at it at leisure.
                known.is_looked_at = true;
                self.work.add(known.stored.clone(), self.selected.as_ref() == Some(id));
            } else {
                found.push((id.clone(), of_answer(&known.stored, answer)));
            }
        }
        for (id, standing) in found {
            self.found(&id, standing);
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Selected(id) => {
                if let Some(known) = id.as_ref().and_then(|id| self.launches.get_mut(id)) {
                    known.next = known.next.map(|_| Instant::now());
                }
                self.selected = id;
            }
            Told::LookAgain => {
                self.records = None;
                self.read_records();
                for known in self.launches.values_mut() {
                    known.next = known.next.map(|_| Instant::now());
                }
            }
            Told::Found(id, standing) => {
                if let Some(known) = self.launches.get_mut(&id) {
                    known.is_looked_at = false;
                }
                self.found(&id, *standing);
            }
        }
    }

    fn found(&mut self, id: &str, mut standing: Standing) {
        let is_selected = self.selected.as_deref() == Some(id);
        let Some(known) = self.launches.get_mut(id) else { return };
        known.is_silent = known.stored.is_kept && standing.told.is_none();
        let pause = match (known.is_silent, is_selected) {
            _ if !known.stored.is_kept => EVERY_STALE,
            (true, _) if standing.state != "starting" => EVERY_SILENT,
            (_, true) => EVERY_CLOSELY,
            _ => EVERY,
        };
        known.next = is_open(&known.stored).then(|| Instant::now() + pause);
        // It is other each time and shows nothing: a pass that is too old shows in the
        // verdict.
        if let Some(told) = &mut standing.told {
            told.pass_age = None;
        }
        if known.standing.as_ref() != Some(&standing) {
            known.standing = Some(standing);
            self.is_other = true;
        }
        // Its keeper may have gone.
        if known.is_silent {
            self.records = None;
        }
    }

    fn ask_who_is_due(&mut self) {
        let now = Instant::now();
        for (id, known) in &mut self.launches {
            let is_selected = self.selected.as_ref() == Some(id);
            if is_selected && known.policy.is_none() {
                known.policy = Policy::of_ledger(&known.stored.directory, &self.directories.home)
                    .map(Arc::new);
                self.is_other |= known.policy.is_some();
            }
            let is_due = known.next.is_some_and(|next| next <= now);
            if !is_due || known.is_looked_at || known.asked.is_some() {
                continue;
            }
            if known.stored.is_kept && !known.is_silent {
                known.asked = Asking::begin(&known.stored, is_selected).ok();
            }
            if known.asked.is_none() {
                known.is_looked_at = true;
                self.work.add(known.stored.clone(), is_selected);
            }
        }
    }

    fn read_records(&mut self) {
        let stamps = stamps(&self.directories.launches());
        if let Some((at, before)) = &self.records
            && *before == stamps
            && at.elapsed() < RECORDS_ANYWAY
        {
            return;
        }
        let (launches, errors) = stored_launches(&self.directories);
        self.records = Some((Instant::now(), stamps));
        self.is_other = true;
        self.errors = errors.iter().map(ToString::to_string).collect();
        let ended = launches.iter().filter(|launch| !is_open(launch)).count();
        let mut too_many = ended.saturating_sub(MOST_ENDED);
        self.ended_left_out = too_many;
        let mut before = std::mem::take(&mut self.launches);
        for stored in launches {
            if !is_open(&stored) && too_many > 0 {
                too_many -= 1;
                continue;
            }
            let id = stored.record.launch.as_str().to_owned();
            let known = before.remove(&id);
            let is_as_before = known.as_ref().is_some_and(|known| {
                known.stored.is_kept == stored.is_kept
                    && known.stored.record.phase == stored.record.phase
            });
            let known = match known {
                Some(known) if is_as_before => Known { stored: Arc::new(stored), ..known },
                Some(known) => {
                    Known { stored: Arc::new(stored), next: Some(Instant::now()), ..known }
                }
                None => Known {
                    stored: Arc::new(stored),
                    standing: None,
                    asked: None,
                    is_silent: false,
                    is_looked_at: false,
                    next: Some(Instant::now()),
                    policy: None,
                },
            };
            self.launches.insert(id, known);
        }
    }

    fn show(&mut self) {
        if !std::mem::take(&mut self.is_other) {
            return;
        }
        let now = now_ms();
        let rows = self.launches.values().filter_map(|known| {
            let standing = known.standing.clone()?;
            let age = short_time(standing.age(now));
            Some(Row { standing, age, policy: known.policy.clone() })
        });
        let (mut open, mut ended): (Vec<Row>, Vec<Row>) =
            rows.partition(|row| row.standing.ended.is_none());
        open.sort_by_key(|row| row.standing.started);
        ended.sort_by_key(|row| std::cmp::Reverse(row.standing.ended));
        open.append(&mut ended);
        let snapshot = Snapshot {
            launches: open,
            ended_left_out: self.ended_left_out,
            errors: self.errors.clone(),
        };
        if self.shown.as_deref() != Some(&snapshot) {
            let snapshot = Arc::new(snapshot);
            self.shown = Some(snapshot.clone());
            self.slot.put(snapshot);
            self.waker.wake();
        }
    }
}

/// Which records there are, and when they were written: a record is replaced as a whole.
fn stamps(launches: &Path) -> Vec<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let stamp = |entry: std::fs::DirEntry| {
        let record = std::fs::symlink_metadata(entry.path().join("record.json")).ok();
        let stamp = record.and_then(|found| Some((found.ino(), found.modified().ok()?)));
        (entry.file_name(), stamp)
    };
    let mut stamps: Vec<Stamp> =
        std::fs::read_dir(launches).into_iter().flatten().flatten().map(stamp).collect();
    stamps.sort();
    stamps
}
