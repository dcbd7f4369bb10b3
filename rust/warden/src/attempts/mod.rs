//! The self-test: operations tried in earnest from inside a sandbox.

mod files;
mod network;
mod processes;
mod sockets;

use std::io;

use crate::{Attempt, AttemptKind, Expected, Observation, Outcome};

/// Tries each and tells what happened; judges nothing.
pub(crate) fn try_all(attempts: &[Attempt]) -> Vec<Outcome> {
    attempts
        .iter()
        .map(|attempt| Outcome { observed: observe(&attempt.kind), name: attempt.name.clone() })
        .collect()
}

/// Whether all that had to be refused was. What that means for the launch the
/// keeper decides; the warden needs it for what it does by itself.
pub(crate) fn nothing_got_through(attempts: &[Attempt], outcomes: &[Outcome]) -> bool {
    let got_through = |(attempt, outcome): (&Attempt, &Outcome)| {
        attempt.expected == Expected::Refused && outcome.observed == Observation::Worked
    };
    !attempts.is_empty()
        && attempts.len() == outcomes.len()
        && !attempts.iter().zip(outcomes).any(got_through)
}

/// Whether the kernel refused to let a signal through to a group outside: it asks
/// about each of its processes, as it does when all are meant.
pub(crate) fn signals_are_scoped(attempts: &[Attempt], outcomes: &[Outcome]) -> bool {
    let refused = Observation::Failed(rustix::io::Errno::PERM.raw_os_error());
    attempts.iter().zip(outcomes).any(|(attempt, outcome)| {
        matches!(attempt.kind, AttemptKind::SignalGroup(_)) && outcome.observed == refused
    })
}

/// What the kernel answers to one operation, wherever this is called.
pub fn observe(kind: &AttemptKind) -> Observation {
    let result = files::attempt(kind)
        .or_else(|| sockets::attempt(kind))
        .or_else(|| network::attempt(kind))
        .or_else(|| processes::attempt(kind))
        .unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()));
    match result {
        Ok(()) => Observation::Worked,
        // 0 where the library refused before the kernel was asked.
        Err(error) => Observation::Failed(error.raw_os_error().unwrap_or(0)),
    }
}
