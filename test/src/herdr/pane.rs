//! A pane: a program on a terminal of its own, the first process of a session, as
//! herdr starts it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Signal;

use crate::host::{LIMIT, send, wait_for};
use crate::terminal::Terminal;

/// Between the signals that a pane is closed with.
const PATIENCE: Duration = Duration::from_millis(250);

/// What a pane is started with.
#[derive(Clone, Debug)]
pub struct Program {
    /// The command.
    pub command: Vec<String>,
    /// Where.
    pub cwd: PathBuf,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// The pane.
pub struct Pane {
    /// Its screen and keyboard.
    pub terminal: Terminal,
    child: Mutex<Child>,
    /// Its first process.
    pub pid: i32,
    /// Where it was started.
    pub cwd: PathBuf,
}

impl Pane {
    /// Starts it.
    pub fn start(program: &Program) -> std::io::Result<Self> {
        let terminal = Terminal::open();
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(&program.command).current_dir(&program.cwd);
        command.env_clear().envs(program.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(terminal.stdio()).stdout(terminal.stdio()).stderr(terminal.stdio());
        let child = command.spawn()?;
        let pid = child.id().cast_signed();
        Ok(Self { terminal, child: Mutex::new(child), pid, cwd: program.cwd.clone() })
    }

    /// Its first process's end, once that has come.
    pub fn has_ended(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One that cannot be told is over.
        child.try_wait().unwrap_or_else(|_| Some(ExitStatus::from_raw(0)))
    }

    /// Ends every process of its session as herdr does when a pane is closed.
    pub fn close(&self) {
        for signal in [Signal::HUP, Signal::TERM, Signal::KILL] {
            if self.has_ended().is_some() && self.session().is_empty() {
                return;
            }
            self.session().into_iter().for_each(|pid| send(pid, signal));
            wait_for(PATIENCE, || (self.has_ended().is_some()).then_some(()));
        }
        wait_for(LIMIT, || self.has_ended());
    }

    /// The processes of its session.
    fn session(&self) -> Vec<i32> {
        processes().filter(|(_, stat)| stat.get(3) == Some(&self.pid)).map(|(pid, _)| pid).collect()
    }

    /// The processes in the foreground of its terminal; nobody's is one that its first
    /// process has not taken yet.
    pub fn foreground(&self) -> (Option<i32>, Vec<i32>) {
        let group = processes()
            .find(|(pid, _)| *pid == self.pid)
            .and_then(|(_, stat)| stat.get(5).copied())
            .filter(|group| *group > 0);
        let members =
            processes().filter(|(_, stat)| group.is_some() && stat.get(2) == group.as_ref());
        (group, members.map(|(pid, _)| pid).collect())
    }
}

/// Every process, with the numbers that stand behind its name: state (not a number,
/// 0), parent, group, session, terminal, foreground group.
fn processes() -> impl Iterator<Item = (i32, Vec<i32>)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        let end = stat.iter().rposition(|b| *b == b')')?;
        let rest = String::from_utf8_lossy(&stat[end + 1..]).into_owned();
        let numbers = rest.split_ascii_whitespace().take(6).map(|n| n.parse().unwrap_or(0));
        Some((pid, numbers.collect()))
    })
}
