//! A scripted model, so that a real agent runs offline.
//!
//! [`ModelServer`] listens on the loopback and speaks as much as agents need of four
//! interfaces, one to a module: `OpenAI`'s responses and chat completions, Anthropic's
//! messages, and Gemini. The request says how far the conversation has
//! come, so the server keeps no state: every conversation runs the script from its start, in
//! parallel too, and a repeated request gets the same answer. Agents make requests beside
//! the conversation, for a title say; those offer no shell tool, and are told so.

use std::io::{self, BufReader};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

mod chat;
mod gemini;
mod http;
mod messages;
mod responses;
mod script;
mod tool;

use http::{Request, Response, Unreadable};
use script::{Answer, Entry, next_answer};
use tool::Tool;

pub use script::Turn;

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
    asked: Mutex<Vec<(Shape, Value)>>,
    stopping: AtomicBool,
}

/// Whose interface a request is made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Responses,
    Chat,
    Messages,
    Gemini,
}

impl ModelServer {
    /// Starts a server on a free loopback port.
    ///
    /// A conversation goes through `script` turn by turn: a [`Turn::Shell`] is over when its
    /// output comes back, a [`Turn::Say`] when the user has asked for more. After the last
    /// turn the model only says that the script is over.
    pub fn start(script: Vec<Turn>) -> anyhow::Result<Self> {
        Self::start_on(0, script)
    }

    /// Starts a server on this loopback port; 0 stands for a free one.
    pub fn start_on(port: u16, script: Vec<Turn>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .context("the model server cannot listen on the loopback")?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { script, asked: Mutex::default(), stopping: AtomicBool::new(false) });
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

    /// The bodies of all requests for an answer so far, in the order they came.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.asked().iter().map(|(_, request)| request.clone()).collect()
    }

    /// The body of the last request that offered a shell tool: the conversation so far.
    pub fn conversation(&self) -> Option<Value> {
        self.shared.conversation().map(|(_, request)| request)
    }

    /// What the shell tool gave back in that conversation, call by call.
    pub fn outputs(&self) -> Vec<String> {
        let conversation = self.shared.conversation();
        let history = conversation.map(|(shape, request)| shape.history(&request));
        history
            .unwrap_or_default()
            .into_iter()
            .filter_map(|entry| match entry {
                Entry::Output(output) => Some(output),
                Entry::Said(_) => None,
            })
            .collect()
    }
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, Vec<(Shape, Value)>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conversation(&self) -> Option<(Shape, Value)> {
        let asked = self.asked();
        let offers_shell =
            |(shape, request): &&(Shape, Value)| tool::shell(shape.tools(request)).is_some();
        asked.iter().rfind(offers_shell).cloned()
    }
}

impl Shape {
    /// The shape of what is asked at a path.
    fn of(path: &str) -> Option<Self> {
        match path.strip_prefix("/v1").unwrap_or(path) {
            "/responses" => Some(Self::Responses),
            "/chat/completions" => Some(Self::Chat),
            "/messages" => Some(Self::Messages),
            _ if gemini::method(path).is_some() => Some(Self::Gemini),
            _ => None,
        }
    }

    /// The tools that a request offers.
    fn tools(self, request: &Value) -> Vec<Tool> {
        match self {
            Self::Responses => responses::tools(request),
            Self::Chat => chat::tools(request),
            Self::Messages => messages::tools(request),
            Self::Gemini => gemini::tools(request),
        }
    }

    /// What a request says has happened in its conversation.
    fn history(self, request: &Value) -> Vec<Entry> {
        match self {
            Self::Responses => responses::history(request),
            Self::Chat => chat::history(request),
            Self::Messages => messages::history(request),
            Self::Gemini => gemini::history(request),
        }
    }

    fn respond(self, request: &Request, body: &Value, answer: &Answer) -> Response {
        match self {
            Self::Responses => responses::respond(body, answer),
            Self::Chat => chat::respond(body, answer),
            Self::Messages => messages::respond(body, answer),
            Self::Gemini => gemini::respond(request, answer),
        }
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
        ("GET", "/v1/models" | "/models") => {
            let none = json!({ "object": "list", "data": [], "models": [] });
            Response::json(&none)
        }
        // Whether the host of the model can be reached, asked before anything else.
        ("HEAD" | "GET", "/api/hello") => Response::json(&json!({ "message": "hello" })),
        ("POST", "/v1/messages/count_tokens") => Response::json(&json!({ "input_tokens": 1 })),
        ("POST", path) if gemini::method(path) == Some(gemini::Method::Count) => {
            Response::json(&json!({ "totalTokens": 1 }))
        }
        ("POST", path) => {
            Shape::of(path).map_or_else(Response::not_found, |shape| answer(shape, request, shared))
        }
        _ => Response::not_found(),
    }
    .without_body_if(request.method == "HEAD")
}

/// Has the model answer.
fn answer(shape: Shape, request: &Request, shared: &Shared) -> Response {
    let body: Value = match serde_json::from_slice(&request.body) {
        Ok(body) => body,
        Err(error) => {
            return Response::error("400 Bad Request", &format!("the body is not JSON: {error}"));
        }
    };
    let shell = tool::shell(shape.tools(&body));
    let answer = next_answer(&shared.script, &shape.history(&body), shell.as_ref());
    let response = shape.respond(request, &body, &answer);
    if response.is_ok() {
        shared.asked().push((shape, body));
    }
    response
}
