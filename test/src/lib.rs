//! What the whole-program tests share.

pub mod model;
