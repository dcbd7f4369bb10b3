//! Whether a shell controls this process as a job.

use std::io;

use confine::Pid;
use confine::sys::{own_process_group, process_group_of, session_of};

/// Whether a shell controls this process as a job: its parent is in this session, and in
/// another group. The kernel lets Ctrl-Z stop nobody else (`setpgid(2)`, orphaned
/// process groups). What cannot be told is no: nobody might continue it.
pub(crate) fn is_job() -> bool {
    let Some(parent) = rustix::process::getppid().map(Pid::from) else { return false };
    let known = |leader: io::Result<Option<Pid>>| leader.ok().flatten();
    let own_session = known(session_of(Pid::of_self()));
    own_session.is_some()
        && own_session == known(session_of(parent))
        && known(process_group_of(parent)) != own_process_group()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set where this test is its own child.
    const CHILD: &str = "PADDOCK_TEST_NAMESPACE";

    #[test]
    fn in_a_pid_namespace_without_a_session_of_its_own_it_is_nobodys_job() {
        if std::env::var_os(CHILD).is_some() {
            let own = Pid::of_self();
            assert_eq!(session_of(own).unwrap(), None, "control: its leader is outside");
            assert_eq!((process_group_of(own).unwrap(), own_process_group()), (None, None));
            assert!(!is_job());
            return;
        }
        let name = "job::tests::in_a_pid_namespace_without_a_session_of_its_own_it_is_nobodys_job";
        let run = std::process::Command::new("bwrap")
            .args(["--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && told.contains("1 passed"), "{run:?}");
    }
}
