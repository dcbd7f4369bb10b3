//! A person's own configuration of an agent, copied into the agent's private home: what is
//! read is what is shown, and what was shown is what is written.

mod executed;
mod gather;
mod place;

use std::path::PathBuf;

pub(crate) use executed::Executed;
pub(crate) use gather::{Source, gather};
pub(crate) use place::{Placed, is_there, place};

use crate::agent::ImportHome;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) files: Vec<File>,
    pub(crate) left: Vec<Left>,
    pub(crate) executed: Vec<Executed>,
}

/// A file to be copied.
#[derive(Debug)]
pub(crate) struct File {
    /// As it is named in the person's home.
    pub(crate) from: PathBuf,
    /// Where that leads, if elsewhere.
    pub(crate) leads_to: Option<PathBuf>,
    pub(crate) home: ImportHome,
    /// Its place in the private home.
    pub(crate) to: PathBuf,
    pub(crate) text: Vec<u8>,
    /// Its owner may execute it.
    pub(crate) is_program: bool,
}

/// What is not copied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) path: PathBuf,
    /// Escaped.
    pub(crate) reason: String,
}
