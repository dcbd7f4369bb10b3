//! The messages between a warden and the keeper. One frame is a length (`u32`,
//! little endian) and that many bytes of JSON; descriptors travel with the
//! frame that says so.
#![allow(missing_docs)] // what a message says of itself, it says of its fields

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use confine::witness::Testimony;
use confine::{Layer, Pid};
use serde::{Deserialize, Serialize};

/// Both sides are built together; the version tells when they were not.
pub const PROTOCOL_VERSION: u32 = 2;

/// What a warden says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToKeeper {
    /// First of all: who it claims to be. The keeper checks against the kernel.
    Hello { version: u32, layer: Layer },
    /// It has tried what must fail, and made itself undumpable and a subreaper.
    Proof { outcomes: Vec<Outcome> },
    /// The listening socket that was asked for travels with this frame.
    Listening,
    /// A listening socket could not be made.
    ListenFailed { error: String },
    /// A child runs (its id in the warden's pid namespace).
    Started { label: ChildLabel, pid: Pid },
    /// A child could not be started.
    StartFailed { label: ChildLabel, error: String, not_found: bool },
    /// A child ended.
    Ended { label: ChildLabel, status: ChildStatus },
    /// A child was stopped by a signal, as by Ctrl-Z.
    Suspended { label: ChildLabel },
    /// The answers to one witness query, in the order of its task ids.
    Testimony { query: u64, answers: Vec<Testimony> },
}

/// What the keeper says to a warden.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToWarden {
    /// Try these, then harden yourself. `shares_ipc`: the launch has no IPC
    /// namespace of its own.
    Prove { attempts: Vec<Attempt>, shares_ipc: bool },
    /// Listen on this port of your loopback and hand the socket over.
    Listen { port: u16 },
    /// Start a child. Three descriptors travel along when `stdio` says so.
    Start(Box<Program>),
    /// The witness query.
    Testify { query: u64, tasks: Vec<Pid> },
    /// Signal a child: an agent's whole process group.
    Signal { label: ChildLabel, signal: i32 },
    /// End every process of your sandbox but yourself.
    EndAll,
    /// End with this exit status.
    Exit { status: u8 },
}

/// Which child of a warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildLabel {
    /// Of the pen's warden: nono for the server sandbox.
    Server,
    /// Of the pen's warden: nono for the client sandbox.
    Client,
    /// Of an inner warden: the agent's own program.
    Agent,
    /// Of the pen's warden: a process for the inner self-tests to fail to reach.
    Canary,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildStatus {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal.
    Signaled(i32),
}

impl ChildStatus {
    /// The status a shell would show.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Signaled(signal) => u8::try_from(128 + signal).unwrap_or(255),
        }
    }
}

/// A program for a warden to start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Program {
    pub label: ChildLabel,
    pub argv: Vec<OsString>,
    /// The whole environment; nothing is inherited but what `pass` names.
    pub environment: Vec<(OsString, OsString)>,
    /// Names to pass on from the warden's own environment: what nono set for
    /// its proxy.
    pub pass: Vec<String>,
    pub directory: PathBuf,
    /// The child's standard descriptors travel with the message; else it
    /// shares the warden's.
    pub stdio: bool,
    /// A file, and the device and inode that it must have still.
    pub expected: Option<(PathBuf, u64, u64)>,
}

/// One operation for a self-test to try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    pub name: String,
    pub kind: AttemptKind,
    pub expected: Expected,
}

/// What the sandbox has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// It must not succeed.
    Refused,
    /// It must succeed: the control that this layer, or the ones around it,
    /// let the operation through, so that the refusal further in is that
    /// layer's own.
    Works,
}

/// The operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptKind {
    ReadFile(PathBuf),
    CreateFile(PathBuf),
    ConnectStream(PathBuf),
    ConnectSeqpacket(PathBuf),
    SendDatagram(PathBuf),
    ConnectAbstract(Vec<u8>),
    ConnectTcp(SocketAddr),
    /// A port of loopback, by sending what is to open the connection.
    FastOpen(u16),
    OpenUdp,
    IoUring,
    /// Signal 0: whether the kernel would let a signal through.
    Signal(Pid),
    /// The same for every process of a group.
    SignalGroup(Pid),
    Trace(Pid),
    ReadMemory(Pid),
    /// Lower its limit on core files, which it needs none of.
    Limit(Pid),
}

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub name: String,
    pub observed: Observation,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observation {
    Worked,
    /// The error number.
    Failed(i32),
}
