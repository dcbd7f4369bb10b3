//! What the whole-program tests share.

// What it needs and does not find fails the test, as an assertion would.
#![allow(clippy::expect_used, clippy::missing_panics_doc)]

pub mod agent;
pub mod faults;
pub mod files;
pub mod floods;
pub mod herdr;
pub mod host;
pub mod model;
pub mod picture;
pub mod real_herdr;
pub mod registry;
pub mod service;
pub mod terminal;
