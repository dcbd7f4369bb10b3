//! Where client and server meet, and waiting there.

use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Context;

use crate::NOT_FOUND;

/// A local connection is accepted or refused at once.
const PROBE_LIMIT: Duration = Duration::from_millis(200);
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// The meeting point of the agent's halves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A port of the pen's own loopback.
    Tcp(u16),
    /// An AF_UNIX socket in the launch's link folder.
    Unix(PathBuf),
}

impl Link {
    /// As an argument; [`Link::parse`] reads it.
    pub fn to_argument(&self) -> OsString {
        match self {
            Self::Tcp(port) => format!("tcp:{port}").into(),
            Self::Unix(path) => {
                let mut argument = OsString::from("unix:");
                argument.push(path);
                argument
            }
        }
    }

    /// Reads what [`Link::to_argument`] wrote.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("tcp", port)) => {
                port.parse().map(Self::Tcp).map_err(|_| format!("{port:?} is no port"))
            }
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            _ => Err("tcp:PORT or unix:PATH is expected".into()),
        }
    }

    /// Whether a server listens here.
    fn answers(&self) -> bool {
        match self {
            Self::Tcp(port) => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                TcpStream::connect_timeout(&address, PROBE_LIMIT).is_ok()
            }
            Self::Unix(path) => UnixStream::connect(path).is_ok(),
        }
    }
}

/// Waits until a server listens on `link`, then becomes `argv`. How long it may
/// wait is the keeper's to decide.
///
/// A process of its own and not the warden's business: a mediated connect is
/// refused to who is undumpable.
///
/// # Errors
/// When `argv` cannot be started for another reason than that it is not there.
pub fn await_server(link: &Link, argv: &[OsString]) -> anyhow::Result<ExitCode> {
    while !link.answers() {
        std::thread::sleep(PROBE_INTERVAL);
    }
    let (program, arguments) = argv.split_first().context("no program to become")?;
    let error = Command::new(program).args(arguments).exec();
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    let error = anyhow::Error::new(error).context("the agent's client does not start");
    if !is_missing {
        return Err(error);
    }
    let _ = writeln!(std::io::stderr(), "paddock: {error:#}");
    Ok(ExitCode::from(NOT_FOUND))
}
