//! What the guard allows and refuses, seen from a client and from the records.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use egress::{Decision, Event, Guard, Policy, Resolver};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::{Bench, Names, connect_to, echo_server, open, within};

fn policy(allow: &[&str]) -> Policy {
    Policy::new(allow, Vec::<(String, std::net::IpAddr)>::new()).unwrap()
}

#[tokio::test]
async fn a_refused_name_is_not_resolved() {
    let names = Names::new(&[("secret-in-a-name.evil.example", &["127.0.0.1"])]);
    let mut bench = Bench::new(policy(&["good.example", "*.good.example"]), names);
    for authority in [
        "secret-in-a-name.evil.example:443",
        "good.example.evil.example:443",
        "good.example:22",
        "evilgood.example:443",
        "8.8.8.8:443",
    ] {
        let reply = bench.ask(&connect_to(authority)).await;
        assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
        let record = bench.record().await;
        assert_eq!(record.decision, Decision::Refused);
        assert!(
            reply.ends_with(&format!("\r\n\r\nrefused: {}: {}\n", record.reason, record.message))
        );
    }
    assert_eq!(bench.names.asked(), [""; 0]);
    // The same guard does resolve a name that is allowed: the count can count.
    bench.ask(&connect_to("Good.Example.:443")).await;
    assert_eq!(bench.record().await.reason, "resolve-failed");
    assert_eq!(bench.names.asked(), ["good.example"]);
}

#[tokio::test]
async fn an_allowed_name_with_a_bad_address_is_refused_however_it_is_asked_for() {
    const BAD: [(&str, &[&str], &str); 14] = [
        ("loopback.example", &["127.0.0.1"], "127.0.0.1"),
        ("loopback6.example", &["::1"], "::1"),
        ("unspecified.example", &["0.0.0.0"], "0.0.0.0"),
        ("private.example", &["192.168.1.1"], "192.168.1.1"),
        ("private6.example", &["fd00::1"], "fd00::1"),
        ("mixed.example", &["8.8.8.8", "10.0.0.1"], "10.0.0.1"),
        ("shared.example", &["100.64.0.1"], "100.64.0.1"),
        ("link-local.example", &["169.254.1.1"], "169.254.1.1"),
        ("link-local6.example", &["fe80::1"], "fe80::1"),
        ("metadata.example", &["169.254.169.254"], "169.254.169.254"),
        ("metadata6.example", &["fd00:ec2::254"], "fd00:ec2::254"),
        ("mapped.example", &["::ffff:127.0.0.1"], "::ffff:127.0.0.1"),
        ("translated.example", &["64:ff9b::7f00:1"], "64:ff9b::7f00:1"),
        ("6to4.example", &["2002:7f00:1::1"], "2002:7f00:1::1"),
    ];
    let names = Names::new(&BAD.map(|(name, addresses, _)| (name, addresses)));
    let echo = echo_server().await;
    let port = echo.port();
    let allow = format!("*.example:{port}");
    let mut bench = Bench::new(policy(&[&allow]), names);
    for (name, _, address) in BAD {
        for request in [
            connect_to(&format!("{name}:{port}")),
            format!("GET http://{name}:{port}/ HTTP/1.1\r\n\r\n"),
        ] {
            let reply = bench.ask(&request).await;
            assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
            assert!(reply.contains("refused: special-address: "), "{reply}");
            let record = bench.record().await;
            assert_eq!(record.host, name);
            assert_eq!(record.port, Some(port));
            assert_eq!(record.address, Some(address.parse().unwrap()));
            assert_eq!((record.decision, record.reason), (Decision::Refused, "special-address"));
        }
    }
    assert_eq!(bench.names.asked().len(), 2 * BAD.len(), "each request resolves once");
    assert!(bench.no_more_records());

    // The control: the same names do open where an exception says so.
    let network: egress::Place = "127.0.0.0/8".parse().unwrap();
    let excepted = ["loopback.example", "mapped.example"].map(|name| (name, network));
    bench.guard.set_policy(Policy::new([&allow], excepted).unwrap());
    for (name, _) in excepted {
        open(&mut bench.connect(), &format!("{name}:{port}")).await;
    }
}

#[tokio::test]
async fn address_literals_need_an_entry_and_pass_the_check() {
    let echo = echo_server().await;
    let port = echo.port();
    let listed = format!("127.0.0.1:{port}");
    let mut bench = Bench::new(policy(&[&listed]), Names::new(&[]));
    for (host, reason) in [
        ("127.0.0.1", "special-address"),
        ("127.1", "special-address"),
        ("0x7f000001", "special-address"),
        ("[::ffff:127.0.0.1]", "special-address"),
        ("127.0.0.2", "host-not-allowed"),
        ("[::1]", "host-not-allowed"),
    ] {
        bench.ask(&connect_to(&format!("{host}:{port}"))).await;
        assert_eq!(bench.record().await.reason, reason, "{host}");
    }
    let exception = [("2130706433", echo.ip())];
    bench.guard.set_policy(Policy::new([&listed], exception).unwrap());
    open(&mut bench.connect(), &format!("127.1:{port}")).await;
    assert_eq!(bench.record().await.reason, "exception");
    assert_eq!(bench.names.asked(), [""; 0]);
}

#[tokio::test]
async fn failures_are_reported_as_such() {
    // A port on which nobody listens: the listener is gone at once.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let allow = [format!("closed.internal:{}", free.port()), "empty.example".to_owned()];
    let policy = Policy::new(allow, [("closed.internal", free.ip())]).unwrap();
    let mut bench = Bench::new(policy, Names::new(&[("empty.example", &[])]));
    for (authority, reason) in [
        (format!("closed.internal:{}", free.port()), "connect-failed"),
        ("empty.example:443".to_owned(), "no-address"),
    ] {
        let reply = bench.ask(&connect_to(&authority)).await;
        assert!(reply.starts_with("HTTP/1.1 502 "), "{reply}");
        assert!(reply.contains(&format!("\r\n\r\nfailed: {reason}: ")), "{reply}");
        let record = bench.record().await;
        assert_eq!((record.decision, record.reason), (Decision::Failed, reason));
    }
}

#[tokio::test]
async fn the_policy_can_be_replaced() {
    let echo = echo_server().await;
    let authority = format!("echo.internal:{}", echo.port());
    let bench = Bench::new(Policy::default(), Names::new(&[]));
    assert!(bench.ask(&connect_to(&authority)).await.starts_with("HTTP/1.1 403 "));
    let exception = [("echo.internal", echo.ip())];
    bench.guard.set_policy(Policy::new([&authority], exception).unwrap());
    open(&mut bench.connect(), &authority).await;
    bench.guard.set_policy(Policy::default());
    assert!(bench.ask(&connect_to(&authority)).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn a_client_that_leaves_is_recorded() {
    struct Silent(Arc<Notify>);
    impl Resolver for Silent {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            self.0.notify_one();
            std::future::pending().await
        }
    }
    for while_resolving in [false, true] {
        let asked = Arc::new(Notify::new());
        let (sender, mut records) = unbounded_channel();
        let recorder = Arc::new(move |record| drop(sender.send(record)));
        let resolver = Silent(Arc::clone(&asked));
        let guard = Arc::new(Guard::new(policy(&["a.example"]), resolver, recorder));
        let (mut client, stream) = tokio::io::duplex(1024);
        let served = tokio::spawn(guard.serve(stream));
        client.write_all(connect_to("a.example:443").as_bytes()).await.unwrap();
        if while_resolving {
            within(asked.notified()).await;
        }
        drop(client);
        within(served).await.unwrap();
        let record = records.recv().await.unwrap();
        assert_eq!((record.reason, record.host.as_str()), ("abandoned", "a.example"));
        assert!(records.recv().await.is_none(), "one record");
    }
}

#[tokio::test]
async fn records_have_a_stable_form() {
    let mut bench = Bench::new(policy(&["a.example"]), Names::new(&[("a.example", &["10.0.0.1"])]));
    bench.ask(&connect_to("A.example:443")).await;
    let record = bench.record().await;
    assert_eq!(record.event, Event::Decided);
    assert_eq!(
        serde_json::to_value(&record).unwrap(),
        json!({
            "event": "decided",
            "request": 0,
            "host": "a.example",
            "port": 443,
            "address": "10.0.0.1",
            "decision": "refused",
            "reason": "special-address",
            "message": "10.0.0.1 is not a public address: private use (10.0.0.0/8)",
            "sent": 0,
            "received": 0,
        })
    );
}
