//! What a guard can be told besides its policy.

use std::net::IpAddr;

use egress::{Decision, Event, Policy};
use tokio::io::AsyncWriteExt;

use crate::support::{Bench, Names, Origin, connect_to, read_all, read_until, within};

/// `user:secret`.
const RIGHT: &str = "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n";

#[tokio::test]
async fn whoever_does_not_present_the_secret_is_refused() {
    let mut origin = Origin::new().await;
    origin.bench = origin.bench.with(|guard| guard.with_secret("user", "secret"));
    let authority = origin.authority.clone();
    let connect = connect_to(&authority);
    let get = format!("GET http://{authority}/ HTTP/1.1\r\n\r\n");
    for request in [connect.as_str(), get.as_str()] {
        for credential in ["", "Proxy-Authorization: Basic dXNlcjpzZWNyZXR=\r\n"] {
            let request = request.replacen("\r\n", &format!("\r\n{credential}"), 1);
            let reply = origin.bench.ask(&request).await;
            assert!(reply.starts_with("HTTP/1.1 407 "), "{reply}");
            assert!(
                reply.contains("\r\nproxy-authenticate: Basic realm=\"paddock\"\r\n"),
                "{reply}"
            );
            assert!(reply.contains("\r\n\r\nrefused: unauthenticated: "), "{reply}");
            let record = origin.bench.record().await;
            assert_eq!((record.decision, record.reason), (Decision::Refused, "unauthenticated"));
            assert_eq!(record.host, "origin.internal");
            assert!(!format!("{record:?}").contains("dXNl"), "{record:?}");
        }
    }

    // The control; and the secret goes no further.
    let get = get.replacen("\r\n", &format!("\r\n{RIGHT}"), 1);
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let (arrived, got) = origin.exchange(&get, "\r\n\r\n", reply).await;
    assert!(got.ends_with("hi"), "{got}");
    assert!(!arrived.to_lowercase().contains("proxy-auth"), "{arrived}");
    let mut client = origin.bench.connect();
    let connect = connect.replacen("\r\n", &format!("\r\n{RIGHT}"), 1);
    client.write_all(connect.as_bytes()).await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
    let mut stream = origin.accept().await;
    drop(client);
    assert_eq!(read_all(&mut stream).await, "");
    drop(stream);
    for event in [Event::Decided, Event::Closed, Event::Decided, Event::Closed] {
        let record = within(origin.bench.record()).await;
        assert_eq!((record.event, record.decision), (event, Decision::Allowed));
        assert!(!format!("{record:?}").contains("dXNl"), "{record:?}");
    }
}

#[tokio::test]
async fn only_those_who_may_ask_for_more_are_told_how() {
    let names = Names::new(&[("local.example", &["127.0.0.1"])]);
    let policy = Policy::new(["local.example"], Vec::<(String, IpAddr)>::new()).unwrap();
    let bench = Bench::new(policy, names);
    let bench = bench.with(|guard| {
        guard.with_hint(|host, port| format!("to ask: request {host} {port}\nand no more"))
    });
    for (request, told) in [
        ("CONNECT Evil.example.:443", Some("to ask: request evil.example 443\n")),
        ("GET http://evil.example/secret?path", Some("to ask: request evil.example 80\n")),
        ("CONNECT local.example:22", Some("to ask: request local.example 22\n")),
        ("CONNECT local.example:443", None),
        ("CONNECT evil..example:443", None),
        ("CONNECT evil.example", None),
        ("GET https://evil.example/", None),
        ("TRACE http://evil.example/", None),
    ] {
        let reply = bench.ask(&format!("{request} HTTP/1.1\r\n\r\n")).await;
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let (reason, hint) = body.split_once('\n').unwrap();
        assert!(reason.starts_with("refused: "), "{body}");
        assert_eq!(hint, told.unwrap_or_default(), "{request}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    }
}
