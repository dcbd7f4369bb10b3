//! `tunnel`: standard input and output, carried to a host and back through the guard.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use confine::escape::{escape, escape_short};

use crate::tunnel::{ask_for_tunnel, proxy};

/// The longest that the guard may take to answer: longer than it looks for an address.
const LIMIT: Duration = Duration::from_mins(1);

/// The longest explanation that is read, in bytes.
const LONGEST_REASON: u64 = 1024;

/// Carries standard input to `target` (`HOST:PORT`) and what comes back to standard
/// output, until either side of the tunnel is closed.
///
/// # Errors
/// When there is no guard, or what it answers in place of a tunnel.
pub fn carry(target: &OsStr) -> anyhow::Result<ExitCode> {
    let shown = || escape(target.as_encoded_bytes());
    let is_host_and_port = |text: &&str| {
        let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        text.bytes().all(|byte| byte.is_ascii_graphic()) && matches!(port, Some(Ok(1..)))
    };
    let Some(name) = target.to_str().filter(is_host_and_port) else {
        bail!("{} is not HOST:PORT", shown());
    };
    let (user, address) = proxy().context("HTTPS_PROXY names no guard: not inside a sandbox")?;
    let asked = ask_for_tunnel(address, user.as_deref(), name, LIMIT);
    let (status, mut from) = asked.context("the guard cannot be reached")?;
    if status != 200 {
        let mut reason = Vec::new();
        // Without it there is the status.
        let _ = from.take(LONGEST_REASON).read_to_end(&mut reason);
        let mut said = String::new();
        for line in reason.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(2) {
            let _ = write!(said, "\n  {}", escape_short(line, 200));
        }
        bail!("no tunnel to {}: the guard answers {status}{said}", shown());
    }
    // A session is silent for as long as it likes.
    let to = from.get_ref().try_clone()?;
    to.set_read_timeout(None)?;
    to.set_write_timeout(None)?;
    std::thread::spawn(move || send(to));
    // The other end may be closed before all of it was taken, as it is by `git`.
    let _ = copy(&mut from, &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}

fn send(mut to: TcpStream) {
    let _ = copy(&mut io::stdin(), &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Passes everything on as it comes.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                to.write_all(&bytes[..read])?;
                to.flush()?;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
