//! The warden: Paddock's own first process inside each sandbox.
//!
//! It proves to the keeper that the sandbox holds, starts the next program,
//! reaps what is orphaned, and answers witness queries for as long as the
//! launch lives. It decides nothing: every step is asked for by the keeper.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use confine::{Layer, witness};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::pipe::PipeFlags;
use rustix::process::{
    DumpableBehavior, set_child_subreaper, set_dumpable_behavior, set_parent_process_death_signal,
};
use signal_hook::consts::{
    SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU,
};

use crate::children::Children;
use crate::{Channel, ChannelError, PROTOCOL_VERSION, Proving, ToKeeper, ToWarden};
use crate::{attempts, last_will, others, unix_sockets};

/// Runs as the warden of `layer` until the keeper ends it.
pub fn run(layer: Layer, gate: &Path) -> anyhow::Result<ExitCode> {
    let socket = UnixStream::connect(gate).with_context(|| {
        format!("the {layer} warden cannot reach the gate at {}", gate.display())
    })?;
    let channel = Channel::new(socket);
    channel.send(&ToKeeper::Hello { version: PROTOCOL_VERSION, layer }, &[])?;
    let mut reach = Reach::Unknown;
    match serve(layer, &channel, &mut reach) {
        Ok(status) => Ok(ExitCode::from(status)),
        Err(error) => {
            // No agent outlives its keeper. But outside a sandbox the kernel
            // tells every process of the user to be within reach: who has not
            // seen that it is inside one has nothing below it, and ends nobody.
            if reach != Reach::Unknown {
                last_will::end_everything_below(reach);
            }
            Err(error)
        }
    }
}

/// How far this process's signals reach, as it has tried for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Perhaps to every process of the user.
    Unknown,
    /// What it was told to try outside its sandbox was refused.
    Limited,
    /// So were signals to a group of processes outside: all of them are out of
    /// reach.
    Scoped,
}

/// Does what the keeper asks, and remembers how far this process reaches.
fn serve(layer: Layer, channel: &Channel, reach: &mut Reach) -> anyhow::Result<u8> {
    let mut child_signals = child_signals()?;
    let mut children = Children::default();
    loop {
        let (said, died) = wait_for_either(channel.as_fd(), child_signals.as_fd())?;
        if died {
            drain(&mut child_signals);
            for message in children.reap() {
                channel.send(&message, &[])?;
            }
        }
        if !said {
            continue;
        }
        let (message, descriptors) = match channel.receive::<ToWarden>() {
            Ok(received) => received,
            Err(ChannelError::Closed) => anyhow::bail!("the keeper is gone"),
            Err(error) => return Err(error.into()),
        };
        match message {
            ToWarden::Prove(proving) => {
                let proof = prove(layer, *proving, reach)?;
                channel.send(&proof, &[])?;
            }
            ToWarden::Listen { port } => listen(channel, port)?,
            ToWarden::MakeSockets { query } => make_sockets(channel, query)?,
            // Outside a sandbox it would have something below it that it may not
            // end; and the keeper is about to hear the same.
            ToWarden::Start(program) if *reach == Reach::Unknown => {
                let error = "the self-test did not hold".to_owned();
                let label = program.label;
                channel.send(&ToKeeper::StartFailed { label, error, not_found: false }, &[])?;
            }
            ToWarden::Start(program) => {
                channel.send(&children.start(*program, descriptors), &[])?;
            }
            ToWarden::Testify { query, tasks } => {
                let answers = witness::testify(&tasks);
                channel.send(&ToKeeper::Testimony { query, answers }, &[])?;
            }
            ToWarden::Signal { label, signal } => children.signal(label, signal),
            ToWarden::EndAll if *reach != Reach::Unknown => {
                last_will::end_everything_below(*reach);
                // They have been reaped, and their ids may be others' by now.
                children = Children::default();
            }
            ToWarden::EndAll => {}
            ToWarden::Exit { status } => return Ok(status),
        }
    }
}

/// Tries what the layer must refuse, then adds to the layer what the keeper asks
/// for, and tries that.
fn prove(layer: Layer, proving: Proving, reach: &mut Reach) -> anyhow::Result<ToKeeper> {
    let Proving { mut attempts, shares_ipc, limits, survey } = proving;
    if layer != Layer::Pen {
        others::leave_others_alone(shares_ipc)?;
    }
    // In this order: nono's mediation looks into the memory of who connects, and
    // what it cannot look into it refuses, whatever the policy says; that would
    // prove nothing. Nor would a refusal of it by what is added to it here.
    let mut outcomes = attempts::try_all(&attempts);
    for added in limits {
        unix_sockets::limit(&added.limit)?;
        outcomes.extend(attempts::try_all(&added.attempts));
        attempts.extend(added.attempts);
    }
    let surveyed = survey.iter().map(attempts::observe).collect();
    *reach = match attempts::nothing_got_through(&attempts, &outcomes) {
        false => Reach::Unknown,
        true if attempts::signals_are_scoped(&attempts, &outcomes) => Reach::Scoped,
        true => Reach::Limited,
    };
    harden()?;
    Ok(ToKeeper::Proof { outcomes, surveyed })
}

/// Others may no longer look into this process (`PR_SET_DUMPABLE`), what is
/// orphaned below it becomes its child (`PR_SET_CHILD_SUBREAPER`), and it
/// outlives its nono (`PR_SET_PDEATHSIG`, all `prctl(2)`).
fn harden() -> anyhow::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("PR_SET_DUMPABLE")?;
    set_child_subreaper(Some(rustix::process::getpid())).context("PR_SET_CHILD_SUBREAPER")?;
    // nono has its child killed when it dies itself, and the pen's nono dies
    // with the keeper: the last will would never be carried out.
    set_parent_process_death_signal(None).context("PR_SET_PDEATHSIG")?;
    Ok(())
}

/// A pipe that becomes readable when a child changes state; a pipe, because a
/// sandbox without network may refuse `socketpair(2)`. Signals meant for the
/// agent are ignored here; its own processes get them back as default.
fn child_signals() -> anyhow::Result<File> {
    let (reader, writer) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).context("pipe2")?;
    signal_hook::low_level::pipe::register(SIGCHLD, writer).context("SIGCHLD")?;
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE] {
        confine::sys::ignore_signal(signal)?;
    }
    // nono blocks SIGCHLD while it starts its child, and leaves it so.
    confine::sys::unblock_signals().context("sigprocmask")?;
    Ok(reader.into())
}

fn drain(stream: &mut File) {
    let mut scratch = [0; 64];
    while matches!(stream.read(&mut scratch), Ok(n) if n > 0) {}
}

/// Whether the keeper spoke, and whether a child changed state.
fn wait_for_either(
    keeper: BorrowedFd<'_>,
    children: BorrowedFd<'_>,
) -> anyhow::Result<(bool, bool)> {
    let mut fds = [
        PollFd::from_borrowed_fd(keeper, PollFlags::IN),
        PollFd::from_borrowed_fd(children, PollFlags::IN),
    ];
    match poll(&mut fds, None) {
        Ok(_) => Ok((!fds[0].revents().is_empty(), !fds[1].revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok((false, true)),
        Err(e) => Err(e.into()),
    }
}

/// Makes the socket on which the keeper's guard will accept. A socket belongs
/// to the network namespace it was made in (`network_namespaces(7)`): the keeper
/// can accept from outside, and nothing in the pen has to pass bytes on.
fn listen(channel: &Channel, port: u16) -> anyhow::Result<()> {
    match std::net::TcpListener::bind(("127.0.0.1", port)) {
        Ok(listener) => channel.send(&ToKeeper::Listening, &[listener.as_fd()])?,
        Err(error) => {
            channel.send(&ToKeeper::ListenFailed { error: error.to_string() }, &[])?;
        }
    }
    Ok(())
}

/// Makes the sockets with which the keeper reaches what listens in the pen. Whoever
/// connects one connects in the network namespace that it was made in.
fn make_sockets(channel: &Channel, query: u64) -> anyhow::Result<()> {
    let of = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (made, error) = match of(AddressFamily::INET) {
        // There may be no IPv6.
        Ok(socket) => (std::iter::once(socket).chain(of(AddressFamily::INET6)).collect(), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let descriptors: Vec<BorrowedFd<'_>> = made.iter().map(AsFd::as_fd).collect();
    channel.send(&ToKeeper::Sockets { query, error }, &descriptors)?;
    Ok(())
}
