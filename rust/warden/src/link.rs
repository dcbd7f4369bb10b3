//! Where client and server meet, and waiting there.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::NOT_FOUND;

/// A local connection is accepted or refused at once.
const PROBE_LIMIT: Duration = Duration::from_millis(200);
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
/// What listens can be slow to answer, and what came before it could answer can stay
/// unanswered: one question waits this long at first, and the next one twice as long.
const ANSWER_LIMIT: Duration = Duration::from_millis(250);
const LONGEST_ANSWER_LIMIT: Duration = Duration::from_secs(8);
/// How every answer begins (RFC 9112, section 4).
const STATUS_LINE: &[u8] = b"HTTP/1.";

/// The meeting point of the agent's halves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A port of the pen's own loopback.
    Tcp(u16),
    /// The same, and a path that is answered by HTTP once the server is ready.
    Http(u16, String),
    /// An AF_UNIX socket in the launch's link folder.
    Unix(PathBuf),
    /// A socket of the agent's own, at a path with a part `*` where it makes up a name.
    Own(PathBuf),
    /// A socket in the launch's link folder, where a server is started for who connects:
    /// it speaks on its standard input and output.
    Stdio(PathBuf),
}

impl Link {
    /// As an argument; [`Link::parse`] reads it.
    pub fn to_argument(&self) -> OsString {
        let at = |kind: &str, path: &Path| {
            let mut argument = OsString::from(kind);
            argument.push(path);
            argument
        };
        match self {
            Self::Tcp(port) => format!("tcp:{port}").into(),
            Self::Http(port, path) => format!("http:{port}{path}").into(),
            Self::Unix(path) => at("unix:", path),
            Self::Own(path) => at("own:", path),
            Self::Stdio(path) => at("stdio:", path),
        }
    }

    /// The socket in the link folder, where they meet at one.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Tcp(_) | Self::Http(..) | Self::Own(_) => None,
            Self::Unix(path) | Self::Stdio(path) => Some(path),
        }
    }

    /// Reads what [`Link::to_argument`] wrote.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |port: &str| port.parse().map_err(|_| format!("{port:?} is no port"));
        match text.split_once(':') {
            Some(("tcp", port)) => number(port).map(Self::Tcp),
            Some(("http", place)) => {
                let path = place.find('/').ok_or("http:PORT/PATH is expected")?;
                Ok(Self::Http(number(&place[..path])?, place[path..].into()))
            }
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("own", path)) => Ok(Self::Own(path.into())),
            Some(("stdio", path)) => Ok(Self::Stdio(path.into())),
            _ => {
                Err("tcp:PORT, http:PORT/PATH, unix:PATH, own:PATH or stdio:PATH is expected"
                    .into())
            }
        }
    }

    /// The port, where it is one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(port) | Self::Http(port, _) => Some(*port),
            Self::Unix(_) | Self::Own(_) | Self::Stdio(_) => None,
        }
    }

    /// Waits until a server is ready here. How long it may take is for others to decide.
    fn wait(&self) {
        let mut limit = ANSWER_LIMIT;
        loop {
            match self.answers(limit) {
                Ok(()) => return,
                Err(error) if is_timeout(&error) => limit = (limit * 2).min(LONGEST_ANSWER_LIMIT),
                Err(_) => {}
            }
            std::thread::sleep(PROBE_INTERVAL);
        }
    }

    /// Whether a server is ready here, asked once.
    fn answers(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(port) => connect(*port).map(drop),
            Self::Http(port, path) => ask(connect(*port)?, *port, path, limit),
            Self::Unix(path) => UnixStream::connect(path).map(drop),
            Self::Own(path) => {
                let mut places = places(path).into_iter();
                let answering = places.find_map(|path| UnixStream::connect(path).ok());
                answering.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            // A connection would start a server.
            Self::Stdio(path) => {
                let is_there = std::fs::symlink_metadata(path)?.file_type().is_socket();
                is_there.then_some(()).ok_or_else(|| io::ErrorKind::NotConnected.into())
            }
        }
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PROBE_LIMIT)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Asks for `path`. Any status will do: what asks for a password is ready, too.
fn ask(mut stream: TcpStream, port: u16, path: &str, limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(request.as_bytes())?;
    let mut begun = Vec::new();
    while begun.len() < STATUS_LINE.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 64];
        match stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => begun.extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if begun.starts_with(STATUS_LINE) { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The paths that `pattern` stands for: with each name that is there in place of `*`.
fn places(pattern: &Path) -> Vec<PathBuf> {
    let mut parts = pattern.components();
    let before: PathBuf = parts.by_ref().take_while(|part| part.as_os_str() != "*").collect();
    if before == pattern {
        return vec![before];
    }
    let rest = parts.as_path();
    let there = std::fs::read_dir(&before).into_iter().flatten().flatten();
    let is_all = rest.as_os_str().is_empty();
    // Joining nothing would put a slash at its end, behind which no socket is.
    let place = |found: PathBuf| if is_all { found } else { found.join(rest) };
    there.map(|entry| place(entry.path())).collect()
}

/// Waits until a server is ready on `link`, then becomes `argv`. How long it may
/// wait is the keeper's to decide.
///
/// A process of its own and not the warden's business: a mediated connect is
/// refused to who is undumpable.
///
/// # Errors
/// When `argv` cannot be started for another reason than that it is not there.
pub fn await_server(link: &Link, argv: &[OsString]) -> anyhow::Result<ExitCode> {
    link.wait();
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_link_is_read_as_it_is_written() {
        for link in [
            Link::Tcp(4600),
            Link::Http(4600, "/global/health?deep=1:2".into()),
            Link::Unix("/a:b/c".into()),
            Link::Own("/t/*/s".into()),
            Link::Stdio("/a b".into()),
        ] {
            let argument = link.to_argument();
            assert_eq!(Link::parse(argument.to_str().unwrap()), Ok(link));
        }
        for text in ["tcp:", "tcp:65536", "http:4600", "http:/health", "http:x/", "udp:1", ""] {
            assert!(Link::parse(text).is_err(), "{text}");
        }
    }

    /// A server that treats one connection after the other as `each` says, and the
    /// requests that it read.
    fn serve(each: Vec<Option<&'static [u8]>>) -> (u16, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut asked, mut unanswered) = (Vec::new(), Vec::new());
            for answer in each {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = [0; 512];
                let read = stream.read(&mut bytes).unwrap();
                asked.push(String::from_utf8_lossy(&bytes[..read]).into_owned());
                match answer {
                    Some(answer) => stream.write_all(answer).unwrap(),
                    None => unanswered.push(stream),
                }
            }
            asked
        });
        (port, server)
    }

    #[test]
    fn a_server_is_ready_when_it_answers_whatever_the_status() {
        let refused = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
        // It accepts and says nothing, then hangs up, then speaks something else.
        let (port, server) =
            serve(vec![None, None, Some(b""), Some(b"SSH-2.0-x\r\n"), Some(refused)]);
        Link::Http(port, "/global/health".into()).wait();
        let asked = server.join().unwrap();
        assert_eq!(asked.len(), 5);
        let wanted = format!("GET /global/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
        assert!(asked.iter().all(|request| request.starts_with(&wanted)), "{asked:?}");
    }

    #[test]
    fn a_server_that_never_answers_is_never_ready() {
        // The kernel takes connections on its behalf.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        Link::Tcp(port).wait();
        let (ready, is_ready) = mpsc::channel();
        std::thread::spawn(move || {
            Link::Http(port, "/".into()).wait();
            let _ = ready.send(());
        });
        let waited = is_ready.recv_timeout(Duration::from_secs(2));
        assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout));
    }

    #[test]
    fn an_answer_in_pieces_is_one() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            for piece in [&b"HT"[..], b"TP/", b"1.0 200 OK\r\n\r\n"] {
                stream.write_all(piece).unwrap();
                stream.flush().unwrap();
            }
            stream
        });
        Link::Http(port, "/".into()).answers(Duration::from_mins(1)).unwrap();
        drop(server.join().unwrap());
    }

    #[test]
    fn an_agents_own_socket_answers_under_whatever_name_it_made_up() {
        let answers = |link: &Link| link.answers(ANSWER_LIMIT).is_ok();
        let root = tempfile::tempdir().unwrap();
        let link = Link::Own(root.path().join("*/control.sock"));
        let exact = Link::Own(root.path().join("1f/control.sock"));
        assert!(!answers(&link) && !answers(&exact), "there is nothing");
        for name in ["0a", "1f"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        std::fs::write(root.path().join("0a/control.sock"), "").unwrap();
        assert!(!answers(&link), "nobody listens");
        let _listener = UnixListener::bind(root.path().join("1f/control.sock")).unwrap();
        assert!(answers(&link) && answers(&exact));
        assert!(!answers(&Link::Own(root.path().join("*/other.sock"))));
        assert!(answers(&Link::Own(root.path().join("1f/*"))), "the last part is made up");
    }
}
