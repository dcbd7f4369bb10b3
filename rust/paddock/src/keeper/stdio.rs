//! What whoever has the terminal gets as its standard descriptors.
//!
//! Where all three are a terminal, nono puts a terminal of its own between. Where only
//! some are, it hands on what it has: and who holds the person's terminal can read what
//! they type to other programs, close it to them (`TIOCEXCL`) or change its keys. So a
//! pseudo-terminal stands in for each that is one, and the keeper carries the bytes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use confine::sys::own_process_group;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, isatty, tcgetattr,
    tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize,
};

/// For what the launch wrote last to be shown.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Between two looks whether the terminal is this job's again.
const IN_BACKGROUND: rustix::event::Timespec =
    rustix::event::Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The standard descriptors for a sandbox, and what stands between them and the
/// person's terminal, where something has to.
///
/// # Errors
/// When there is no pseudo-terminal or thread to be had.
pub(super) fn for_sandbox() -> io::Result<([OwnedFd; 3], Option<Relay>)> {
    let own = || -> io::Result<[OwnedFd; 3]> {
        Ok([
            stdin().try_clone_to_owned()?,
            stdout().try_clone_to_owned()?,
            stderr().try_clone_to_owned()?,
        ])
    };
    let own = own()?;
    let is_terminal = [0, 1, 2].map(|at: usize| isatty(&own[at]));
    if is_terminal.iter().all(|is| *is) || !is_terminal.iter().any(|is| *is) {
        return Ok((own, None));
    }
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let near = openpt(flags)?;
    grantpt(&near)?;
    unlockpt(&near)?;
    let far = ioctl_tiocgptpeer(&near, flags)?;
    // The person's own terminal echoes, makes lines of what is typed and signals of keys.
    let mut settings = tcgetattr(&far)?;
    settings.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
    settings.input_modes.remove(InputModes::ICRNL | InputModes::IXON);
    settings.output_modes.remove(OutputModes::OPOST);
    tcsetattr(&far, OptionalActions::Now, &settings)?;
    let end_of_file = settings.special_codes[SpecialCodeIndex::VEOF];

    // What is drawn goes to the first of them that is one, the person's input last.
    let shown = [1, 2, 0].into_iter().find(|at| is_terminal[*at]).unwrap_or(2);
    let relay = Relay::start(near, own[shown].try_clone()?, is_terminal[0].then_some(end_of_file))?;
    let [input, output, errors] = own;
    let stand_in =
        |at: usize, own: OwnedFd| if is_terminal[at] { far.try_clone() } else { Ok(own) };
    Ok(([stand_in(0, input)?, stand_in(1, output)?, stand_in(2, errors)?], Some(relay)))
}

/// Carries bytes between the person's terminal and the one that stands in for it.
pub(super) struct Relay {
    near: File,
    terminal: OwnedFd,
    /// Closed with the relay: nothing more is read from the person.
    _is_over: Option<OwnedFd>,
    /// Says that all is shown.
    shown: Receiver<()>,
}

impl Relay {
    fn start(near: OwnedFd, terminal: OwnedFd, end_of_file: Option<u8>) -> io::Result<Self> {
        let near = File::from(near);
        let (done, shown) = channel();
        let (mut from, mut to) = (near.try_clone()?, File::from(terminal.try_clone()?));
        std::thread::Builder::new().name("shown".into()).spawn(move || {
            let mut bytes = [0; 4096];
            // It fails once nothing inside has the other end open.
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                // What cannot be shown is taken all the same: whoever writes would wait.
                let _ = to.write_all(&bytes[..n]);
            }
            let _ = done.send(());
        })?;
        let mut is_over = None;
        if let Some(end_of_file) = end_of_file {
            let (over, end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            is_over = Some(end);
            let to = near.try_clone()?;
            let carry = move || carry_input(&over, to, end_of_file);
            std::thread::Builder::new().name("typed".into()).spawn(carry)?;
        }
        let relay = Self { near, terminal, _is_over: is_over, shown };
        relay.copy_size();
        Ok(relay)
    }

    /// Gives the one that stands in the size of the person's.
    pub(super) fn copy_size(&self) {
        if let Ok(size) = tcgetwinsize(&self.terminal) {
            let _ = tcsetwinsize(&self.near, size);
        }
    }

    /// Waits, but not for long, until what was written is shown.
    pub(super) fn finish(self) {
        let _ = self.shown.recv_timeout(LAST_WORDS);
    }
}

/// Reads what is typed while this job has the terminal, and nothing that is typed to
/// another: a read that waits would take it.
fn carry_input(over: &OwnedFd, mut to: File, end_of_file: u8) {
    let mut bytes = [0; 4096];
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(over.as_fd(), PollFlags::empty()),
            PollFd::from_borrowed_fd(stdin(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !ready[0].revents().is_empty() => return,
            Ok(_) => {}
        }
        // Another terminal than this session's is nobody's to wait for, nor is one whose
        // foreground is in an outer pid namespace.
        if tcgetpgrp(stdin()).is_ok_and(|foreground| Some(foreground.into()) != own_process_group())
        {
            let mut over = [PollFd::from_borrowed_fd(over.as_fd(), PollFlags::empty())];
            match poll(&mut over, Some(&IN_BACKGROUND)) {
                Ok(1..) => return,
                _ => continue,
            }
        }
        let carried = match rustix::io::read(stdin(), &mut bytes) {
            Ok(0) => to.write_all(&[end_of_file]),
            Ok(n) => to.write_all(&bytes[..n]),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        let is_hung_up = ready[1].revents().contains(PollFlags::HUP);
        if carried.is_err() || is_hung_up {
            return;
        }
    }
}
