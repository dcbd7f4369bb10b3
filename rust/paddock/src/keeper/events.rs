//! What the keeper's threads tell its main thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use confine::{Layer, ProcessId};
use warden::ToKeeper;

use super::gatehouse::Knock;
use super::report::Report;
use super::terminal;
use crate::error::Error;

/// One thing that happened.
pub(super) enum Event {
    /// Somebody at the gate says it is a warden.
    Knock(Knock),
    /// Somebody at the gate was sent away.
    Refused {
        caller: Option<ProcessId>,
        why: String,
    },
    FromWarden {
        layer: Layer,
        message: ToKeeper,
        descriptors: Vec<OwnedFd>,
    },
    WardenLost {
        layer: Layer,
        why: String,
    },
    /// A pass found a task that is not confirmed to be confined.
    Violation(Arc<Report>),
    Signal(i32),
    /// `paddock stop`.
    StopRequested,
}

/// Where they come from, and how to add one.
pub(crate) struct Events {
    pub(super) sender: Sender<Event>,
    pub(super) receiver: Receiver<Event>,
}

impl Events {
    /// From here on a signal is an event: what is made is also removed.
    ///
    /// # Errors
    /// When there is no thread for signals.
    pub(crate) fn listen() -> Result<Self, Error> {
        let (sender, receiver) = channel();
        terminal::forward_signals(sender.clone())
            .map_err(|e| Error::NoThread { what: "signals", reason: e.to_string() })?;
        Ok(Self { sender, receiver })
    }
}
