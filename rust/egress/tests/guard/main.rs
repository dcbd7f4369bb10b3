//! The guard as its users see it: real connections on the loopback, names from
//! a table, and the records.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod burst;
mod decisions;
mod forward;
mod limits;
mod policies;
mod requests;
mod settings;
mod support;
mod tunnels;
