//! What a guard can be told besides its policy.

use egress::{Decision, Event};
use tokio::io::AsyncWriteExt;

use crate::support::{Origin, connect_to, read_all, read_until, within};

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
