//! A scripted model, so that a real agent runs offline.
//!
//! [`ModelServer`] listens on the loopback and speaks as much of the `OpenAI` Responses API
//! as Codex needs: `POST /v1/responses`, answered with server-sent events, and an empty
//! `GET /v1/models`. The request says how far the conversation has come, so the server
//! keeps no state: every conversation runs the script from its start, in parallel too, and
//! a repeated request gets the same answer. Codex's terminal UI makes one request more, for
//! a title, without tools.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

/// The shell tool of Codex. Codex offers it to models that it does not know by name; those
/// that it knows reach a shell only through JavaScript.
const SHELL_TOOL: &str = "exec_command";

const MAX_BODY: usize = 4 << 20;
const MAX_HEAD: u64 = 64 << 10;

/// What the model does when it is its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Has the agent run this command in its shell tool. Codex answers after ten seconds at
    /// the latest, with what the command has written until then.
    Shell(String),
    /// Says this, which ends the agent's turn.
    Say(String),
}

/// A model that follows a script. Dropping it ends its connections and threads.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    script: Vec<Turn>,
    requests: Mutex<Vec<Value>>,
    stopping: AtomicBool,
}

impl ModelServer {
    /// Starts a server on a free loopback port.
    ///
    /// A conversation goes through `script` turn by turn: a [`Turn::Shell`] is over when its
    /// output comes back, a [`Turn::Say`] when the user has asked for more. After the last
    /// turn the model only says that the script is over.
    pub fn start(script: Vec<Turn>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .context("the model server cannot listen on the loopback")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script,
            requests: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let acceptor = thread::Builder::new().name("model".into()).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(Self { address, shared, acceptor: Some(acceptor) })
    }

    /// The loopback port that it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The bodies of all requests to `/v1/responses` so far, in the order they came.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.requests().clone()
    }
}

impl Shared {
    fn requests(&self) -> MutexGuard<'_, Vec<Value>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor. Where that fails, waiting for it could take forever.
        let woken = TcpStream::connect_timeout(&self.address, Duration::from_secs(2)).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut connections: Vec<(TcpStream, JoinHandle<()>)> = Vec::new();
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            break;
        }
        connections.retain(|(_, thread)| !thread.is_finished());
        let Ok(stream) = stream else { continue };
        let Ok(handle) = stream.try_clone() else {
            continue;
        };
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name("model connection".into()).spawn(move || {
            // A connection that breaks is the client's business.
            let _ = serve(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
        });
        if let Ok(thread) = thread {
            connections.push((handle, thread));
        }
    }
    for (stream, _) in &connections {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for (_, thread) in connections {
        let _ = thread.join();
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (response, keep_alive) = match Request::read(&mut reader) {
            Ok(request) => (respond(&request, shared), request.keep_alive),
            Err(Unreadable::Broken(error)) => return Err(error),
            Err(Unreadable::Refused(status, reason)) => (Response::error(status, reason), false),
        };
        response.write(stream, keep_alive)?;
        if !keep_alive {
            return Ok(());
        }
    }
}

fn respond(request: &Request, shared: &Shared) -> Response {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/v1/models") => {
            let none = json!({ "object": "list", "data": [], "models": [] });
            Response::ok("application/json", none.to_string())
        }
        ("POST", "/v1/responses") => match serde_json::from_slice::<Value>(&request.body) {
            Ok(body) if body["stream"] == true => {
                let events = next_events(&shared.script, &body);
                shared.requests().push(body);
                Response::ok("text/event-stream", events)
            }
            Ok(_) => Response::error("400 Bad Request", "only streamed responses are spoken"),
            Err(error) => {
                Response::error("400 Bad Request", &format!("the body is not JSON: {error}"))
            }
        },
        _ => Response::error("404 Not Found", "no such method and path"),
    }
}

/// The model's answer to a request, as a stream of server-sent events.
fn next_events(script: &[Turn], request: &Value) -> String {
    let input = request["input"].as_array().map_or(&[][..], Vec::as_slice);
    let position = input
        .iter()
        .filter(|item| item["type"] == "function_call_output" || item["role"] == "assistant")
        .count();
    let item = match script.get(position) {
        Some(Turn::Shell(command)) => shell_call(command, position, request),
        Some(Turn::Say(text)) => message(text, position),
        None => message("The script is over.", position),
    };

    let id = format!("resp_{position}");
    let usage = json!({ "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 });
    [
        json!({ "type": "response.created", "response": { "id": id } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": id, "usage": usage } }),
    ]
    .map(|data| {
        let name = data["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {data}\n\n")
    })
    .concat()
}

/// A call of the shell tool, or a message that the request does not offer it.
fn shell_call(command: &str, position: usize, request: &Value) -> Value {
    let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
    if !tools.iter().any(|tool| tool["name"] == SHELL_TOOL) {
        return message(&format!("The request offers no {SHELL_TOOL} tool."), position);
    }
    json!({
        "type": "function_call",
        "id": format!("fc_{position}"),
        "call_id": format!("call_{position}"),
        "name": SHELL_TOOL,
        "arguments": json!({ "cmd": command }).to_string(),
    })
}

fn message(text: &str, position: usize) -> Value {
    json!({
        "type": "message",
        "id": format!("msg_{position}"),
        "role": "assistant",
        "content": [{ "type": "output_text", "text": text }],
    })
}

struct Request {
    method: String,
    path: String,
    keep_alive: bool,
    body: Vec<u8>,
}

/// Why a request could not be read: the connection ended, or it deserves an error status.
enum Unreadable {
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
    fn read(reader: &mut BufReader<&TcpStream>) -> Result<Self, Unreadable> {
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
        Ok(Self { method: method.into(), path: path_of(target).into(), keep_alive, body })
    }
}

/// The path of a request target, which may be absolute (as proxies get it) or have a query.
fn path_of(target: &str) -> &str {
    let path = target
        .strip_prefix("http://")
        .map_or(target, |rest| rest.find('/').map_or("/", |start| &rest[start..]));
    path.split('?').next().unwrap_or(path)
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

struct Response {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Response {
    fn ok(kind: &'static str, body: String) -> Self {
        let status = "200 OK";
        Self { status, kind, body }
    }

    fn error(status: &'static str, reason: &str) -> Self {
        let body = json!({ "error": { "message": reason } }).to_string();
        Self { status, kind: "application/json", body }
    }

    fn write(&self, mut stream: &TcpStream, keep_alive: bool) -> io::Result<()> {
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
