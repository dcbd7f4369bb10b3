//! The programs that a warden starts, and what becomes of them.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use confine::Pid;
use confine::sys::{Room, SpawnSetup, prepare_spawn};
use rustix::process::{Signal, WaitOptions, kill_process_group, wait};
use rustix::termios::tcgetpgrp;

use crate::{ChildLabel, ChildStatus, Program, ToKeeper};

/// Children by label.
#[derive(Default)]
pub(crate) struct Children {
    running: HashMap<ChildLabel, Running>,
}

struct Running {
    pid: Pid,
    /// It leads a process group of its own.
    leads_group: bool,
}

impl Children {
    /// Starts `program` and tells how that went.
    pub(crate) fn start(&mut self, program: Program, descriptors: Vec<OwnedFd>) -> ToKeeper {
        let label = program.label;
        match spawn(program, descriptors) {
            Ok(running) => {
                let pid = running.pid;
                self.running.insert(label, running);
                ToKeeper::Started { label, pid }
            }
            Err(error) => ToKeeper::StartFailed {
                label,
                not_found: error.kind() == io::ErrorKind::NotFound,
                error: error.to_string(),
            },
        }
    }

    /// Reaps every child that ended, orphans included, and tells of those that
    /// have a label.
    pub(crate) fn reap(&mut self) -> Vec<ToKeeper> {
        let mut messages = Vec::new();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            let pid = Pid::from(pid);
            let Some(label) = self.running.iter().find(|(_, r)| r.pid == pid).map(|(l, _)| *l)
            else {
                continue;
            };
            if status.stopped() {
                messages.push(ToKeeper::Suspended { label });
                continue;
            }
            self.running.remove(&label);
            let status = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ChildStatus::Exited(u8::try_from(code).unwrap_or(255)),
                (None, signal) => ChildStatus::Signaled(signal.unwrap_or(0)),
            };
            messages.push(ToKeeper::Ended { label, status });
        }
        messages
    }

    /// Signals a child; its whole process group where it leads one.
    pub(crate) fn signal(&self, label: ChildLabel, signal: i32) {
        let Some((running, signal)) = self.running.get(&label).zip(Signal::from_named_raw(signal))
        else {
            return;
        };
        // The child is unreaped while it is in the table, so its id is its own.
        let _ = if running.leads_group {
            kill_process_group(running.pid.into(), signal)
        } else {
            rustix::process::kill_process(running.pid.into(), signal)
        };
    }
}

fn spawn(program: Program, descriptors: Vec<OwnedFd>) -> io::Result<Running> {
    let Some((file, arguments)) = program.argv.split_first() else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    if let Some((checked, device, inode)) = program.expected {
        let found = confine::proc::FileId::of_path(&checked)?;
        if (found.device, found.inode) != (device, inode) {
            return Err(io::Error::other("it is not the file that was checked"));
        }
    }
    let mut command = Command::new(file);
    command.args(arguments).env_clear().envs(program.environment);
    command.current_dir(program.directory);
    if program.stdio {
        let [stdin, stdout, stderr] = <[OwnedFd; 3]>::try_from(descriptors)
            .map_err(|_| io::Error::other("the keeper sent no standard descriptors"))?;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
    } else {
        command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    }
    // A terminal of its own: be to the agent what a shell is to its job, so that
    // Ctrl-C and Ctrl-Z reach the agent and not the warden.
    let owns_terminal = program.label == ChildLabel::Agent && controls_its_terminal();
    // Without one the agent still gets a group of its own, for signals that the
    // keeper passes on; it reads no controlling terminal that could mind.
    let leads_group = program.label == ChildLabel::Agent;
    if leads_group {
        command.process_group(0);
    }
    let is_nono = matches!(program.label, ChildLabel::Server | ChildLabel::Client);
    let room = if is_nono { Room::Own } else { Room::Usual };
    prepare_spawn(
        &mut command,
        SpawnSetup {
            default_signals: true,
            foreground: owns_terminal,
            close_from: Some(3),
            room,
            ..SpawnSetup::default()
        },
    );
    let child = command.spawn()?;
    let pid = Pid::new(child.id().cast_signed()).ok_or_else(|| io::Error::other("no id"))?;
    Ok(Running { pid, leads_group })
}

/// Whether standard input is this session's controlling terminal: of no other
/// does the kernel tell the foreground group (`TIOCGPGRP`, `ioctl_tty(2)`). The
/// session itself cannot be asked for: behind the veil it may be led from
/// outside, and has no id here.
fn controls_its_terminal() -> bool {
    tcgetpgrp(rustix::stdio::stdin()).is_ok()
}
