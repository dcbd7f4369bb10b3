//! The person's terminal: taken, and given back however the overlay ends. Only
//! SIGKILL leaves it as it is; `reset` helps then.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use confine::Pid;
use confine::pidfd::PidFd;
use crossterm::{cursor, event, execute, terminal};
use ratatui::backend::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::error::Error;
use crate::job::is_job;

/// Clicks and the wheel, as SGR reports (`xterm`'s control sequences, "Mouse Tracking").
/// Not what crossterm turns on: that reports every movement, too.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";

/// For the overlay to end by itself once a signal asks for that: its terminal may
/// take nothing any more.
const PATIENCE: Duration = Duration::from_secs(1);
/// For a program that has the terminal to end when it is asked to: a shell's sandbox is
/// taken down, too.
const PATIENCE_WITH_A_PROGRAM: Duration = Duration::from_secs(10);

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
    pending: Arc<Pending>,
    lent: Arc<Mutex<Lent>>,
}

/// Signals that came and were not acted on yet, a bit each, as the kernel keeps them: one
/// that says little does not hide one that says much.
#[derive(Debug, Default)]
struct Pending(AtomicU64);

impl Pending {
    fn add(&self, signal: i32) {
        self.0.fetch_or(1 << signal, Ordering::SeqCst);
    }

    /// All of them, once; those that end a program have the lowest numbers.
    fn take(&self) -> impl Iterator<Item = i32> + use<> {
        let signals = self.0.swap(0, Ordering::SeqCst);
        (0..64).filter(move |signal| signals & (1 << signal) != 0)
    }
}

/// Who else has the terminal.
#[derive(Debug, Default)]
struct Lent {
    /// What is typed is for somebody else.
    is_lent: bool,
    /// The overlay was asked to end: it starts nobody any more.
    is_ending: bool,
    to: Option<PidFd>,
}

fn lock(lent: &Mutex<Lent>) -> MutexGuard<'_, Lent> {
    lent.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(command: &mut Command, lent: &Mutex<Lent>) -> io::Result<ExitStatus> {
    let mut child = {
        let mut lent = lock(lent);
        if lent.is_ending {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let child = command.spawn()?;
        let pid = Pid::new(child.id().cast_signed());
        // One that has ended already needs no end.
        lent.to = pid.and_then(|pid| PidFd::open(pid).ok());
        child
    };
    let status = child.wait();
    lock(lent).to = None;
    status
}

/// Ends whoever has the terminal, and waits for that: it would be left on it.
fn end_program(lent: &Mutex<Lent>) {
    let program = {
        let mut lent = lock(lent);
        lent.is_ending = true;
        lent.to.take()
    };
    let Some(program) = program else { return };
    let _ = program.signal(Signal::TERM);
    if !program.wait_ended(PATIENCE_WITH_A_PROGRAM).unwrap_or(true) {
        let _ = program.signal(Signal::KILL);
        let _ = program.wait_ended(PATIENCE);
    }
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
        let (pending, lent) = (Arc::<Pending>::default(), Arc::<Mutex<Lent>>::default());
        let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGWINCH])?;
        let (told, program, overlay) = (pending.clone(), lent.clone(), waker.clone());
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in &mut signals {
                let is_end = matches!(signal, SIGTERM | SIGHUP);
                if lock(&program).is_lent && !is_end {
                    continue;
                }
                told.add(signal);
                overlay.wake();
                if is_end {
                    end_program(&program);
                    std::thread::sleep(PATIENCE);
                    // Standard output may be held by whoever waits for it.
                    let _ = terminal::disable_raw_mode();
                    std::process::exit(128 + signal);
                }
            }
        })?;
        Ok(Self { woken, waker, pending, lent })
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

    /// The signals that came, once.
    pub(super) fn signals(&self) -> impl Iterator<Item = i32> + use<> {
        self.pending.take()
    }

    /// While a program has the terminal, its keys are no signals to the overlay.
    pub(super) fn is_lent(&self, is_lent: bool) {
        lock(&self.lent).is_lent = is_lent;
    }

    /// Whether the overlay was asked to end.
    pub(super) fn is_ending(&self) -> bool {
        lock(&self.lent).is_ending
    }

    /// Runs a program on the terminal, to its end. It does not outlive the overlay.
    ///
    /// # Errors
    /// When it does not start, or no longer may.
    pub(super) fn run(&self, command: &mut Command) -> io::Result<ExitStatus> {
        run(command, &self.lent)
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;

    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    use rustix::termios::tcgetattr;

    use super::*;

    #[test]
    fn a_signal_does_not_hide_another() {
        let pending = Pending::default();
        for signal in [SIGINT, SIGWINCH, SIGWINCH, SIGTSTP] {
            pending.add(signal);
        }
        assert_eq!(pending.take().collect::<Vec<_>>(), [SIGINT, SIGTSTP, SIGWINCH]);
        assert_eq!(pending.take().next(), None, "each is told once");
    }

    #[test]
    fn whoever_has_the_terminal_is_ended_and_nobody_gets_it_after() {
        let lent = Arc::<Mutex<Lent>>::default();
        let runs = lent.clone();
        let cat = std::thread::spawn(move || {
            // Nobody writes, and nobody closes it.
            let (input, _writer) = io::pipe().unwrap();
            run(Command::new("cat").stdin(input), &runs).unwrap()
        });
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        while lock(&lent).to.is_none() {
            assert!(std::time::Instant::now() < deadline && !cat.is_finished());
            std::thread::yield_now();
        }
        end_program(&lent);
        assert_eq!(cat.join().unwrap().signal(), Some(SIGTERM));
        let refused = run(&mut Command::new("true"), &lent).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Interrupted);
    }

    /// Set where this test is its own child.
    const CHILD: &str = "PADDOCK_TEST_PANICS";

    /// A panic ends the process: so this is done in one of its own.
    #[test]
    fn a_panic_gives_the_terminal_back_before_its_message() {
        if std::env::var_os(CHILD).is_some() {
            let _terminal = Terminal::take().unwrap();
            assert!(terminal::is_raw_mode_enabled().unwrap(), "control: it has been taken");
            // Whichever thread's it is.
            let _ = std::thread::spawn(|| panic!("a panic of a thread")).join();
            unreachable!("the process ends with it");
        }
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let line = ioctl_tiocgptpeer(&keyboard, flags).unwrap();
        let settings = || format!("{:?}", tcgetattr(&line).unwrap());
        let before = settings();
        let stdio = || line.try_clone().unwrap();
        let name = "overlay::terminal::tests::a_panic_gives_the_terminal_back_before_its_message";
        let mut child = Command::new("/proc/self/exe")
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .env("RUST_BACKTRACE", "0")
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        let handle = PidFd::open(Pid::new(child.id().cast_signed()).unwrap()).unwrap();
        let has_ended = handle.wait_ended(Duration::from_mins(1)).unwrap();
        if !has_ended {
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        assert_eq!(settings(), before);
        drop(line);
        let mut output = Vec::new();
        // Reading fails where there is no more.
        let _ = File::from(keyboard).read_to_end(&mut output);
        let output = String::from_utf8_lossy(&output);
        assert_eq!((has_ended, status.signal()), (true, Some(6)), "{output}");
        let (taken, rest) = output.split_once("\x1b[?1049h").expect("control: it was taken");
        assert!(!taken.contains("a panic"), "{output}");
        let (given_back, message) = rest.split_once("\x1b[?1049l").expect("it was given back");
        assert!(given_back.contains("\x1b[?1000l"), "no mouse reports: {output}");
        assert!(message.contains("a panic of a thread"), "{output}");
    }
}
