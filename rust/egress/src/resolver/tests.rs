//! Look-ups against a name server that does what no good one does.

mod server;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hickory_resolver::proto::rr::RecordType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::dial::addresses;
use crate::{Guard, Place, Policy, Record, Route};
use server::{Answer, Server};

/// These records to the question for IPv4, and none to the other.
fn only_v4(wanted: RecordType, records: &[&str]) -> Answer {
    let records = if wanted == RecordType::A { records } else { &[] };
    Answer::Records(records.iter().map(|&record| record.to_owned()).collect())
}

/// What a request for the name comes to: its addresses, or the reason.
async fn look_up(server: &Server, name: &str) -> Result<Vec<String>, &'static str> {
    match addresses(&server.resolver(), Route::Resolve(name)).await {
        Ok(found) => Ok(found.iter().map(ToString::to_string).collect()),
        Err(denial) => Err(denial.code()),
    }
}

fn texts(addresses: &[&str]) -> Vec<String> {
    addresses.iter().map(|&address| address.to_owned()).collect()
}

#[tokio::test]
async fn both_families_of_the_very_name_are_asked_for_and_nothing_is_remembered() {
    let server = Server::start(|_, wanted| match wanted {
        RecordType::A => Answer::Records(vec!["a_b.xn--bcher-kva 8.8.8.8".to_owned()]),
        _ => Answer::Records(vec!["a_b.xn--bcher-kva 2606:4700::1111".to_owned()]),
    })
    .await;
    for round in 1..=2 {
        let found = look_up(&server, "a_b.xn--bcher-kva").await;
        assert_eq!(found, Ok(texts(&["8.8.8.8", "2606:4700::1111"])));
        assert_eq!(server.asked().len(), 2 * round);
    }
    let questions = ["a_b.xn--bcher-kva. A", "a_b.xn--bcher-kva. AAAA"];
    assert_eq!(server.asked()[..2], [questions[0], questions[0]]);
    assert_eq!(server.asked()[2..], [questions[1], questions[1]]);
    // No hosts file, and no network for this name.
    assert_eq!(look_up(&server, "localhost").await, Err("special-address"));
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn answers_of_every_kind_are_told_apart() {
    let server = Server::start(|name, wanted| match name {
        "none.test" => Answer::NoName,
        "empty.test" => Answer::Records(Vec::new()),
        "local.test" => only_v4(wanted, &["local.test 8.8.8.8", "local.test 127.0.0.1"]),
        "mapped.test" => Answer::Records(if wanted == RecordType::AAAA {
            vec!["mapped.test ::ffff:10.0.0.1".to_owned()]
        } else {
            Vec::new()
        }),
        // An address for a name that was not asked for.
        "other.test" => only_v4(wanted, &["unasked.test 8.8.8.8"]),
        _ => only_v4(wanted, &["half.test 8.8.8.8"]),
    })
    .await;
    for (name, result) in [
        ("none.test", Err("resolve-failed")),
        ("empty.test", Err("no-address")),
        ("local.test", Err("special-address")),
        ("mapped.test", Err("special-address")),
        ("other.test", Err("no-address")),
        ("half.test", Ok(texts(&["8.8.8.8"]))),
    ] {
        assert_eq!(look_up(&server, name).await, result, "{name}");
    }
}

#[tokio::test]
async fn aliases_are_followed_to_an_end_and_checked_there() {
    let server = Server::start(|name, wanted| match name {
        // In one answer, as recursive name servers give it.
        "whole.test" => only_v4(wanted, &["whole.test b.test", "b.test c.test", "c.test 8.8.8.8"]),
        "inside.test" => only_v4(wanted, &["inside.test b.test", "b.test 10.0.0.1"]),
        // One by one.
        "step.test" => only_v4(wanted, &["step.test end.test"]),
        "end.test" => only_v4(wanted, &["end.test 8.8.8.8"]),
        "loop.test" => Answer::Records(vec!["loop.test pool.test".to_owned()]),
        "pool.test" => Answer::Records(vec!["pool.test loop.test".to_owned()]),
        "self.test" => Answer::Records(vec!["self.test self.test".to_owned()]),
        // A chain without an end: 0.chain.test, 1.chain.test, ...
        name => {
            let number: u32 = name.split('.').next().unwrap().parse().unwrap();
            Answer::Records(vec![format!("{name} {}.chain.test", number + 1)])
        }
    })
    .await;
    for (name, result) in [
        ("whole.test", Ok(texts(&["8.8.8.8"]))),
        ("inside.test", Err("special-address")),
        ("step.test", Ok(texts(&["8.8.8.8"]))),
    ] {
        assert_eq!(look_up(&server, name).await, result, "{name}");
    }
    for name in ["loop.test", "self.test", "0.chain.test"] {
        let before = server.asked().len();
        let start = Instant::now();
        let reason = look_up(&server, name).await.unwrap_err();
        assert!(["resolve-failed", "no-address"].contains(&reason), "{name}: {reason}");
        let asked = server.asked().len() - before;
        assert!(asked <= 40, "{name}: {asked} questions");
        assert!(start.elapsed() < Duration::from_secs(5), "{name}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_name_server_that_is_slow_is_waited_for_and_one_that_is_silent_is_not() {
    let server = Server::start(|name, wanted| match (name, wanted) {
        ("late.test", RecordType::A) => {
            Answer::Late(Duration::from_millis(1500), vec!["late.test 8.8.8.8".to_owned()])
        }
        ("late.test", _) => Answer::Records(Vec::new()),
        // One family is enough.
        ("deaf.test", RecordType::A) => Answer::Records(vec!["deaf.test 8.8.8.8".to_owned()]),
        _ => Answer::Silence,
    })
    .await;
    let start = Instant::now();
    let all = async {
        tokio::join!(
            look_up(&server, "late.test"),
            look_up(&server, "deaf.test"),
            look_up(&server, "silent.test"),
        )
    };
    let (late, deaf, silent) = all.await;
    assert_eq!(late, Ok(texts(&["8.8.8.8"])));
    assert_eq!(deaf, Ok(texts(&["8.8.8.8"])));
    let reason = silent.unwrap_err();
    assert!(["resolve-failed", "resolve-timeout"].contains(&reason), "{reason}");
    assert!(start.elapsed() < Duration::from_millis(5500), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_answer_with_a_thousand_addresses_is_refused() {
    let server = Server::start(|name, wanted| {
        let count: u32 = name.split('.').next().unwrap().parse().unwrap();
        let address = |n: u32| IpAddr::from((0x0808_0000 + n).to_be_bytes());
        let records = (0..count).map(|n| format!("{name} {}", address(n))).collect();
        if wanted == RecordType::A { Answer::Records(records) } else { Answer::Records(Vec::new()) }
    })
    .await;
    // Over TCP: none of these fits into a datagram.
    assert_eq!(look_up(&server, "200.test").await.unwrap().len(), 64);
    assert_eq!(look_up(&server, "1000.test").await, Err("too-many-addresses"));
}

#[tokio::test]
async fn the_name_servers_of_the_moment_are_asked() {
    let server = Server::start(|_, wanted| only_v4(wanted, &["a.test 8.8.8.8"])).await;
    let resolver = server.resolver();
    assert_eq!(resolver.resolve("a.test").await.unwrap().len(), 1);
    server.configure("# nothing\n");
    let error = resolver.resolve("a.test").await.unwrap_err();
    assert_eq!(error.to_string(), "the system has no name servers");
    server.configure("nameserver 127.0.0.1\n");
    assert_eq!(resolver.resolve("a.test").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_name_that_was_public_and_is_local_a_moment_later_is_refused() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_, wanted| {
        let is_first = wanted == RecordType::A && count.fetch_add(1, Ordering::Relaxed) == 0;
        only_v4(wanted, &[if is_first { "a.test 8.8.8.8" } else { "a.test 127.0.0.1" }])
    })
    .await;
    assert_eq!(look_up(&server, "a.test").await, Ok(texts(&["8.8.8.8"])));
    assert_eq!(look_up(&server, "a.test").await, Err("special-address"));
}

#[tokio::test]
async fn a_guard_looks_up_what_it_allows_alone_and_each_time() {
    // The same through a whole guard, on the loopback: 127.9.0.0/16 stands for
    // what may be reached, and the rest of it for what may not.
    let upstream = TcpListener::bind("127.9.0.1:0").await.unwrap();
    let port = upstream.local_addr().unwrap().port();
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_, wanted| {
        let is_first = wanted == RecordType::A && count.fetch_add(1, Ordering::Relaxed) == 0;
        only_v4(wanted, &[if is_first { "a.test 127.9.0.1" } else { "a.test 127.0.0.1" }])
    })
    .await;
    let network: Place = "127.9.0.0/16".parse().unwrap();
    let policy = Policy::new([format!("a.test:{port}")], [("a.test", network)]).unwrap();
    let records = Arc::new(Mutex::new(Vec::<Record>::new()));
    let kept = Arc::clone(&records);
    let recorder = Arc::new(move |record| kept.lock().unwrap().push(record));
    let guard = Arc::new(Guard::new(policy, server.resolver(), recorder));
    for (authority, status, questions) in [
        (format!("secret.evil.test:{port}"), "403", 0),
        ("a.test:1".to_owned(), "403", 0),
        (format!("a.test:{port}"), "200", 2),
        (format!("a.test:{port}"), "403", 4),
    ] {
        let (mut client, stream) = tokio::io::duplex(1024);
        let connection = tokio::spawn(Arc::clone(&guard).serve(stream));
        let request = format!("CONNECT {authority} HTTP/1.1\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut reply = [0; 12];
        client.read_exact(&mut reply).await.unwrap();
        assert_eq!(reply, format!("HTTP/1.1 {status}").as_bytes(), "{authority}");
        assert_eq!(server.asked().len(), questions, "{authority}");
        connection.abort();
    }
    let last = records.lock().unwrap().iter().rfind(|r| r.reason == "special-address").cloned();
    assert_eq!(last.unwrap().address, Some("127.0.0.1".parse().unwrap()));
}
