//! Who is who in a launch, as the kernel identified them. Shared by the keeper,
//! which fills it in, and the verifier, which reads it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use confine::proc::{FileId, TaskFiles};
use confine::witness::Testimony;
use confine::{Expectation, Layer, Pid, ProcessId};

use warden::{Channel, ToWarden};

/// A warden that was admitted.
pub(super) struct Warden {
    pub(super) layer: Layer,
    /// As the host numbers it.
    pub(super) process: ProcessId,
    pub(super) channel: Channel,
    queries: Mutex<Queries>,
    proved: AtomicBool,
}

#[derive(Default)]
struct Queries {
    last: u64,
    waiting: HashMap<u64, SyncSender<Vec<Testimony>>>,
    waiting_for_sockets: HashMap<u64, SyncSender<io::Result<Vec<OwnedFd>>>>,
}

/// How long a warden may take to make a socket.
const SOCKETS_LIMIT: Duration = Duration::from_secs(2);

impl Warden {
    pub(super) fn new(layer: Layer, process: ProcessId, channel: Channel) -> Self {
        Self { layer, process, channel, queries: Mutex::default(), proved: AtomicBool::new(false) }
    }

    /// Its self-test held.
    pub(super) fn has_proved_its_layer(&self) {
        self.proved.store(true, Ordering::Release);
    }

    /// Whether what it testifies may be acted on. A warden outside any sandbox
    /// truthfully reports every process of the user as within reach.
    pub(super) fn is_proved(&self) -> bool {
        self.proved.load(Ordering::Acquire)
    }

    /// Asks the witness query and does not wait: several wardens can be at it
    /// at once.
    pub(super) fn ask(&self, tasks: Vec<Pid>) -> PendingTestimony {
        let (sender, receiver) = sync_channel(1);
        let count = tasks.len();
        let query = {
            let mut queries = lock(&self.queries);
            queries.last += 1;
            let query = queries.last;
            queries.waiting.insert(query, sender);
            query
        };
        if self.channel.send(&ToWarden::Testify { query, tasks }, &[]).is_err() {
            lock(&self.queries).waiting.remove(&query);
        }
        PendingTestimony { receiver, count }
    }

    /// Hands an answer to whoever asked.
    pub(super) fn answer(&self, query: u64, answers: Vec<Testimony>) {
        if let Some(waiting) = lock(&self.queries).waiting.remove(&query) {
            let _ = waiting.send(answers);
        }
    }

    /// Unconnected TCP sockets of its network, IPv4 before IPv6.
    ///
    /// # Errors
    /// When it cannot make one, or does not answer.
    pub(super) fn make_sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let (sender, receiver) = sync_channel(1);
        let query = {
            let mut queries = lock(&self.queries);
            queries.last += 1;
            let query = queries.last;
            queries.waiting_for_sockets.insert(query, sender);
            query
        };
        let asked = self.channel.send(&ToWarden::MakeSockets { query }, &[]);
        let made = match asked {
            Ok(()) => receiver
                .recv_timeout(SOCKETS_LIMIT)
                .unwrap_or_else(|_| Err(io::Error::other("the pen's warden does not answer"))),
            Err(e) => Err(io::Error::other(e)),
        };
        lock(&self.queries).waiting_for_sockets.remove(&query);
        made
    }

    /// Hands sockets to whoever asked for them; those that nobody waits for are closed.
    pub(super) fn sockets_made(&self, query: u64, made: io::Result<Vec<OwnedFd>>) {
        if let Some(waiting) = lock(&self.queries).waiting_for_sockets.remove(&query) {
            let _ = waiting.send(made);
        }
    }

    /// Nobody will answer any more.
    pub(super) fn is_gone(&self) {
        let mut queries = lock(&self.queries);
        queries.waiting.clear();
        queries.waiting_for_sockets.clear();
    }
}

/// An answer that may come.
pub(super) struct PendingTestimony {
    receiver: Receiver<Vec<Testimony>>,
    count: usize,
}

impl PendingTestimony {
    /// The answers in the order of the question; `None` when they do not come
    /// within `limit` or are not as many as were asked for.
    pub(super) fn wait(self, limit: Duration) -> Option<Vec<Testimony>> {
        self.receiver.recv_timeout(limit).ok().filter(|answers| answers.len() == self.count)
    }
}

/// The roster.
pub(super) struct Roster {
    /// The keeper, whose descendants are the launch.
    pub(super) keeper: ProcessId,
    pub(super) uid: u32,
    /// Recorded programs of the parts.
    pub(super) warden_program: FileId,
    pub(super) nono: FileId,
    pub(super) bwrap: Option<FileId>,
    entries: Mutex<Entries>,
}

/// What is filled in as the launch starts.
#[derive(Clone, Default)]
pub(super) struct Entries {
    /// bubblewrap's two processes: the one outside, and the first inside.
    pub(super) veil: Vec<ProcessId>,
    pub(super) supervisors: HashMap<Layer, ProcessId>,
    pub(super) wardens: HashMap<Layer, Arc<Warden>>,
    pub(super) expectation: Option<Expectation>,
    /// The first process of each half of the agent.
    pub(super) agents: HashMap<Layer, ProcessId>,
    /// The one port on which the agent's server may listen.
    pub(super) server_port: Option<u16>,
}

impl Entries {
    /// The first process of the launch's pid namespace.
    pub(super) fn init(&self) -> Option<ProcessId> {
        self.veil.get(1).copied()
    }

    /// How many pid namespaces lie between the keeper and the launch.
    pub(super) fn depth(&self) -> usize {
        usize::from(!self.veil.is_empty())
    }
}

impl Roster {
    pub(super) fn new(
        keeper: ProcessId,
        uid: u32,
        warden_program: FileId,
        nono: FileId,
        bwrap: Option<FileId>,
    ) -> Self {
        Self { keeper, uid, warden_program, nono, bwrap, entries: Mutex::default() }
    }

    /// The entries, to be changed.
    pub(super) fn edit(&self) -> MutexGuard<'_, Entries> {
        lock(&self.entries)
    }

    /// The entries as they are now.
    pub(super) fn entries(&self) -> Entries {
        self.edit().clone()
    }

    /// The first process of the agent's half in a layer, once its warden said that it
    /// was started; nobody is it before, and nobody if it was not found then.
    pub(super) fn agent(&self, layer: Layer) -> Option<ProcessId> {
        self.edit().agents.get(&layer).copied()
    }

    /// The warden of a layer started its agent, which is `as_inside` in the launch's
    /// own pid namespace. Asked for once: what is orphaned there later is not taken
    /// for the agent, and neither is who gets its number.
    pub(super) fn agent_started(&self, layer: Layer, as_inside: Pid) {
        let entries = self.entries();
        let warden = entries.wardens.get(&layer).map(|warden| warden.process);
        if let Some(agent) = warden.and_then(|w| child_as(w, as_inside, entries.depth())) {
            self.edit().agents.entry(layer).or_insert(agent);
        }
    }

    pub(super) fn warden(&self, layer: Layer) -> Option<Arc<Warden>> {
        self.edit().wardens.get(&layer).cloned()
    }
}

/// The child of `parent` that has the id `as_inside` in the pid namespace `depth` levels
/// below this one.
fn child_as(parent: ProcessId, as_inside: Pid, depth: usize) -> Option<ProcessId> {
    let mut buffer = Vec::new();
    let above = TaskFiles::open(parent.pid, parent.pid).ok()?;
    for task in confine::proc::tasks_of(parent.pid).ok()? {
        let Ok(files) = TaskFiles::open(parent.pid, task) else { continue };
        for child in files.children(&mut buffer).unwrap_or_default() {
            let Ok(files) = TaskFiles::open(child, child) else { continue };
            let Ok(status) = files.status(&mut buffer) else { continue };
            if status.id_at(depth) == Some(as_inside) && status.parent == Some(parent.pid) {
                // Of that parent, if it was not another before or has ended by now.
                let is_of_it = above.id() == parent && above.status(&mut buffer).is_ok();
                return is_of_it.then(|| files.id());
            }
        }
    }
    None
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use confine::StartTime;

    use super::*;

    #[test]
    fn a_child_is_found_by_its_number_and_its_parent_and_not_by_being_the_first() {
        let cat = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = |child: &Child| Pid::new(child.id().cast_signed()).unwrap();
        let id = |pid| ProcessId { pid, start: confine::proc::start_time(pid).unwrap() };
        let (mut first, mut second) = (cat(), cat());
        let (me, wanted) = (id(Pid::of_self()), id(pid(&second)));
        assert_eq!(child_as(me, wanted.pid, 0), Some(wanted));
        assert_eq!(child_as(me, me.pid, 0), None, "it is no child of itself");
        assert_eq!(child_as(id(pid(&first)), wanted.pid, 0), None, "another's child");
        assert_eq!(child_as(me, wanted.pid, 9), None, "there is no such namespace");
        let earlier = ProcessId { start: StartTime(me.start.0 - 1), ..me };
        assert_eq!(child_as(earlier, wanted.pid, 0), None, "another parent with that id");
        for child in [&mut first, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(child_as(me, wanted.pid, 0), None, "it has ended");
    }
}
