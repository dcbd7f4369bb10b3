//! What this host can do, found out by trying it, and which tier that makes.
//!
//! Whether something works is asked of the kernel and of nothing else. Files that
//! may be missing are only read to name who refused it.

mod advice;
mod cause;
mod cgroup;
mod confined;
mod errno;
mod feature;
mod host;
mod kernel;
mod landlock;
pub(crate) mod matrix;
mod namespaces;
mod pinned;
mod places;
mod probe;
mod programs;
mod seccomp;
mod show;
mod tiers;

pub(crate) use feature::{Feature, HostReport, State};
#[cfg(test)]
pub(crate) use host::feature_names;
pub(crate) use host::{Subject, examine};
pub(crate) use pinned::{Pinned, examine_pins, show_pins};
pub(crate) use probe::{Probe, run as run_probe};
pub(crate) use show::show;
pub(crate) use tiers::{needs, reaches};
