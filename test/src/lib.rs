//! What the whole-program tests share.

pub mod host;
pub mod model;
