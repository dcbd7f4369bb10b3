//! What the tests of the guard share. All traffic stays on the loopback.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egress::{Guard, Policy, Record, Resolver};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Far longer than anything here takes: a test that hangs fails instead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Answers from a table and remembers what it was asked.
#[derive(Default)]
pub(crate) struct Names {
    table: HashMap<&'static str, Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
    then: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Names {
    pub(crate) fn new(table: &[(&'static str, &[&str])]) -> Arc<Self> {
        let parse = |addresses: &[&str]| addresses.iter().map(|a| a.parse().unwrap()).collect();
        let table = table.iter().map(|(name, addresses)| (*name, parse(addresses))).collect();
        Arc::new(Self { table, ..Self::default() })
    }

    /// Calls this before the next answer.
    pub(crate) fn when_asked(&self, then: impl FnOnce() + Send + 'static) {
        *self.then.lock().unwrap() = Some(Box::new(then));
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let then = self.then.lock().unwrap().take();
        if let Some(then) = then {
            then();
        }
        self.table.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A guard, the names that it resolves and the records that it makes.
pub(crate) struct Bench {
    pub(crate) guard: Arc<Guard<Arc<Names>>>,
    pub(crate) names: Arc<Names>,
    records: UnboundedReceiver<Record>,
}

impl Bench {
    pub(crate) fn new(policy: Policy, names: Arc<Names>) -> Self {
        let (sender, records) = unbounded_channel();
        // The receiver is gone when a test has seen enough.
        let recorder = Arc::new(move |record| drop(sender.send(record)));
        let guard = Arc::new(Guard::new(policy, Arc::clone(&names), recorder));
        Self { guard, names, records }
    }

    /// The same with other settings, before the guard is used.
    pub(crate) fn with(self, change: impl FnOnce(Guard<Arc<Names>>) -> Guard<Arc<Names>>) -> Self {
        let guard = Arc::into_inner(self.guard).unwrap();
        Self { guard: Arc::new(change(guard)), ..self }
    }

    /// A new connection to the guard.
    pub(crate) fn connect(&self) -> impl AsyncRead + AsyncWrite + Unpin + Send + use<> {
        let (client, server) = tokio::io::duplex(4096);
        tokio::spawn(Arc::clone(&self.guard).serve(server));
        client
    }

    /// Sends a request and gives the whole reply; for requests without a tunnel.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let mut client = self.connect();
        // The guard may have seen enough before the end.
        let _ = client.write_all(request.as_bytes()).await;
        read_all(&mut client).await
    }

    /// The next record.
    pub(crate) async fn record(&mut self) -> Record {
        within(self.records.recv()).await.unwrap()
    }

    /// The next record, however long it takes in time that only passes for tests.
    pub(crate) async fn later(&mut self) -> Record {
        self.records.recv().await.unwrap()
    }

    /// The next record, if it is there already.
    pub(crate) fn record_if_any(&mut self) -> Option<Record> {
        self.records.try_recv().ok()
    }

    /// Whether there is no record that was not looked at.
    pub(crate) fn no_more_records(&mut self) -> bool {
        self.records.try_recv().is_err()
    }
}

pub(crate) fn connect_to(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

pub(crate) async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = String::new();
    within(stream.read_to_string(&mut text)).await.unwrap();
    text
}

/// Asks for a tunnel and reads the head of the reply, which must be a 200.
pub(crate) async fn open(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    authority: &str,
) -> String {
    client.write_all(connect_to(authority).as_bytes()).await.unwrap();
    let head = read_until(client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    head
}

/// A server that sends back what it gets, until the client ends its half.
pub(crate) async fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    address
}

async fn echo(mut stream: TcpStream) {
    let (mut read, mut write) = stream.split();
    // The other side may be gone.
    let _ = tokio::io::copy(&mut read, &mut write).await;
}

/// A server for one connection, at a name that the guard knows.
pub(crate) struct Origin {
    pub(crate) bench: Bench,
    /// `name:port`.
    pub(crate) authority: String,
    listener: TcpListener,
}

impl Origin {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let authority = format!("origin.internal:{}", address.port());
        let policy = Policy::new([&authority], [("origin.internal", address.ip())]).unwrap();
        Self { bench: Bench::new(policy, Names::new(&[])), authority, listener }
    }

    /// The next connection from the guard.
    pub(crate) async fn accept(&self) -> TcpStream {
        within(self.listener.accept()).await.unwrap().0
    }

    /// Sends `head`, with `{}` for the authority, and gives what the origin arrived,
    /// which must end in `end`, and what the client got for `reply`.
    pub(crate) async fn exchange(&self, head: &str, end: &str, reply: &str) -> (String, String) {
        let mut client = self.bench.connect();
        let request = head.replace("{}", &self.authority);
        let asking = async {
            client.write_all(request.as_bytes()).await.unwrap();
            read_all(&mut client).await
        };
        let answering = async {
            let mut stream = self.accept().await;
            let arrived = read_until(&mut stream, end).await;
            stream.write_all(reply.as_bytes()).await.unwrap();
            // The guard ends the connection, unless the reply is ended by it.
            stream.shutdown().await.unwrap();
            arrived + &read_all(&mut stream).await
        };
        let (got, arrived) = within(async { tokio::join!(asking, answering) }).await;
        (arrived, got)
    }
}

/// Reads until what has come ends in `end`.
pub(crate) async fn read_until(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        read.push(within(stream.read_u8()).await.unwrap());
    }
    String::from_utf8(read).unwrap()
}
