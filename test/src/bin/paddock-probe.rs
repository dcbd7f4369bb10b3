//! Tries what it is told to, one operation after the other, and says of each
//! whether it worked. The tests run it inside a sandbox and, as the control,
//! outside: what is refused inside has to work outside.
//!
//! `paddock-probe KIND:ARGUMENT...` prints a line for each: `KIND:ARGUMENT ok`,
//! or `KIND:ARGUMENT no` and the error. `@FILE` stands for the lines of a file.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use confine::sys::{Tally, Way, race_for_sockets};
use paddock_test::floods::{beside_slow_clients, flood_gate};
use rustix::fs::XattrFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal};

#[path = "paddock-probe/gate.rs"]
mod gate;

/// For a connection that gets no answer.
const LIMIT: Duration = Duration::from_secs(5);

fn main() {
    let attempts = std::env::args().skip(1).flat_map(|argument| match argument.strip_prefix('@') {
        Some(file) => read_lines(file),
        None => vec![argument],
    });
    for attempt in attempts {
        let (kind, argument) = attempt.split_once(':').unwrap_or((&attempt, ""));
        match try_once(kind, argument) {
            Ok(()) => println!("{attempt} ok"),
            Err(error) => println!("{attempt} no {error}"),
        }
    }
}

fn read_lines(file: &str) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn try_once(kind: &str, argument: &str) -> io::Result<()> {
    let path = Path::new(argument);
    match kind {
        "read" => std::fs::read(path).map(drop),
        "open" => File::open(path).map(drop),
        "write" => OpenOptions::new().append(true).open(path).map(drop),
        "create" => File::create_new(path).and_then(|_| std::fs::remove_file(path)),
        "list" => std::fs::read_dir(path).map(drop),
        // What Landlock does not see; each sets what is there already.
        "chmod" => {
            let mode = std::fs::metadata(path)?.mode();
            std::fs::set_permissions(path, Permissions::from_mode(mode))
        }
        "chown" => std::os::unix::fs::chown(path, None, Some(std::fs::metadata(path)?.gid())),
        "utime" => touch(path),
        "xattr" => Ok(rustix::fs::setxattr(path, "user.paddock-probe", b"1", XattrFlags::empty())?),
        "stream" => UnixStream::connect(path).map(drop),
        "seqpacket" => connect_seqpacket(path),
        "datagram" => UnixDatagram::unbound()?.send_to(b"probe", path).map(drop),
        "abstract" => {
            UnixStream::connect_addr(&UnixAddress::from_abstract_name(argument)?).map(drop)
        }
        "bind" => UnixListener::bind(path).and_then(|_| std::fs::remove_file(path)),
        "race" => race(argument),
        "tcp" => TcpStream::connect_timeout(&address(argument)?, LIMIT).map(drop),
        "udp" => send_udp(address(argument)?),
        "proxy" => through_proxy(argument),
        "gate" => gate::ask(argument),
        "gate-then" => gate::ask_and_become(path),
        "gate-on" => gate::ask_on(),
        "gate-by-child" => gate::ask_by_child(),
        "herdr" => ask_herdr(argument),
        "mute" => send_half_to_herdr(argument),
        "download" => download(argument),
        "flood" => {
            let (kind, count) = argument.split_once(' ').unwrap_or((argument, ""));
            flood_gate(kind, count.parse().map_err(io::Error::other)?)
        }
        "slow" => {
            let (count, target) = argument.split_once(' ').unwrap_or((argument, ""));
            let waited = beside_slow_clients(count.parse().map_err(io::Error::other)?, target)?;
            println!("slow: {}", waited.as_millis());
            Ok(())
        }
        "signal" => Ok(rustix::process::test_kill_process(process(argument)?)?),
        "pidfd" => signal_by_pidfd(process(argument)?),
        "limit" => change_limit(process(argument)?),
        "priority" => {
            let own = rustix::process::getpriority_process(None)?;
            Ok(rustix::process::setpriority_process(Some(process(argument)?), own)?)
        }
        "terminal" => OpenOptions::new().read(true).write(true).open("/dev/tty").map(drop),
        "run" => run(argument),
        _ => Err(io::Error::other("no such kind of attempt")),
    }
}

/// Lowers the limit on core files, which nobody here needs.
fn change_limit(process: rustix::process::Pid) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let none = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    Ok(prlimit(Some(process), Resource::Core, none).map(drop)?)
}

/// As a shell would: `open` need not be allowed for it.
fn touch(path: &Path) -> io::Result<()> {
    let time = std::fs::metadata(path)?.modified()?.duration_since(SystemTime::UNIX_EPOCH);
    let time = time.map_err(io::Error::other)?;
    let time = rustix::fs::Timespec {
        tv_sec: i64::try_from(time.as_secs()).map_err(io::Error::other)?,
        tv_nsec: time.subsec_nanos().into(),
    };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty())?)
}

fn connect_seqpacket(path: &Path) -> io::Result<()> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    Ok(rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?)
}

/// `SECONDS MODE STREAM DATAGRAM ALLOWED`: races for both sockets, in the mode
/// `once` until both are reached. Prints what each way came to.
fn race(argument: &str) -> io::Result<()> {
    let words: Vec<&str> = argument.split(' ').collect();
    let [seconds, mode, stream, datagram, allowed] = words[..] else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let forbidden = [(Path::new(stream), Way::Connect), (Path::new(datagram), Way::Send)];
    let limit = Duration::from_secs(seconds.parse().map_err(io::Error::other)?);
    let tallies = race_for_sockets(&forbidden, Path::new(allowed), true, limit, mode == "once")?;
    for (way, tally) in ["connect", "send"].iter().zip(&tallies) {
        let Tally { attempts, without_socket, reached, elsewhere } = tally;
        println!("{way} {attempts} {without_socket} {reached} {elsewhere}");
    }
    let has_reached = tallies.iter().any(|tally| tally.reached > 0);
    has_reached.then_some(()).ok_or_else(|| io::Error::other("nothing was reached"))
}

fn address(text: &str) -> io::Result<SocketAddr> {
    text.parse().map_err(io::Error::other)
}

fn send_udp(to: SocketAddr) -> io::Result<()> {
    let from = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    UdpSocket::bind(from)?.send_to(b"probe", to).map(drop)
}

/// Has the proxy of the environment make a tunnel to `host:port`, and fetches
/// something through it.
fn through_proxy(target: &str) -> io::Result<()> {
    let mut tunnel = warden::open_tunnel(target, LIMIT)?;
    write!(tunnel.get_mut(), "GET / HTTP/1.0\r\n\r\n")?;
    let mut status = String::new();
    tunnel.read_line(&mut status)?;
    match status.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(io::Error::other(status.trim_end().to_owned())),
    }
}

/// Sends herdr a request line as its hooks do, and prints the reply.
fn ask_herdr(request: &str) -> io::Result<()> {
    let mut stream = UnixStream::connect(herdrs_socket()?)?;
    stream.set_read_timeout(Some(LIMIT))?;
    writeln!(stream, "{request}")?;
    let mut reply = String::new();
    io::BufReader::new(stream).read_line(&mut reply)?;
    print!("{reply}");
    if reply.ends_with('\n') { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The same without the end of the line, and waits for the other side to give up.
fn send_half_to_herdr(request: &str) -> io::Result<()> {
    let mut stream = UnixStream::connect(herdrs_socket()?)?;
    stream.set_read_timeout(Some(LIMIT * 4))?;
    write!(stream, "{request}")?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    if reply.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn herdrs_socket() -> io::Result<std::ffi::OsString> {
    std::env::var_os("HERDR_SOCKET_PATH").ok_or_else(|| io::Error::other("no herdr is named"))
}

/// Takes all that comes through a tunnel.
fn download(target: &str) -> io::Result<()> {
    let mut tunnel = warden::open_tunnel(target, LIMIT)?;
    write!(tunnel.get_mut(), "GET / HTTP/1.0\r\n\r\n")?;
    io::copy(&mut tunnel, &mut io::sink()).map(drop)
}

fn process(text: &str) -> io::Result<Pid> {
    let number = text.parse().map_err(io::Error::other)?;
    Pid::from_raw(number).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A signal that changes nothing where it arrives: the process runs.
fn signal_by_pidfd(process: Pid) -> io::Result<()> {
    let process = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    Ok(rustix::process::pidfd_send_signal(process, Signal::CONT)?)
}

/// Runs a shell command to its end.
fn run(command: &str) -> io::Result<()> {
    let output = Command::new("/bin/sh").args(["-c", command]).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    let error = error.trim_end().replace('\n', "; ");
    output.status.success().then_some(()).ok_or_else(|| io::Error::other(error))
}
