//! What is known about one task of a launch.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::proc::{Namespaces, Status};
use crate::witness::Testimony;
use crate::{Pid, ProcessId};

/// One of the three nono sandboxes of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The outer sandbox, the ceiling.
    Pen,
    /// The inner sandbox of the agent's server.
    Server,
    /// The inner sandbox of the agent's client.
    Client,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pen => "pen",
            Self::Server => "server",
            Self::Client => "client",
        })
    }
}

/// Which part a process plays, taken from its place in the process tree: from
/// whom it descends, never from what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "role", content = "layer")]
pub enum Role {
    /// bubblewrap, which builds the veil around everything.
    Veil,
    /// nono's supervisor of a layer.
    Supervisor(Layer),
    /// Paddock's own first process in a layer.
    Warden(Layer),
    /// The agent and all that it starts: descendants of the layer's warden.
    Agent(Layer),
    /// In the launch, but with no place in it.
    Stray,
}

impl Role {
    /// The layer whose rules apply to the task.
    pub fn layer(self) -> Option<Layer> {
        match self {
            Self::Supervisor(layer) | Self::Warden(layer) | Self::Agent(layer) => Some(layer),
            Self::Veil | Self::Stray => None,
        }
    }

    /// The role's name, as shown and in the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Veil => "veil",
            Self::Supervisor(_) => "supervisor",
            Self::Warden(_) => "warden",
            Self::Agent(_) => "agent",
            Self::Stray => "stray",
        }
    }
}

/// Whether a program is the one that was recorded at launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramCheck {
    /// Device and inode are those recorded.
    Same,
    /// They differ.
    Different,
    /// The kernel did not let the verifier look.
    Unreadable,
    /// Nothing was recorded for this task: agents run what they like.
    NotAsked,
}

/// All that was read about one task, by the verifier, from outside.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The task and when it started.
    pub task: ProcessId,
    /// Its process.
    pub process: Pid,
    /// Its place in the launch.
    pub role: Role,
    /// What the kernel says in `/proc/P/task/T/status`.
    pub status: Status,
    /// What the layer's witness was told by the kernel; `None` when it did not
    /// answer in time.
    pub testimony: Option<Testimony>,
    /// Others may look into the task. One that is not dumpable is opaque to
    /// every witness, so its refusal says nothing.
    pub dumpable: bool,
    /// The task's namespaces, where the verifier may look.
    pub namespaces: Option<Namespaces>,
    /// It is in another user namespace than the verifier, by its map of users,
    /// which everybody may read. Looked at where the namespaces are unreadable.
    pub maps_users_otherwise: bool,
    /// How long they have been found unreadable.
    pub unreadable_for: Duration,
    /// Whether its program is the recorded one.
    pub program: ProgramCheck,
    /// The tracer, if any, is a task of the same layer.
    pub tracer_is_inside: bool,
}
