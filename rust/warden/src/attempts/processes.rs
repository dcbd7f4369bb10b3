//! Other processes, what a process may become, and its terminal.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;

use confine::{Pid, sys};
use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Signal, getpriority_process, getrlimit,
    pidfd_getfd, pidfd_open, pidfd_send_signal, prlimit, setpriority_process, test_kill_process,
    test_kill_process_group,
};
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use crate::AttemptKind;

pub(super) fn attempt(kind: &AttemptKind) -> Option<io::Result<()>> {
    Some(match kind {
        AttemptKind::Signal(pid) => test_kill_process((*pid).into()).map_err(Into::into),
        AttemptKind::SignalByPidfd(pid) => signal_by_pidfd(*pid),
        AttemptKind::SignalGroup(group) => {
            test_kill_process_group((*group).into()).map_err(Into::into)
        }
        AttemptKind::Trace(pid) => sys::attempt_trace(*pid),
        AttemptKind::ReadMemory(pid) => read_memory(*pid),
        AttemptKind::TakeDescriptor(pid) => take_descriptor(*pid),
        AttemptKind::ReadProcess(pid, file) => read_process(*pid, file),
        AttemptKind::Limit(pid) => limit(*pid),
        AttemptKind::Priority(pid) => getpriority_process(Some((*pid).into()))
            .and_then(|priority| setpriority_process(Some((*pid).into()), priority))
            .map_err(Into::into),
        AttemptKind::Affinity(pid) => sched_getaffinity(Some((*pid).into()))
            .and_then(|processors| sched_setaffinity(Some((*pid).into()), &processors))
            .map_err(Into::into),
        AttemptKind::NewPrivileges => match rustix::thread::no_new_privs() {
            Ok(false) => Ok(()),
            Ok(true) => Err(io::Error::from(rustix::io::Errno::PERM)),
            Err(error) => Err(error.into()),
        },
        AttemptKind::UserNamespace => sys::attempt_user_namespace(),
        AttemptKind::Keyring => sys::attempt_keyring(),
        AttemptKind::SharedMemory => sys::attempt_shared_memory(),
        AttemptKind::PushInput => terminal().and_then(|tty| sys::host::push_input(tty.as_fd())),
        AttemptKind::PasteIntoConsole => {
            terminal().and_then(|tty| sys::attempt_console_paste(tty.as_fd()))
        }
        AttemptKind::OpenTerminal => terminal().map(drop),
        _ => return None,
    })
}

fn terminal() -> io::Result<std::fs::File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// A signal that changes nothing where it arrives: the process runs.
fn signal_by_pidfd(pid: Pid) -> io::Result<()> {
    let process = pidfd_open(pid.into(), PidfdFlags::empty())?;
    Ok(pidfd_send_signal(process, Signal::CONT)?)
}

fn read_memory(pid: Pid) -> io::Result<()> {
    match sys::attempt_memory_read(pid, 4096) {
        // Nothing is mapped there, but the kernel let the read through.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::FAULT.raw_os_error()) => Ok(()),
        result => result,
    }
}

fn take_descriptor(pid: Pid) -> io::Result<()> {
    let process = pidfd_open(pid.into(), PidfdFlags::empty())?;
    match pidfd_getfd(process, 0, PidfdGetfdFlags::empty()) {
        // It is closed there, but the kernel let the look through.
        Ok(_) | Err(rustix::io::Errno::BADF) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What is only a link is followed; what is memory is opened and not read.
fn read_process(pid: Pid, file: &str) -> io::Result<()> {
    let path = format!("/proc/{pid}/{file}");
    match file {
        "exe" | "cwd" | "root" => std::fs::read_link(path).map(drop),
        "mem" => std::fs::File::open(path).map(drop),
        _ => std::fs::read(path).map(drop),
    }
}

fn limit(pid: Pid) -> io::Result<()> {
    let none = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    Ok(prlimit(Some(pid.into()), Resource::Core, none).map(drop)?)
}
