//! Plain requests: what reaches the upstream, and what comes back.

use egress::{Decision, Event};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Origin, read_all, read_until, within};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// The lines of a head, in order, in lower case but for the first.
fn lines(head: &str) -> Vec<String> {
    let mut lines: Vec<_> = head.split("\r\n").map(str::to_owned).collect();
    lines[1..].iter_mut().for_each(|line| *line = line.to_lowercase());
    lines[1..].sort();
    lines.retain(|line| !line.is_empty());
    lines
}

#[tokio::test]
async fn a_request_is_sent_on_for_its_path_to_the_host_of_its_url() {
    let mut origin = Origin::new().await;
    let request = "GET http://{}/a/b?c=d#e HTTP/1.1\r\nHost: evil.example\r\nAccept: */*\r\n\
        Connection: x-secret, keep-alive\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
        Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\n\
        Upgrade: h2c\r\n\r\n";
    let reply = "HTTP/1.1 200 Fine By Me\r\nContent-Length: 2\r\nConnection: x-own\r\nX-Own: 1\r\n\
        Proxy-Authenticate: Basic\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nX-Kept: 1\r\n\r\nhi";
    let (arrived, got) = origin.exchange(request, "\r\n\r\n", reply).await;
    let host = format!("host: {}", origin.authority);
    let wanted = ["GET /a/b?c=d HTTP/1.1", "accept: */*", "connection: close", &host];
    assert_eq!(lines(&arrived), wanted);
    let (top, body) = got.split_once("\r\n\r\n").unwrap();
    let mut found = lines(top);
    found.retain(|line| !line.starts_with("date: "));
    let wanted = ["HTTP/1.1 200 OK", "connection: close", "content-length: 2", "x-kept: 1"];
    assert_eq!((found, body), (wanted.map(str::to_owned).into(), "hi"));

    let decided = origin.bench.record().await;
    assert_eq!((decided.event, decided.decision), (Event::Decided, Decision::Allowed));
    assert_eq!((decided.reason, decided.host.as_str()), ("exception", "origin.internal"));
    let closed = origin.bench.record().await;
    assert_eq!((closed.event, closed.reason), (Event::Closed, "finished"));
    assert_eq!((closed.sent, closed.received), (arrived.len() as u64, reply.len() as u64));
    assert_eq!(closed.request, decided.request);
}

#[tokio::test]
async fn an_old_client_is_served_in_its_own_version() {
    let origin = Origin::new().await;
    let reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    let (arrived, got) =
        origin.exchange("GET http://{}?q HTTP/1.0\r\n\r\n", "\r\n\r\n", reply).await;
    assert!(arrived.starts_with("GET /?q HTTP/1.1\r\n"), "{arrived}");
    assert!(arrived.contains(&format!("\r\nhost: {}\r\n", origin.authority)), "{arrived}");
    assert!(got.starts_with("HTTP/1.0 200 OK\r\n") && got.ends_with("\r\n\r\nhi"), "{got}");
    assert!(!got.contains("chunked"), "{got}");
}

#[tokio::test]
async fn a_body_arrives_with_one_length_whatever_was_said_about_it() {
    let origin = Origin::new().await;
    let chunks = "5;ext=1\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n";
    for (headers, body, framing, arrives) in [
        ("Content-Length: 5", "hello", "content-length: 5", "hello"),
        ("Content-Length: 5\r\nContent-Length: 5", "hello", "content-length: 5", "hello"),
        ("Content-Length: 0", "", "content-length: 0", ""),
        ("Content-Length: 0\r\nConnection: content-length", "", "content-length: 0", ""),
        (
            "Transfer-Encoding: Chunked",
            chunks,
            "transfer-encoding: chunked",
            "5\r\nhello\r\n0\r\n\r\n",
        ),
        (
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            chunks,
            "transfer-encoding: chunked",
            "5\r\nhello\r\n0\r\n\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\nConnection: transfer-encoding",
            chunks,
            "transfer-encoding: chunked",
            "5\r\nhello\r\n0\r\n\r\n",
        ),
    ] {
        for method in ["POST", "GET"] {
            let request = format!("{method} http://{{}}/ HTTP/1.1\r\n{headers}\r\n\r\n{body}");
            let (arrived, got) = origin.exchange(&request, arrives, OK).await;
            let (top, rest) = arrived.split_once("\r\n\r\n").unwrap();
            let lines = lines(top);
            let said = |line: &&String| line.starts_with("content-l") || line.starts_with("tran");
            let lengths: Vec<_> = lines.iter().filter(said).collect();
            assert_eq!(lengths, [framing], "{headers}");
            assert_eq!(rest, arrives, "{headers}");
            assert!(got.ends_with("hi"), "{got}");
        }
    }
}

#[tokio::test]
async fn a_second_request_on_the_connection_is_never_sent() {
    let mut origin = Origin::new().await;
    // Pipelined behind the first; and where two lengths were given, what the
    // other one would have taken for a request.
    for first in [
        "GET http://{}/first HTTP/1.1\r\n\r\n",
        "POST http://{}/first HTTP/1.1\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\n",
    ] {
        let request = format!("{first}GET http://{{}}/second HTTP/1.1\r\n\r\n");
        let (arrived, got) = origin.exchange(&request, "\r\n\r\n", OK).await;
        assert!(arrived.contains("/first ") && !arrived.contains("/second"), "{arrived}");
        assert_eq!(got.matches("HTTP/1.1 ").count(), 1, "{got}");
        assert!(got.contains("connection: close\r\n"), "{got}");
        assert_eq!(origin.bench.record().await.event, Event::Decided);
        assert_eq!(origin.bench.record().await.event, Event::Closed);
        assert!(origin.bench.no_more_records());
    }
}

#[tokio::test]
async fn a_reply_is_framed_anew() {
    let mut origin = Origin::new().await;
    for (method, reply, status, end) in [
        ("GET", "HTTP/1.1 200 OK\r\n\r\nto the end", "200", "A\r\nto the end\r\n0\r\n\r\n"),
        ("GET", "HTTP/1.0 404 No\r\n\r\nto the end", "404", "A\r\nto the end\r\n0\r\n\r\n"),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            "200",
            "\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        ),
        (
            "GET",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "200",
            "\r\n\r\nhi",
        ),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", "200", "\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304", "\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "204", "\r\n\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi", "502", ""),
        ("GET", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "502", ""),
        ("GET", "SSH-2.0-OpenSSH\r\n", "502", ""),
        ("GET", "", "502", ""),
    ] {
        let request = format!("{method} http://{{}}/ HTTP/1.1\r\n\r\n");
        let (_, got) = origin.exchange(&request, "\r\n\r\n", reply).await;
        assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}: {got}");
        assert!(got.ends_with(end), "{reply}: {got}");
        let lengths = ["content-length: ", "transfer-encoding: "];
        let said: usize = lengths.iter().map(|line| got.matches(line).count()).sum();
        assert!(said <= 1, "{got}");
        assert_eq!(got.contains("content-length: 1234"), method == "HEAD", "{got}");
        assert_eq!(origin.bench.record().await.event, Event::Decided);
        let reason = origin.bench.record().await.reason;
        assert_eq!(reason, if status == "502" { "bad-reply" } else { "finished" }, "{reply}");
    }
}

#[tokio::test]
async fn bodies_stream_and_wait_for_their_reader() {
    let mut origin = Origin::new().await;
    let (mut read, mut write) = tokio::io::split(origin.bench.connect());
    let head =
        format!("PUT http://{}/ HTTP/1.1\r\nContent-Length: 400000\r\n\r\n", origin.authority);
    write.write_all(head.as_bytes()).await.unwrap();
    let mut stream = origin.accept().await;
    read_until(&mut stream, "\r\n\r\n").await;

    // The reply begins before the body has ended, and what it echoes waits for
    // the client, who does not read before it has sent everything.
    let sending = async {
        for _ in 0..400 {
            write.write_all(&[b'x'; 1000]).await.unwrap();
        }
    };
    let echoing = async {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n").await.unwrap();
        let (mut from, mut to) = stream.split();
        let copied = tokio::io::copy(&mut (&mut from).take(400_000), &mut to).await.unwrap();
        assert_eq!(copied, 400_000);
    };
    let reading = async {
        let got = read_until(&mut read, "\r\n\r\n").await;
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
        let mut body = vec![0; 400_000];
        read.read_exact(&mut body).await.unwrap();
        assert!(body.iter().all(|&byte| byte == b'x'));
    };
    within(async { tokio::join!(sending, echoing, reading) }).await;
    origin.bench.record().await;
    let closed = origin.bench.record().await;
    assert_eq!(closed.reason, "finished");
    assert!(closed.sent > 400_000 && closed.received > 400_000, "{closed:?}");
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_upstream() {
    let origin = Origin::new().await;
    let mut client = origin.bench.connect();
    let head = format!("GET http://{}/ HTTP/1.1\r\n\r\n", origin.authority);
    client.write_all(head.as_bytes()).await.unwrap();
    let mut stream = origin.accept().await;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    // Until a write has to wait for a whole second: far less than this fits into
    // the sockets and the guard.
    let mut taken = 0;
    let block = vec![0; 64 * 1024];
    loop {
        let wait = tokio::time::timeout(std::time::Duration::from_secs(1), stream.write(&block));
        match wait.await {
            Ok(written) => taken += written.unwrap(),
            Err(_) => break,
        }
        assert!(taken < 64 << 20, "the guard holds what its client does not read");
    }
    let mut first = [0; 12];
    within(client.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_not_taken_for_a_whole_one() {
    let mut origin = Origin::new().await;
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf",
    ] {
        let (_, got) = origin.exchange("GET http://{}/ HTTP/1.1\r\n\r\n", "\r\n\r\n", reply).await;
        assert!(got.contains("content-length: 10") || !got.ends_with("0\r\n\r\n"), "{got}");
        origin.bench.record().await;
        assert_eq!(origin.bench.record().await.reason, "broken");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request() {
    let mut origin = Origin::new().await;
    let mut client = origin.bench.connect();
    let head = format!("GET http://{}/ HTTP/1.1\r\n\r\n", origin.authority);
    client.write_all(head.as_bytes()).await.unwrap();
    let mut stream = origin.accept().await;
    read_until(&mut stream, "\r\n\r\n").await;
    drop(client);
    assert_eq!(read_all(&mut stream).await, "", "the upstream sees the end");
    assert_eq!(origin.bench.record().await.event, Event::Decided);
    assert_eq!(origin.bench.record().await.reason, "abandoned");
}
