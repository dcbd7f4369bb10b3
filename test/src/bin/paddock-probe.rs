//! Tries what it is told to, one operation after the other, and prints for each
//! whether it worked. The tests run it inside a sandbox and, as the control,
//! outside: what is refused inside must work outside.
//!
//! `paddock-probe KIND:ARGUMENT...` prints `KIND:ARGUMENT: ok`, with what was
//! found where there is something, or `KIND:ARGUMENT: no, ` and the error.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timestamps, UTIME_NOW};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process};

const LIMIT: Duration = Duration::from_secs(5);

fn main() {
    for attempt in std::env::args().skip(1) {
        let (kind, argument) = attempt.split_once(':').unwrap_or((&attempt, ""));
        match attempt_once(kind, argument) {
            Ok(found) => println!("{attempt}: ok{found}"),
            Err(error) => println!("{attempt}: no, {error}"),
        }
    }
}

fn attempt_once(kind: &str, argument: &str) -> io::Result<String> {
    let path = Path::new(argument);
    match kind {
        "read" => std::fs::read(path).map(drop),
        "write" => OpenOptions::new().append(true).open(path).map(drop),
        "create" => File::create_new(path).and_then(|_| std::fs::remove_file(path)),
        "list" => std::fs::read_dir(path).map(drop),
        "link" => std::fs::read_link(path).map(drop),
        "chmod" => chmod_to_itself(path),
        "chown" => chown_to_oneself(path),
        "utime" => touch(path),
        "xattr" => set_attribute(path),
        "stream" => UnixStream::connect(path).map(drop),
        "datagram" => UnixDatagram::unbound()?.send_to(b"probe", path).map(drop),
        "seqpacket" => connect_seqpacket(path),
        "abstract" => connect_abstract(argument),
        "bind" => UnixListener::bind(path).and_then(|_| std::fs::remove_file(path)),
        "tcp" => TcpStream::connect_timeout(&address(argument)?, LIMIT).map(drop),
        "udp" => send_udp(address(argument)?),
        "signal" => Ok(test_kill_process(process(argument)?)?),
        "pidfd" => signal_by_pidfd(process(argument)?),
        "namespace" => Ok(rustix::thread::unshare_unsafe_free()?),
        "proxy" => return through_proxy(argument),
        _ => Err(io::Error::other("no such kind")),
    }
    .map(|()| String::new())
}

fn address(text: &str) -> io::Result<SocketAddr> {
    text.parse().map_err(io::Error::other)
}

fn process(text: &str) -> io::Result<Pid> {
    let number = text.parse().map_err(io::Error::other)?;
    Pid::from_raw(number).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn chmod_to_itself(path: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}
