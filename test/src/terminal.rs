//! A terminal of a test's own, for programs that draw: a pseudo-terminal, a
//! screen that can be read, and answers to what programs ask a terminal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use vt100::{Callbacks, MouseProtocolMode, Parser, Screen};

use crate::host::wait_for;

const ROWS: u16 = 40;
const COLUMNS: u16 = 120;

/// The terminal. What is drawn is read at once, so that no program waits for it.
pub struct Terminal {
    keyboard: File,
    line: OwnedFd,
    screen: Arc<Mutex<Parser<Answers>>>,
}

impl Terminal {
    /// A new one.
    ///
    /// # Panics
    /// When the host has no pseudo-terminals.
    pub fn open() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("/dev/ptmx");
        grantpt(&master).expect("grantpt");
        unlockpt(&master).expect("unlockpt");
        let line = ioctl_tiocgptpeer(&master, flags).expect("the other end");
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&line, size).expect("a size");

        let keyboard = File::from(master);
        let side = |n: u16| n.try_into().expect("more than none");
        let parser =
            Parser::new_with_callbacks(side(ROWS), side(COLUMNS), 0, Answers::default());
        let screen = Arc::new(Mutex::new(parser));
        let mut output = keyboard.try_clone().expect("a descriptor");
        let drawn = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails once nothing has the other end open.
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                let mut parser = lock(&drawn);
                parser.process(&bytes[..n]);
                let answers = std::mem::take(&mut parser.callbacks_mut().0);
                drop(parser);
                if std::env::var_os("NOANSWER").is_none() {let _ = output.write_all(&answers);}
            }
        });
        Self { keyboard, line, screen }
    }

    /// A command that runs `program` as the first of a session on this terminal.
    /// It is given its environment by the caller, and `program`'s arguments.
    ///
    /// # Panics
    /// When descriptors run out.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program);
        self.attach(&mut command);
        command
    }

    /// Makes the terminal all three standard descriptors of `command`.
    ///
    /// # Panics
    /// When descriptors run out.
    pub fn attach(&self, command: &mut Command) {
        let line = || Stdio::from(self.line.try_clone().expect("a descriptor"));
        command.stdin(line()).stdout(line()).stderr(line());
    }

    /// Types `keys`.
    ///
    /// # Panics
    /// When the terminal takes none.
    pub fn send(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).expect("keys");
    }

    /// What is on the screen, lines without what is blank at their end.
    pub fn text(&self) -> String {
        lock(&self.screen).screen().contents()
    }

    /// Waits until `words` are on the screen.
    ///
    /// # Panics
    /// With the screen, when they do not come.
    pub fn wait_for(&self, words: &str, limit: Duration) {
        let found = wait_for(limit, || self.text().contains(words).then_some(()));
        assert!(found.is_some(), "no {words:?} on the screen:\n{}", self.text());
    }

    /// The settings that a program finds and may change.
    ///
    /// # Panics
    /// When it is no terminal.
    pub fn settings(&self) -> Termios {
        tcgetattr(self.line.as_fd()).expect("a terminal")
    }

    /// What is left on that a shell would trip over; empty when nothing is.
    pub fn left_on(&self) -> Vec<&'static str> {
        let parser = lock(&self.screen);
        let screen = parser.screen();
        let states = [
            ("the alternate screen", screen.alternate_screen()),
            ("a hidden cursor", screen.hide_cursor()),
            ("bracketed paste", screen.bracketed_paste()),
            ("application keypad", screen.application_keypad()),
            ("application cursor keys", screen.application_cursor()),
            ("mouse reports", screen.mouse_protocol_mode() != MouseProtocolMode::None),
        ];
        states.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers that are due to what a program asked.
#[derive(Default)]
struct Answers(Vec<u8>);

impl Callbacks for Answers {
    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        first: Option<u8>,
        _: Option<u8>,
        parameters: &[&[u16]],
        last: char,
    ) {
        let parameter = parameters.first().and_then(|p| p.first()).copied().unwrap_or(0);
        if std::env::var_os("TERMDEBUG").is_some() { eprintln!("CSI {first:?} {parameters:?} {last}"); }
        match (first, parameter, last) {
            // Where is the cursor?
            (None, 6, 'n') => {
                let (row, column) = screen.cursor_position();
                self.0.extend(format!("\x1b[{};{}R", row + 1, column + 1).bytes());
            }
            // Which terminal is it? A VT220.
            (None, 0, 'c') => self.0.extend(b"\x1b[?62c"),
            _ => {}
        }
    }
}
