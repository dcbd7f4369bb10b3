//! The gate's keeper side: who calls is established from the kernel's own
//! records before a word is believed.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use confine::pidfd::PidFd;
use confine::proc::{TaskFiles, executable};
use confine::{Layer, Pid, ProcessId};
use rustix::io::retry_on_intr;
use rustix::net::RecvFlags;

use super::caller::Refusal;
use super::calls::Desk;
use super::events::Event;
use super::roster::{Roster, Warden};
use warden::{
    Answer, Bounds, Channel, ChannelError, ChildLabel, PROTOCOL_VERSION, ToKeeper, demand_writers,
};

/// How long a caller has to say who it is.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// What that, and a call, may cost: as many bytes as herdr takes in a request.
pub(super) fn of_caller(process: &PidFd) -> Bounds {
    Bounds { bytes: 64 << 10, time: HELLO_LIMIT, writer: Some(process.id().pid) }
}

/// For who writes over another's connection.
pub(super) fn not_the_caller() -> Refusal {
    let why = "the request was written by another process than the one that connected";
    Refusal::new("not-the-caller", why)
}
/// How long an admitted warden may not take what is sent to it.
const SEND_LIMIT: Duration = Duration::from_secs(2);
/// Connections at once, wardens included: agents can connect, too.
const MOST_CONNECTIONS: usize = 64;

/// A caller that says it is a warden, and what the kernel says of it.
pub(super) struct Knock {
    pub(super) layer: Layer,
    pub(super) process: PidFd,
    pub(super) channel: Channel,
    /// Where to send the warden it is admitted as, or nothing.
    pub(super) admit: SyncSender<Option<Arc<Warden>>>,
}

/// Opens the gate at `path` and serves it for the life of the process.
pub(super) fn open(path: &Path, events: Sender<Event>, desk: Arc<Desk>) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    demand_writers(listener.as_fd())?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    std::thread::Builder::new().name("gate".into()).spawn(move || {
        let mut callers: Vec<JoinHandle<()>> = Vec::new();
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Out of descriptors: let some go first.
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            // Joined, so that threads which have served theirs do not pile up.
            for ended in callers.extract_if(.., |caller| caller.is_finished()) {
                let _ = ended.join();
            }
            if callers.len() >= MOST_CONNECTIONS {
                continue;
            }
            let (events, desk) = (events.clone(), desk.clone());
            let caller = std::thread::Builder::new()
                .name("gate-caller".into())
                .spawn(move || serve(stream, &events, &desk));
            callers.extend(caller);
        }
    })?;
    Ok(())
}

fn serve(stream: UnixStream, events: &Sender<Event>, desk: &Desk) {
    // The handle is taken before anything is waited for: the caller may be gone by
    // then, and another have its id.
    let process = PidFd::of_peer(stream.as_fd());
    let deadline = Instant::now() + HELLO_LIMIT;
    let limits = stream
        .set_read_timeout(Some(HELLO_LIMIT))
        .and_then(|()| stream.set_write_timeout(Some(HELLO_LIMIT)));
    if limits.is_err() {
        return;
    }
    let mut first = [0];
    match retry_on_intr(|| rustix::net::recv(&stream, &mut first[..], RecvFlags::PEEK)) {
        Ok((1.., _)) => {}
        _ => return,
    }
    let refuse = |caller: Option<ProcessId>, why: String| {
        let _ = events.send(Event::Refused { caller, why });
    };
    let process = match process {
        Ok(process) => process,
        Err(error) => {
            return refuse(None, format!("the kernel does not say who it is: {error}"));
        }
    };
    let refuse = |why: String| refuse(Some(process.id()), why);
    // A frame of the gate's own begins with the first byte of its length, which is 0.
    if first == *b"{" {
        if let Err(why) = desk.serve_herdr(&stream, &process, deadline) {
            refuse(why);
        }
        return;
    }
    let channel = Channel::new(stream);
    let layer = match channel.receive_within::<ToKeeper>(of_caller(&process)) {
        Ok((ToKeeper::Hello { version: PROTOCOL_VERSION, layer }, _)) => layer,
        Ok((ToKeeper::Call { version: PROTOCOL_VERSION, call }, _)) => {
            return desk.serve(&channel, &process, call);
        }
        Ok((ToKeeper::Hello { version, .. } | ToKeeper::Call { version, .. }, _)) => {
            return refuse(format!("it speaks version {version} of the gate's protocol"));
        }
        Ok(_) => return refuse("it did not say who it is".into()),
        Err(ChannelError::OtherWriter) => {
            let refusal = not_the_caller();
            refuse(refusal.to_string());
            let _ = channel.send(&Answer::from(refusal), &[]);
            return;
        }
        Err(error) => return refuse(format!("it did not say who it is: {error}")),
    };
    let (admit, admitted) = sync_channel(1);
    if events.send(Event::Knock(Knock { layer, process, channel, admit })).is_err() {
        return;
    }
    if let Ok(Some(warden)) = admitted.recv() {
        listen_to(&warden, events, desk);
    }
}

/// Receives what an admitted warden says until its connection ends.
fn listen_to(warden: &Warden, events: &Sender<Event>, desk: &Desk) {
    // It may be silent for as long as it likes, and a half-sent frame can only
    // come from a dying one.
    let _ = warden.channel.set_patience(SEND_LIMIT);
    loop {
        match warden.channel.receive::<ToKeeper>() {
            Ok((ToKeeper::Testimony { query, answers }, _)) => warden.answer(query, answers),
            Ok((ToKeeper::Sockets { query, error }, sockets)) => {
                let made = error.map_or(Ok(sockets), |why| Err(io::Error::other(why)));
                warden.sockets_made(query, made);
            }
            Ok((message, descriptors)) => {
                // At once, whatever else the keeper does: the agent can call from now on.
                if let ToKeeper::Started { label: ChildLabel::Agent, pid } = message {
                    desk.roster.agent_started(warden.layer, pid);
                }
                let event = Event::FromWarden { layer: warden.layer, message, descriptors };
                if events.send(event).is_err() {
                    return;
                }
            }
            Err(error) => {
                warden.is_gone();
                let why = match error {
                    ChannelError::Closed => "it ended".to_owned(),
                    other => other.to_string(),
                };
                let _ = events.send(Event::WardenLost { layer: warden.layer, why });
                return;
            }
        }
    }
}

/// Where the warden of a layer has to stand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// Its supervisor is a child of this process.
    BelowChildOf(ProcessId),
    /// Its supervisor is this process.
    Below(ProcessId),
    /// Its supervisor is a child of `parent` and has this id in the launch's
    /// own pid namespace, as its warden reported.
    BelowChildAs { parent: ProcessId, as_inside: Pid },
}

/// Checks a caller against the kernel's records, and tells its supervisor.
///
/// # Errors
/// Why it is not the warden it says it is.
pub(super) fn identify(knock: &Knock, place: Place, roster: &Roster) -> Result<ProcessId, String> {
    let caller = knock.process.id();
    let readable = |e: io::Error| format!("it cannot be read: {e}");
    let program = executable(caller.pid).map_err(readable)?;
    if program != roster.warden_program {
        return Err("its program is not this paddock's warden".into());
    }
    let mut buffer = Vec::new();
    let files = TaskFiles::open(caller.pid, caller.pid).map_err(readable)?;
    let status = files.status(&mut buffer).map_err(readable)?;
    if status.uids.iter().any(|uid| *uid != roster.uid) {
        return Err("it belongs to another user".into());
    }
    if status.tracer.is_some() {
        return Err("it is traced".into());
    }
    let parent = status.parent.ok_or("its parent cannot be seen")?;
    let supervisor = TaskFiles::open(parent, parent).map_err(readable)?;
    let supervisor_status = supervisor.status(&mut buffer).map_err(readable)?;
    let supervisor_parent = supervisor_status.parent;
    let stands = match place {
        Place::BelowChildOf(process) => supervisor_parent == Some(process.pid),
        Place::Below(process) => supervisor.id() == process,
        Place::BelowChildAs { parent, as_inside } => {
            supervisor_parent == Some(parent.pid)
                && supervisor_status.id_at(roster.entries().depth()) == Some(as_inside)
        }
    };
    if !stands {
        return Err("it was not started by its layer's nono".into());
    }
    // An undumpable supervisor can be looked at only from above its user
    // namespace; where there is none, its place has to do.
    if let Ok(program) = executable(parent)
        && program != roster.nono
    {
        return Err("its supervisor's program is not the nono that was checked".into());
    }
    if knock.process.has_ended().map_err(readable)? {
        return Err("it ended".into());
    }
    Ok(supervisor.id())
}
