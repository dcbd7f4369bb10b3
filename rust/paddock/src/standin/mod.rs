//! The stand-in agent: a small, real agent in two halves, for first runs and tests.
//!
//! `serve` runs shell commands, as an agent's server runs its tools; `attach` is the
//! client that asks for them. The two meet at one loopback port or one Unix socket and
//! share the launch's password, so the pair needs from a sandbox exactly what a coding
//! agent with a server and a client needs, and no account, model or network.

mod address;
mod attach;
mod client;
mod job;
mod lines;
mod link;
mod listener;
mod login;
mod memory;
mod password;
mod protocol;
mod serve;
mod session;
mod signals;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use address::Address;

/// The two halves of the stand-in agent, and its sign-in.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Standin {
    /// Run shell commands for clients that know the password
    ///
    /// The password of the launch comes in the environment, in `PADDOCK_STANDIN_PASSWORD`.
    Serve(Serve),
    /// Have a server run commands, and show what they print
    ///
    /// Without commands or a script, reads commands from standard input, one a line. The
    /// password of the launch comes in the environment, in `PADDOCK_STANDIN_PASSWORD`.
    Attach(Attach),
    /// Sign in: keep what is typed
    Login(Login),
}

/// Arguments of `serve`.
#[derive(clap::Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen: `tcp:127.0.0.1:PORT` or `unix:/ABSOLUTE/PATH`
    #[arg(long, value_name = "ADDRESS")]
    listen: Address,
}

/// Arguments of `attach`.
#[derive(clap::Args, Debug)]
pub(crate) struct Attach {
    /// Where the server listens: `tcp:127.0.0.1:PORT` or `unix:/ABSOLUTE/PATH`
    #[arg(long, value_name = "ADDRESS")]
    connect: Address,
    /// Run this command and end; may be given more than once
    #[arg(short = 'c', value_name = "COMMAND", allow_hyphen_values = true)]
    commands: Vec<OsString>,
    /// Run the commands in this file, one a line, and end; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "commands")]
    script: Option<PathBuf>,
    /// Keep the commands in this directory, by the directory that they are run in
    #[arg(long, value_name = "DIRECTORY")]
    conversations: Option<PathBuf>,
    /// Go on with the last conversation in this directory
    #[arg(long, requires = "conversations")]
    resume: bool,
}

/// Arguments of `login`.
#[derive(clap::Args, Debug)]
pub(crate) struct Login {
    /// The file in which to keep what is typed
    #[arg(long, value_name = "FILE")]
    keep: PathBuf,
    /// Ask this service first, as HOST:PORT, by the proxy in `HTTPS_PROXY`
    #[arg(long, value_name = "HOST:PORT")]
    at: Option<String>,
}

/// Runs one half of the stand-in agent to its end.
pub(crate) fn run(command: Standin) -> anyhow::Result<ExitCode> {
    match command {
        Standin::Serve(arguments) => serve::run(&arguments),
        Standin::Attach(arguments) => attach::run(arguments),
        Standin::Login(arguments) => login::run(&arguments),
    }
}
