//! What the agent's processes hold open that leads outside.
//!
//! Nothing should: nono closes what it inherits, and the gate passes no
//! descriptor to an agent. This is the check that it is so.

use std::os::fd::AsFd;

use confine::proc::{Descriptor, DescriptorKind, descriptors};
use confine::{Pid, Reason, sys};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::roster::Entries;

/// Devices that hold nothing: null, zero, full, random, urandom; tty and ptmx.
const HARMLESS: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];
/// The handle may be on any thread (`pidfd_open(2)`, since Linux 6.9).
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(rustix::fs::OFlags::EXCL.bits());
/// Pseudo-terminals (`Documentation/admin-guide/devices.txt`).
const PSEUDO_TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// The first descriptor of a process that leads outside, as a reason. `task` is
/// a living task of it.
pub(super) fn check(task: Pid, entries: &Entries) -> Option<Reason> {
    let held = match descriptors(task) {
        Ok(held) => held,
        // Undumpable processes show nothing where no user namespace lies
        // between; others that end meanwhile are gone.
        Err(e) if confine::proc::is_gone(&e) => return None,
        Err(_) => {
            let veiled = entries.init().is_some();
            return veiled.then_some(Reason::DescriptorsUnreadable);
        }
    };
    held.iter().find_map(|descriptor| leads_outside(task, descriptor, entries))
}

/// What the person's own standard descriptors are: the client has them.
fn was_handed_over(held: &Descriptor) -> bool {
    use std::os::unix::ffi::OsStrExt;
    (0..3).any(|number| {
        std::fs::read_link(format!("/proc/self/fd/{number}"))
            .is_ok_and(|own| own.as_os_str().as_bytes() == held.target)
    })
}

fn leads_outside(task: Pid, held: &Descriptor, entries: &Entries) -> Option<Reason> {
    if held.kind == DescriptorKind::Other || was_handed_over(held) {
        return None;
    }
    let shown = || confine::escape::escape_short(&held.target, 120).to_string();
    match held.kind {
        DescriptorKind::Other => None,
        DescriptorKind::Device(number) => {
            let device = (rustix::fs::major(number), rustix::fs::minor(number));
            let is_harmless = HARMLESS.contains(&device) || PSEUDO_TERMINALS.contains(&device.0);
            (!is_harmless).then(|| Reason::Holds(format!("the device {}", shown())))
        }
        DescriptorKind::Directory => directory_outside(task, held, entries)
            .then(|| Reason::Holds(format!("the directory {}", shown()))),
        DescriptorKind::Socket => socket_outside(task, held.number, entries)
            .then(|| Reason::Holds(format!("a socket of another network, {}", shown()))),
    }
}

/// With a veil a directory from outside is on a mount that the process's own
/// mount table does not have (`proc_pid_mountinfo(5)`, first field).
fn directory_outside(task: Pid, held: &Descriptor, entries: &Entries) -> bool {
    if entries.init().is_none() {
        return false;
    }
    let Ok(info) = std::fs::read_to_string(format!("/proc/{task}/fdinfo/{}", held.number)) else {
        return false;
    };
    let Some(mount) = info.lines().find_map(|line| line.strip_prefix("mnt_id:")) else {
        return false;
    };
    let Ok(mounts) = std::fs::read_to_string(format!("/proc/{task}/mountinfo")) else {
        return false;
    };
    let mount = mount.trim();
    !mounts.lines().any(|line| line.split(' ').next() == Some(mount))
}

/// A socket made in another network namespace than the pen's. The kernel tells
/// its owner's namespace only to who owns that namespace: for the host's it
/// refuses, which is an answer, too.
fn socket_outside(task: Pid, number: i32, entries: &Entries) -> bool {
    let Some(expectation) = entries.expectation.as_ref().filter(|e| e.network_isolated) else {
        return false;
    };
    let Ok(pidfd) = pidfd_open(task.into(), PIDFD_THREAD) else {
        return false;
    };
    let Ok(socket) = pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()) else {
        return false;
    };
    match sys::socket_net_namespace(socket.as_fd()) {
        Ok(namespace) => {
            use std::os::unix::fs::MetadataExt;
            let found = std::fs::File::from(namespace).metadata().map(|m| m.ino()).ok();
            found == Some(expectation.host.network.0)
        }
        Err(e) => e.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()),
    }
}
