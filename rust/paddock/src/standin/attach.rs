//! The client: has a server run commands, given, read from a file or typed.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::SIGINT;

use super::client::{Client, Outcome};
use super::lines::{Commands, Lines, Next};
use super::memory::Memory;
use super::password::Password;
use super::signals::Signals;

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// The status of a command that the person interrupted.
const INTERRUPTED: i32 = 128 + SIGINT;

/// How a conversation goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Commands that belong together: the first that fails is the last.
    Batch,
    /// Lines from a pipe: each is run, and the last one's status counts.
    Stream,
    /// A person at a terminal.
    Prompt,
}

/// Connects, runs what there is to run, and ends with the status that a shell would.
pub(super) fn run(arguments: super::Attach) -> anyhow::Result<ExitCode> {
    let password = Password::from_environment()?;
    let memory = match &arguments.conversations {
        Some(directory) => Memory::below(directory, arguments.resume)?,
        None => Memory::default(),
    };
    let recalled = memory.recalled().context("the last conversation cannot be read")?;
    let (commands, manner) = if !arguments.commands.is_empty() {
        let given = arguments.commands.into_iter().map(OsStringExt::into_vec).collect();
        (Commands::Given(given), Manner::Batch)
    } else if let Some(file) = &arguments.script {
        (Commands::Read(Lines::new(script(file)?)), Manner::Batch)
    } else {
        let typed = io::stdin().is_terminal() && io::stdout().is_terminal();
        let manner = if typed { Manner::Prompt } else { Manner::Stream };
        (Commands::Read(Lines::new(stdin()?)), manner)
    };
    let client = Client::connect(&arguments.connect, &password, PATIENCE)?;
    // Not earlier: until here an interruption simply ends the client.
    let interruptions = Signals::handle(&[SIGINT])?;
    let mut stdout = io::stdout().lock();
    if manner == Manner::Prompt {
        writeln!(
            stdout,
            "Stand-in agent on {}: each line is a shell command, Ctrl-D ends.",
            arguments.connect
        )?;
    }
    if let Some(commands) = recalled {
        writeln!(stdout, "Continued after {} commands:", commands.len())?;
        for command in &commands {
            writeln!(stdout, "  {command}")?;
        }
    }
    let mut conversation =
        Conversation { client, memory, interruptions, stdout, stderr: io::stderr().lock() };
    let status = conversation.hold(commands, manner)?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)))
}

fn script(file: &Path) -> anyhow::Result<OwnedFd> {
    if file == Path::new("-") {
        return stdin();
    }
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(opened.into())
}

fn stdin() -> anyhow::Result<OwnedFd> {
    io::stdin().as_fd().try_clone_to_owned().context("cannot use standard input")
}

/// A client with somebody to talk to.
pub(super) struct Conversation<O, E> {
    /// Whom the commands are passed to.
    pub(super) client: Client,
    /// What the commands are kept in.
    pub(super) memory: Memory,
    /// What cancels a command.
    pub(super) interruptions: Signals,
    /// Where output and prompts go.
    pub(super) stdout: O,
    /// Where the commands' errors go.
    pub(super) stderr: E,
}

impl<O: Write, E: Write> Conversation<O, E> {
    /// Runs the commands to their end, and gives the status to end with.
    pub(super) fn hold(
        &mut self,
        mut commands: Commands<impl AsFd>,
        manner: Manner,
    ) -> anyhow::Result<i32> {
        let mut status = 0;
        loop {
            if manner == Manner::Prompt {
                self.show("standin> ")?;
            }
            match commands.next(&self.interruptions)? {
                Next::Command(line) if line.trim_ascii().is_empty() => {}
                Next::Command(line) => {
                    let outcome = self.run(line)?;
                    status = if outcome.cancelled { INTERRUPTED } else { outcome.status };
                    let over = match manner {
                        Manner::Batch => status != 0,
                        Manner::Stream => outcome.cancelled,
                        Manner::Prompt => false,
                    };
                    if over {
                        return Ok(status);
                    }
                    if manner == Manner::Prompt && outcome.cancelled {
                        self.show("\n")?;
                    }
                }
                Next::Interrupted if manner == Manner::Prompt => self.show("\n")?,
                Next::Interrupted => return Ok(INTERRUPTED),
                Next::End => {
                    if manner == Manner::Prompt {
                        self.show("\n")?;
                    }
                    return Ok(status);
                }
            }
        }
    }

    fn run(&mut self, command: Vec<u8>) -> anyhow::Result<Outcome> {
        let Self { client, memory, interruptions, stdout, stderr } = self;
        memory.add(&command).context("the conversation cannot be kept")?;
        client.run(command, interruptions, stdout, stderr)
    }

    fn show(&mut self, text: &str) -> anyhow::Result<()> {
        self.stdout.write_all(text.as_bytes()).and_then(|()| self.stdout.flush())?;
        Ok(())
    }
}
