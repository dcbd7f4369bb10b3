//! The messages between a warden and the keeper. One frame is a length (`u32`,
//! big endian, so that its first byte is 0) and that many bytes of JSON; descriptors travel with the
//! frame that says so.
#![allow(missing_docs)] // what a message says of itself, it says of its fields

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use confine::witness::Testimony;
use confine::{Layer, Pid};
use serde::{Deserialize, Serialize};

use crate::Call;

/// Both sides are built together; the version tells when they were not.
pub const PROTOCOL_VERSION: u32 = 4;

/// What a warden says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToKeeper {
    /// First of all: who it claims to be. The keeper checks against the kernel.
    Hello { version: u32, layer: Layer },
    /// Not a warden: a program that asks for something, and gets an answer.
    Call { version: u32, call: Call },
    /// It has tried what must fail, and made itself undumpable and a subreaper.
    Proof { outcomes: Vec<Outcome>, surveyed: Vec<Observation> },
    /// The listening socket that was asked for travels with this frame.
    Listening,
    /// A listening socket could not be made.
    ListenFailed { error: String },
    /// Unconnected sockets that were asked for travel with this frame: of IPv4, and of
    /// IPv6 where there is that; or none, and why.
    Sockets { query: u64, error: Option<String> },
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
    /// Try these, then limit and harden yourself.
    Prove(Box<Proving>),
    /// Listen on this port of your loopback and hand the socket over.
    Listen { port: u16 },
    /// Make TCP sockets in your network and hand them over, unconnected.
    MakeSockets { query: u64 },
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

/// How a warden is to prove its sandbox.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Proving {
    /// What the layer itself refuses or lets through.
    pub attempts: Vec<Attempt>,
    /// The launch has no IPC namespace of its own.
    pub shares_ipc: bool,
    /// What to add to the layer, one after the other.
    pub limits: Vec<AddedLimit>,
    /// Try these after all that, too; the doctor wants to know.
    pub survey: Vec<AttemptKind>,
}

/// What a warden adds to its sandbox, and what to try once that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedLimit {
    pub limit: UnixLimit,
    pub attempts: Vec<Attempt>,
}

/// What holds where a sandbox's mediation of AF_UNIX can be raced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnixLimit {
    /// The kernel finds sockets by path beneath these alone.
    ReachableBeneath(Vec<PathBuf>),
    /// Nobody can make a socket that can reach another.
    NoSockets,
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
    /// The whole environment; nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    pub directory: PathBuf,
    /// The child's standard descriptors travel with the message; else it
    /// shares the warden's.
    pub stdio: bool,
    /// A file, and the device and inode that it must have still.
    pub expected: Option<(PathBuf, u64, u64)>,
}

/// One operation for a self-test to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The operation. None changes what it is let through to: what it makes it
/// removes, what it sets was set to that before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptKind {
    ReadFile(PathBuf),
    /// Open for appending; nothing is written.
    WriteFile(PathBuf),
    CreateFile(PathBuf),
    ListDirectory(PathBuf),
    /// With the mode that it has.
    ChangeMode(PathBuf),
    /// With the group that it has.
    ChangeOwner(PathBuf),
    /// With the times that it has.
    ChangeTimes(PathBuf),
    SetAttribute(PathBuf),
    /// A second name for a file, in a directory.
    HardLink(PathBuf, PathBuf),
    /// Move a file there and back.
    Rename(PathBuf, PathBuf),
    /// Open as a mere place (`O_PATH`), and read through that.
    ReadThroughPlace(PathBuf),
    /// Read the file by way of the root directory that `/proc` shows.
    ReadThroughRoot(PathBuf),
    OpenDevice(PathBuf),
    Mount(PathBuf),
    PivotRoot(PathBuf),
    ChangeRoot,
    /// A file in memory; harmless, and a control.
    MemoryFile,

    ConnectStream(PathBuf),
    ConnectSeqpacket(PathBuf),
    SendDatagram(PathBuf),
    /// By `sendmsg`, the address in a structure.
    SendMessage(PathBuf),
    /// By `sendmmsg`.
    SendMessages(PathBuf),
    ConnectAbstract(Vec<u8>),
    BindSocket(PathBuf),
    /// Bind, listen and accept one caller, a thread of its own, and have the kernel
    /// say who it is.
    AcceptCaller(PathBuf),
    /// An AF_UNIX socket, by itself.
    UnixSocket,
    SocketPair,
    /// A pair of datagram sockets.
    DatagramPair,
    /// A descriptor through a pair of sockets.
    PassDescriptor,
    /// One thread swaps the address while the other connects, for so many
    /// milliseconds: forbidden, allowed.
    RaceToConnect(PathBuf, PathBuf, u32),

    ConnectTcp(SocketAddr),
    /// The address as a person might write it.
    ConnectNotation(String),
    /// A port of loopback, by sending what is to open the connection.
    FastOpen(u16),
    /// Listen on a port of loopback that the kernel chooses, and connect to it.
    ListenTcp,
    OpenUdp,
    SendUdp(SocketAddr),
    RawSocket,
    Netlink,
    Vsock,
    IoUring,
    /// A socket by the system calls of 32-bit programs.
    SocketBy32BitCall,
    /// A socket by the x32 system calls.
    SocketByX32Call,
    /// A tunnel to `name:port` through the proxy at a port of loopback, with a user
    /// and a secret where it wants one.
    Tunnel {
        port: u16,
        user: Option<String>,
        target: String,
    },

    /// Signal 0: whether the kernel would let a signal through.
    Signal(Pid),
    SignalByPidfd(Pid),
    /// The same for every process of a group.
    SignalGroup(Pid),
    Trace(Pid),
    ReadMemory(Pid),
    TakeDescriptor(Pid),
    /// A file of its directory in `/proc`.
    ReadProcess(Pid, String),
    /// Lower its limit on core files, which it needs none of.
    Limit(Pid),
    /// Its priority, to what it is.
    Priority(Pid),
    /// Its processor affinity, to what it is.
    Affinity(Pid),
    /// `no_new_privs` is not set: a setuid program would get its owner's rights.
    NewPrivileges,
    UserNamespace,
    Keyring,
    SharedMemory,

    /// Push a character into the controlling terminal (`TIOCSTI`).
    PushInput,
    /// Paste through the console (`TIOCLINUX`).
    PasteIntoConsole,
    /// Where nono would ask the person: the controlling terminal itself.
    OpenTerminal,
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
