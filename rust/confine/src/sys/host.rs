//! What the running kernel can do, found out by trying it.
//!
//! What restricts the caller for good runs on a thread that ends with the trial:
//! Landlock domains and seccomp filters belong to threads (`landlock(7)`,
//! `seccomp(2)`). What needs a process with one thread, a user namespace above
//! all (`user_namespaces(7)`), is for a process made for it.

mod landlock;
mod namespaces;
mod seccomp;
mod terminal;

pub use landlock::{
    Rights, landlock_errata, landlock_knows, landlock_knows_thread_sync, within_landlock,
};
pub use namespaces::{
    Namespace, leave_namespace, mount_empty, mount_proc, raise_loopback, take_mounts_private,
};
pub use seccomp::{
    FILTERED_ERROR, Notified, filtered_call, knows_notification, notified_call, within_filter,
};
pub use terminal::push_input;

use std::io;

/// Runs `trial` on a thread of its own, which ends with it, and with it what the
/// trial did to the thread.
fn on_thread<T: Send>(trial: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("trial".into()).spawn_scoped(scope, trial)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the trial panicked")))
    })
}

/// A sandbox is for callers that cannot gain privileges (`PR_SET_NO_NEW_PRIVS`,
/// a property of the thread, `prctl(2)`).
fn without_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}
