//! How requests are read: what is no request for a tunnel is refused.

use std::sync::Arc;

use egress::{Decision, Event, Policy};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Bench, Names, read_all};

/// A guard that allows one name, and resolves none.
fn bench() -> Bench {
    let policy = Policy::new(["good.example"], Vec::<(String, std::net::IpAddr)>::new()).unwrap();
    Bench::new(policy, Names::new(&[]))
}

#[tokio::test]
async fn the_target_is_read_strictly_and_from_the_request_line_alone() {
    let mut bench = bench();
    let long = "a".repeat(300);
    for (line, reason, host, port) in [
        ("CONNECT good.example", "missing-port", "good.example", None),
        ("CONNECT good.example:", "missing-port", "good.example", None),
        ("CONNECT good.example:0", "bad-port", "good.example", None),
        ("CONNECT good.example:65536", "bad-port", "good.example", None),
        ("CONNECT user:secret@good.example:443", "userinfo", "good.example", Some(443)),
        ("CONNECT http://good.example:443/", "bad-target", "good.example", Some(443)),
        ("CONNECT /", "bad-target", "", None),
        ("CONNECT good..example:443", "bad-host", "good..example", Some(443)),
        ("CONNECT [fe80::1]:443", "host-not-allowed", "fe80::1", Some(443)),
        ("CONNECT 1.2.3.4.5:443", "bad-host", "1.2.3.4.5", Some(443)),
        ("CONNECT it's:443", "bad-host", "it\\'s", Some(443)),
        (&format!("CONNECT {long}:443"), "bad-host", &long[..255], Some(443)),
        ("CONNECT evil.example:443", "host-not-allowed", "evil.example", Some(443)),
        ("CONNECT good.example%2eevil:443", "malformed-request", "", None),
        ("CONNECT b\u{fc}cher.example:443", "malformed-request", "", None),
        ("\u{1b}[31m", "malformed-request", "", None),
    ] {
        let reply = bench.ask(&format!("{line} HTTP/1.1\r\nHost: good.example:443\r\n\r\n")).await;
        let status = if reason == "malformed-request" { "400" } else { "403" };
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {reply}");
        let record = bench.record().await;
        let found = (record.reason, record.host.as_str(), record.port);
        assert_eq!(found, (reason, host, port), "{line}");
        assert_eq!(record.decision, Decision::Refused);
        assert!(record.message.bytes().all(|b| (b' '..=b'~').contains(&b)), "{record:?}");
    }
    let body = "CONNECT good.example:443 HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
    assert!(bench.ask(body).await.contains("refused: unexpected-body: "));
    assert_eq!(bench.names.asked(), [""; 0]);
}

#[tokio::test]
async fn plain_requests_are_read_from_their_url_alone() {
    let mut bench = bench();
    for (head, reason, host, port) in [
        ("GET / HTTP/1.1\r\nHost: good.example", "bad-target", "", None),
        ("OPTIONS * HTTP/1.1\r\nHost: good.example", "bad-target", "", None),
        ("GET good.example:80 HTTP/1.1", "bad-target", "good.example", Some(80)),
        ("GET https://good.example/ HTTP/1.1", "scheme-not-allowed", "good.example", None),
        ("GET ftp://good.example:21/ HTTP/1.1", "scheme-not-allowed", "good.example", Some(21)),
        ("GET HTTP://evil.example/ HTTP/1.1", "host-not-allowed", "evil.example", Some(80)),
        ("GET http://u:secret@good.example/ HTTP/1.1", "userinfo", "good.example", Some(80)),
        ("GET http://good.example:/ HTTP/1.1", "bad-port", "good.example", None),
        ("GET http://good.example:0/ HTTP/1.1", "bad-port", "good.example", None),
        ("GET http://good.example:22/ HTTP/1.1", "port-not-allowed", "good.example", Some(22)),
        ("GET http://evil.example HTTP/1.0", "host-not-allowed", "evil.example", Some(80)),
        ("GET http://127.1/ HTTP/1.1", "host-not-allowed", "127.0.0.1", Some(80)),
        ("GET http:///path HTTP/1.1\r\nHost: good.example", "malformed-request", "", None),
        (
            "GET http://evil.example/ HTTP/1.1\r\nHost: good.example",
            "host-not-allowed",
            "evil.example",
            Some(80),
        ),
        (
            "GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\nHost: evil.example",
            "host-headers",
            "good.example",
            Some(80),
        ),
        (
            "GET http://good.example/ HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket",
            "upgrade",
            "good.example",
            Some(80),
        ),
        (
            "POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked",
            "transfer-coding",
            "good.example",
            Some(80),
        ),
        (
            "POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked",
            "transfer-coding",
            "good.example",
            Some(80),
        ),
    ] {
        let reply = bench.ask(&format!("{head}\r\n\r\n")).await;
        let status = if reason == "malformed-request" { "400" } else { "403" };
        assert!(
            reply.starts_with(&format!("HTTP/1.1 {status} ")) || reply.starts_with("HTTP/1.0 403 "),
            "{head}: {reply}"
        );
        let record = bench.record().await;
        let found = (record.reason, record.host.as_str(), record.port);
        assert_eq!(found, (reason, host, port), "{head}");
        assert_eq!(record.decision, Decision::Refused);
    }
    assert_eq!(bench.names.asked(), [""; 0]);
}

#[tokio::test]
async fn lengths_that_could_be_read_in_two_ways_are_no_request() {
    let mut bench = bench();
    let many = "x: 1\r\n".repeat(101);
    let long = format!("x: {}\r\n", "a".repeat(20_000));
    for headers in [
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1, 2\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length: 1 2\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "x: a\r\n folded: b\r\n",
        "x: a\0b\r\n",
        "x\u{e4}: a\r\n",
        ": a\r\n",
        "no colon\r\n",
        &many,
        &long,
    ] {
        let head = format!("POST http://good.example/ HTTP/1.1\r\n{headers}\r\n");
        let reply = bench.ask(&head).await;
        // hyper replies to some and ends the connection after the others.
        let is_told = ["", "HTTP/1.1 400 ", "HTTP/1.1 431 "]
            .iter()
            .any(|told| if told.is_empty() { reply.is_empty() } else { reply.starts_with(told) });
        assert!(is_told, "{headers:.80}: {reply}");
        assert_eq!(bench.record().await.reason, "malformed-request", "{headers:.80}");
    }
    let old = "POST http://good.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    bench.ask(old).await;
    assert_eq!(bench.record().await.reason, "malformed-request");
    // The control: a request like these does get further.
    bench.ask("POST http://good.example/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(bench.record().await.reason, "resolve-failed");
    assert_eq!(bench.names.asked(), ["good.example"]);
}

#[tokio::test]
async fn trace_is_refused() {
    let mut bench = bench();
    let reply = bench.ask("TRACE http://good.example/ HTTP/1.1\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 405 "), "{reply}");
    assert!(reply.to_lowercase().contains("\r\nallow: connect, delete, get, "), "{reply}");
    assert!(reply.ends_with("\r\n\r\nrefused: method-not-allowed: TRACE is not served\n"));
    let record = bench.record().await;
    assert_eq!((record.reason, record.host.as_str()), ("method-not-allowed", "good.example"));
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_sends_a_body_first() {
    let bench = bench();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let guard = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&bench.guard).run(listener, std::future::pending()));
    for body in [100_000, 1_000_000] {
        let mut client = TcpStream::connect(guard).await.unwrap();
        let head = format!("POST http://evil.example/ HTTP/1.1\r\nContent-Length: {body}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&vec![b'x'; body]).await.unwrap();
        let reply = read_all(&mut client).await;
        assert!(reply.contains("\r\n\r\nrefused: host-not-allowed: "), "{reply}");
    }
    // Not asked for, not sent; and a body that does not come is not waited for.
    for more in ["Expect: 100-continue\r\n", ""] {
        let head = format!("POST http://evil.example/ HTTP/1.1\r\nContent-Length: 9\r\n{more}\r\n");
        let reply = bench.ask(&head).await;
        assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn no_bytes_do_more_than_end_their_connection(
        start in "|GET |CONNECT |GET http://good.example/ HTTP/1.1\r\n|CONNECT good.example:443 HTTP/1.1\r\n",
        noise: Vec<u8>,
        end in "|\r\n\r\n|\n\n| HTTP/1.1\r\n\r\n",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut bench = bench();
            let mut client = bench.connect();
            let bytes = [start.as_bytes(), &noise, end.as_bytes()].concat();
            let _ = client.write_all(&bytes).await;
            client.shutdown().await.unwrap();
            read_all(&mut client).await;
            // Nothing was resolved but what is allowed, and nothing is open.
            assert!(bench.names.asked().iter().all(|name| name == "good.example"));
            while let Some(record) = bench.record_if_any() {
                assert_eq!(record.event, Event::Decided);
                assert_ne!(record.decision, Decision::Allowed);
            }
        });
    }
}
