//! The witness query: which of these tasks are in your Landlock domain?
//!
//! No file in `/proc` says which domain a task is in. The kernel answers a
//! narrower question: [`crate::sys::may_read`] passes only for tasks of the
//! caller's own domain or of one nested in it. So a process of ours inside a
//! sandbox, asked from outside, is a witness that the agent cannot bend: the
//! answer comes from the kernel and the asker is known by its channel.

use serde::{Deserialize, Serialize};

use crate::{Pid, sys};

/// What a witness learned about one task id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Testimony {
    /// In the witness's domain or one nested in it.
    Inside,
    /// The kernel refused: outside the domain, or not dumpable.
    Refused,
    /// No such task.
    Gone,
    /// The kernel answered something else.
    Unclear,
}

/// Answers a query from where it is called: about task ids as this process's
/// pid namespace numbers them. Changes nothing.
pub fn testify(tasks: &[Pid]) -> Vec<Testimony> {
    tasks
        .iter()
        .map(|task| match sys::may_read(*task) {
            Ok(()) => Testimony::Inside,
            Err(e) => match e.raw_os_error() {
                Some(libc::EPERM) => Testimony::Refused,
                Some(libc::ESRCH) => Testimony::Gone,
                _ => Testimony::Unclear,
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsandboxed_witness_sees_itself_and_nothing_that_is_gone() {
        let me = Pid::from(rustix::thread::gettid());
        let none = Pid::new(i32::MAX).unwrap();
        assert_eq!(testify(&[me, none]), [Testimony::Inside, Testimony::Gone]);
    }
}
