//! The stand-in as a process: signals, terminals and the environment.
//!
//! These start this test binary again, as [`program`].

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use clap::Parser;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use super::super::address::Address;
use super::super::client::Client;
use super::super::link::wait;
use super::super::password::{self, Password};
use super::super::serve::Limits;
use super::super::signals::Signals;
use super::super::{Standin, run};
use super::{FOR_EVER, Kind, PATIENCE, Running, Watched, link_let_in, secret, soon, start_two};

/// The arguments that turn [`program`] into the stand-in, one a line.
const ARGUMENTS: &str = "STANDIN_TEST_ARGUMENTS";

/// Not a test: what the tests below start.
#[test]
fn program() {
    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Standin,
    }
    let Ok(arguments) = env::var(ARGUMENTS) else {
        return;
    };
    let line = Line::try_parse_from(std::iter::once("standin").chain(arguments.lines()));
    match run(line.unwrap().command) {
        // `ExitCode` cannot be looked into or passed to `exit`.
        Ok(code) => std::process::exit(status_of(code)),
        Err(error) => {
            eprintln!("{error:#}");
            std::process::exit(125);
        }
    }
}

fn status_of(code: ExitCode) -> i32 {
    (0..=255).find(|status| ExitCode::from(*status) == code).unwrap().into()
}

/// A stand-in process. Dropping it ends it.
struct Process(Child);

impl Process {
    fn command(arguments: &[&str]) -> Command {
        let module = module_path!().split_once("::").unwrap().1;
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", "--quiet", &format!("{module}::program")]);
        command.env(ARGUMENTS, arguments.join("\n"));
        command.env(password::VARIABLE, OsStr::from_bytes(secret().bytes()));
        command
    }

    fn serve(address: &Address) -> Self {
        let mut command = Self::command(&["serve", "--listen", &address.to_string()]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits for its end; gives the exit status.
    fn status(&mut self) -> Option<i32> {
        let held = pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty()).unwrap();
        assert!(Watched(held).ends(), "the process stays");
        self.0.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `attach` with `arguments`, typing `input`; gives status, output and errors. What the
/// test harness prints before the stand-in starts is cut off.
fn attach(server: &Running, arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let address = server.address.to_string();
    let arguments = [&["attach", "--connect", address.as_str()], arguments].concat();
    let mut command = Process::command(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    process.0.stdin.take().unwrap().write_all(input).unwrap();
    let status = process.status();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    process.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    process.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let own = stdout.strip_prefix("\nrunning 1 test\n").unwrap_or(&stdout).to_owned();
    (status, own, stderr)
}

fn ended(status: i32, stdout: &str, stderr: &str) -> (Option<i32>, String, String) {
    (Some(status), stdout.to_owned(), stderr.to_owned())
}

#[test]
fn attach_ends_with_the_status_of_its_commands() {
    let server = Running::with(Kind::Tcp, Limits::DEFAULT);
    let script = server.directory.path().join("script");
    fs::write(&script, "echo a\nexit 3\necho b\n").unwrap();
    let script = script.to_str().unwrap();

    let two = ["-c", "echo a", "-c", "echo b >&2; exit 7", "-c", "echo c"];
    assert_eq!(attach(&server, &two, b""), ended(7, "a\n", "b\n"));
    assert_eq!(attach(&server, &["-c", "-x 2>&-"], b""), ended(127, "", ""));
    assert_eq!(attach(&server, &["--script", script], b""), ended(3, "a\n", ""));
    let dash = ["--script", "-"];
    assert_eq!(attach(&server, &dash, b"echo a\nexit 3\necho b"), ended(3, "a\n", ""));
    assert_eq!(attach(&server, &[], b"echo a\nexit 3\necho b"), ended(0, "a\nb\n", ""));
    assert_eq!(attach(&server, &[], b"echo a\nexit 3\n\n"), ended(3, "a\n", ""));
}

#[test]
fn neither_half_starts_without_a_password() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("s")).to_string();
    for half in [["serve", "--listen"], ["attach", "--connect"]] {
        for empty in [true, false] {
            let mut command = Process::command(&[half[0], half[1], &address]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            if empty {
                command.env(password::VARIABLE, "");
            } else {
                command.env_remove(password::VARIABLE);
            }
            let mut process = Process(command.spawn().unwrap());
            assert_eq!(process.status(), Some(125));
            let mut text = String::new();
            process.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, format!("{}\n", Password::new(Vec::new()).err().unwrap()));
        }
    }
    assert!(!directory.path().join("s").exists());
}

#[test]
fn the_password_reaches_no_command() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("s"));
    let _server = Process::serve(&address);
    // The control: the server has the variable, or it would let nobody in.
    let mut client = Client::connect(&address, &secret(), PATIENCE).unwrap();
    let (none, _held) = Signals::none().unwrap();
    let mut variables = Vec::new();
    let outcome = client.run(b"env".to_vec(), &none, &mut variables, &mut io::sink()).unwrap();
    assert_eq!(outcome.status, 0);
    let names: Vec<_> = variables
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b'=').next())
        .collect();
    assert!(!names.contains(&password::VARIABLE.as_bytes()));
    assert!(names.contains(&ARGUMENTS.as_bytes()), "the control: others are passed on");
}

#[test]
fn a_server_ends_well_when_it_is_told_to() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let address = Address::Unix(path.clone());
        let mut server = Process::serve(&address);
        drop(Client::connect(&address, &secret(), PATIENCE).unwrap());
        let mut link = link_let_in(&address);
        let running = start_two(&mut link);
        assert!(path.exists());
        server.signal(signal);
        assert_eq!(server.status(), Some(0), "{signal:?}");
        assert!(running.iter().all(Watched::ends), "{signal:?}");
        assert!(!path.exists(), "{signal:?}");
    }
}

#[test]
fn a_killed_server_can_be_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let address = Address::Unix(path.clone());
    let mut first = Process::serve(&address);
    Client::connect(&address, &secret(), PATIENCE).unwrap();
    first.signal(Signal::KILL);
    assert_eq!(first.status(), None);
    assert!(path.exists(), "the control: it left its socket behind");
    let _second = Process::serve(&address);
    Client::connect(&address, &secret(), PATIENCE).unwrap();
}

/// A terminal with nobody at it but the test.
struct Terminal {
    master: OwnedFd,
    shown: Vec<u8>,
}

impl Terminal {
    fn with(mut command: Command) -> (Self, Process) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap());
        command.stderr(slave);
        (Self { master, shown: Vec::new() }, Process(command.spawn().unwrap()))
    }

    fn types(&self, text: &str) {
        assert_eq!(rustix::io::write(&self.master, text.as_bytes()), Ok(text.len()));
    }

    /// Waits until the terminal has shown `text`, and forgets all up to its end.
    fn shows(&mut self, text: &str) {
        let deadline = soon();
        loop {
            let found = self.shown.windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(start) = found {
                self.shown.drain(..start + text.len());
                return;
            }
            let mut polled = [PollFd::new(&self.master, PollFlags::IN)];
            let ready = wait(&mut polled, Some(deadline)).unwrap() == [true];
            let shown = self.shown.escape_ascii();
            assert!(ready || Instant::now() < deadline, "no {text:?} in {shown}");
            let mut bytes = [0; 1024];
            if ready {
                let count = rustix::io::read(&self.master, &mut bytes).unwrap();
                self.shown.extend(&bytes[..count]);
            }
        }
    }
}

#[test]
fn a_person_can_interrupt_a_command_and_the_prompt() {
    let server = Running::on_unix();
    let address = server.address.to_string();
    let (mut terminal, mut client) =
        Terminal::with(Process::command(&["attach", "--connect", &address]));
    terminal.shows(&format!("Stand-in agent on {address}: "));
    terminal.shows("\r\nstandin> ");
    // Spelled so that the echo of the line is not taken for its output.
    terminal.types(&format!("printf 'st%s\\n' arted; {FOR_EVER}\n"));
    terminal.shows("\r\nstarted\r\n");
    client.signal(Signal::INT);
    terminal.shows("\r\nstandin> ");
    client.signal(Signal::INT);
    terminal.shows("\r\nstandin> ");
    terminal.types("\x04");
    terminal.shows("\r\n");
    assert_eq!(client.status(), Some(130));
}

#[test]
fn an_interrupted_batch_ends() {
    let server = Running::on_unix();
    let mark = server.directory.path().join("started");
    let address = server.address.to_string();
    let started = format!("echo $$ >{0}.new; mv {0}.new {0}; {FOR_EVER}", mark.display());
    let arguments = ["attach", "--connect", &address, "-c", &started, "-c", "echo reached"];
    let mut client = Process::command(&arguments);
    let mut client = Process(client.stdout(Stdio::piped()).spawn().unwrap());
    let running = Watched::pid(&appears(&mark));
    assert!(running.lives());
    client.signal(Signal::INT);
    assert_eq!(client.status(), Some(130));
    assert!(running.ends());
    let mut stdout = String::new();
    client.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert!(!stdout.contains("reached"), "{stdout}");
}

/// Waits for a file, and reads it.
fn appears(path: &Path) -> Vec<u8> {
    let deadline = soon();
    loop {
        if let Ok(content) = fs::read(path) {
            return content;
        }
        assert!(Instant::now() < deadline, "no {}", path.display());
        thread::yield_now();
    }
}
