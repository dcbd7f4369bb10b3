//! As much of HTTP/1.1 as the model's clients speak. What a client sends is bounded.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

const MAX_BODY: usize = 4 << 20;
const MAX_HEAD: u64 = 64 << 10;

pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// What follows the path's question mark.
    pub(super) query: String,
    pub(super) keep_alive: bool,
    pub(super) body: Vec<u8>,
}

/// Why a request could not be read: the connection ended, or it deserves an error status.
pub(super) enum Unreadable {
    Broken(io::Error),
    Refused(&'static str, &'static str),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

fn malformed(reason: &'static str) -> Unreadable {
    Unreadable::Refused("400 Bad Request", reason)
}

impl Request {
    pub(super) fn read(reader: &mut BufReader<&TcpStream>) -> Result<Self, Unreadable> {
        let start = read_line(reader)?;
        let mut words = start.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(malformed("the request line is not METHOD TARGET VERSION"));
        };
        if !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
            return Err(malformed("only HTTP/1.1 is spoken"));
        }

        let mut keep_alive = version == "HTTP/1.1";
        let mut length = None;
        let mut chunked = false;
        for line in read_fields(reader)? {
            let (name, value) = line.split_once(':').ok_or(malformed("a header has no colon"))?;
            let value = value.trim().to_ascii_lowercase();
            match name.to_ascii_lowercase().as_str() {
                "connection" => keep_alive = value != "close",
                "content-length" => {
                    let bytes: usize =
                        value.parse().map_err(|_| malformed("Content-Length is no number"))?;
                    length = Some(bytes);
                }
                "transfer-encoding" if value == "chunked" => chunked = true,
                "transfer-encoding" | "content-encoding" if value != "identity" => {
                    let reason = "only chunked transfer of plain bodies is spoken";
                    return Err(Unreadable::Refused("415 Unsupported Media Type", reason));
                }
                "expect" if value == "100-continue" => {
                    reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                }
                _ => {}
            }
        }

        let mut body = Vec::new();
        match (chunked, length) {
            (true, Some(_)) => return Err(malformed("both chunked and Content-Length")),
            (true, None) => {
                while read_chunk(reader, &mut body)? {}
                read_fields(reader)?;
            }
            (false, length) => read_body(reader, length.unwrap_or(0), &mut body)?,
        }
        let (path, query) = path_and_query(target);
        Ok(Self { method: method.into(), path: path.into(), query: query.into(), keep_alive, body })
    }
}

/// Those of a request target, which may be absolute (as proxies get it).
fn path_and_query(target: &str) -> (&str, &str) {
    let path = target
        .strip_prefix("http://")
        .map_or(target, |rest| rest.find('/').map_or("/", |start| &rest[start..]));
    path.split_once('?').unwrap_or((path, ""))
}

/// One line without its end; an error at the end of the stream.
fn read_line(reader: &mut BufReader<&TcpStream>) -> Result<String, Unreadable> {
    let mut line = Vec::new();
    reader.by_ref().take(MAX_HEAD).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => {}
        Some(_) if line.len() as u64 + 1 == MAX_HEAD => {
            return Err(malformed("a line is too long"));
        }
        _ => return Err(Unreadable::Broken(io::ErrorKind::UnexpectedEof.into())),
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| malformed("a line is not UTF-8"))
}

/// Header or trailer lines, up to the empty line.
fn read_fields(reader: &mut BufReader<&TcpStream>) -> Result<Vec<String>, Unreadable> {
    let mut lines = Vec::new();
    loop {
        match read_line(reader)? {
            line if line.is_empty() => return Ok(lines),
            _ if lines.len() == 100 => return Err(malformed("too many headers")),
            line => lines.push(line),
        }
    }
}

/// Appends `length` bytes to `body`.
fn read_body(
    reader: &mut BufReader<&TcpStream>,
    length: usize,
    body: &mut Vec<u8>,
) -> Result<(), Unreadable> {
    if length > MAX_BODY - body.len() {
        let reason = "the body is larger than 4 MiB";
        return Err(Unreadable::Refused("413 Content Too Large", reason));
    }
    let start = body.len();
    body.resize(start + length, 0);
    Ok(reader.read_exact(&mut body[start..])?)
}

/// Appends one chunk to `body`; false for the last one, which is empty.
fn read_chunk(reader: &mut BufReader<&TcpStream>, body: &mut Vec<u8>) -> Result<bool, Unreadable> {
    let line = read_line(reader)?;
    let size = line.split(';').next().unwrap_or("").trim();
    let size = usize::from_str_radix(size, 16).map_err(|_| malformed("a chunk has no size"))?;
    if size == 0 {
        return Ok(false);
    }
    read_body(reader, size, body)?;
    if !read_line(reader)?.is_empty() {
        return Err(malformed("a chunk is longer than its size"));
    }
    Ok(true)
}

/// What is sent back to a request.
pub(super) struct Response {
    status: &'static str,
    kind: &'static str,
    body: String,
}

/// Server-sent events: each object is one.
pub(super) fn events(objects: &[Value]) -> String {
    let mut stream = String::new();
    for data in objects {
        let _ = write!(stream, "data: {data}\n\n");
    }
    stream
}

/// The same, each named after the `type` of its object.
pub(super) fn named_events(objects: &[Value]) -> String {
    let mut stream = String::new();
    for data in objects {
        let name = data["type"].as_str().unwrap_or_default();
        let _ = write!(stream, "event: {name}\ndata: {data}\n\n");
    }
    stream
}

impl Response {
    pub(super) fn json(body: &Value) -> Self {
        Self { status: "200 OK", kind: "application/json", body: body.to_string() }
    }

    pub(super) fn events(body: String) -> Self {
        Self { status: "200 OK", kind: "text/event-stream", body }
    }

    pub(super) fn error(status: &'static str, reason: &str) -> Self {
        let body = json!({ "error": { "message": reason } }).to_string();
        Self { status, kind: "application/json", body }
    }

    pub(super) fn not_found() -> Self {
        Self::error("404 Not Found", "no such method and path")
    }

    pub(super) fn is_ok(&self) -> bool {
        self.status == "200 OK"
    }

    /// The same without its body, which an answer to `HEAD` does not have.
    pub(super) fn without_body_if(mut self, is_head: bool) -> Self {
        if is_head {
            self.body.clear();
        }
        self
    }

    pub(super) fn write(&self, mut stream: &TcpStream, keep_alive: bool) -> io::Result<()> {
        let Self { status, kind, body } = self;
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let length = body.len();
        let whole = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: {connection}\r\n\r\n{body}"
        );
        stream.write_all(whole.as_bytes())
    }
}
