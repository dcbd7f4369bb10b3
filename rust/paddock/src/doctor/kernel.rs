//! Single calls, and the user who makes them.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use confine::Pid;
use confine::sys::host::push_input;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{PTracer, PidfdFlags, pidfd_open, set_ptracer};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::Feature;
use super::cause::Surroundings;
use super::errno::named;

/// Every feature that takes one call.
pub(super) fn examine(around: &Surroundings) -> Vec<Feature> {
    let opened = pidfd_open(Pid::of_self().into(), PidfdFlags::empty());
    let peer = UnixStream::pair().and_then(|(one, _)| confine::sys::peer_pidfd(one.as_fd()));
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    vec![
        plain_user(rustix::process::geteuid().as_raw()),
        pidfd(&opened.map(drop).map_err(io::Error::from), around),
        peer_pidfd(&peer.map(drop), around),
        // Takes back what was never given: only Yama knows the call.
        yama(&set_ptracer(PTracer::None).map_err(io::Error::from), scope.as_deref()),
        terminal_injection(pushed()),
    ]
}

fn plain_user(uid: u32) -> Feature {
    const NAME: &str = "plain-user";
    if uid == 0 {
        return Feature::missing(NAME, "this is root, whom little restrains")
            .advise("run it as the user whose files the agent may work on");
    }
    Feature::enforced(NAME, format!("not root (uid {uid})"))
}

fn pidfd(opened: &io::Result<()>, around: &Surroundings) -> Feature {
    const NAME: &str = "pidfd";
    match opened {
        Ok(()) => Feature::enforced(NAME, "a process was opened"),
        Err(e) => {
            let refusal = around.refusal("pidfd_open(2)", e);
            Feature::missing(NAME, refusal.reason).advise(refusal.advice)
        }
    }
}

fn peer_pidfd(opened: &io::Result<()>, around: &Surroundings) -> Feature {
    const NAME: &str = "peer-pidfd";
    match opened {
        Ok(()) => Feature::enforced(NAME, "the process at the other end of a socket was opened"),
        // The id and its start time are compared instead.
        Err(e) if Errno::from_io_error(e) == Some(Errno::NOPROTOOPT) => Feature::partial(
            NAME,
            "SO_PEERPIDFD: ENOPROTOOPT: callers are identified by SO_PEERCRED and start time",
        )
        .advise("Linux 6.5 or newer has it"),
        Err(e) => {
            let refusal = around.refusal("getsockopt(SO_PEERPIDFD)", e);
            Feature::missing(NAME, refusal.reason).advise(refusal.advice)
        }
    }
}

/// Yama keeps other programs of this user from tracing the keeper: it lies
/// outside of every sandbox (kernel documentation, "Yama").
fn yama(asked: &io::Result<()>, scope: Option<&str>) -> Feature {
    const NAME: &str = "yama";
    const SET: &str = "no tier needs it; to keep your other programs from tracing paddock, as root: sysctl \
         kernel.yama.ptrace_scope=1";
    let value = scope.and_then(|text| text.trim().parse::<u8>().ok());
    match (asked, value) {
        (Err(e), _) if Errno::from_io_error(e) == Some(Errno::INVAL) => {
            Feature::missing(NAME, "prctl(PR_SET_PTRACER): EINVAL: Yama is not in this kernel")
                .advise("no tier needs it; with it, other programs of yours cannot trace paddock")
        }
        (Err(e), _) => Feature::unknown(NAME, format!("prctl(PR_SET_PTRACER): {}", named(e))),
        (Ok(()), Some(0)) => {
            Feature::partial(NAME, "kernel.yama.ptrace_scope is 0: nothing is restricted")
                .advise(SET)
        }
        (Ok(()), Some(1)) => Feature::enforced(NAME, "kernel.yama.ptrace_scope is 1"),
        (Ok(()), Some(more)) => Feature::partial(
            NAME,
            format!(
                "kernel.yama.ptrace_scope is {more}: whether the watch may look at every \
                 descriptor, pidfd-getfd says"
            ),
        ),
        (Ok(()), None) => Feature::unknown(NAME, "it is there; its ptrace_scope cannot be read")
            .advise("no tier needs it"),
    }
}

/// What pushing input into a terminal of this process's own making is told.
fn pushed() -> io::Result<io::Result<()>> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let name = ptsname(&controller, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(&name, flags, rustix::fs::Mode::empty())?;
    Ok(push_input(terminal.as_fd()))
}

fn terminal_injection(pushed: io::Result<io::Result<()>>) -> Feature {
    const NAME: &str = "terminal-injection";
    const SET: &str =
        "no tier needs it; as root: sysctl dev.tty.legacy_tiocsti=0 (Linux 6.2 or newer)";
    match pushed {
        Err(e) => Feature::unknown(NAME, format!("no terminal to try it on ({})", named(&e))),
        Ok(Err(e)) if Errno::from_io_error(&e) == Some(Errno::IO) => {
            Feature::enforced(NAME, "ioctl(TIOCSTI): EIO: the kernel refuses it to everybody")
        }
        Ok(Err(e)) if Errno::from_io_error(&e) == Some(Errno::PERM) => Feature::partial(
            NAME,
            "ioctl(TIOCSTI) works on a program's own terminal; paddock gives nono a session without",
        )
        .advise(SET),
        Ok(Err(e)) => Feature::unknown(NAME, format!("ioctl(TIOCSTI): {}", named(&e))),
        Ok(Ok(())) => {
            Feature::missing(NAME, "ioctl(TIOCSTI) works on other terminals, too").advise(SET)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;
    use crate::doctor::feature::error;

    fn no(errno: Errno) -> io::Result<()> {
        Err(error(errno))
    }

    #[test]
    fn root_is_no_plain_user() {
        assert_eq!(plain_user(0).state, State::Missing);
        assert_eq!(plain_user(1000).state, State::Enforced);
    }

    #[test]
    fn what_is_told_about_pidfds() {
        let around = Surroundings::default();
        assert_eq!(pidfd(&Ok(()), &around).state, State::Enforced);
        assert_eq!(pidfd(&no(Errno::NOSYS), &around).state, State::Missing);
        assert_eq!(peer_pidfd(&Ok(()), &around).state, State::Enforced);
        assert_eq!(peer_pidfd(&no(Errno::NOPROTOOPT), &around).state, State::Partial);
        assert_eq!(peer_pidfd(&no(Errno::PERM), &around).state, State::Missing);
    }

    #[test]
    fn yama_is_asked_and_its_file_may_be_missing() {
        for (asked, scope, state) in [
            (Ok(()), Some("1\n"), State::Enforced),
            (Ok(()), Some("0\n"), State::Partial),
            (Ok(()), Some("2\n"), State::Partial),
            (Ok(()), None, State::Unknown),
            (no(Errno::INVAL), None, State::Missing),
            (no(Errno::PERM), Some("1\n"), State::Unknown),
        ] {
            assert_eq!(yama(&asked, scope).state, state, "{asked:?} {scope:?}");
        }
    }

    #[test]
    fn pushing_input_is_refused_or_not() {
        for (pushed, state) in [
            (Ok(no(Errno::IO)), State::Enforced),
            (Ok(no(Errno::PERM)), State::Partial),
            (Ok(no(Errno::NOTTY)), State::Unknown),
            (Ok(Ok(())), State::Missing),
            (Err(error(Errno::NOENT)), State::Unknown),
        ] {
            assert_eq!(terminal_injection(pushed).state, state);
        }
    }
}
