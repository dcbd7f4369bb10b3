//! Who calls at the gate, by the kernel's own records. Reading and judging do not
//! mix: [`look`] reads, [`judge`] concludes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use confine::pidfd::PidFd;
use confine::proc::{
    FileId, State, Status, TaskFiles, executable, foreign_code, is_gone, tasks_of,
};
use confine::verdict::LayerFilters;
use confine::witness::Testimony;
use confine::{Layer, Pid, ProcessId};
use serde_json::{Value, json};

use super::ancestry::ancestors_up_to;
use super::roster::Roster;
use crate::files::sha256_of;

/// A caller with more tasks is not looked through.
const MOST_TASKS: usize = 10_000;
/// How often a caller's tasks are listed while new ones appear.
const MOST_LOOKS: usize = 10;
/// A witness that has not answered by then gives no testimony.
const TESTIMONY_LIMIT: Duration = Duration::from_secs(2);
/// A longer program is not hashed. An agent can make any, of nothing.
const MOST_PROGRAM_BYTES: u64 = 1 << 30;
/// Hashes that are kept.
const MOST_HASHES: usize = 256;

/// What was read about a caller.
#[derive(Clone, Debug)]
pub(super) struct CallerEvidence {
    process: ProcessId,
    status: Status,
    /// Who traces one of its tasks, or that this cannot be read of one.
    tracer: Result<Option<Pid>, ()>,
    /// Its parents up to a warden of the launch, and that warden's layer; the last is
    /// the child of the warden.
    descent: Option<(Layer, Vec<ProcessId>)>,
    testimony: Option<Testimony>,
    dumpable: bool,
    program: Option<Program>,
    /// A file that is mapped to be executed and that the agent could have written.
    foreign_code: Result<Option<Vec<u8>>, ()>,
}

/// The program that a caller runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: Vec<u8>,
    pub(super) file: FileId,
    pub(super) sha256: String,
}

/// A caller that is who it seems to be.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) process: ProcessId,
    pub(super) layer: Layer,
    pub(super) program: Program,
    /// The layer's agent itself is among its parents, or it is the agent.
    pub(super) descends_from_agent: bool,
    /// A file that it executes parts of and that the agent could have written.
    pub(super) foreign_code: Option<Vec<u8>>,
}

impl Caller {
    /// For the ledger.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "process": self.process, "layer": self.layer,
            "program": confine::escape::escape(&self.program.path).to_string(),
            "device": self.program.file.device, "inode": self.program.file.inode,
            "sha256": self.program.sha256,
            "ofAgent": self.descends_from_agent,
        })
    }
}

/// Why a caller is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// A word that does not change.
    pub(super) code: &'static str,
    pub(super) why: String,
}

impl Refusal {
    pub(super) fn new(code: &'static str, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

impl From<Refusal> for warden::Answer {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { code: refusal.code.into(), why: refusal.why }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.why)
    }
}

/// Reads all there is to know about the process behind `handle`, of a launch that may
/// write the places `writable`.
pub(super) fn look(
    handle: &PidFd,
    roster: &Roster,
    hashes: &Hashes,
    writable: &[PathBuf],
) -> Result<CallerEvidence, Refusal> {
    let process = handle.id();
    let gone = |e: io::Error| Refusal::new("gone", format!("it cannot be read: {e}"));
    let mut buffer = Vec::new();
    let files = TaskFiles::open(process.pid, process.pid).map_err(gone)?;
    if files.id() != process {
        return Err(Refusal::new("gone", "its id is another process's by now"));
    }
    let status = files.status(&mut buffer).map_err(gone)?;
    let dumpable = files.is_dumpable(status.uids[1]).map_err(gone)?;
    let tracer = tracer_of(process.pid).map_err(drop);
    let descent = descent_of(process, roster);
    let before = executable(process.pid).ok();
    let program = hashes.program_of(process.pid).ok();
    let own = program.as_ref().map(|program| (program.file, &program.path[..]));
    let foreign_code = foreign_code(process.pid, own, writable).map_err(drop);
    let entries = roster.entries();
    let warden = descent.as_ref().and_then(|(layer, _)| entries.wardens.get(layer));
    let asked = warden.zip(status.id_at(entries.depth())).map(|(w, id)| w.ask(vec![id]));
    let testimony =
        asked.and_then(|a| a.wait(TESTIMONY_LIMIT)).and_then(|answers| answers.first().copied());
    // All of this was of one program, and of one that still runs.
    let is_same = before.is_some() && before == executable(process.pid).ok();
    if handle.has_ended().map_err(gone)? || (program.is_some() && !is_same) {
        return Err(Refusal::new("gone", "it ended, or became another program, meanwhile"));
    }
    Ok(CallerEvidence {
        process,
        status,
        tracer,
        descent,
        testimony,
        dumpable,
        program,
        foreign_code,
    })
}

/// Who traces a task of a process: each can be traced alone (`ptrace(2)`), and any of
/// them can be made to run what the tracer likes.
fn tracer_of(process: Pid) -> io::Result<Option<Pid>> {
    let mut buffer = Vec::new();
    let mut seen = HashSet::new();
    // Again, until there is none that was made meanwhile.
    for _ in 0..MOST_LOOKS {
        let before = seen.len();
        for task in tasks_of(process)? {
            if !seen.insert(task) {
                continue;
            }
            if seen.len() > MOST_TASKS {
                return Err(io::Error::other("it has too many tasks"));
            }
            let files = match TaskFiles::open(process, task) {
                Ok(files) => files,
                Err(e) if is_gone(&e) => continue,
                Err(e) => return Err(e),
            };
            match files.status(&mut buffer) {
                Ok(status) if status.tracer.is_some() => return Ok(status.tracer),
                Ok(_) => {}
                Err(e) if is_gone(&e) => {}
                Err(e) => return Err(e),
            }
        }
        if seen.len() == before {
            return Ok(None);
        }
    }
    Err(io::Error::other("its tasks change all the time"))
}

/// The parents of a process up to a warden.
fn descent_of(process: ProcessId, roster: &Roster) -> Option<(Layer, Vec<ProcessId>)> {
    let wardens = roster.entries().wardens;
    let warden_at = |id| wardens.values().find(|warden| warden.process == id);
    let mut above = ancestors_up_to(process, |id| warden_at(id).is_some()).ok()?;
    let layer = warden_at(above.pop()?)?.layer;
    above.insert(0, process);
    Some((layer, above))
}

/// What must be true of a caller.
pub(super) struct Expected<'a> {
    pub(super) uid: u32,
    pub(super) filters: LayerFilters,
    /// The first process of the agent's half in a layer.
    pub(super) agent: &'a dyn Fn(Layer) -> Option<ProcessId>,
}

/// Concludes who a caller is.
pub(super) fn judge(evidence: &CallerEvidence, expected: &Expected<'_>) -> Result<Caller, Refusal> {
    let status = &evidence.status;
    if status.state == State::Dead {
        return Err(Refusal::new("gone", "it has ended"));
    }
    if let Some(uid) = status.uids.iter().find(|uid| **uid != expected.uid) {
        return Err(Refusal::new("other-user", format!("it runs as user id {uid}")));
    }
    match evidence.tracer {
        Ok(None) => {}
        Ok(Some(tracer)) => {
            return Err(Refusal::new("traced", format!("it is traced by process {tracer}")));
        }
        Err(()) => return Err(Refusal::new("unreadable", "whether it is traced cannot be read")),
    }
    let Some((layer, chain)) = &evidence.descent else {
        return Err(Refusal::new("outside", "it descends from no warden of this launch"));
    };
    let layer = *layer;
    if layer == Layer::Pen {
        return Err(Refusal::new("outside", "it is in the pen, in neither sandbox"));
    }
    match evidence.testimony {
        Some(Testimony::Inside) => {}
        // Opaque to the witness; then its place and its restrictions must hold.
        Some(Testimony::Refused) if !evidence.dumpable => {}
        Some(Testimony::Refused) => {
            let why = format!("the kernel says it is not in the {layer} sandbox's domain");
            return Err(Refusal::new("outside-domain", why));
        }
        _ => return Err(Refusal::new("no-witness", format!("the {layer} warden does not say"))),
    }
    let has = status.seccomp_filters.unwrap_or(0);
    if !status.no_new_privs || status.seccomp_mode != 2 || has < expected.filters.of(layer) {
        return Err(Refusal::new("unrestricted", "it has fewer restrictions than its sandbox"));
    }
    let Some(program) = evidence.program.clone() else {
        return Err(Refusal::new("unreadable", "its program cannot be read"));
    };
    let Ok(foreign_code) = evidence.foreign_code.clone() else {
        return Err(Refusal::new("unreadable", "what it executes cannot be read"));
    };
    let descends_from_agent = (expected.agent)(layer).is_some_and(|agent| chain.contains(&agent));
    let process = evidence.process;
    Ok(Caller { process, layer, program, descends_from_agent, foreign_code })
}

/// The state of a file in which it had a hash.
type FileState = (u64, u64, u64, (i64, i64), (i64, i64));

/// Hashes of programs, so that one is read once.
#[derive(Clone, Default)]
pub(super) struct Hashes(Arc<Mutex<HashMap<FileState, String>>>);

impl Hashes {
    fn known(&self) -> MutexGuard<'_, HashMap<FileState, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a process runs: opened by the kernel's own link, which leads to the file
    /// also when that has no name any more.
    fn program_of(&self, process: Pid) -> io::Result<Program> {
        let link = format!("/proc/{process}/exe");
        let path = std::fs::read_link(&link)?;
        let file = File::open(&link)?;
        let state = |file: &File| -> io::Result<FileState> {
            let m = file.metadata()?;
            let times = ((m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec()));
            Ok((m.dev(), m.ino(), m.size(), times.0, times.1))
        };
        let before = state(&file)?;
        if before.2 > MOST_PROGRAM_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let kept = self.known().get(&before).cloned();
        // Not while others wait for what is known: a long program is nobody's but its
        // caller's.
        let sha256 = kept.map_or_else(|| sha256_of(&file), Ok)?;
        if state(&file)? == before {
            let mut known = self.known();
            if known.len() >= MOST_HASHES {
                known.clear();
            }
            known.insert(before, sha256.clone());
        }
        let path = std::os::unix::ffi::OsStringExt::into_vec(path.into_os_string());
        Ok(Program { path, file: FileId { device: before.0, inode: before.1 }, sha256 })
    }
}

#[cfg(test)]
mod tests;
