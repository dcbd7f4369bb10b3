//! The programs that stand in for an agent while something is measured: this
//! very file, started with one of these words.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use confine::sys::owner_of_namespace;
use paddock_test::host::Host;
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, isatty, tcgetattr, tcsetattr};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::loads;

/// What ends the program that echoes.
pub(crate) const END: u8 = 4;

/// Runs the program that the arguments name; `None` when they name none.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<Option<ExitCode>> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write-time", path] => write_time(Path::new(path))?,
        ["write-time-and-stay", path] => {
            write_time(Path::new(path))?;
            loop {
                std::thread::park();
            }
        }
        ["listen", path] => listen(Path::new(path))?,
        ["echo"] => echo()?,
        ["intrude", veil, path] => intrude(veil, path)?,
        ["exchange", target, count] => loads::exchange(target, count.parse()?)?,
        ["exchange-directly", target, count] => loads::exchange_directly(target, count.parse()?)?,
        ["at-once", target, count] => loads::at_once(target, count.parse()?)?,
        ["download", target, bytes] => loads::download(target, bytes.parse()?)?,
        ["hold", target, count] => loads::hold(target, count.parse()?)?,
        ["call", how, count] => loads::call(how, count.parse()?)?,
        _ => return Ok(None),
    }
    Ok(Some(ExitCode::SUCCESS))
}

/// Nanoseconds since the epoch.
pub(crate) fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or_default())
}

/// Milliseconds between two instants.
#[allow(clippy::cast_precision_loss)] // of a few seconds in nanoseconds
pub(crate) fn milliseconds(from: i128, to: i128) -> f64 {
    (to - from) as f64 / 1e6
}

/// The instant that one of these programs wrote, once it is there.
pub(crate) fn time_in(path: &Path) -> Option<i128> {
    std::fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok()
}

fn write_time(path: &Path) -> anyhow::Result<()> {
    let now = now();
    Ok(std::fs::write(path, format!("{now}\n"))?)
}

fn listen(path: &Path) -> anyhow::Result<()> {
    let listener = UnixListener::bind(path)?;
    loop {
        drop(listener.accept()?);
    }
}

/// Has a process started in the pid namespace of the veil's first process and
/// orphaned there: it becomes that one's child, in no sandbox.
fn intrude(veil: &str, path: &str) -> anyhow::Result<()> {
    let namespace = File::open(format!("/proc/{veil}/ns/pid"))?;
    let owner = owner_of_namespace(namespace.as_fd())?;
    move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))?;
    // For children only.
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    let own = own_path()?;
    let orphan = "\"$0\" write-time-and-stay \"$1\" & exit 0";
    let status = Command::new("/bin/sh").args(["-c", orphan]).arg(own).arg(path).status()?;
    anyhow::ensure!(status.success(), "{status}");
    Ok(())
}

/// Gives back every byte as it comes, with the terminal's own echo off.
fn echo() -> anyhow::Result<()> {
    if isatty(stdin()) {
        let mut settings = tcgetattr(stdin())?;
        settings.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &settings)?;
    }
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    output.write_all(b"READY")?;
    output.flush()?;
    let mut byte = [0];
    while input.read(&mut byte)? == 1 && byte[0] != END {
        output.write_all(&byte)?;
        output.flush()?;
    }
    Ok(())
}

/// This program.
pub(crate) fn own_path() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.canonicalize()?)
}

/// Makes an agent `name` whose halves are these programs, with what they are
/// given as in `agent.toml`.
pub(crate) fn add_agent(
    host: &Host,
    name: &str,
    server: &[&str],
    client: &[&str],
) -> anyhow::Result<()> {
    let argv = |words: &[&str]| {
        let words = std::iter::once(&"{program}").chain(words);
        words.map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
    };
    let (program, server, client) = (own_path()?, argv(server), argv(client));
    host.add_agent(
        name,
        &format!(
            "name = {name:?}\ntitle = \"for measuring\"\n[program]\nnames = [\"{}\"]\n\
             [link]\nkind = \"unix\"\n[server]\nargv = [{server}]\n[client]\nargv = [{client}]\n",
            program.display(),
        ),
    );
    Ok(())
}
