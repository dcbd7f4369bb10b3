//! Who refuses: names for what a host does beside its kernel. Every file here may
//! be missing, and then says nothing.

use std::io;
use std::path::Path;

use confine::escape::escape_short;
use rustix::io::Errno;

use super::errno::named;

/// What is around this process that may refuse a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// The kind of container, by the marks that each leaves.
    pub(super) container: Option<String>,
    /// Windows Subsystem for Linux, and which.
    pub(super) wsl: Option<u8>,
    /// A seccomp filter is on this process already (`Seccomp: 2`,
    /// `proc_pid_status(5)`).
    pub(super) filtered: bool,
    /// The same of the first process: a container or WSL filters that one, too,
    /// and a sandbox around this shell does not.
    pub(super) first_filtered: Option<bool>,
    /// `user.max_user_namespaces` (`namespaces(7)`).
    pub(super) most_user_namespaces: Option<u64>,
    /// Debian's `kernel.unprivileged_userns_clone`.
    pub(super) unprivileged_userns_clone: Option<u64>,
    /// Ubuntu's `kernel.apparmor_restrict_unprivileged_userns`.
    pub(super) apparmor_restricts_userns: Option<u64>,
    /// The label that a security module gave this process (`proc_pid_attr(5)`).
    pub(super) label: Option<String>,
}

/// A call that was refused: who did so, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: String,
    pub(super) advice: String,
}

impl Surroundings {
    /// Those of this process, on the file system at `root`.
    pub(super) fn look(root: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
        let number = |path: &str| read(path)?.trim().parse().ok();
        let exists = |path: &str| root.join(path).exists();
        let release = read("proc/sys/kernel/osrelease").unwrap_or_default();
        // Version 1 is no Linux and capitalises its name.
        let wsl = if release.contains("Microsoft") {
            Some(1)
        } else {
            release.contains("microsoft").then_some(2)
        };
        let container = if exists(".dockerenv") {
            Some("docker".to_owned())
        } else if exists("run/.containerenv") {
            Some("podman".to_owned())
        } else {
            // https://systemd.io/CONTAINER_INTERFACE
            read("run/systemd/container")
                .map(|kind| escape_short(kind.trim().as_bytes(), 40).to_string())
        };
        let is_filtered = |path: &str| Some(read(path)?.lines().any(|line| line == "Seccomp:\t2"));
        let label = read("proc/self/attr/current")
            .map(|label| label.trim_matches(['\n', '\0']).to_owned())
            .map(|label| escape_short(label.as_bytes(), 60).to_string())
            .filter(|label| !label.is_empty() && label != "unconfined");
        Self {
            container,
            wsl,
            filtered: is_filtered("proc/self/status").unwrap_or_default(),
            first_filtered: is_filtered("proc/1/status"),
            most_user_namespaces: number("proc/sys/user/max_user_namespaces"),
            unprivileged_userns_clone: number("proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restricts_userns: number(
                "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            ),
            label,
        }
    }

    /// Whether this process has a filter that the whole container, or WSL, has not.
    pub(super) fn is_in_inner_sandbox(&self) -> bool {
        self.filtered && self.first_filtered == Some(false)
    }

    /// What to tell a container so that it lets a call through.
    fn container_setting(&self) -> String {
        match self.container.as_deref() {
            Some("docker") => "docker run --security-opt seccomp=unconfined \
                --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
                .into(),
            Some("podman") => "podman run --security-opt seccomp=unconfined \
                --security-opt label=disable --security-opt unmask=ALL"
                .into(),
            Some(kind) => format!("allow the call in the settings of the container ({kind})"),
            None => "allow the call in what started this shell (a container or sandbox)".into(),
        }
    }

    /// Who refused `call`, which failed with `error`, and what to change.
    pub(super) fn refusal(&self, call: &str, error: &io::Error) -> Refusal {
        let told = |by: &str, advice: String| Refusal {
            reason: format!("{call}: {}{by}", named(error)),
            advice,
        };
        match Errno::from_io_error(error) {
            Some(Errno::NOSPC | Errno::USERS) => {
                let (by, advice) = self.limit();
                told(&by, advice.into())
            }
            Some(Errno::PERM | Errno::ACCESS) if self.is_in_inner_sandbox() => told(
                ": refused by a sandbox around this shell",
                "start paddock outside of that sandbox".into(),
            ),
            Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS)
                if self.container.is_some() =>
            {
                let kind = self.container.as_deref().unwrap_or_default();
                // Without a filter it is its capabilities or security module, or
                // something else altogether.
                let perhaps = if self.filtered { "" } else { ", perhaps" };
                told(
                    &format!(": refused{perhaps} by the container ({kind})"),
                    self.container_setting(),
                )
            }
            Some(Errno::NOSYS | Errno::PERM | Errno::ACCESS) if self.wsl == Some(1) => told(
                ": WSL 1 has no Linux kernel",
                "change to WSL 2, in Windows: wsl --set-version DISTRIBUTION 2".into(),
            ),
            Some(Errno::PERM | Errno::ACCESS) if self.filtered => told(
                ": refused by a seccomp filter that this process was started with",
                self.container_setting(),
            ),
            Some(Errno::NOSYS) if self.filtered => told(
                ": not in this kernel, or refused by a seccomp filter that this process was \
                 started with",
                self.container_setting(),
            ),
            Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
                told(": not in this kernel", "use a kernel that was built with it".into())
            }
            _ => told("", "see what on this host forbids it".into()),
        }
    }

    /// Which limit on user namespaces is reached: that of this one or of one that
    /// it lies in, for each is counted (`namespaces(7)`, "The /proc/sys/user
    /// directory").
    fn limit(&self) -> (String, &'static str) {
        /// Nobody has that many: a limit above is not the one that is reached.
        const PLENTY: u64 = 1000;
        const SET: &str = "as root: sysctl user.max_user_namespaces=10000";
        match self.most_user_namespaces {
            Some(most) if most < PLENTY => {
                (format!(": a limit is reached (user.max_user_namespaces is {most})"), SET)
            }
            Some(_) => (
                ": a limit is reached, and not user.max_user_namespaces of this namespace: one \
                 around it, of a container or sandbox"
                    .into(),
                "start paddock outside of what set it (bwrap --disable-userns does), or raise it \
                 there, as root: sysctl user.max_user_namespaces=10000",
            ),
            None => (": a limit is reached".into(), SET),
        }
    }

    /// The same of a call that has to do with user namespaces, for which there
    /// are switches.
    pub(super) fn namespace_refusal(&self, call: &str, error: &io::Error) -> Refusal {
        let told = |by: &str, advice: &str| Refusal {
            reason: format!("{call}: {}: {by}", named(error)),
            advice: advice.into(),
        };
        let is_denied = matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::ACCESS));
        match self {
            Self { unprivileged_userns_clone: Some(0), .. } if is_denied => told(
                "kernel.unprivileged_userns_clone is 0",
                "as root: sysctl kernel.unprivileged_userns_clone=1",
            ),
            Self { apparmor_restricts_userns: Some(1..), .. } if is_denied => told(
                "AppArmor refuses (kernel.apparmor_restrict_unprivileged_userns is 1)",
                "as root: an AppArmor profile with `userns,` for bwrap and nono, or \
                 sysctl kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            Self { label: Some(label), container: None, filtered: false, .. } if is_denied => told(
                &format!("a security module refuses, perhaps (this process is {label})"),
                "allow user namespaces in the policy of that label",
            ),
            _ => self.refusal(call, error),
        }
    }
}

#[cfg(test)]
mod tests;
