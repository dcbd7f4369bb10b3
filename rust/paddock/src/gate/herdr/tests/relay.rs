use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::stand_in::StandIn;
use super::*;

const LIMIT: Duration = Duration::from_secs(20);

/// What was written down, as it was.
type Notes = Receiver<(String, String)>;

fn relay_to(socket: &Path) -> (Relay, Notes) {
    relay_over(HerdrClient::new(socket), socket)
}

fn relay_over(client: HerdrClient, socket: &Path) -> (Relay, Notes) {
    let own = own_pane_at(socket);
    let (sender, notes): (Sender<(String, String)>, _) = channel();
    let note = Mutex::new(sender);
    let relay = Relay::start(own, client, move |told, said| {
        let _ = note.lock().unwrap().send((told.to_owned(), said.to_owned()));
    });
    (relay.unwrap(), notes)
}

fn report(state: &str) -> Vec<u8> {
    format!(
        r#"{{"id":"r1","method":"pane.report_agent","params":{{"pane_id":"{PANE}",
            "source":"herdr:opencode","agent":"opencode","state":"{state}"}}}}"#
    )
    .replace('\n', "")
    .into_bytes()
}

fn next(notes: &Notes) -> (String, String) {
    notes.recv_timeout(LIMIT).expect("something is written down")
}

fn told(herdr: &StandIn) -> Vec<String> {
    let received = herdr.received.lock().unwrap();
    let word = |value: &Value| value.as_str().unwrap_or("released").to_owned();
    received.iter().map(|request| word(&request["params"]["state"])).collect()
}

#[test]
fn a_report_is_answered_and_told() {
    let herdr = StandIn::with_pane(PANE);
    let (relay, notes) = relay_to(herdr.path());
    let (answer, record) = relay.answer(&report("idle"));
    assert_eq!(parsed(&answer), json!({ "id": "r1", "result": { "type": "ok" } }));
    assert_eq!((record.outcome, record.why), (Outcome::Forwarded, None));
    assert_eq!(next(&notes), ("idle".into(), "ok".into()));
    relay.report("done", None);
    assert_eq!(next(&notes), ("idle".into(), "ok".into()), "herdr has no word for done");
    assert_eq!(told(&herdr), ["idle", "idle"]);
}

#[test]
fn what_is_answered_here_does_not_reach_herdr() {
    let herdr = StandIn::with_pane(PANE);
    let (relay, notes) = relay_to(herdr.path());
    for line in [
        &br#"{"id":"r1","method":"pane.send_input","params":{"pane_id":"w1:p9"}}"#[..],
        br#"{"id":"r1","method":"pane.report_agent_session","params":{"pane_id":"w1:p9",
            "source":"herdr:claude","agent":"claude","agent_session_id":"S"}}"#,
        br#"{"id":"r1","method":"ping","params":{}}"#,
        b"garbage",
    ] {
        assert_ne!(relay.answer(line).1.outcome, Outcome::Forwarded);
    }
    // The control: what comes after them does.
    relay.answer(&report("working"));
    next(&notes);
    assert_eq!(told(&herdr), ["working"]);
}

#[test]
fn of_a_flood_herdr_hears_little_and_the_last() {
    let herdr = StandIn::with_pane(PANE);
    let (relay, notes) = relay_to(herdr.path());
    let started = Instant::now();
    let flood = 2_000;
    for n in 0..flood {
        relay.answer(&report(["idle", "working"][n % 2]));
    }
    relay.answer(&report("blocked"));
    while next(&notes).0 != "blocked" {}
    let told = told(&herdr);
    let most = started.elapsed().as_millis() / 200 + 2;
    assert!(told.len() as u128 <= most && told.len() < flood / 2, "{} of {most}", told.len());
    assert_eq!(told.last().map(String::as_str), Some("blocked"));
}

#[test]
fn a_herdr_that_never_answers_delays_nobody_who_reports() {
    let (keep, kept) = channel();
    let herdr = StandIn::serving(move |stream| drop(keep.send(stream)));
    // So much time that one of them who waited for herdr would be seen on a slow host, too.
    let client = HerdrClient::with_limit(herdr.path(), LIMIT);
    let (relay, notes) = relay_over(client, herdr.path());
    relay.answer(&report("working"));
    let held = kept.recv_timeout(LIMIT).expect("control: it is being told");
    for _ in 0..1_000 {
        relay.answer(&report("idle"));
    }
    assert!(notes.try_recv().is_err(), "all were answered before herdr's time was over");
    drop(held);
    assert_eq!(next(&notes).0, "working", "control: herdr's time was not over");
}

#[test]
fn a_herdr_that_never_answers_delays_the_end_but_not_for_ever() {
    let (keep, kept) = channel();
    let herdr = StandIn::serving(move |stream| drop(keep.send(stream)));
    let (relay, _notes) = relay_to(herdr.path());
    relay.answer(&report("working"));
    let _held = kept.recv_timeout(LIMIT).expect("control: it is being told");
    let started = Instant::now();
    relay.close();
    assert!(started.elapsed() < LIMIT);
}

#[test]
fn what_herdr_did_not_answer_to_is_told_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("herdr.sock");
    let (relay, notes) = relay_to(&socket);
    relay.answer(&report("working"));
    let (told_first, said) = next(&notes);
    assert_eq!(
        (told_first.as_str(), said.starts_with("herdr cannot be reached")),
        ("working", true)
    );
    let herdr = StandIn::with_pane(PANE);
    std::os::unix::fs::symlink(herdr.path(), &socket).unwrap();
    // Once for all its failures, however many there were.
    assert_eq!(next(&notes), ("working".into(), "ok".into()));
    assert_eq!(told(&herdr), ["working"]);
}

#[test]
fn the_end_takes_back_what_was_told_and_nothing_comes_after() {
    let herdr = StandIn::with_pane(PANE);
    let (relay, notes) = relay_to(herdr.path());
    relay.answer(&report("working"));
    next(&notes);
    // One that waits for its turn is not worth telling any more.
    relay.answer(&report("blocked"));
    relay.close();
    assert_eq!(next(&notes), ("released".into(), "ok".into()));
    assert_eq!(relay.answer(&report("idle")).1.outcome, Outcome::Forwarded);
    relay.close();
    assert_eq!(next(&notes), ("released".into(), "ok".into()));
    assert_eq!(told(&herdr), ["working", "released", "released"]);
}

#[test]
fn where_nothing_was_told_nothing_is_taken_back() {
    let herdr = StandIn::with_pane(PANE);
    let (relay, notes) = relay_to(herdr.path());
    relay.close();
    assert!(notes.try_recv().is_err() && told(&herdr).is_empty());
}

#[test]
fn many_at_once_leave_the_newest() {
    let herdr = StandIn::with_pane(PANE);
    let (relay, notes) = relay_to(herdr.path());
    let relay = Arc::new(relay);
    let reporters = [(); 8].map(|()| {
        let relay = relay.clone();
        std::thread::spawn(move || (0..100).for_each(|_| drop(relay.answer(&report("working")))))
    });
    for reporter in reporters {
        reporter.join().unwrap();
    }
    relay.answer(&report("idle"));
    while next(&notes).0 != "idle" {}
    assert_eq!(told(&herdr).last().map(String::as_str), Some("idle"));
}
