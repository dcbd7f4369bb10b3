//! Policies that change while the guard runs, and grants for one request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::{Event, Host, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{
    Bench, Names, Origin, connect_to, echo_server, open, read_all, read_until, within,
};

/// How soon a connection must be cut.
const SOON: Duration = Duration::from_millis(100);

fn policy(allow: &[String], exceptions: &[(&str, IpAddr)]) -> Policy {
    Policy::new(allow, exceptions.iter().copied()).unwrap()
}

#[tokio::test]
async fn tunnels_that_a_new_policy_does_not_allow_are_cut() {
    let echo = echo_server().await;
    let (ip, port) = (echo.ip(), echo.port());
    let names = ["host.test", "port.test", "place.test", "kept.test"];
    let all = names.map(|name| format!("{name}:{port}"));
    let exceptions = names.map(|name| (name, ip));
    let mut bench = Bench::new(policy(&all, &exceptions), Names::new(&[]));
    let mut clients = Vec::new();
    for authority in &all {
        let mut client = bench.connect();
        open(&mut client, authority).await;
        assert_eq!(bench.record().await.event, Event::Decided);
        clients.push(client);
    }
    // The same again changes nothing.
    bench.guard.set_policy(policy(&all, &exceptions));

    let elsewhere = "127.0.0.2".parse().unwrap();
    let changed = policy(
        &["port.test:1".to_owned(), all[2].clone(), all[3].clone()],
        &[("port.test", ip), ("place.test", elsewhere), ("kept.test", ip)],
    );
    let start = Instant::now();
    bench.guard.set_policy(changed);
    for client in &mut clients[..3] {
        assert_eq!(read_all(client).await, "");
    }
    let took = start.elapsed();
    assert!(took < SOON, "cut after {took:?}");
    let mut revoked = Vec::new();
    for _ in 0..3 {
        let record = bench.record().await;
        assert_eq!((record.event, record.reason), (Event::Closed, "revoked"));
        revoked.push(record.host);
    }
    revoked.sort();
    assert_eq!(revoked, ["host.test", "place.test", "port.test"]);
    // The one that is still allowed still works.
    let mut back = [0; 4];
    clients[3].write_all(b"ping").await.unwrap();
    within(clients[3].read_exact(&mut back)).await.unwrap();
    assert!(bench.no_more_records());
}

#[tokio::test]
async fn a_forwarded_request_is_cut_before_and_in_its_reply() {
    let mut origin = Origin::new().await;
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"] {
        let (_, port) = origin.authority.rsplit_once(':').unwrap();
        let allowed = policy(
            &[format!("origin.internal:{port}")],
            &[("origin.internal", "127.0.0.1".parse().unwrap())],
        );
        origin.bench.guard.set_policy(allowed);
        let mut client = origin.bench.connect();
        let request = format!("GET http://{}/ HTTP/1.1\r\n\r\n", origin.authority);
        client.write_all(request.as_bytes()).await.unwrap();
        let mut stream = origin.accept().await;
        read_until(&mut stream, "\r\n\r\n").await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        if !begun.is_empty() {
            read_until(&mut client, "half").await;
        }
        let start = Instant::now();
        origin.bench.guard.set_policy(Policy::default());
        assert_eq!(read_all(&mut client).await, "");
        assert_eq!(read_all(&mut stream).await, "");
        let took = start.elapsed();
        assert!(took < SOON, "cut after {took:?}");
        assert_eq!(origin.bench.record().await.event, Event::Decided);
        assert_eq!(origin.bench.record().await.reason, "revoked");
    }
}

#[tokio::test]
async fn a_policy_that_changes_while_connecting_counts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let authority = format!("a.test:{}", address.port());
    // The name is looked up under the old policy, and connected under the new.
    let names = Names::new(&[("a.test", &["127.0.0.1"])]);
    let network: egress::Place = "127.0.0.0/8".parse().unwrap();
    let allowed = Policy::new([&authority], [("a.test", network)]).unwrap();
    let mut bench = Bench::new(allowed, names);
    let guard = Arc::clone(&bench.guard);
    bench.names.when_asked(move || guard.set_policy(Policy::default()));
    let mut client = bench.connect();
    client.write_all(connect_to(&authority).as_bytes()).await.unwrap();
    let got = read_all(&mut client).await;
    assert!(!got.contains("\r\n\r\n") || got.ends_with("\r\n\r\n"), "{got}");
    assert_eq!(bench.record().await.event, Event::Decided);
    assert_eq!(bench.record().await.reason, "revoked");
}

#[tokio::test]
async fn a_grant_is_for_one_request() {
    let echo = echo_server().await;
    let authority = format!("echo.internal:{}", echo.port());
    let host = Host::parse("echo.internal").unwrap();
    let network: egress::Place = "127.0.0.0/8".parse().unwrap();
    let nothing = || {
        let allow: [&str; 0] = [];
        Policy::new(allow, [("echo.internal", network)]).unwrap()
    };
    let mut bench = Bench::new(nothing(), Names::new(&[("echo.internal", &["127.0.0.1"])]));
    bench.guard.grant_once(host.clone(), echo.port());
    // Neither another host nor another port uses it up.
    for other in ["other.internal:443", "echo.internal:443"] {
        bench.ask(&connect_to(other)).await;
        assert_eq!(bench.record().await.reason, "host-not-allowed");
    }
    let mut client = bench.connect();
    open(&mut client, &authority).await;
    assert_eq!(bench.record().await.reason, "granted-once");
    assert!(bench.ask(&connect_to(&authority)).await.starts_with("HTTP/1.1 403 "));
    assert_eq!(bench.record().await.reason, "host-not-allowed");

    // A change of policy, which never allowed it, does not end it.
    bench.guard.set_policy(nothing());
    let mut back = [0; 4];
    client.write_all(b"ping").await.unwrap();
    within(client.read_exact(&mut back)).await.unwrap();
    assert!(bench.no_more_records());

    // That it is taken back does.
    assert!(!bench.guard.revoke_once(&host, 443), "control: another port");
    assert!(bench.guard.revoke_once(&host, echo.port()));
    assert_eq!(read_all(&mut client).await, "");
    assert_eq!(bench.record().await.reason, "revoked");
    // So is one that nobody used.
    bench.guard.grant_once(host.clone(), echo.port());
    assert!(bench.guard.revoke_once(&host, echo.port()));
    assert!(!bench.guard.revoke_once(&host, echo.port()));
    assert!(bench.ask(&connect_to(&authority)).await.starts_with("HTTP/1.1 403 "));
    assert_eq!(bench.record().await.reason, "host-not-allowed");

    // A grant makes no address good: without the exception it is refused, and
    // used up.
    bench.guard.set_policy(Policy::default());
    bench.guard.grant_once(host, echo.port());
    for reason in ["special-address", "host-not-allowed"] {
        bench.ask(&connect_to(&authority)).await;
        assert_eq!(bench.record().await.reason, reason);
    }
}
