use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::super::client::ClientError;
use super::stand_in::StandIn;
use super::*;

const SHORT: Duration = Duration::from_millis(200);
/// More than any limit here, less than for ever.
const PATIENCE: Duration = Duration::from_secs(20);

fn own_report(own: &OwnPane) -> Vec<u8> {
    report_of(own, "idle", None).line
}

#[test]
fn a_report_reaches_herdr_and_its_reply_is_had() {
    let herdr = StandIn::with_pane(PANE);
    let own = own_pane_at(herdr.path());
    let reply = HerdrClient::new(own.socket()).send(&own_report(&own)).unwrap();
    assert_eq!(answer::said(&reply), "ok");
    let received = herdr.received.lock().unwrap();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0]["params"]["state"], "idle");
}

#[test]
fn of_herdrs_refusal_its_code_is_kept() {
    let herdr = StandIn::with_pane("w7:p7");
    let own = own_pane_at(herdr.path());
    let reply = HerdrClient::new(own.socket()).send(&own_report(&own)).unwrap();
    assert_eq!(answer::said(&reply), "pane_not_found");
}

/// What the client gets from a herdr that serves like this.
fn refused_by(client: &HerdrClient) -> ClientError {
    let started = Instant::now();
    let error = client.send(b"{}\n").expect_err("there is no reply to have");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    assert!(!error.to_string().contains('/'), "no path is told: {error}");
    error
}

#[test]
fn a_herdr_that_closes_early_is_an_error() {
    let herdr = StandIn::serving(drop);
    let error = refused_by(&HerdrClient::new(herdr.path()));
    assert!(matches!(error, ClientError::Closed), "{error:?}");
}

#[test]
fn half_an_answer_is_none() {
    let herdr = StandIn::serving(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(br#"{"id":"paddock","result":{"type":"ok"}}"#);
    });
    let error = refused_by(&HerdrClient::new(herdr.path()));
    assert!(matches!(error, ClientError::Closed), "{error:?}");
}

#[test]
fn a_herdr_that_never_answers_costs_no_more_than_the_limit() {
    let (keep, kept) = std::sync::mpsc::channel();
    let herdr = StandIn::serving(move |stream| drop(keep.send(stream)));
    let started = Instant::now();
    let error = refused_by(&HerdrClient::with_limit(herdr.path(), SHORT));
    assert!(matches!(error, ClientError::Deadline), "{error:?}");
    assert!(started.elapsed() >= SHORT, "it was waited for");
    assert_eq!(kept.try_iter().count(), 1);
}

#[test]
fn a_herdr_that_answers_a_byte_at_a_time_costs_no_more_either() {
    let herdr = StandIn::serving(|mut stream| {
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(SHORT / 10);
        }
    });
    let error = refused_by(&HerdrClient::with_limit(herdr.path(), SHORT));
    assert!(matches!(error, ClientError::Deadline), "{error:?}");
}

#[test]
fn a_herdr_that_does_not_accept_costs_no_more_either() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("herdr.sock");
    let address = SocketAddrUnix::new(&path).unwrap();
    let socket = |flags| {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    };
    let listener = socket(SocketFlags::CLOEXEC);
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let mut queued = Vec::new();
    while queued.len() < 100 {
        let caller = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        if rustix::net::connect(&caller, &address).is_err() {
            break;
        }
        queued.push(caller);
    }
    assert!((1..100).contains(&queued.len()), "the queue is full: {}", queued.len());
    let error = refused_by(&HerdrClient::with_limit(&path, SHORT));
    assert!(matches!(error, ClientError::Deadline), "{error:?}");
}

#[test]
fn a_herdr_that_is_not_there_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let error = refused_by(&HerdrClient::new(&directory.path().join("none.sock")));
    assert!(matches!(error, ClientError::Connect(_)), "{error:?}");
    let long = directory.path().join("l".repeat(200));
    let error = refused_by(&HerdrClient::new(&long));
    assert!(matches!(error, ClientError::Connect(_)), "{error:?}");
}

#[test]
fn a_megabyte_of_an_answer_is_not_read_to_its_end() {
    let herdr = StandIn::serving(|mut stream| drop(stream.write_all(&vec![b'x'; 1 << 20])));
    let error = refused_by(&HerdrClient::new(herdr.path()));
    assert!(matches!(error, ClientError::TooLong), "{error:?}");
}

#[test]
fn garbage_for_an_answer_is_told_as_such() {
    for garbage in [
        &b"\n"[..],
        b"\xff\xfe\x00\n",
        b"null\n",
        b"[1]\n",
        b"{\"result\":\"ok\"}\n",
        b"{\"error\":{\"code\":\"\\u001b[2J\"}}\n",
        b"{\"error\":{\"code\":7}}\n",
        b"{\"result\":{},\"error\":{\"code\":\"UPPER\"}}\n",
    ] {
        let herdr = StandIn::serving(move |mut stream| {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(garbage);
        });
        let reply = HerdrClient::new(herdr.path()).send(b"{}\n").unwrap();
        assert_eq!(answer::said(&reply), "herdr's reply is none of its protocol", "{garbage:?}");
    }
}
