//! Tunnels: the bytes, their counts, their end.

use std::sync::Arc;
use std::time::Duration;

use egress::{Decision, Event, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::{Bench, Names, connect_to, echo_server, open, read_all, within};

/// A guard that lets clients reach one loopback address by a name.
fn bench(to: std::net::SocketAddr) -> (Bench, String) {
    let authority = format!("echo.internal:{}", to.port());
    let policy = Policy::new([&authority], [("echo.internal", to.ip())]).unwrap();
    (Bench::new(policy, Names::new(&[])), authority)
}

#[tokio::test]
async fn bytes_pass_and_are_counted() {
    let echo = echo_server().await;
    let (mut bench, authority) = bench(echo);
    let mut client = bench.connect();
    let head = open(&mut client, &authority).await;
    assert!(!head.to_lowercase().contains("content-length"), "{head}");
    assert!(!head.to_lowercase().contains("connection: close"), "{head}");
    let opened = bench.record().await;
    assert_eq!((opened.event, opened.decision), (Event::Decided, Decision::Allowed));
    assert_eq!((opened.reason, opened.address), ("exception", Some(echo.ip())));
    assert_eq!((opened.sent, opened.received), (0, 0));

    // More than all buffers on the way together hold.
    let sent: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
    let (mut read, mut write) = tokio::io::split(client);
    let sending = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let ((), count) =
        within(async { tokio::join!(sending, read.read_to_end(&mut received)) }).await;
    assert_eq!(count.unwrap(), sent.len());
    assert!(received == sent, "the bytes came back changed");

    let closed = bench.record().await;
    assert_eq!((closed.event, closed.reason), (Event::Closed, "finished"));
    assert_eq!((closed.sent, closed.received), (sent.len() as u64, sent.len() as u64));
    assert_eq!((closed.request, &closed.host), (opened.request, &opened.host));
    assert_eq!(bench.names.asked(), [""; 0]);
    assert!(bench.no_more_records());
}

#[tokio::test]
async fn each_half_ends_by_itself() {
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut bench, authority) = bench(upstream.local_addr().unwrap());
    let mut client = bench.connect();
    open(&mut client, &authority).await;
    let (mut server, _) = upstream.accept().await.unwrap();
    bench.record().await;

    // The server ends its half first, the client goes on.
    server.write_all(b"bye").await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, "bye");
    client.write_all(b"one more").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut server).await, "one more");
    let closed = bench.record().await;
    assert_eq!((closed.reason, closed.sent, closed.received), ("finished", 8, 3));
}

#[tokio::test]
async fn bytes_right_behind_the_request_are_not_lost() {
    let (mut bench, authority) = bench(echo_server().await);
    let mut client = bench.connect();
    let early = format!("{}early", connect_to(&authority));
    client.write_all(early.as_bytes()).await.unwrap();
    let mut reply = vec![0; "HTTP/1.1 200 OK\r\n".len()];
    within(client.read_exact(&mut reply)).await.unwrap();
    client.shutdown().await.unwrap();
    assert!(read_all(&mut client).await.ends_with("\r\n\r\nearly"));
    bench.record().await;
    assert_eq!(bench.record().await.sent, 5);
}

#[tokio::test]
async fn the_exact_address_is_connected_to() {
    // Two servers on one port: only the one at the pinned address is reached.
    let pinned = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let address = pinned.local_addr().unwrap();
    let other = std::net::TcpListener::bind(("127.0.0.1", address.port())).unwrap();
    other.set_nonblocking(true).unwrap();
    let (mut bench, authority) = bench(address);
    open(&mut bench.connect(), &authority).await;
    within(pinned.accept()).await.unwrap();
    assert_eq!(bench.record().await.address, Some(address.ip()));
    assert_eq!(other.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_broken_tunnel_keeps_its_counts() {
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut bench, authority) = bench(upstream.local_addr().unwrap());
    let mut client = bench.connect();
    open(&mut client, &authority).await;
    bench.record().await;
    let (mut server, _) = upstream.accept().await.unwrap();
    client.write_all(b"four").await.unwrap();
    let mut one = [0; 1];
    server.read_exact(&mut one).await.unwrap();
    // Closing with bytes unread resets the connection.
    drop(server);
    let closed = bench.record().await;
    assert_eq!((closed.event, closed.reason, closed.sent), (Event::Closed, "broken", 4));
}

#[tokio::test]
async fn shutdown_cuts_open_tunnels() {
    let (mut bench, authority) = bench(echo_server().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(Arc::clone(&bench.guard).run(listener, async { drop(stopped.await) }));

    let mut client = TcpStream::connect(address).await.unwrap();
    open(&mut client, &authority).await;
    client.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    within(client.read_exact(&mut back)).await.unwrap();
    stop.send(()).unwrap();
    within(run).await.unwrap();
    assert_eq!(bench.record().await.event, Event::Decided);
    let closed = bench.record().await;
    assert_eq!((closed.event, closed.reason), (Event::Closed, "aborted"));
    assert_eq!((closed.sent, closed.received), (4, 4));
    // End of file or a reset, but an end.
    let _ = within(client.read(&mut back)).await;
    assert!(TcpStream::connect(address).await.is_err(), "still listening");
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_head_is_given_up() {
    let (mut bench, _) = bench("127.0.0.1:1".parse().unwrap());
    for head in ["", "CONNECT echo.internal:1 HT", "GET http://a.example/ HTTP/1.1\r\nHost: a"] {
        let start = tokio::time::Instant::now();
        let mut client = bench.connect();
        client.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(read_all(&mut client).await, "");
        assert_eq!(start.elapsed().as_secs(), 10, "{head}");
        let record = bench.record().await;
        assert_eq!((record.decision, record.reason), (Decision::Failed, "head-timeout"));
    }
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_wait() {
    let (bench, _) = bench("127.0.0.1:1".parse().unwrap());
    let mut idle: Vec<_> = (0..1024).map(|_| bench.connect()).collect();
    // Let them take their places.
    tokio::task::yield_now().await;
    let mut client = bench.connect();
    client.write_all(connect_to("a.example:443").as_bytes()).await.unwrap();
    let mut first = [0; 1];
    let early = tokio::time::timeout(Duration::from_secs(5), client.read(&mut first)).await;
    assert!(early.is_err(), "served although all places are taken");
    idle.pop();
    assert!(read_all(&mut client).await.starts_with("HTTP/1.1 403 "));
}
