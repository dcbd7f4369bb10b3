//! Many connections at once.

use std::sync::Arc;

use egress::{Event, Policy};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::support::{Bench, Names, connect_to, echo_server, open, read_all, within};

const CLIENTS: usize = 500;

/// Each tunnel has four descriptors here, because client, guard and server are
/// in one process.
fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = CLIENTS as u64 * 5;
    if current.is_some_and(|current| current < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_of_500_at_once_is_turned_away() {
    raise_descriptor_limit();
    let echo = echo_server().await;
    let authority: Arc<str> = format!("echo.internal:{}", echo.port()).into();
    let policy = Policy::new([&authority], [("echo.internal", echo.ip())]).unwrap();
    let mut bench = Bench::new(policy, Names::new(&[]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&bench.guard).run(listener, std::future::pending()));

    // All tunnels are open at the same time before the first byte passes.
    let barrier = Arc::new(Barrier::new(CLIENTS));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (authority, barrier) = (Arc::clone(&authority), Arc::clone(&barrier));
        clients.spawn(async move {
            let mut client = TcpStream::connect(address).await.unwrap();
            open(&mut client, &authority).await;
            barrier.wait().await;
            let text = format!("client {number}");
            client.write_all(text.as_bytes()).await.unwrap();
            let mut back = vec![0; text.len()];
            client.read_exact(&mut back).await.unwrap();
            assert_eq!(back, text.as_bytes());
        });
    }
    // Fails if any client did.
    within(clients.join_all()).await;
    let mut closed = 0;
    for _ in 0..2 * CLIENTS {
        closed += usize::from(bench.record().await.event == Event::Closed);
    }
    assert_eq!(closed, CLIENTS);

    // And as many that are refused.
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(async move {
            let mut client = TcpStream::connect(address).await.unwrap();
            let request = connect_to(&format!("host-{number}.example:443"));
            client.write_all(request.as_bytes()).await.unwrap();
            assert!(read_all(&mut client).await.starts_with("HTTP/1.1 403 "));
        });
    }
    within(clients.join_all()).await;
    assert_eq!(bench.names.asked(), [""; 0]);
}
