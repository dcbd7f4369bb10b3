//! Signals to the keeper, and Ctrl-Z.
//!
//! A suspended launch does not run on unwatched: everything in it is stopped
//! before the keeper stops, and continued after it is back.

use std::time::{Duration, Instant};

use confine::pidfd::PidFd;
use confine::proc::{State, TaskFiles, is_gone, tasks_of};
use confine::{Layer, Pid};
use rustix::process::Signal;
use signal_hook::consts::{
    SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

use super::{Keeper, stop};
use crate::error::Error;
use warden::{ChildLabel, ToWarden};

/// Rounds to stop everything in; each finds what was born during the last.
const MOST_ROUNDS: usize = 100;

impl Keeper<'_> {
    pub(super) fn on_signal(&mut self, signal: i32) -> Result<(), Error> {
        match signal {
            SIGHUP | SIGTERM => {
                let by = if signal == SIGHUP { "SIGHUP" } else { "SIGTERM" };
                let status = u8::try_from(128 + signal).unwrap_or(crate::error::status::FAILED);
                Err(Error::Stopped { by: by.into(), status })
            }
            // The terminal's own keys, while the agent has no terminal of its
            // own to get them from.
            SIGINT | SIGQUIT | SIGUSR1 | SIGUSR2 => {
                if self.foreground.is_none() {
                    // Nobody is there yet whom it could be passed on to.
                    let status = u8::try_from(128 + signal).unwrap_or(crate::error::status::FAILED);
                    return Err(Error::Stopped { by: "the keyboard".into(), status });
                }
                let message = ToWarden::Signal { label: ChildLabel::Agent, signal };
                self.tell(self.plan.terminal_layer(), &message, &[])
            }
            SIGTSTP => {
                self.suspend();
                Ok(())
            }
            SIGWINCH => {
                self.tell_of_window_size();
                Ok(())
            }
            SIGCHLD => {
                stop::reap_children();
                self.outermost_lives()
            }
            _ => Ok(()),
        }
    }

    /// Without its nono a pen goes on, and so does all that is in it.
    fn outermost_lives(&self) -> Result<(), Error> {
        let entries = self.roster.entries();
        let outermost = match (entries.veil.first(), entries.supervisors.get(&Layer::Pen)) {
            (Some(veil), _) => Some((*veil, "veil")),
            (None, Some(supervisor)) => Some((*supervisor, "pen's nono")),
            (None, None) => None,
        };
        match outermost.map(|(process, name)| (PidFd::open_exact(process), name)) {
            Some((Err(e), name)) if confine::proc::is_gone(&e) => {
                Err(Error::Unconfined { what: format!("the {name} ended") })
            }
            _ => Ok(()),
        }
    }

    /// The terminal's nono is in another session, so the terminal does not tell
    /// it of its size: the keeper does.
    fn tell_of_window_size(&self) {
        if let Some(relay) = &self.relay {
            relay.copy_size();
        }
        let layer = self.plan.terminal_layer();
        if let Some(supervisor) = self.roster.entries().supervisors.get(&layer) {
            let _ = PidFd::open_exact(*supervisor).and_then(|p| p.signal(Signal::WINCH));
        }
    }

    /// Stops the launch and then the keeper; comes back when the shell
    /// continues it.
    pub(super) fn suspend(&mut self) {
        // A start that is put off would run into its own deadlines.
        let Some(watch) = &self.watch else { return };
        watch.pause();
        let since = Instant::now();
        let raw = self.terminal.current();
        if !self.stop_everything() {
            // What cannot be stopped must not run unwatched.
            self.continue_everything();
            watch.resume();
            return;
        }
        self.terminal.restore();
        self.desk.show_suspension();
        self.ledger.add("suspended", serde_json::json!({}));

        // As the terminal would: the whole job, so that a pipeline around
        // paddock stops with it.
        super::terminal::expect_own_stop();
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);

        self.ledger.add("resumed", serde_json::json!({}));
        if let Some(raw) = &raw {
            super::terminal::set(raw);
        }
        self.continue_everything();
        self.tell_of_window_size();
        self.suspended += since.elapsed();
        if let Some(watch) = &self.watch {
            watch.resume();
        }
    }

    /// Whoever has the terminal was stopped by a signal. Where a shell controls jobs
    /// on a terminal, that is a suspension of the launch. Elsewhere nobody would
    /// ever continue it, and the kernel lets Ctrl-Z stop no such process
    /// (`setpgid(2)`, orphaned process groups): so it goes on.
    pub(super) fn foreground_stopped(&mut self) {
        if super::terminal::has_job_control() {
            self.suspend();
            return;
        }
        let signal = Signal::CONT.as_raw();
        let message = ToWarden::Signal { label: ChildLabel::Agent, signal };
        let _ = self.tell(self.plan.terminal_layer(), &message, &[]);
    }

    /// SIGCONT to every process, the wardens last: one that runs while its
    /// child is still stopped would report that as a suspension.
    fn continue_everything(&self) {
        let entries = self.roster.entries();
        let is_warden = |process: &confine::ProcessId| {
            entries.wardens.values().any(|warden| warden.process == *process)
        };
        let (wardens, others): (Vec<_>, Vec<_>) =
            stop::descendants(self.roster.keeper.pid).into_iter().partition(is_warden);
        for process in others.into_iter().chain(wardens) {
            let _ = PidFd::open_exact(process).and_then(|p| p.signal(Signal::CONT));
        }
    }

    /// SIGSTOP to every process of the launch until all are stopped; whether
    /// that was reached.
    fn stop_everything(&self) -> bool {
        let mut buffer = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let mut running = 0;
            for process in stop::descendants(self.roster.keeper.pid) {
                if !is_stopped(process.pid, &mut buffer) {
                    running += 1;
                    let _ = PidFd::open_exact(process).and_then(|p| p.signal(Signal::STOP));
                }
            }
            if running == 0 {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

/// Whether none of a process's tasks runs: its first may have ended before the
/// others.
fn is_stopped(process: Pid, buffer: &mut Vec<u8>) -> bool {
    tasks_of(process).unwrap_or_default().into_iter().all(|task| {
        match TaskFiles::open(process, task).and_then(|files| files.status(buffer)) {
            Ok(status) => !matches!(status.state, State::Alive),
            Err(e) => is_gone(&e),
        }
    })
}
