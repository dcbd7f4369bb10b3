//! Evidence about sandboxed tasks, read from outside, and the verdict on it.
//!
//! Three parts that do not mix: reading ([`proc`], [`witness`]), judging
//! ([`verdict`], one pure function), and, in the program that uses this
//! library, acting. The library knows neither nono nor herdr.

pub mod escape;
pub mod evidence;
pub mod id;
pub mod pidfd;
pub mod proc;
pub mod sys;
pub mod verdict;
pub mod witness;

pub use evidence::{Evidence, Layer, Role};
pub use id::{Pid, ProcessId, StartTime};
pub use verdict::{Expectation, Reason, Verdict};
