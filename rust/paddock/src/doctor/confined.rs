//! Whether this kernel answers what the verifier asks: which task is in which
//! domain, and what of a process that lets nobody look into it.

use std::io;
use std::path::Path;

use confine::Pid;
use confine::proc::TaskFiles;
use confine::sys::host::{Rights, within_landlock};
use confine::sys::{may_read, same_descriptor_table};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::Feature;
use super::cause::Surroundings;
use super::errno::named;
use super::probe::Running;

/// The features that take another process; `other` is one.
pub(super) fn examine(
    other: &mut io::Result<Running>,
    program: &Path,
    around: &Surroundings,
) -> Vec<Feature> {
    let other = match other {
        Ok(other) => other,
        Err(e) => {
            let reason = format!("another process could not be started ({})", named(e));
            return ["witness", "pidfd-getfd", "kcmp", "proc"]
                .map(|name| Feature::unknown(name, &*reason))
                .into();
        }
    };
    let Ok(outside) = other.pid() else { return Vec::new() };
    // From a domain with a process in it and one outside.
    let asked = within_landlock(Rights::READ_DIRECTORY, || {
        let inside = Running::another(program)?;
        Ok((may_read(inside.pid()?), may_read(outside)))
    });
    let witness = witness(&may_read(outside), asked.and_then(|answers| answers), around);
    let copied = pidfd_open(outside.into(), PidfdFlags::empty())
        .and_then(|pidfd| pidfd_getfd(pidfd, 0, PidfdGetfdFlags::empty()))
        .map(drop)
        .map_err(io::Error::from);
    let compared = same_descriptor_table(Pid::of_self(), outside);
    let read = other
        .become_opaque()
        .and_then(|()| TaskFiles::open(outside, outside)?.status(&mut Vec::new()).map(drop));
    vec![witness, getfd(&copied, around), kcmp(&compared, around), proc(&read)]
}

type Answers = (io::Result<()>, io::Result<()>);

fn witness(control: &io::Result<()>, asked: io::Result<Answers>, around: &Surroundings) -> Feature {
    const NAME: &str = "witness";
    const CALL: &str = "get_robust_list(2)";
    let (inside, outside) = match asked {
        Ok(answers) => answers,
        Err(e) => return Feature::unknown(NAME, format!("it could not be tried ({})", named(&e))),
    };
    if let Err(e) = control {
        let refusal = around.refusal(CALL, e);
        return Feature::missing(NAME, refusal.reason).advise(refusal.advice);
    }
    let is_refused = outside.as_ref().err().and_then(Errno::from_io_error) == Some(Errno::PERM);
    match (inside, is_refused) {
        (Ok(()), true) => Feature::enforced(NAME, "a task in a domain was told from one outside"),
        (Err(e), _) => {
            let refusal = around.refusal(CALL, &e);
            Feature::missing(NAME, refusal.reason).advise(refusal.advice)
        }
        (Ok(()), false) => {
            Feature::missing(NAME, "a task outside of a domain passes for one inside")
                .advise("use a kernel whose Landlock restricts ptrace(2)")
        }
    }
}

fn getfd(copied: &io::Result<()>, around: &Surroundings) -> Feature {
    const NAME: &str = "pidfd-getfd";
    match copied {
        Ok(()) => Feature::enforced(NAME, "a descriptor of another process was copied"),
        // Descriptor 0 is closed there, but it was looked at.
        Err(e) if Errno::from_io_error(e) == Some(Errno::BADF) => {
            Feature::enforced(NAME, "another process's descriptors can be looked at")
        }
        // In a user namespace of this user's own it may be let through all the
        // same, and there the watch makes it (`ptrace(2)`, "Ptrace access mode
        // checking").
        Err(e) if Errno::from_io_error(e) == Some(Errno::PERM) => {
            Feature::partial(NAME, around.refusal("pidfd_getfd(2)", e).reason).advise(
                "where kernel.yama.ptrace_scope is 2 or 3, as root: sysctl \
                 kernel.yama.ptrace_scope=1",
            )
        }
        Err(e) => {
            let refusal = around.refusal("pidfd_getfd(2)", e);
            Feature::missing(NAME, refusal.reason).advise(refusal.advice)
        }
    }
}

fn kcmp(compared: &io::Result<bool>, around: &Surroundings) -> Feature {
    const NAME: &str = "kcmp";
    match compared {
        Ok(false) => Feature::enforced(NAME, "two processes' descriptor tables were compared"),
        Ok(true) => Feature::missing(NAME, "two processes pass for one with one table")
            .advise("no tier needs it"),
        // Every thread is then looked at as if it had a table of its own.
        Err(e) => Feature::partial(NAME, around.refusal("kcmp(2)", e).reason)
            .advise("no tier needs it; the watch takes longer without it"),
    }
}

/// The verifier reads `/proc` of wardens and supervisors, which are not dumpable:
/// the mount option `hidepid` hides them (`proc(5)`).
fn proc(read: &io::Result<()>) -> Feature {
    const NAME: &str = "proc";
    // Lossy: a path of another mount that is no text hides nothing of this one's.
    let mounts = std::fs::read("/proc/self/mounts");
    let mounts = mounts.map(|mounts| String::from_utf8_lossy(&mounts).into_owned());
    let options = options_of("/proc", &mounts);
    let mounted = options.map_or_else(String::new, |options| {
        format!(" (mounted {})", confine::escape::escape_short(options.as_bytes(), 80))
    });
    match read {
        Ok(()) => Feature::enforced(
            NAME,
            format!("the status of a process that is not dumpable was read{mounted}"),
        ),
        Err(e) => Feature::missing(
            NAME,
            format!("a process that is not dumpable cannot be seen: {}{mounted}", named(e)),
        )
        .advise("as root: mount -o remount,hidepid=off /proc"),
    }
}

/// The options of the last mount on that path (`proc_pid_mounts(5)`).
fn options_of(path: &str, mounts: &io::Result<String>) -> Option<String> {
    let mut options = None;
    for line in mounts.as_ref().ok()?.lines() {
        let mut fields = line.split(' ').skip(1);
        if fields.next() == Some(path) {
            options = fields.nth(1).map(str::to_owned);
        }
    }
    options
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
    fn a_witness_tells_inside_from_outside() {
        for (control, inside, outside, state) in [
            (Ok(()), Ok(()), no(Errno::PERM), State::Enforced),
            (Ok(()), Ok(()), Ok(()), State::Missing),
            (Ok(()), no(Errno::PERM), no(Errno::PERM), State::Missing),
            (no(Errno::NOSYS), no(Errno::NOSYS), no(Errno::NOSYS), State::Missing),
            (Ok(()), Ok(()), no(Errno::NOSYS), State::Missing),
        ] {
            let feature = witness(&control, Ok((inside, outside)), &Surroundings::default());
            assert_eq!(feature.state, state, "{feature:?}");
        }
        let failed = witness(&Ok(()), Err(error(Errno::INVAL)), &Surroundings::default());
        assert_eq!(failed.state, State::Unknown);
    }

    #[test]
    fn what_may_not_be_looked_at_is_said() {
        let around = Surroundings::default();
        assert_eq!(getfd(&Ok(()), &around).state, State::Enforced);
        assert_eq!(getfd(&no(Errno::BADF), &around).state, State::Enforced);
        let refused = getfd(&no(Errno::PERM), &around);
        assert_eq!(refused.state, State::Partial);
        assert!(refused.advice.unwrap().contains("kernel.yama.ptrace_scope=1"));
        assert_eq!(getfd(&no(Errno::NOSYS), &around).state, State::Missing);
        assert_eq!(kcmp(&Ok(false), &around).state, State::Enforced);
        assert_eq!(kcmp(&Ok(true), &around).state, State::Missing);
        assert_eq!(kcmp(&Err(error(Errno::NOSYS)), &around).state, State::Partial);
        assert_eq!(proc(&Ok(())).state, State::Enforced);
        let hidden = proc(&no(Errno::NOENT));
        assert_eq!(hidden.state, State::Missing);
        assert!(hidden.reason.contains("ENOENT"), "{}", hidden.reason);
    }

    #[test]
    fn the_last_mount_on_a_path_counts() {
        let mounts = "proc /proc proc rw,relatime 0 0\n/dev/a / ext4 rw 0 0\n\
            proc /proc proc rw,hidepid=invisible 0 0\n";
        assert_eq!(
            options_of("/proc", &Ok(mounts.into())).as_deref(),
            Some("rw,hidepid=invisible")
        );
        assert_eq!(options_of("/proc", &Ok(String::new())), None);
        assert_eq!(options_of("/proc", &Err(io::ErrorKind::NotFound.into())), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_options_or_none(mounts: String) {
            let _ = options_of("/proc", &Ok(mounts.clone()));
            let last = format!("{mounts}\nproc /proc proc rw,hidepid=2 0 0\n");
            let found = options_of("/proc", &Ok(last));
            proptest::prop_assert_eq!(found.as_deref(), Some("rw,hidepid=2"));
        }
    }
}
