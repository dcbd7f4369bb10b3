//! What the gate answers to the agent itself: pure decisions, and the clients
//! that carry them out.

pub(crate) mod herdr;
