//! What a thousand idle connections take. A test binary of its own: it measures
//! the process that it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use egress::{Guard, Policy, SystemResolver};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const CLIENTS: usize = 1000;
/// Bytes for each: an idle tunnel has no buffer of its own, and what waits for a reply
/// has buffers on both sides.
const TUNNEL_TARGET: usize = 10_000;
const IDLE_TARGET: usize = 30_000;
const WAITING_TARGET: usize = 45_000;

/// The resident bytes of this process: `VmRSS` in `status`, proc(5).
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes * 1024
}

/// Client, guard and upstream are in one process: four descriptors each.
fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = CLIENTS as u64 * 5;
    if current.is_some_and(|current| current < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).unwrap();
    }
}

/// Says to the copy of this test what it measures.
const KIND: &str = "MEMORY_TEST_KIND";

#[test]
fn a_thousand_idle_connections_are_small() {
    if let Ok(kind) = std::env::var(KIND) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(hold(&kind));
    }
    // A process for each: memory that was freed before would not be counted.
    for kind in ["half-head", "tunnel", "request"] {
        let mut measured = std::process::Command::new(std::env::current_exe().unwrap());
        measured.args(["a_thousand_idle_connections_are_small", "--exact", "--nocapture"]);
        let output = measured.env(KIND, kind).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        let each = text.lines().find(|line| line.ends_with(" bytes each")).unwrap();
        println!("{each}");
    }
}

async fn hold(kind: &str) {
    raise_descriptor_limit();
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = upstream.local_addr().unwrap();
    let authority = format!("idle.internal:{}", to.port());
    let policy = Policy::new([&authority], [("idle.internal", to.ip())]).unwrap();
    let guard = Arc::new(Guard::new(policy, SystemResolver::new(), Arc::new(|_| ())));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(guard.run(listener, std::future::pending()));

    let request = match kind {
        "half-head" => "GET http://".to_owned(),
        "tunnel" => format!("CONNECT {authority} HTTP/1.1\r\n\r\n"),
        _ => format!("GET http://{authority}/ HTTP/1.1\r\n\r\n"),
    };
    let patience = Duration::from_secs(30);
    let mut held = Vec::with_capacity(CLIENTS);
    let mut before = resident();
    for number in 0..CLIENTS {
        // What the first ones take is taken once.
        if number == CLIENTS / 10 {
            before = resident();
        }
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut reached = None;
        let mut first = [0; 19];
        if kind == "half-head" {
            // The guard has its turn; what it has not read yet is read later.
            tokio::task::yield_now().await;
        } else {
            let mut stream = timeout(patience, upstream.accept()).await.unwrap().unwrap().0;
            let answered = if kind == "tunnel" { &mut client } else { &mut stream };
            timeout(patience, answered.read_exact(&mut first)).await.unwrap().unwrap();
            reached = Some(stream);
        }
        held.push((client, reached));
    }
    let each = (resident() - before) / (CLIENTS - CLIENTS / 10);
    println!("{kind}: {each} bytes each");
    let target = match kind {
        "tunnel" => TUNNEL_TARGET,
        "request" => WAITING_TARGET,
        _ => IDLE_TARGET,
    };
    assert!(each < target, "{kind}: {each} bytes each");
}
