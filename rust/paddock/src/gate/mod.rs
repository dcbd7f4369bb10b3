//! The gate: the one AF_UNIX socket that the sandboxes may reach, and what
//! wardens and keeper say to each other over it.

mod channel;
mod protocol;

pub(crate) use channel::{Channel, ChannelError};
pub(crate) use protocol::{
    Attempt, AttemptKind, ChildLabel, ChildStatus, Expected, Observation, Outcome,
    PROTOCOL_VERSION, Program, ToKeeper, ToWarden,
};
