use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::stand_in::StandIn;
use super::*;

const LIMIT: Duration = Duration::from_secs(20);

/// A sign at the herdr of that socket, and what is written down.
fn sign_at(socket: &Path, tier: &'static str) -> (Sign, Receiver<(String, String)>) {
    let own = own_pane_at(socket);
    let (sender, notes) = channel();
    let sender = Mutex::new(sender);
    let client = HerdrClient::new(own.socket());
    let sign = Sign::start(own, tier, client, move |told, said| {
        let _ = sender.lock().unwrap().send((told.to_owned(), said.to_owned()));
    });
    (sign.unwrap(), notes)
}

/// The agent's name as it shows, after each thing that herdr was told.
fn shown(herdr: &StandIn) -> Vec<Value> {
    let received = herdr.received.lock().unwrap();
    received.iter().map(|request| request["params"]["display_agent"].clone()).collect()
}

fn wait_for_shown(herdr: &StandIn, count: usize) -> Vec<Value> {
    let start = Instant::now();
    while shown(herdr).len() < count {
        assert!(start.elapsed() < LIMIT, "{:?}", shown(herdr));
        std::thread::sleep(Duration::from_millis(5));
    }
    shown(herdr)
}

fn next(notes: &Receiver<(String, String)>) -> (String, String) {
    notes.recv_timeout(LIMIT).expect("something is written down")
}

#[test]
fn the_sign_is_the_keepers_word_and_goes_by_itself() {
    let herdr = StandIn::with_pane(PANE);
    let (sign, notes) = sign_at(herdr.path(), "sealed");
    sign.show(Standing::Confined);
    assert_eq!(next(&notes), ("confined".into(), "ok".into()));
    sign.close();
    assert_eq!(next(&notes), ("no sign".into(), "ok".into()));
    let received = herdr.received.lock().unwrap();
    let base = json!({ "pane_id": PANE, "source": "plugin:paddock" });
    let with = |more: Value| {
        let mut params = base.clone();
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let [first, last] = &received[..] else { panic!("{received:?}") };
    assert_eq!(first["method"], "pane.report_metadata");
    assert_eq!(
        first["params"],
        with(json!({
            "display_agent": "opencode [sandboxed]", "clear_title": true, "ttl_ms": 10_000,
            "tokens": { "sandbox": "sealed", "verdict": "confined" },
        }))
    );
    assert_eq!(
        last["params"],
        with(json!({
            "clear_display_agent": true, "tokens": { "sandbox": null, "verdict": null },
        }))
    );
}

#[test]
fn each_change_shows_within_a_second_and_both_ways() {
    let herdr = StandIn::with_pane(PANE);
    let (sign, _notes) = sign_at(herdr.path(), "ported");
    let changes = [
        (Standing::Confined, "opencode [sandboxed: ported]"),
        (Standing::Unconfined, "opencode [NOT CONFINED]"),
        (Standing::Confined, "opencode [sandboxed: ported]"),
        (Standing::Unknown, "opencode [unverified]"),
        (Standing::Suspended, "opencode [suspended]"),
        (Standing::Confined, "opencode [sandboxed: ported]"),
    ];
    for (count, (standing, words)) in (1..).zip(changes) {
        let start = Instant::now();
        sign.show(standing);
        // As passes of the watch do.
        sign.show(standing);
        let shown = wait_for_shown(&herdr, count);
        assert!(start.elapsed() < Duration::from_secs(1), "{words}: {:?}", start.elapsed());
        assert_eq!(shown.last().unwrap(), words);
        assert_eq!(shown.len(), count, "told once: {shown:?}");
    }
}

#[test]
fn what_nobody_finds_again_is_not_claimed_any_longer() {
    let herdr = StandIn::with_pane(PANE);
    let (sign, notes) = sign_at(herdr.path(), "sealed");
    sign.show(Standing::Confined);
    let shown = wait_for_shown(&herdr, 3);
    let (held, old) = ("opencode [sandboxed]", "opencode [unverified]");
    assert_eq!(shown[..3], [held, held, old], "renewed, and then not claimed");
    sign.show(Standing::Confined);
    assert_eq!(wait_for_shown(&herdr, 4)[3], held);
    let written = ["confined", "unknown", "confined"].map(|what| (what.into(), "ok".into()));
    assert_eq!([next(&notes), next(&notes), next(&notes)], written, "the renewal is not");
}

#[test]
fn after_the_end_nothing_is_told_and_nothing_is_taken_down_that_was_not_put_up() {
    let herdr = StandIn::with_pane(PANE);
    let (sign, notes) = sign_at(herdr.path(), "sealed");
    sign.close();
    sign.show(Standing::Confined);
    let (control, _) = sign_at(herdr.path(), "isolated");
    control.show(Standing::Confined);
    assert_eq!(wait_for_shown(&herdr, 1), ["opencode [sandboxed: isolated]"]);
    assert!(notes.try_recv().is_err());
}

#[test]
fn a_herdr_that_never_answers_is_waited_for_a_moment() {
    let held = Mutex::new(Vec::new());
    let silent = StandIn::serving(move |stream| held.lock().unwrap().push(stream));
    let (sign, notes) = sign_at(silent.path(), "sealed");
    for wait in [&|| sign.show_now(Standing::Suspended), &|| sign.close()] as [&dyn Fn(); 2] {
        let start = Instant::now();
        wait();
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
    assert_eq!(next(&notes), ("suspended".into(), "herdr did not answer in time".into()));
}

#[test]
fn a_herdr_that_does_not_know_it_is_told_seldom_and_it_is_written_down_once() {
    let herdr = StandIn::with_pane("w1:other");
    let (sign, notes) = sign_at(herdr.path(), "sealed");
    let start = Instant::now();
    while shown(&herdr).len() < 2 {
        sign.show(Standing::Confined);
        assert!(start.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(next(&notes), ("confined".into(), "pane_not_found".into()));
    assert!(notes.try_recv().is_err(), "once");
}

#[test]
fn the_newest_is_told_to_a_herdr_that_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("herdr.sock");
    let (sign, notes) = sign_at(&socket, "sealed");
    sign.show(Standing::Confined);
    assert!(next(&notes).1.starts_with("herdr cannot be reached"));
    sign.show(Standing::Unknown);
    sign.show(Standing::Unconfined);
    let herdr = StandIn::with_pane(PANE);
    std::fs::rename(herdr.path(), &socket).unwrap();
    assert_eq!(wait_for_shown(&herdr, 1), ["opencode [NOT CONFINED]"]);
}

#[test]
fn a_flood_of_the_agents_reports_does_not_delay_it() {
    let herdr = StandIn::with_pane(PANE);
    let own = own_pane_at(herdr.path());
    let client = HerdrClient::new(own.socket());
    let relay = Relay::start(own, client, |_, _| {}).unwrap();
    let (sign, notes) = sign_at(herdr.path(), "sealed");
    (0..2_000).for_each(|_| relay.report("working", None));
    let start = Instant::now();
    sign.show(Standing::Unconfined);
    (0..2_000).for_each(|_| relay.report("idle", None));
    assert_eq!(next(&notes), ("unconfined".into(), "ok".into()));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}
