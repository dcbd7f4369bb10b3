//! Namespaces, tried by a process that leaves those of the host.

use std::io;

use confine::sys::host::{
    Namespace, leave_namespace, mount_empty, mount_proc, raise_loopback, take_mounts_private,
};
use serde::{Deserialize, Serialize};

use super::Feature;
use super::advice::SEE;
use super::cause::Surroundings;
use super::errno::named;
use super::probe::{Probe, line_of};

/// The features here, in the order in which they are tried.
const NAMES: [&str; 7] = [
    "user-namespace",
    "mount-namespace",
    "network-namespace",
    "ipc-namespace",
    "uts-namespace",
    "pid-namespace",
    "proc-in-namespace",
];

/// What came of one of them: the last call that was made, and its error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) call: String,
    pub(super) errno: Option<i32>,
}

impl Step {
    fn of(name: &str, calls: &[(&str, &dyn Fn() -> io::Result<()>)]) -> Self {
        let mut step = Self { name: name.into(), call: String::new(), errno: None };
        for (call, make) in calls {
            (*call).clone_into(&mut step.call);
            if let Err(e) = make() {
                // An error that has no number is none of the kernel's.
                step.errno = Some(e.raw_os_error().unwrap_or(0));
                break;
            }
        }
        step
    }

    fn holds(&self) -> bool {
        self.errno.is_none()
    }
}

/// Leaves one namespace after the other. For a process that does nothing else.
pub(super) fn try_each() -> Vec<Step> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let map = move || {
        // Without it the group map may not be written (user_namespaces(7)).
        std::fs::write("/proc/self/setgroups", "deny")?;
        // As its root, so that what it starts has its capabilities, too
        // (capabilities(7), "Capabilities and execution of programs by root").
        std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
    };
    let leave = |kind| move || leave_namespace(kind);
    let user = Step::of(
        "user-namespace",
        &[("unshare(CLONE_NEWUSER)", &leave(Namespace::User)), ("write(/proc/self/uid_map)", &map)],
    );
    if !user.holds() {
        return vec![user];
    }
    let mount = Step::of(
        "mount-namespace",
        &[
            ("unshare(CLONE_NEWNS)", &leave(Namespace::Mount)),
            ("mount(MS_PRIVATE)", &take_mounts_private),
            ("mount(tmpfs)", &|| mount_empty(c"/tmp")),
        ],
    );
    let network = Step::of(
        "network-namespace",
        &[
            ("unshare(CLONE_NEWNET)", &leave(Namespace::Network)),
            ("ioctl(SIOCSIFFLAGS)", &raise_loopback),
        ],
    );
    let ipc = Step::of("ipc-namespace", &[("unshare(CLONE_NEWIPC)", &leave(Namespace::Ipc))]);
    let uts = Step::of("uts-namespace", &[("unshare(CLONE_NEWUTS)", &leave(Namespace::Uts))]);
    let mut pid = Step::of("pid-namespace", &[("unshare(CLONE_NEWPID)", &leave(Namespace::Pid))]);
    let mut inside = Vec::new();
    if pid.holds() {
        // The link leads to this program, whatever was mounted over its path.
        let line = line_of(Probe::FirstProcess.command("/proc/self/exe".as_ref()));
        match line.and_then(|line| Ok(serde_json::from_str::<Vec<Step>>(&line)?)) {
            Ok(steps) => inside = steps,
            Err(e) => {
                pid.call = "clone(2)".into();
                pid.errno = Some(e.raw_os_error().unwrap_or(0));
            }
        }
    }
    // The first process told whether it is the first.
    let is_first = inside.iter().position(|step| step.name == "pid-namespace");
    if let Some(place) = is_first {
        pid = inside.remove(place);
    }
    let mut steps = vec![user, mount, network, ipc, uts, pid];
    steps.extend(inside);
    steps
}

/// What the first process of a pid namespace can do.
pub(super) fn try_as_first_process() -> Vec<Step> {
    let is_first = || match rustix::process::getpid().as_raw_nonzero().get() {
        1 => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    };
    vec![
        Step::of("pid-namespace", &[("getpid(2)", &is_first)]),
        Step::of("proc-in-namespace", &[("mount(proc)", &|| mount_proc(c"/proc"))]),
    ]
}

/// Every feature of namespaces, from what such a process told.
pub(super) fn features(told: &io::Result<String>, around: &Surroundings) -> Vec<Feature> {
    let steps: Vec<Step> = match told {
        Ok(line) => match serde_json::from_str(line) {
            Ok(steps) => steps,
            Err(_) => return all_unknown("the process that was to try it told nothing"),
        },
        Err(e) => {
            return all_unknown(&format!("the process that was to try it failed ({})", named(e)));
        }
    };
    NAMES.iter().map(|name| feature(name, &steps, around)).collect()
}

fn all_unknown(reason: &str) -> Vec<Feature> {
    NAMES.iter().map(|name| Feature::unknown(name, reason)).collect()
}

fn feature(name: &str, steps: &[Step], around: &Surroundings) -> Feature {
    let find = |name: &str| steps.iter().find(|step| step.name == name);
    let Some(step) = find(name) else {
        let missing = ["user-namespace", "pid-namespace"]
            .into_iter()
            .find(|needed| find(needed).is_none_or(|step| !step.holds()));
        return match missing {
            Some(needed) => Feature::missing(name, format!("it takes {needed}, which is missing"))
                .advise(format!("{SEE}{needed}")),
            None => Feature::unknown(name, "the process that was to try it did not tell"),
        };
    };
    let Some(errno) = step.errno else {
        return Feature::enforced(name, does(name));
    };
    if errno == 0 {
        return Feature::unknown(name, format!("{} did not do what it does elsewhere", step.call));
    }
    let error = io::Error::from_raw_os_error(errno);
    // A container covers parts of /proc, and then no other may be mounted.
    if name == "proc-in-namespace" && errno == rustix::io::Errno::PERM.raw_os_error() {
        return Feature::missing(
            name,
            "mount(proc): EPERM: parts of /proc are covered here, as in a container",
        )
        .advise(
            "docker run --security-opt systempaths=unconfined, or podman run \
             --security-opt unmask=ALL",
        );
    }
    let refusal = around.namespace_refusal(&step.call, &error);
    Feature::missing(name, refusal.reason).advise(refusal.advice)
}

/// What was done in it.
fn does(name: &str) -> &'static str {
    match name {
        "user-namespace" => "made, and this user's ids mapped",
        "mount-namespace" => "made, and a file system mounted in it",
        "network-namespace" => "made, and its loopback brought up",
        "pid-namespace" => "made, and a process was its first",
        "proc-in-namespace" => "a new /proc was mounted",
        _ => "made",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[allow(clippy::unnecessary_wraps)] // what it stands for can fail
    fn told(steps: &[(&str, &str, Option<i32>)]) -> io::Result<String> {
        let steps: Vec<Step> = steps
            .iter()
            .map(|(name, call, errno)| Step {
                name: (*name).into(),
                call: (*call).into(),
                errno: *errno,
            })
            .collect();
        Ok(serde_json::to_string(&steps).unwrap())
    }

    fn states(told: &io::Result<String>) -> Vec<State> {
        features(told, &Surroundings::default()).iter().map(|f| f.state).collect()
    }

    const EPERM: i32 = 1;

    #[test]
    fn what_holds_is_enforced_and_what_was_not_told_is_not() {
        let all: Vec<_> = NAMES.iter().map(|name| (*name, "x", None)).collect();
        assert_eq!(states(&told(&all)), [State::Enforced; 7]);
        assert_eq!(states(&told(&all[..6]))[6], State::Unknown);
        assert_eq!(states(&Ok("{".into())), [State::Unknown; 7]);
        assert_eq!(states(&Err(io::ErrorKind::TimedOut.into())), [State::Unknown; 7]);
        assert_eq!(states(&told(&[])), [State::Missing; 7], "nothing without a user namespace");
    }

    #[test]
    fn without_a_user_namespace_there_is_none() {
        let refused = told(&[("user-namespace", "unshare(CLONE_NEWUSER)", Some(EPERM))]);
        let around = Surroundings { unprivileged_userns_clone: Some(0), ..Surroundings::default() };
        let found = features(&refused, &around);
        assert_eq!(
            found[0].reason,
            "unshare(CLONE_NEWUSER): EPERM: kernel.unprivileged_userns_clone is 0"
        );
        for feature in &found {
            assert_eq!(feature.state, State::Missing);
        }
        assert_eq!(found[1].reason, "it takes user-namespace, which is missing");
        assert_eq!(found[1].advice.as_deref(), Some("see user-namespace"));
    }

    #[test]
    fn a_call_that_is_refused_inside_is_named() {
        let mut steps: Vec<_> = NAMES.iter().map(|name| (*name, "x", None)).collect();
        steps[1] = ("mount-namespace", "mount(MS_PRIVATE)", Some(13));
        steps[6] = ("proc-in-namespace", "mount(proc)", Some(EPERM));
        let around = Surroundings { apparmor_restricts_userns: Some(1), ..Surroundings::default() };
        let found = features(&told(&steps), &around);
        assert!(found[1].reason.starts_with("mount(MS_PRIVATE): EACCES: AppArmor refuses"));
        assert!(found[6].reason.contains("parts of /proc are covered"));
        assert!(found[6].advice.as_ref().unwrap().contains("systempaths=unconfined"));
        steps[5] = ("pid-namespace", "getpid(2)", Some(0));
        assert_eq!(states(&told(&steps))[5], State::Unknown);
    }
}
