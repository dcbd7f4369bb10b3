//! What the agent's processes hold open that leads outside.
//!
//! Nothing should: nono closes what it inherits, and the gate passes no
//! descriptor to an agent. This is the check that it is so.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use confine::proc::{Descriptor, DescriptorKind, descriptors};
use confine::{Pid, Reason, sys};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::roster::Entries;

/// Devices that hold nothing: null, zero, full, random, urandom; tty and ptmx.
const HARMLESS: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];
/// The handle may be on any thread (`pidfd_open(2)`, since Linux 6.9).
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(rustix::fs::OFlags::EXCL.bits());
/// An opaque process with a larger table takes too long to look through.
const MOST_COPIED: i32 = 65_536;
/// How often one number may have become another thing's while it is looked at.
const MOST_CHANGES: usize = 8;
/// Pseudo-terminals (`Documentation/admin-guide/devices.txt`).
const PSEUDO_TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// The first descriptor of a process that leads outside, as a reason. `task` is
/// a living task of it.
pub(super) fn check(task: Pid, entries: &Entries) -> Option<Reason> {
    let found = match descriptors(task) {
        Ok(held) => first_outside(task, &held, entries),
        Err(e) if confine::proc::is_gone(&e) => return None,
        // A process that is not dumpable shows no list to anybody, and may well
        // be honest: what keeps secrets makes itself so. Who stands above its
        // user namespace can copy each of its descriptors and look at the copy.
        Err(_) => opaque_leads_outside(task, entries),
    };
    match found {
        Ok(reason) => reason,
        // What ends meanwhile is gone.
        Err(e) if confine::proc::is_gone(&e) => None,
        // Without a user namespace between, nobody may look.
        Err(_) => isolates_network(entries).then_some(Reason::DescriptorsUnreadable),
    }
}

/// Whether two tasks of a process share one table of descriptors: a thread can
/// leave it (`CLONE_FILES` in `unshare(2)`), and then holds its own.
pub(super) fn share_a_table(one: Pid, other: Pid) -> bool {
    confine::sys::same_descriptor_table(one, other).unwrap_or(false)
}

fn first_outside(task: Pid, held: &[Descriptor], entries: &Entries) -> io::Result<Option<Reason>> {
    // One that cannot be read does not hide those after it.
    let mut unread = None;
    for descriptor in held {
        match look(task, descriptor, entries) {
            Ok(None) => {}
            // Closed meanwhile.
            Err(e) if is_closed(&e) => {}
            Err(e) => unread = unread.or(Some(e)),
            found => return found,
        }
    }
    unread.map_or(Ok(None), Err)
}

/// Where one descriptor of a process leads. Between two looks its number can have become
/// another thing's; then that is looked at.
fn look(task: Pid, held: &Descriptor, entries: &Entries) -> io::Result<Option<Reason>> {
    let place = Place { process: task, number: held.number };
    let mut held = held.clone();
    for _ in 0..MOST_CHANGES {
        match leads_outside(task, &held, place, entries) {
            Err(e) if !is_closed(&e) => {
                let now = confine::proc::descriptor(task, held.number)?;
                if now == held {
                    return Err(e);
                }
                held = now;
            }
            looked => return looked,
        }
    }
    Err(io::Error::other("it is another one at each look"))
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error())
}

fn opaque_leads_outside(task: Pid, entries: &Entries) -> io::Result<Option<Reason>> {
    let pidfd = pidfd_open(task.into(), PIDFD_THREAD)?;
    let limit = confine::proc::descriptor_limit(task)?;
    if limit > MOST_COPIED {
        return Err(io::Error::other("too many"));
    }
    let mut unread = None;
    for number in 0..limit {
        let copy = match pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()) {
            Ok(copy) => copy,
            Err(rustix::io::Errno::BADF) => continue,
            Err(e) => return Err(e.into()),
        };
        let place = Place { process: Pid::of_self(), number: copy.as_raw_fd() };
        let looked = confine::proc::descriptor(place.process, place.number)
            .and_then(|descriptor| leads_outside(task, &descriptor, place, entries));
        match looked {
            Ok(None) => {}
            Err(e) => unread = unread.or(Some(e)),
            found => return found,
        }
    }
    unread.map_or(Ok(None), Err)
}

/// Where a descriptor can be looked at: in its process, or as a copy here.
#[derive(Clone, Copy)]
struct Place {
    process: Pid,
    number: i32,
}

fn isolates_network(entries: &Entries) -> bool {
    entries.expectation.as_ref().is_some_and(|e| e.network_isolated)
}

/// What the person's own standard descriptors are: the client has them.
fn was_handed_over(held: &Descriptor) -> bool {
    use std::os::unix::ffi::OsStrExt;
    (0..3).any(|number| {
        std::fs::read_link(format!("/proc/self/fd/{number}"))
            .is_ok_and(|own| own.as_os_str().as_bytes() == held.target)
    })
}

fn leads_outside(
    task: Pid,
    held: &Descriptor,
    place: Place,
    entries: &Entries,
) -> io::Result<Option<Reason>> {
    let shown = || confine::escape::escape_short(&held.target, 120).to_string();
    let reason = match held.kind {
        DescriptorKind::Other => None,
        DescriptorKind::Device(number) => {
            let device = (rustix::fs::major(number), rustix::fs::minor(number));
            let is_harmless = HARMLESS.contains(&device) || PSEUDO_TERMINALS.contains(&device.0);
            (!is_harmless).then(|| Reason::Holds(format!("the device {}", shown())))
        }
        DescriptorKind::Directory => directory_outside(task, place, entries)?
            .then(|| Reason::Holds(format!("the directory {}", shown()))),
        DescriptorKind::Socket if !isolates_network(entries) => listening_port(place, entries)?
            .map(|port| Reason::Holds(format!("a socket that listens on the host's port {port}"))),
        DescriptorKind::Socket => socket_outside(place, entries)?
            .then(|| Reason::Holds(format!("a socket of another network, {}", shown()))),
    };
    Ok(reason.filter(|_| !was_handed_over(held)))
}

/// With a veil a directory from outside is on a mount that the process's own
/// mount table does not have (`proc_pid_mountinfo(5)`, first field).
fn directory_outside(task: Pid, place: Place, entries: &Entries) -> io::Result<bool> {
    let Some(init) = entries.init() else {
        return Ok(false);
    };
    let Place { process, number } = place;
    let info = std::fs::read(format!("/proc/{process}/fdinfo/{number}"))?;
    let mount = mount_of(&info).ok_or(io::ErrorKind::InvalidData)?;
    // A task that made a mount namespace of its own has the same mounts there
    // under new numbers, and what it opened before under those of the veil.
    let is_of = |process: Pid| -> io::Result<bool> {
        Ok(has_mount(&std::fs::read(format!("/proc/{process}/mountinfo"))?, mount))
    };
    Ok(!is_of(task)? && !is_of(init.pid)?)
}

/// The mount that an open file is on (`mnt_id` in `proc_pid_fdinfo(5)`). What follows
/// that line may hold names.
fn mount_of(fdinfo: &[u8]) -> Option<u64> {
    let value = fdinfo.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    str::from_utf8(value).ok()?.trim().parse().ok()
}

/// Whether a mount is in a mount table. Its paths are bytes: whoever mounts chooses
/// them, and the kernel escapes white space in them and nothing else.
fn has_mount(mountinfo: &[u8], mount: u64) -> bool {
    mountinfo.split(|b| *b == b'\n').any(|line| {
        let first = line.split(|b| *b == b' ').next().unwrap_or_default();
        str::from_utf8(first).is_ok_and(|first| first.parse() == Ok(mount))
    })
}

/// Without a network of its own the launch listens on the host's. Landlock sees
/// who binds a port, but not who listens without having bound, and gets one.
fn listening_port(place: Place, entries: &Entries) -> io::Result<Option<u16>> {
    let pidfd = pidfd_open(place.process.into(), PIDFD_THREAD)?;
    let socket = pidfd_getfd(&pidfd, place.number, PidfdGetfdFlags::empty())?;
    if !rustix::net::sockopt::socket_acceptconn(&socket)? {
        return Ok(None);
    }
    let address = std::net::SocketAddr::try_from(rustix::net::getsockname(&socket)?);
    let port = address.ok().map(|address| address.port());
    Ok(port.filter(|port| Some(*port) != entries.server_port))
}

/// A socket made in the host's network namespace. The kernel tells
/// a socket's namespace only to who owns that namespace: for the host's it
/// refuses, which is an answer, too.
fn socket_outside(place: Place, entries: &Entries) -> io::Result<bool> {
    let Some(expectation) = entries.expectation.as_ref().filter(|e| e.network_isolated) else {
        return Ok(false);
    };
    let pidfd = pidfd_open(place.process.into(), PIDFD_THREAD)?;
    let socket = pidfd_getfd(&pidfd, place.number, PidfdGetfdFlags::empty())?;
    match sys::socket_net_namespace(socket.as_fd()) {
        Ok(namespace) => {
            use std::os::unix::fs::MetadataExt;
            let found = std::fs::File::from(namespace).metadata()?.ino();
            Ok(found == expectation.host.network.0)
        }
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) => Ok(true),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 254:1 / / rw - ext4 /dev/vda rw\n\
        31 22 254:1 /caf\xe9 /caf\xe9\\04041 rw shared:7 - ext4 /dev/vda rw\n";

    #[test]
    fn a_mount_is_found_also_beside_names_that_are_no_text() {
        assert!(has_mount(TABLE, 22) && has_mount(TABLE, 31));
        for none in [1, 2, 3, 41, 254] {
            assert!(!has_mount(TABLE, none), "{none}");
        }
        assert_eq!(mount_of(b"pos:\t0\nflags:\t0100000\nmnt_id:\t31\nino:\t7\n"), Some(31));
        assert_eq!(mount_of(b"pos:\t0\nmnt_id:\tx\n"), None);
        assert_eq!(mount_of(b""), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_mount_or_none(bytes: Vec<u8>, mount: u64) {
            let _ = (mount_of(&bytes), has_mount(&bytes, mount));
            let info = [format!("mnt_id:\t{mount}\ninotify ").as_bytes(), &bytes].concat();
            proptest::prop_assert_eq!(mount_of(&info), Some(mount));
            let table = [&bytes[..], format!("\n{mount} 1 0:1 / ").as_bytes(), &bytes].concat();
            proptest::prop_assert!(has_mount(&table, mount));
        }
    }
}
