//! The person's terminal: remembered before anything can change it, given back
//! at the end, also when what changed it was killed.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use confine::sys::own_process_group;
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use signal_hook::consts::{
    SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

use super::events::Event;
use crate::job::is_job;

/// Leaves what a full-screen program may have left on: mouse reports, focus
/// reports, bracketed paste, keyboard protocols, the alternate screen, a hidden
/// cursor, colours. Leaving the alternate screen moves the cursor to where it
/// was last saved, also where there is none to leave: so it is saved first.
const RESET: &[u8] = b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\
    \x1b[<u\x1b[>4;0m\x1b7\x1b[?1049l\x1b[?25h\x1b[0m";

/// The terminal's settings at the start, where there is one.
pub(super) struct Terminal {
    settings: Option<Termios>,
    /// All three standard descriptors are terminals: then nono gives the client
    /// a terminal of its own and takes this one into raw mode.
    is_relayed: bool,
}

impl Terminal {
    pub(super) fn remember() -> Self {
        Self {
            settings: if isatty(stdin()) { tcgetattr(stdin()).ok() } else { None },
            is_relayed: isatty(stdin()) && isatty(stdout()) && isatty(stderr()),
        }
    }

    /// Puts the settings back. Where they are as they were nothing is written:
    /// who took the terminal has given it back properly.
    pub(super) fn restore(&self) {
        let Some(settings) = &self.settings else {
            return;
        };
        let Ok(now) = tcgetattr(stdin()) else { return };
        if same_modes(&now, settings) {
            return;
        }
        let _ = tcsetattr(stdin(), OptionalActions::Now, settings);
        if self.is_relayed {
            let _ = std::io::stdout().write_all(RESET).and_then(|()| std::io::stdout().flush());
        }
    }

    /// The settings as they are now, to come back to after a suspension.
    pub(super) fn current(&self) -> Option<Termios> {
        self.settings.as_ref().and_then(|_| tcgetattr(stdin()).ok())
    }
}

/// Puts settings in force that [`Terminal::current`] told of.
pub(super) fn set(settings: &Termios) {
    let _ = tcsetattr(stdin(), OptionalActions::Now, settings);
}

fn same_modes(a: &Termios, b: &Termios) -> bool {
    a.input_modes == b.input_modes
        && a.output_modes == b.output_modes
        && a.local_modes == b.local_modes
        && a.control_modes == b.control_modes
}

/// The next SIGTSTP is the keeper's own, sent to its job.
static OWN_STOP: AtomicBool = AtomicBool::new(false);

/// Whether a shell controls this process as a job on its terminal: who stops it
/// can continue it.
pub(super) fn has_job_control() -> bool {
    let foreground = rustix::termios::tcgetpgrp(stdin()).ok().map(confine::Pid::from);
    // In an outer pid namespace both may be without a number: then it is not known.
    isatty(stdin()) && foreground.is_some() && foreground == own_process_group() && is_job()
}

/// Announces a SIGTSTP that is no request to suspend.
pub(super) fn expect_own_stop() {
    OWN_STOP.store(true, Ordering::SeqCst);
}

/// Turns signals into events, from a thread of its own.
pub(super) fn forward_signals(events: Sender<Event>) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([
        SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
    ])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGTSTP && OWN_STOP.swap(false, Ordering::SeqCst) {
                continue;
            }
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
