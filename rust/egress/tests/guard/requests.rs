//! How requests are read: what is no request for a tunnel is refused.

use egress::{Decision, Policy};

use crate::support::{Bench, Names};

/// A guard that allows one name, and resolves none.
fn bench() -> Bench {
    let policy = Policy::new(["good.example"], Vec::<(String, _)>::new()).unwrap();
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
async fn other_methods_are_refused() {
    let mut bench = bench();
    for (request, host) in [
        ("GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n", "good.example"),
        ("GET / HTTP/1.1\r\nHost: good.example\r\n\r\n", ""),
        ("POST http://good.example:80/ HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", "good.example"),
    ] {
        let reply = bench.ask(request).await;
        assert!(reply.starts_with("HTTP/1.1 405 "), "{reply}");
        assert!(reply.to_lowercase().contains("\r\nallow: connect\r\n"), "{reply}");
        assert!(reply.ends_with("\r\n\r\nrefused: method-not-allowed: only CONNECT is served\n"));
        let record = bench.record().await;
        assert_eq!((record.reason, record.host.as_str()), ("method-not-allowed", host));
    }
}
