//! What Paddock runs inside each sandbox, and the protocol between that and the
//! keeper.
//!
//! The program is `paddock-warden`, and a small one: nono reads and
//! hashes the program of every layer before it starts it, and what is not in it
//! no sandbox can reach.

mod ask;
mod attempts;
mod bridge;
mod call;
mod carry;
mod channel;
mod children;
mod containers;
mod last_will;
mod link;
mod offer;
mod others;
mod protocol;
mod serve;
mod ssh;
mod survey;
mod tunnel;
mod unix_sockets;

pub use ask::{GATE_VARIABLE, ask};
pub use attempts::observe;
pub use bridge::{LINK_VARIABLE, PASSWORD_VARIABLE, bridge};
pub use call::{Answer, Call};
pub use carry::carry;
pub use channel::{Bounds, Channel, ChannelError, demand_writers, receive_piece};
pub use containers::{CONTAINER_CLIENTS, refuse_containers};
pub use link::{Link, await_server};
pub use offer::offer;
pub use protocol::{
    AddedLimit, Attempt, AttemptKind, ChildLabel, ChildStatus, Expected, Observation, Outcome,
    PROTOCOL_VERSION, Program, Proving, ToKeeper, ToWarden, UnixLimit,
};
pub use serve::run;
pub use ssh::refuse_ssh;
pub use survey::survey;
pub use tunnel::open_tunnel;

/// The exit status of a part of Paddock that failed.
pub const FAILED: u8 = 125;
/// The exit status when a program was not found.
pub const NOT_FOUND: u8 = 127;
