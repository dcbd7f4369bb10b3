//! What the whole-program tests share.

pub mod files;
pub mod host;
pub mod model;
pub mod terminal;
