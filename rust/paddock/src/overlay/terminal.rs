//! The person's terminal: taken, and given back however the overlay ends. Only
//! SIGKILL leaves it as it is; `reset` helps then.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use crossterm::{cursor, event, execute, terminal};
use ratatui::backend::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgid, getpgrp, getppid, getsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::error::Error;

/// Clicks and the wheel, as SGR reports (`xterm`'s control sequences, "Mouse Tracking").
/// Not what crossterm turns on: that reports every movement, too.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";

/// For the overlay to end by itself once a signal asks for that: its terminal may
/// take nothing any more.
const PATIENCE: Duration = Duration::from_secs(1);

type Screen = ratatui::Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The terminal while it is the overlay's; given back when dropped.
pub(super) struct Terminal(Screen);

impl Terminal {
    /// Takes it.
    ///
    /// # Errors
    /// When there is none, or it does not do what is asked.
    pub(super) fn take() -> Result<Self, Error> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(Error::NoTerminal);
        }
        give_back_on_panic();
        let unusable = |e: io::Error| Error::Output { reason: e.to_string() };
        enter().map_err(unusable)?;
        match blank() {
            Ok(screen) => Ok(Self(screen)),
            Err(e) => {
                leave();
                Err(unusable(e))
            }
        }
    }

    /// Draws one frame; sizes are read anew each time.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }

    /// The size that was drawn last.
    pub(super) fn size(&self) -> io::Result<ratatui::layout::Size> {
        self.0.size()
    }

    /// Lends the terminal, and takes it again. Everything is drawn anew then.
    pub(super) fn lend<T>(&mut self, to: impl FnOnce() -> T) -> io::Result<T> {
        leave();
        let result = to();
        enter()?;
        // Not `clear`, which asks the terminal where its cursor is, and waits.
        self.0 = blank()?;
        Ok(result)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

/// A screen with nothing on it.
fn blank() -> io::Result<Screen> {
    let output = BufWriter::with_capacity(1 << 16, io::stdout());
    ratatui::Terminal::new(CrosstermBackend::new(output))
}

fn enter() -> io::Result<()> {
    terminal::enable_raw_mode()?;
    let mut out = io::stdout();
    let taken = execute!(
        out,
        terminal::EnterAlternateScreen,
        terminal::Clear(terminal::ClearType::All),
        event::EnableBracketedPaste,
        cursor::Hide
    )
    .and_then(|()| out.write_all(MOUSE_ON))
    .and_then(|()| out.flush());
    if taken.is_err() {
        leave();
    }
    taken
}

/// Whatever of it fails: the rest is still given back.
fn leave() {
    let mut out = io::stdout();
    let _ = out.write_all(MOUSE_OFF);
    let _ =
        execute!(out, event::DisableBracketedPaste, terminal::LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

/// The message of a panic is to be read, and what typed it not to be in ruins. In a
/// release a panic ends the program where it is; so it does here, whichever thread's it
/// is.
fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        before(panic);
        std::process::abort();
    }));
}

/// What woke the overlay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Woken {
    /// There is something to read from the person.
    pub(super) has_input: bool,
    /// The terminal has gone.
    pub(super) is_gone: bool,
}

/// Waits for the person, for signals, and for whoever has something to show.
pub(super) struct Alarm {
    woken: OwnedFd,
    waker: Waker,
    /// The last signal that asks for something.
    signal: Arc<AtomicI32>,
    /// A program has the terminal: what is typed is for that one.
    is_lent: Arc<AtomicBool>,
}

/// Wakes a thread that waits in `poll(2)`.
#[derive(Clone)]
pub(super) struct Waker(Arc<OwnedFd>);

impl Waker {
    /// One, and what is to be waited for.
    ///
    /// # Errors
    /// When there is no descriptor for it.
    pub(super) fn new() -> io::Result<(Self, OwnedFd)> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let woken = rustix::event::eventfd(0, flags)?;
        Ok((Self(Arc::new(woken.try_clone()?)), woken))
    }

    pub(super) fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

impl Alarm {
    /// Starts listening for signals.
    ///
    /// # Errors
    /// When there is no descriptor or thread for it.
    pub(super) fn set() -> io::Result<Self> {
        let (waker, woken) = Waker::new()?;
        let (signal, is_lent) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
        let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGWINCH])?;
        let (told, lent, overlay) = (signal.clone(), is_lent.clone(), waker.clone());
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in &mut signals {
                let is_end = matches!(signal, SIGTERM | SIGHUP);
                if lent.load(Ordering::SeqCst) && !is_end {
                    continue;
                }
                told.store(signal, Ordering::SeqCst);
                overlay.wake();
                if is_end {
                    std::thread::sleep(PATIENCE);
                    // Standard output may be held by whoever waits for it.
                    let _ = terminal::disable_raw_mode();
                    std::process::exit(128 + signal);
                }
            }
        })?;
        Ok(Self { woken, waker, signal, is_lent })
    }

    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits until something happens.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Woken {
        let stdin = io::stdin();
        let mut watched = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.woken.as_fd(), PollFlags::IN),
        ];
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        // A signal is as good as anything.
        let _ = poll(&mut watched, limit.as_ref());
        let input = watched[0].revents();
        let _ = rustix::io::read(&self.woken, &mut [0_u8; 8]);
        Woken {
            has_input: input.contains(PollFlags::IN),
            is_gone: input.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        }
    }

    /// The last signal, once.
    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.signal.swap(0, Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// While a program has the terminal, its keys are no signals to the overlay.
    pub(super) fn is_lent(&self, lent: bool) {
        self.is_lent.store(lent, Ordering::SeqCst);
    }
}

/// Ctrl-Z, as the kernel would do it: the whole job is asked to stop.
///
/// The signal comes back to this process, which then calls [`stop_here`].
pub(super) fn suspend_job() -> bool {
    let may = is_job();
    if may {
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
    }
    may
}

/// Stops this process until somebody continues it; where nobody would, it goes on.
pub(super) fn stop_here() {
    if is_job() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    }
}

/// Whether a shell controls this process as a job: its parent is in this session, and in
/// another group. The kernel lets Ctrl-Z stop nobody else (`setpgid(2)`, orphaned
/// process groups).
fn is_job() -> bool {
    getppid().is_some_and(|parent| {
        getsid(Some(parent)).ok() == getsid(None).ok()
            && getpgid(Some(parent)).ok() != Some(getpgrp())
    })
}
