//! The sign-in: what a person types is kept in a file of the private home, as an agent
//! keeps its token.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};

/// How long the service may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Longer than any token.
const MOST: u64 = 4096;

/// Asks the service, if there is one, and keeps a line of standard input.
pub(super) fn run(arguments: &super::Login) -> anyhow::Result<ExitCode> {
    if let Some(service) = &arguments.at {
        warden::open_tunnel(service, LIMIT)
            .with_context(|| format!("{service} cannot be asked"))?;
        say(&format!("{service} answers"));
    }
    say("type anything to be signed in with:");
    let mut token = String::new();
    io::stdin().lock().take(MOST).read_line(&mut token).context("nothing can be read")?;
    ensure!(!token.trim().is_empty(), "nothing was typed");
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&arguments.keep).context("it cannot be kept")?;
    file.write_all(token.trim().as_bytes()).context("it cannot be kept")?;
    say("signed in");
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) {
    let _ = writeln!(io::stdout(), "standin: {text}");
}
