//! A terminal of a test's own, for programs that draw: a pseudo-terminal with a
//! screen that can be read. It answers no queries; the programs that run here
//! do without.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use vt100::{MouseProtocolMode, Parser};

use crate::host::{Host, LIMIT, paddock, wait_for};

const ROWS: u16 = 40;
const COLUMNS: u16 = 120;

/// The terminal. What is drawn is read at once, so that no program waits for it.
pub struct Terminal {
    keyboard: File,
    line: OwnedFd,
    screen: Arc<Mutex<Parser>>,
}

impl Terminal {
    /// A new one, 120 columns wide and 40 lines high.
    pub fn open() -> Self {
        Self::of_size(ROWS, COLUMNS)
    }

    /// A new one of that size.
    pub fn of_size(rows: u16, columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).expect("/dev/ptmx");
        grantpt(&keyboard).expect("grantpt");
        unlockpt(&keyboard).expect("unlockpt");
        let line = ioctl_tiocgptpeer(&keyboard, flags).expect("the other end");
        let positive = |n: u16| n.try_into().expect("more than none");
        let screen = Parser::new(positive(rows), positive(columns), 0);
        let screen = Arc::new(Mutex::new(screen));
        let keyboard = File::from(keyboard);
        let mut output = keyboard.try_clone().expect("a descriptor");
        let drawn = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails once nothing has the other end open.
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                lock(&drawn).process(&bytes[..n]);
            }
        });
        let terminal = Self { keyboard, line, screen };
        terminal.resize(rows, columns);
        terminal
    }

    /// `paddock` on `host`, ready to be given arguments: the first process of a
    /// session on this terminal.
    pub fn paddock(&self, host: &Host) -> Command {
        self.program(host, paddock())
    }

    /// The same for another program.
    pub fn program(&self, host: &Host, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program);
        host.dress(&mut command);
        command.stdin(self.stdio()).stdout(self.stdio()).stderr(self.stdio());
        command
    }

    /// It as a standard descriptor of a program.
    pub fn stdio(&self) -> Stdio {
        Stdio::from(self.line.try_clone().expect("a descriptor"))
    }

    /// Gives the terminal another size, as a window manager would.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.line, size).expect("a size");
    }

    /// The device number, as `tty_nr` in `/proc/PID/stat` has it.
    pub fn device(&self) -> u64 {
        let device = rustix::fs::fstat(&self.line).expect("a device").st_rdev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        u64::from(minor & 0xff | major << 8 | (minor & !0xff) << 12)
    }

    /// Types `keys`.
    pub fn send(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).expect("keys");
    }

    /// How many bytes of what was typed no program has read yet.
    ///
    /// # Panics
    /// When the terminal cannot tell.
    pub fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.line).expect("FIONREAD")
    }

    /// What is on the screen, without what is blank at the end of a line.
    pub fn text(&self) -> String {
        lock(&self.screen).screen().contents()
    }

    /// Shows the screen to `look`.
    pub fn with_screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(lock(&self.screen).screen())
    }

    /// Waits until `words` are on the screen.
    ///
    /// # Panics
    /// With the screen, when they do not come.
    pub fn wait_for(&self, words: &str) {
        self.wait_for_within(LIMIT, words);
    }

    /// The same for a program that takes longer.
    ///
    /// # Panics
    /// With the screen, when they do not come within `limit`.
    pub fn wait_for_within(&self, limit: Duration, words: &str) {
        let found = wait_for(limit, || self.text().contains(words).then_some(()));
        assert!(found.is_some(), "no {words:?} on the screen:\n{}", self.text());
    }

    /// Waits until `words` are no longer on the screen.
    ///
    /// # Panics
    /// With the screen, when they stay.
    pub fn wait_until_gone(&self, words: &str) {
        let gone = wait_for(LIMIT, || (!self.text().contains(words)).then_some(()));
        assert!(gone.is_some(), "{words:?} stays on the screen:\n{}", self.text());
    }

    /// Waits until `prompt` is the last on the screen.
    pub fn wait_for_prompt(&self, prompt: &str) {
        let prompt = prompt.trim_end();
        let found = wait_for(LIMIT, || self.text().trim_end().ends_with(prompt).then_some(()));
        assert!(found.is_some(), "the screen does not end with {prompt:?}:\n{}", self.text());
    }

    /// What a shell would trip over, were it left so: the line's settings, and
    /// every state of the screen that is not the one it starts in.
    pub fn modes(&self) -> (String, Vec<&'static str>) {
        let settings = tcgetattr(self.line.as_fd()).expect("a terminal");
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
        let on = states.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
        (format!("{settings:?}"), on)
    }
}

fn lock(screen: &Mutex<Parser>) -> MutexGuard<'_, Parser> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}
