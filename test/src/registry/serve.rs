//! One connection after the other, one request each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{BASE, NAME};

/// The longest that a client may take to say or to take something.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest head of a request, in bytes.
const LONGEST_HEAD: u64 = 64 * 1024;

/// The first byte of a TLS record that begins a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;

#[derive(Clone)]
pub(super) struct Site {
    pub(super) root: PathBuf,
    pub(super) port: u16,
    pub(super) tls: Arc<ServerConfig>,
    pub(super) requests: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub(super) fn serve(&self, listener: &TcpListener, stop: &AtomicBool) {
        for stream in listener.incoming().flatten() {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            let site = self.clone();
            std::thread::spawn(move || site.connected(stream));
        }
    }

    fn connected(&self, mut stream: TcpStream) -> Option<()> {
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        stream.set_write_timeout(Some(LIMIT)).ok()?;
        let mut first = [0];
        stream.peek(&mut first).ok()?;
        if first == [TLS_HANDSHAKE] {
            let connection = ServerConnection::new(self.tls.clone()).ok()?;
            let mut stream = StreamOwned::new(connection, stream);
            self.answer("https", &mut stream)?;
            stream.conn.send_close_notify();
            stream.flush().ok()
        } else {
            self.answer("http", &mut stream)
        }
    }

    fn answer(&self, scheme: &str, stream: &mut (impl Read + Write)) -> Option<()> {
        let mut head = BufReader::new(stream).take(LONGEST_HEAD);
        let mut request = String::new();
        head.read_line(&mut request).ok()?;
        let mut line = String::new();
        while head.read_line(&mut line).ok()? > 2 {
            line.clear();
        }
        let stream = head.into_inner().into_inner();

        let mut words = request.split_whitespace();
        let (method, target) = (words.next()?, words.next()?);
        let content = self.content(scheme, target);
        let status = if content.is_some() { "200 OK" } else { "404 Not Found" };
        let told = format!("{scheme} {method} {target} {}", &status[..3]);
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        let content = content.unwrap_or_default();
        let kind = match content.first() {
            Some(b'<') => "text/html",
            Some(b'{') => "application/json",
            _ => "application/octet-stream",
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            content.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        if method != "HEAD" {
            stream.write_all(&content).ok()?;
        }
        stream.flush().ok()
    }

    /// A directory's is that of the file `index` in it.
    fn content(&self, scheme: &str, target: &str) -> Option<Vec<u8>> {
        let path = target.split('?').next()?.trim_start_matches('/');
        let path = Path::new(path);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        let mut path = is_below.then(|| self.root.join(path))?;
        if path.is_dir() {
            path.push("index");
        }
        let content = std::fs::read(path).ok()?;
        Some(match str::from_utf8(&content) {
            Ok(text) => {
                let base = format!("{scheme}://{NAME}:{}", self.port);
                text.replace(BASE, &base).into_bytes()
            }
            Err(_) => content,
        })
    }
}
