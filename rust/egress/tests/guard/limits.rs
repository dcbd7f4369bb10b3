//! What a connection may take: time, bytes, and nothing from the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::{Decision, Event};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::{Origin, open, read_all, read_until, within};

#[tokio::test]
async fn an_idle_tunnel_is_cut_after_half_an_hour() {
    let mut origin = Origin::new().await;
    let mut client = origin.bench.connect();
    open(&mut client, &origin.authority).await;
    assert_eq!(origin.bench.record().await.event, Event::Decided);
    let mut stream = origin.accept().await;
    // A byte after 29 minutes starts the time anew; each way.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    for from_client in [true, false] {
        tokio::time::advance(Duration::from_mins(29)).await;
        // Real bytes take real time.
        tokio::time::resume();
        if from_client {
            client.write_all(b"x").await.unwrap();
            within(stream.read_u8()).await.unwrap();
        } else {
            stream.write_all(b"x").await.unwrap();
            within(client.read_u8()).await.unwrap();
        }
        tokio::time::pause();
    }
    assert!(origin.bench.no_more_records());
    let record = origin.bench.later().await;
    assert_eq!((record.event, record.reason), (Event::Closed, "idle"));
    assert_eq!(start.elapsed().as_secs() / 60, 29 + 29 + 30);
    tokio::time::resume();
    assert_eq!(read_all(&mut client).await, "");
    assert_eq!(read_all(&mut stream).await, "");
}

#[tokio::test]
async fn an_upstream_that_does_not_reply_is_given_up_after_its_last_byte() {
    let mut origin = Origin::new().await;
    let mut client = origin.bench.connect();
    let head = format!("POST http://{}/ HTTP/1.1\r\nContent-Length: 2\r\n\r\na", origin.authority);
    client.write_all(head.as_bytes()).await.unwrap();
    let mut stream = origin.accept().await;
    read_until(&mut stream, "\r\n\r\na").await;
    assert_eq!(origin.bench.record().await.event, Event::Decided);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(200)).await;
    tokio::time::resume();
    client.write_all(b"b").await.unwrap();
    read_until(&mut stream, "b").await;
    // Half a head is no reply.
    stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(299)).await;
    assert!(origin.bench.no_more_records());
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    let got = read_all(&mut client).await;
    assert!(got.starts_with("HTTP/1.1 504 "), "{got}");
    assert!(got.contains("\r\n\r\nfailed: first-byte-timeout: "), "{got}");
    let closed = origin.bench.record().await;
    assert_eq!((closed.event, closed.reason), (Event::Closed, "first-byte-timeout"));
}

#[tokio::test]
async fn clients_that_are_slow_cost_the_others_nothing() {
    let origin = Origin::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let guard = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&origin.bench.guard).run(listener, std::future::pending()));

    // Hundreds that send a head byte by byte, never to its end; and some whose
    // upstream sends more than they ever read.
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut client = TcpStream::connect(guard).await.unwrap();
        client.write_all(b"G").await.unwrap();
        slow.push(client);
    }
    let mut deaf = Vec::new();
    for _ in 0..20 {
        let mut client = TcpStream::connect(guard).await.unwrap();
        let head = format!("GET http://{}/ HTTP/1.1\r\n\r\n", origin.authority);
        client.write_all(head.as_bytes()).await.unwrap();
        let mut stream = origin.accept().await;
        let flood = tokio::spawn(async move {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let block = vec![b'x'; 1 << 16];
            // Ends when the test does.
            while stream.write_all(&block).await.is_ok() {}
        });
        deaf.push((client, flood));
    }

    let start = Instant::now();
    for round in 0..20 {
        for client in &mut slow {
            client.write_all(b"E").await.unwrap();
        }
        let mut client = TcpStream::connect(guard).await.unwrap();
        let head = format!("GET http://{}/{round} HTTP/1.1\r\n\r\n", origin.authority);
        client.write_all(head.as_bytes()).await.unwrap();
        let mut stream = origin.accept().await;
        read_until(&mut stream, "\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await.unwrap();
        assert!(read_all(&mut client).await.ends_with("\r\n\r\nhi"));
    }
    // Twenty requests, in this time on a machine that is busy with other tests.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    for (_, flood) in deaf {
        flood.abort();
    }
}

#[tokio::test]
async fn a_guard_that_ends_cuts_a_transfer_and_records_it() {
    let mut origin = Origin::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let guard = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = Arc::clone(&origin.bench.guard).run(listener, async { drop(stopped.await) });
    let running = tokio::spawn(running);
    let mut client = TcpStream::connect(guard).await.unwrap();
    let head = format!("GET http://{}/ HTTP/1.1\r\n\r\n", origin.authority);
    client.write_all(head.as_bytes()).await.unwrap();
    let mut stream = origin.accept().await;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await.unwrap();
    read_until(&mut client, "half").await;

    stop.send(()).unwrap();
    within(running).await.unwrap();
    let decided = origin.bench.record().await;
    assert_eq!((decided.event, decided.decision), (Event::Decided, Decision::Allowed));
    let closed = origin.bench.record().await;
    assert_eq!((closed.event, closed.reason), (Event::Closed, "aborted"));
    assert!(closed.sent > 0 && closed.received > 4, "{closed:?}");
    assert_eq!(read_all(&mut client).await, "");
    assert!(read_all(&mut stream).await.ends_with("\r\n\r\n"));
}
