//! From a keystroke to its echo.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use paddock_test::host::Host;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::programs::{END, add_agent, own_path};
use crate::table::{Row, Sample};

const KEYS: usize = 500;
/// Milliseconds more than without Paddock.
const LIMIT: f64 = 0.3;
/// A person's keys come one at a time.
const BETWEEN_KEYS: Duration = Duration::from_millis(4);
const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    let host = Host::new();
    add_agent(&host, "echo", &["listen", "{link}"], &["echo"])?;
    let mut bare = Typist::start(&host, &[own_path()?.to_string_lossy().as_ref(), "echo"])?;
    let paddock = paddock_test::host::paddock();
    let workspace = host.workspace();
    let (paddock, workspace) = (paddock.to_string_lossy(), workspace.to_string_lossy());
    let mut layered = Typist::start(&host, &[&paddock, "run", "echo", "--workspace", &workspace])?;
    let (mut of_bare, mut of_layered) = (Vec::new(), Vec::new());
    for key in (b'a'..=b'z').cycle().take(KEYS) {
        of_bare.push(bare.press(key)?);
        of_layered.push(layered.press(key)?);
    }
    bare.end()?;
    layered.end()?;
    let (bare, layered) = (Sample::new(of_bare), Sample::new(of_layered));
    let more = Sample::new(vec![layered.median() - bare.median()]);
    Ok(vec![
        Row::new("keystroke to echo: bare", "ms", &bare),
        Row::new("keystroke to echo: all layers", "ms", &layered),
        Row::new("keystroke to echo: more at the median", "ms", &more).median_within(LIMIT),
    ])
}

/// A program on a terminal of its own, and who types there.
struct Typist {
    keyboard: File,
    program: Child,
}

impl Typist {
    fn start(host: &Host, argv: &[&str]) -> anyhow::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags)?;
        grantpt(&keyboard)?;
        unlockpt(&keyboard)?;
        let line = ioctl_tiocgptpeer(&keyboard, flags)?;
        let mut command = Command::new("setsid");
        host.dress(&mut command);
        command.arg("--ctty").args(argv);
        command.stdin(Stdio::from(line.try_clone()?));
        command.stdout(Stdio::from(line.try_clone()?)).stderr(Stdio::from(line));
        let mut typist = Self { keyboard: keyboard.into(), program: command.spawn()? };
        drop(command);
        typist.read_until(b"READY")?;
        Ok(typist)
    }

    /// Milliseconds until the key comes back.
    fn press(&mut self, key: u8) -> anyhow::Result<f64> {
        std::thread::sleep(BETWEEN_KEYS);
        let started = Instant::now();
        self.keyboard.write_all(&[key])?;
        self.read_until(&[key])?;
        Ok(started.elapsed().as_secs_f64() * 1e3)
    }

    fn read_until(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        let mut chunk = [0; 4096];
        while !seen.windows(wanted.len()).any(|window| window == wanted) {
            let mut fds = [PollFd::new(&self.keyboard, PollFlags::IN)];
            let shown = || String::from_utf8_lossy(&seen).into_owned();
            ensure!(poll(&mut fds, Some(&PATIENCE))? > 0, "no echo: {}", shown());
            let read = self.keyboard.read(&mut chunk).with_context(shown)?;
            seen.extend_from_slice(&chunk[..read]);
        }
        Ok(())
    }

    fn end(mut self) -> anyhow::Result<()> {
        self.keyboard.write_all(&[END])?;
        // What it still has to say must not fill the terminal.
        while matches!(self.keyboard.read(&mut [0; 4096]), Ok(1..)) {}
        self.program.wait()?;
        Ok(())
    }
}
