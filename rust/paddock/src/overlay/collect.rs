//! Finding out how launches stand, on threads of its own: whatever of it waits, the
//! screen does not. What was found is handed over whole, and only when it is other than
//! before.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::policy::Policy;
use super::terminal::Waker;
use crate::commands::is_open;
use crate::launch::Directories;
use crate::standing::{Looker, Standing, short_time};
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
/// Keepers that hang hold up no more than this many askers.
const ASKERS: usize = 6;
/// Of those that have ended the newest are shown.
const MOST_ENDED: usize = 50;

/// All that is shown, as it was at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// Those that run first, the oldest first; then what has ended, the newest first.
    pub(super) launches: Vec<Row>,
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

/// Starts collecting.
///
/// # Errors
/// When a thread cannot be started.
pub(super) fn start(
    directories: &Directories,
    slot: Arc<Slot>,
    waker: Waker,
) -> std::io::Result<Sender<Told>> {
    let (sender, told) = channel();
    let work = Arc::new(Work::default());
    for _ in 0..ASKERS {
        let (work, directories, found) = (work.clone(), directories.clone(), sender.clone());
        std::thread::Builder::new().name("ask".into()).spawn(move || {
            let mut looker = Looker::default();
            loop {
                let (launch, closely) = work.next();
                let standing = looker.look(&launch, &directories, closely);
                let id = launch.record.launch.as_str().to_owned();
                if found.send(Told::Found(id, Box::new(standing))).is_err() {
                    return;
                }
            }
        })?;
    }
    let collector = Collector {
        directories: directories.clone(),
        launches: BTreeMap::new(),
        errors: Vec::new(),
        selected: None,
        work,
        records: None,
        shown: None,
        slot,
        waker,
    };
    std::thread::Builder::new().name("collect".into()).spawn(move || collector.run(&told))?;
    Ok(sender)
}

/// Launches to be asked.
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
    is_being_asked: bool,
    /// `None` where asking again tells nothing new.
    next: Option<Instant>,
    policy: Option<Arc<Policy>>,
}

struct Collector {
    directories: Directories,
    launches: BTreeMap<String, Known>,
    errors: Vec<String>,
    selected: Option<String>,
    work: Arc<Work>,
    /// When the records were read, and what they looked like.
    records: Option<(Instant, Vec<Stamp>)>,
    shown: Option<Arc<Snapshot>>,
    slot: Arc<Slot>,
    waker: Waker,
}

/// By which a change of a record shows.
type Stamp = (std::ffi::OsString, Option<(u64, SystemTime)>);

impl Collector {
    fn run(mut self, told: &Receiver<Told>) {
        let mut next_records = Instant::now();
        loop {
            if Instant::now() >= next_records {
                self.read_records();
                next_records = Instant::now() + EVERY;
            }
            self.ask_who_is_due();
            self.show();
            let due = self.launches.values().filter(|known| !known.is_being_asked);
            let due = due.filter_map(|known| known.next).min();
            let next = due.map_or(next_records, |due| due.min(next_records));
            let mut left = next.saturating_duration_since(Instant::now());
            // All that is there already, and then the screen once.
            loop {
                match told.recv_timeout(left) {
                    Ok(told) => self.hear(told),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                left = Duration::ZERO;
            }
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
                let is_selected = self.selected.as_ref() == Some(&id);
                let Some(known) = self.launches.get_mut(&id) else { return };
                known.is_being_asked = false;
                let is_silent = known.stored.is_kept && standing.told.is_none();
                let pause = match (is_silent, is_selected) {
                    _ if !known.stored.is_kept => EVERY_STALE,
                    (true, _) if standing.state != "starting" => EVERY_SILENT,
                    (_, true) => EVERY_CLOSELY,
                    _ => EVERY,
                };
                known.next = is_open(&known.stored).then(|| Instant::now() + pause);
                let mut standing = *standing;
                // It is other each time and shows nothing: a pass that is too old shows in
                // the verdict.
                if let Some(told) = &mut standing.told {
                    told.pass_age = None;
                }
                known.standing = Some(standing);
                // Its keeper may have gone.
                if is_silent {
                    self.records = None;
                }
            }
        }
    }

    fn ask_who_is_due(&mut self) {
        let now = Instant::now();
        for (id, known) in &mut self.launches {
            let is_selected = self.selected.as_ref() == Some(id);
            if is_selected && known.policy.is_none() {
                known.policy = Policy::of_ledger(&known.stored.directory).map(Arc::new);
            }
            if !known.is_being_asked && known.next.is_some_and(|next| next <= now) {
                known.is_being_asked = true;
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
        self.errors = errors.iter().map(ToString::to_string).collect();
        let ended = launches.iter().filter(|launch| !is_open(launch)).count();
        let mut too_many = ended.saturating_sub(MOST_ENDED);
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
                    is_being_asked: false,
                    next: Some(Instant::now()),
                    policy: None,
                },
            };
            self.launches.insert(id, known);
        }
    }

    fn show(&mut self) {
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
        let snapshot = Snapshot { launches: open, errors: self.errors.clone() };
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
