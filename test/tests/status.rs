//! `paddock status`: what keepers say without a pass, in lines and as JSON.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use paddock_test::faults::{fault, parts};
use paddock_test::host::{Host, LIMIT, Launch, send, wait_for};
use rustix::process::Signal;
use serde_json::Value;

fn status(host: &Host, options: &[&str]) -> (Option<i32>, String) {
    let run = host.run(&[&["status"], options].concat());
    assert_eq!(run.stderr, "");
    (run.code(), run.stdout)
}

fn as_json(host: &Host) -> (Option<i32>, Value) {
    let (code, text) = status(host, &["--json"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema"], 1);
    (code, value["launches"][0].clone())
}

/// Waits until the launch stands so, and gives the exit status and the launch.
fn wait_until(host: &Host, stands: impl Fn(&Value) -> bool) -> (Option<i32>, Value) {
    let mut last = Value::Null;
    let found = wait_for(LIMIT, || {
        let (code, launch) = as_json(host);
        last = launch.clone();
        stands(&launch).then_some((code, launch))
    });
    found.unwrap_or_else(|| panic!("it stands so: {last:#}"))
}

fn start(host: &Host) -> Launch<'_> {
    host.start(host.standin_command(&["sleep 900"]))
}

#[test]
fn a_launch_is_told_in_a_line_in_a_word_and_as_json() {
    let host = Host::new();
    let nothing = "no launch is running; paddock run starts one\n";
    assert_eq!(status(&host, &[]), (Some(0), nothing.into()));
    assert_eq!(status(&host, &["--short"]), (Some(0), String::new()));

    let launch = start(&host);
    let (code, told) = wait_until(&host, |launch| launch["tasks"].as_u64() >= Some(9));
    assert_eq!((code, &told["verdict"]), (Some(0), &"confined".into()), "{told:#}");
    assert_eq!((&told["state"], &told["failure"]), (&"running".into(), &Value::Null));
    assert!(told["passAge"].as_u64().unwrap() < 5_000);
    let (code, line) = status(&host, &[]);
    let words: Vec<&str> = line.split_whitespace().collect();
    let workspace = host.workspace();
    assert_eq!((code, words[0]), (Some(0), launch.id.as_str()), "{line}");
    assert_eq!(words[1..3], ["running", "confined"]);
    assert_eq!(words[4..8], ["tasks", "0", "blocked", "0"]);
    assert_eq!(words[8..11], ["asks", "standin", "sealed"]);
    assert_eq!(words[12], workspace.to_str().unwrap());
    assert_eq!(status(&host, &["--short"]), (Some(0), "1 confined\n".into()));

    launch.terminate();
    assert_eq!(status(&host, &[]), (Some(0), nothing.into()));
    let (code, ended) = status(&host, &["--all"]);
    assert_eq!(code, Some(0));
    assert_eq!(ended.split_whitespace().nth(2), Some("ended"), "{ended}");
    host.assert_nothing_left();
}

#[test]
fn json_draws_nothing_whatever_a_directory_is_called() {
    let host = Host::new();
    let workspace = host.home().join("a\u{202e}b\u{9b}2J");
    std::fs::create_dir(&workspace).unwrap();
    let name = workspace.to_str().unwrap();
    let run = host.run(&["run", "standin", "--dry-run", "--json", "--workspace", name]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert!(!run.stdout.contains(['\u{202e}', '\u{9b}']), "{}", run.stdout);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["workspace"], name);
}

#[test]
fn a_keeper_that_does_not_watch_is_not_taken_for_confined() {
    let host = Host::new();
    let launch = start(&host);
    let keeper = launch.keeper();
    send(keeper, Signal::STOP);
    let (code, told) = wait_until(&host, |launch| launch["state"] == "suspended");
    assert_eq!((code, &told["verdict"]), (Some(125), &"unknown".into()), "{told:#}");
    assert!(told["what"].as_str().unwrap().contains(&format!("kill -CONT {keeper}")));
    assert_eq!(status(&host, &["--short"]), (Some(125), "1 unknown\n".into()));
    send(keeper, Signal::CONT);
    assert_eq!(wait_until(&host, |launch| launch["verdict"] == "confined").0, Some(0), "control");

    send(keeper, Signal::KILL);
    let (code, told) = wait_until(&host, |launch| launch["state"] == "stale");
    assert_ne!(code, Some(0), "{told:#}");
    assert_ne!(told["verdict"], "confined");
    assert_eq!(host.run(&["stop", &launch.id]).code(), Some(0));
    assert_eq!(status(&host, &[]).0, Some(0));
    drop(launch);
    host.assert_nothing_left();
}

#[test]
fn a_launch_of_which_something_cannot_be_told_is_unknown_and_not_unconfined() {
    let host = Host::new();
    host.configure("on-violation = \"warn\"\n");
    let launch = start(&host);
    let is_warden = |(name, _): &(String, i32)| name == "server-warden";
    let warden = parts(&host).into_iter().find(is_warden).expect("a warden").1;
    send(warden, Signal::STOP);
    let (code, told) =
        wait_until(&host, |launch| launch["verdict"] != "confined" && !launch["failure"].is_null());
    assert_eq!((code, &told["verdict"]), (Some(125), &"unknown".into()), "{told:#}");
    assert_eq!(told["failure"]["task"]["verdict"], "unknown", "{told:#}");
    assert_eq!(status(&host, &["--short"]), (Some(125), "1 unknown\n".into()));
    send(warden, Signal::CONT);
    assert_eq!(wait_until(&host, |launch| launch["verdict"] == "confined").0, Some(0), "control");
    launch.terminate();
    host.assert_nothing_left();
}

#[test]
fn what_is_not_confined_is_told_with_its_evidence() {
    let host = Host::new();
    host.configure("on-violation = \"warn\"\n");
    let launch = start(&host);
    let records = host.records();
    let parts = records.last().unwrap()["parts"].as_array().unwrap().clone();
    let veil = parts.iter().find(|part| part["name"] == "veil-init").expect("a veil");
    let mut intrude = Command::new(fault());
    let late = host.home().join("late");
    host.dress(intrude.arg("intrude").arg(veil["process"]["pid"].to_string()).arg(late));
    assert!(intrude.status().unwrap().success());
    let (code, told) = wait_until(&host, |launch| launch["verdict"] == "unconfined");
    assert_eq!(code, Some(126), "{told:#}");
    for failure in [&told["failure"], &told["lastViolation"]] {
        assert_eq!(failure["task"]["reasons"][0]["code"], "no-place", "{told:#}");
        assert_eq!(failure["task"]["role"], "stray");
        assert!(failure["time"].as_u64().unwrap() > told["started"].as_u64().unwrap());
    }
    assert!(told["what"].as_str().unwrap().contains("unconfined"), "{told:#}");
    assert_eq!(status(&host, &["--short"]), (Some(126), "1 unconfined\n".into()));
    launch.terminate();
    host.assert_nothing_left();
}

#[test]
fn what_was_refused_and_what_is_asked_is_counted() {
    let host = Host::new();
    std::fs::copy(paddock_test::host::probe(), host.workspace().join("probe")).unwrap();
    let command = "for n in 1 2 3; do ./probe proxy:refused.test:443; done; \
        paddock ask host wanted.test --wait 600; sleep 900";
    let launch = host.start(host.standin_command(&[command]));
    let (code, told) = wait_until(&host, |launch| launch["questions"][0].is_object());
    assert_eq!((code, &told["blocked"]["egress"]), (Some(0), &3.into()), "{told:#}");
    assert_eq!(told["questions"][0]["wanted"]["host"], "wanted.test");
    assert_eq!(status(&host, &["--short"]).1, "1 confined, 1 asked\n");
    launch.terminate();
}

#[test]
fn a_watch_prints_when_something_changes_and_ends_with_its_reader() {
    let host = Host::new();
    let mut watch = host
        .paddock()
        .args(["status", "--watch", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["launches"], Value::Array(Vec::new()));
    let launch = start(&host);
    let mut told = next();
    while told["launches"][0]["verdict"] != "confined" {
        told = next();
    }
    assert_eq!(told["launches"][0]["launch"], launch.id.as_str());
    launch.terminate();
    while !told["launches"].as_array().unwrap().is_empty() {
        told = next();
    }
    drop(lines);
    let ended = wait_for(LIMIT, || watch.try_wait().unwrap());
    assert_eq!(ended.expect("nobody reads").code(), Some(0));
}
