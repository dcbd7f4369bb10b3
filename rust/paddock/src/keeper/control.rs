//! The keeper's own socket, on the host only: one request and one answer, a
//! JSON object each, a line each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Sender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use confine::ProcessId;
use confine::escape::escape;
use confine::pidfd::PidFd;
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ancestry::ancestors_up_to;
use super::answer::{self, LastPass};
use super::calls::Desk;
use super::events::Event;
use super::forward::Forwarder;
use super::questions::{Scope, Wanted};
use super::report::{Report, TaskReport};
use super::{Keeper, watch};
use crate::error::Error;
use crate::gate::herdr::read_line;

/// The longest request, in bytes: a path, and what is around it.
const MOST_REQUEST: u64 = 16 * 1024;

/// The longest answer: a report of some tens of thousands of tasks.
const MOST_ANSWER: usize = 64 << 20;

/// For one request or one answer.
const LIMIT: Duration = Duration::from_secs(15);

/// So many callers are served at a time, and one who waits for a pass.
const THREADS: usize = 3;
/// So many more may wait for a pass, each for one of its own.
const MOST_WAITING: usize = 64;

/// What can be asked of a running keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// A pass over everything, now.
    Verify,
    /// End the launch.
    Stop,
    /// Let the agent have something, and tell whoever asked for it.
    Grant { wanted: Wanted, scope: Scope },
    /// Tell whoever asked for something that it is not to be had.
    Deny { wanted: Wanted },
    /// Take a host back, and cut its connections.
    Revoke { host: String },
    /// What waits for an answer.
    Questions,
    /// How the launch stands, without a pass.
    Status { details: bool },
    /// Connections to a port in the launch's own network, on the same stream from here
    /// on, for who listens there on the host.
    Port { port: u16, listens: SocketAddr },
}

/// Asks the keeper at `socket`.
pub(crate) fn ask_keeper(socket: &Path, request: &Request) -> std::io::Result<Value> {
    let deadline = Instant::now() + LIMIT;
    let mut stream = connect_within(socket, LIMIT)?;
    stream.write_all(format!("{}\n", json!({ "request": request })).as_bytes())?;
    let answer = read_line(&stream, MOST_ANSWER, deadline)?;
    if answer.len() > MOST_ANSWER {
        return Err(std::io::Error::other("the answer is too long"));
    }
    Ok(serde_json::from_slice(&answer)?)
}

/// Asks the keeper at `socket` for connections to `port`, for who listens at `listens`:
/// what they are then asked for on.
///
/// # Errors
/// When it is not there, or says no.
pub(crate) fn open_forward(
    socket: &Path,
    port: u16,
    listens: SocketAddr,
) -> std::io::Result<UnixStream> {
    let deadline = Instant::now() + LIMIT;
    let mut stream = connect_within(socket, LIMIT)?;
    let request = Request::Port { port, listens };
    stream.write_all(format!("{}\n", json!({ "request": request })).as_bytes())?;
    let answer: Value = serde_json::from_slice(&read_line(&stream, MOST_ANSWER, deadline)?)?;
    match (answer["ok"].as_bool(), answer["error"].as_str()) {
        (Some(true), _) => Ok(stream),
        (_, why) => Err(std::io::Error::other(why.unwrap_or("the keeper gave no answer"))),
    }
}

/// `connect(2)` waits while the listener's queue is full, for as long as sending may
/// take (`socket(7)`, `SO_SNDTIMEO`).
fn connect_within(path: &Path, limit: Duration) -> std::io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let stream = UnixStream::from(socket_with(family, kind, SocketFlags::CLOEXEC, None)?);
    stream.set_write_timeout(Some(limit))?;
    let address = SocketAddrUnix::new(path)?;
    retry_on_intr(|| connect(&stream, &address))?;
    Ok(stream)
}

/// Where the control thread finds the watch once there is one. The handle stays
/// when the watch is over; it gives no report then.
pub(super) type SharedWatch = Arc<Mutex<Option<watch::WatchHandle>>>;

/// Opens the socket and serves it for the life of the process.
pub(super) fn open(keeper: &Keeper<'_>) -> Result<(), Error> {
    let path = keeper.plan.paths.control();
    let unusable =
        |e: std::io::Error| Error::DirectoryUnusable { path: path.clone(), reason: e.to_string() };
    let listener = UnixListener::bind(&path).map_err(unusable)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(unusable)?;
    let (events, watch, roster) =
        (keeper.events.sender.clone(), keeper.shared_watch.clone(), keeper.roster.clone());
    let (desk, last_pass) = (keeper.desk.clone(), keeper.last_pass.clone());
    let answer = move |request| answer_at_once(request, &events, &last_pass, &desk);
    let forwarder = Forwarder::new(keeper);
    let forward = move |stream, port, listens| forwarder.serve(stream, port, listens);
    serve(listener, roster.keeper, answer, forward, move || look(&watch)).map_err(unusable)
}

/// Serves callers for the life of the process. A pass may take its time, and whoever
/// waits for one keeps nobody from what is answered at once. All threads are there from
/// the start: an agent can see to it that the user gets no more.
fn serve(
    listener: UnixListener,
    keeper: ProcessId,
    answer: impl Fn(Request) -> Value + Send + Sync + 'static,
    forward: impl Fn(UnixStream, u16, SocketAddr) -> Result<(), (UnixStream, String)>
    + Send
    + Sync
    + 'static,
    look: impl Fn() -> Value + Send + 'static,
) -> std::io::Result<()> {
    let (wait_for_look, waiting) = sync_channel::<UnixStream>(MOST_WAITING);
    std::thread::Builder::new().name("control-look".into()).spawn(move || {
        for stream in waiting {
            respond(&stream, &look());
        }
    })?;
    let listener = Arc::new(listener);
    let (answer, forward) = (Arc::new(answer), Arc::new(forward));
    for _ in 0..THREADS {
        let (listener, answer) = (Arc::clone(&listener), Arc::clone(&answer));
        let forward = Arc::clone(&forward);
        let wait_for_look = wait_for_look.clone();
        std::thread::Builder::new().name("control".into()).spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Out of descriptors: let some go first.
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                };
                match receive(&stream, keeper) {
                    Ok(Request::Verify) => {
                        if let Err(
                            TrySendError::Full(stream) | TrySendError::Disconnected(stream),
                        ) = wait_for_look.try_send(stream)
                        {
                            respond(&stream, &refuse("too many wait for a pass already"));
                        }
                    }
                    Ok(Request::Port { port, listens }) => {
                        if let Err((stream, why)) = forward(stream, port, listens) {
                            respond(&stream, &refuse(&why));
                        }
                    }
                    Ok(request) => respond(&stream, &answer(request)),
                    Err(why) => respond(&stream, &refuse(why)),
                }
            }
        })?;
    }
    Ok(())
}

pub(super) fn respond(mut stream: &UnixStream, answer: &Value) {
    let _ = stream.write_all(format!("{answer}\n").as_bytes());
}

fn refuse(why: &str) -> Value {
    json!({ "ok": false, "error": why })
}

/// Whether a caller descends from the keeper, as all of the launch does.
fn is_below(caller: ProcessId, keeper: ProcessId) -> std::io::Result<bool> {
    Ok(ancestors_up_to(caller, |above| above == keeper)?.last() == Some(&keeper))
}

/// Reads the request of a caller who may ask, or tells why there is none.
fn receive(stream: &UnixStream, keeper: ProcessId) -> Result<Request, &'static str> {
    // Few callers at a time, so none may take long.
    let limit = Some(Duration::from_secs(2));
    if stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(limit)).is_err() {
        return Err("no deadline can be set");
    }
    // Whoever is in the launch has no business here, whatever let it through.
    match PidFd::of_peer(std::os::fd::AsFd::as_fd(stream)) {
        Ok(caller) => match is_below(caller.id(), keeper) {
            Ok(false) => {}
            Ok(true) => return Err("callers inside the launch are not served"),
            Err(_) => return Err("who is above the caller cannot be read"),
        },
        Err(_) => return Err("the kernel does not say who is calling"),
    }
    let mut line = String::new();
    if BufReader::new(stream).take(MOST_REQUEST).read_line(&mut line).is_err() {
        return Err("no request came");
    }
    serde_json::from_str::<Value>(&line)
        .ok()
        .and_then(|value| serde_json::from_value(value.get("request")?.clone()).ok())
        .ok_or("the request is not known")
}

/// A pass over everything, as soon as it is made.
fn look(watch: &SharedWatch) -> Value {
    let watch = watch.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    match watch.map(|watch| watch.look_now()) {
        Some(Some(report)) => report_json(&report),
        Some(None) => json!({ "ok": false, "ending": true, "error": "the launch is ending" }),
        None => json!({ "ok": false, "starting": true, "error": "the launch is starting" }),
    }
}

fn answer_at_once(
    request: Request,
    events: &Sender<Event>,
    last_pass: &LastPass,
    desk: &Desk,
) -> Value {
    match request {
        Request::Stop => {
            let sent = events.send(Event::StopRequested).is_ok();
            json!({ "ok": sent })
        }
        Request::Grant { wanted, scope } => match desk.grant(&wanted, scope) {
            Ok(asked) => json!({ "ok": true, "asked": asked }),
            Err(why) => refuse(&why),
        },
        Request::Deny { wanted } => json!({ "ok": true, "asked": desk.deny(&wanted) }),
        Request::Revoke { host } => match desk.revoke(&host) {
            Ok(revoked) => json!({
                "ok": true,
                "wasGranted": revoked.was_granted,
                "stillAllowedBy": revoked.still_allowed_by,
            }),
            Err(why) => refuse(&why),
        },
        Request::Status { details } => json!(answer::tell(last_pass, desk, details)),
        Request::Questions => json!({ "ok": true, "questions": desk.waiting() }),
        Request::Verify => refuse("a pass is not made at once"),
        Request::Port { .. } => refuse("a port is not forwarded at once"),
    }
}

/// A report as `paddock verify --json` prints it (`docs/reference/verify.md`).
pub(crate) fn report_json(report: &Report) -> Value {
    if let Some(why) = &report.failure {
        return json!({ "ok": false, "error": format!("the launch could not be looked at: {why}") });
    }
    let microseconds = |took: Duration| u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    json!({
        "ok": true,
        "holds": report.holds(),
        "microseconds": microseconds(report.took),
        "lastPassMicroseconds": report.last_in_turn.map(microseconds),
        "everything": report.depth_everything,
        "tasks": report.tasks.iter().map(task_json).collect::<Vec<_>>(),
    })
}

fn task_json(task: &TaskReport) -> Value {
    json!({
        "layer": task.role.layer(),
        "role": task.role.name(),
        "pid": task.process,
        "task": task.task.pid,
        "start": task.task.start,
        "verdict": task.verdict.name(),
        "reasons": task.verdict.reasons().iter().map(|reason| json!({
            "code": reason.code(), "text": reason.to_string(),
        })).collect::<Vec<_>>(),
        "command": escape(&task.command()).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use confine::Pid;

    use super::*;

    #[test]
    fn what_is_answered_at_once_waits_for_no_pass() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let pid = Pid::of_self();
        // Nobody descends from it.
        let keeper = ProcessId { pid, start: confine::StartTime(1) };
        let (begun, begins) = sync_channel(0);
        let (end, ends) = sync_channel(0);
        let answer = |request| json!({ "ok": true, "to": request });
        let look = move || {
            begun.send(()).unwrap();
            ends.recv().unwrap();
            json!({ "ok": true, "looked": true })
        };
        let forward = |stream, _, _| Err((stream, "none".to_owned()));
        serve(UnixListener::bind(&path).unwrap(), keeper, answer, forward, look).unwrap();
        let ask = |request: Request| {
            let path = path.clone();
            std::thread::spawn(move || ask_keeper(&path, &request).unwrap())
        };
        let looks: Vec<_> = (0..2 * THREADS).map(|_| ask(Request::Verify)).collect();
        begins.recv_timeout(LIMIT).unwrap();
        // One pass is under way, and more are waited for than there are threads.
        for _ in 0..2 * THREADS {
            let told = ask(Request::Status { details: false }).join().unwrap();
            assert_eq!(told["to"]["status"]["details"], false);
        }
        assert!(looks.iter().all(|look| !look.is_finished()), "control: no pass has ended");
        for at in 0..looks.len() {
            if at > 0 {
                begins.recv_timeout(LIMIT).unwrap();
            }
            end.send(()).unwrap();
        }
        for look in looks {
            assert_eq!(look.join().unwrap()["looked"], true);
        }
    }

    #[test]
    fn who_descends_from_the_keeper_is_told_from_its_sibling() {
        let id = |pid| ProcessId { pid, start: confine::proc::start_time(pid).unwrap() };
        let cat = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = |child: &std::process::Child| Pid::new(child.id().cast_signed()).unwrap();
        let (mut caller, mut sibling) = (cat(), cat());
        let peer = id(pid(&caller));
        assert!(is_below(peer, id(Pid::of_self())).unwrap());
        assert!(!is_below(peer, id(pid(&sibling))).unwrap(), "control: not its keeper");
        for child in [&mut caller, &mut sibling] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(is_below(peer, id(Pid::of_self())).is_err(), "nobody says of whom");
    }
}
