//! What Landlock does not see: a process may change limits and priorities of
//! every other process of its user, and use the user's keyrings and System V
//! objects. A limit on processor time ends a process as surely as a signal does.
//! And a TCP connection can be opened by sending.

use std::collections::BTreeMap;

use anyhow::Context;
use confine::sys::numbers;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// `PRIO_USER` and `IOPRIO_WHO_USER`: every process of the user.
const PRIORITY_OF_USER: u64 = 2;
const IO_PRIORITY_OF_USER: u64 = 3;

/// From here on this process, and all that it starts, can change limits and
/// priorities only of themselves (`prlimit(2)`, `setpriority(2)`,
/// `ioprio_set(2)`), and use no keyring (`keyctl(2)`): the filter is inherited
/// and cannot be taken off (`seccomp(2)`).
///
/// `shares_ipc`: there is no IPC namespace of the launch's own, and the user's
/// System V objects and message queues (`ipc_namespaces(7)`) are the host's.
pub(crate) fn leave_others_alone(shares_ipc: bool) -> anyhow::Result<()> {
    let is = |argument, operator, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    };
    let is_given =
        |argument| SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    // Reading another's limits is harmless.
    let limits = vec![SeccompRule::new(vec![is(0, SeccompCmpOp::Ne, 0)?, is_given(2)?])?];
    let priorities = |user| -> anyhow::Result<_> {
        Ok(vec![
            SeccompRule::new(vec![is(1, SeccompCmpOp::Ne, 0)?])?,
            SeccompRule::new(vec![is(0, SeccompCmpOp::Eq, user)?])?,
        ])
    };
    let mut rules = BTreeMap::from([
        (numbers::PRLIMIT, limits),
        (numbers::SETPRIORITY, priorities(PRIORITY_OF_USER)?),
        (numbers::IOPRIO_SET, priorities(IO_PRIORITY_OF_USER)?),
    ]);
    // Without a condition: always. The user's keyrings are the host's, and what
    // is put there stays (`keyrings(7)`).
    rules.extend(numbers::KEYS.map(|number| (number, Vec::new())));
    // Landlock does not see who connects by sending (`MSG_FASTOPEN` in `send(2)`,
    // `TCP_FASTOPEN_CONNECT` in `tcp(7)`), and who inspects the address can be
    // raced; the flag is in a register.
    for (number, flags) in numbers::SENDING {
        let opens = SeccompCmpOp::MaskedEq(numbers::FAST_OPEN);
        rules.insert(number, vec![SeccompRule::new(vec![is(flags, opens, numbers::FAST_OPEN)?])?]);
    }
    let (level, option) = numbers::FAST_OPEN_OPTION;
    let conditions = vec![is(1, SeccompCmpOp::Eq, level)?, is(2, SeccompCmpOp::Eq, option)?];
    rules.insert(numbers::SETSOCKOPT, vec![SeccompRule::new(conditions)?]);
    if shares_ipc {
        rules.extend(numbers::IPC.map(|number| (number, Vec::new())));
    }
    let refused = SeccompAction::Errno(numbers::EPERM);
    let target = std::env::consts::ARCH.try_into().context("no filter for this architecture")?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, target)?;
    let program = BpfProgram::try_from(filter)?;
    seccompiler::apply_filter(&program).context("seccomp")
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, getpriority_process, setpriority_process};

    use super::*;

    #[test]
    fn what_the_filter_is_for_is_out_of_reach_once_it_applies() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let other = Pid::from_raw(child.id().cast_signed());
        // A filter belongs to a thread: this one's goes with it.
        std::thread::spawn(move || {
            let own = getpriority_process(None).unwrap();
            assert!(setpriority_process(other, own).is_ok(), "control");
            assert!(confine::sys::attempt_keyring().is_ok(), "control");
            assert!(confine::sys::attempt_shared_memory().is_ok(), "control");
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(confine::sys::attempt_fast_open(port).is_ok(), "control");
            leave_others_alone(true).unwrap();
            assert!(setpriority_process(None, own).is_ok(), "its own it may");
            assert!(setpriority_process(other, own).is_err());
            assert!(confine::sys::attempt_keyring().is_err());
            assert!(confine::sys::attempt_shared_memory().is_err());
            let refused = confine::sys::attempt_fast_open(port).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
            assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "others work");
        })
        .join()
        .unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
