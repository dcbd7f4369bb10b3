//! `paddock doctor`: the same operations in five places.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Stdio;

use paddock_test::host::{Host, LIMIT, TIERS, send, standin_over_a_port, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

const SPECIAL_NAMES: [&str; 8] = [
    "link-local.test",
    "mapped.test",
    "metadata.test",
    "own.test",
    "private.test",
    "shared.test",
    "translated.test",
    "unique-local.test",
];

fn rows(report: &Value) -> &Vec<Value> {
    report["matrix"]["rows"].as_array().expect("rows")
}

fn row<'a>(report: &'a Value, operation: &str) -> &'a Value {
    rows(report).iter().find(|row| row["operation"] == operation).expect(operation)
}

fn observed<'a>(report: &'a Value, operation: &str, place: &str) -> &'a str {
    row(report, operation)["places"][place]["observed"].as_str().unwrap_or("nothing")
}

/// Neither a launch nor a decoy is left.
fn assert_nothing_left(host: &Host) {
    host.assert_nothing_left();
    assert!(std::fs::read_dir(host.launches()).unwrap().next().is_none());
    let places = [host.home(), host.runtime().join("paddock")];
    let entries = places.iter().flat_map(|place| std::fs::read_dir(place).unwrap().flatten());
    let decoys = entries.filter(|e| e.file_name().to_string_lossy().contains("paddock-doctor"));
    assert_eq!(decoys.count(), 0);
}

#[test]
fn every_escape_is_refused_beside_its_control() {
    for tier in TIERS {
        let mut host = Host::new();
        let home = host.home();
        host.set("TMPDIR", &home);
        let run = host.run(&["doctor", "--json", "--tier", tier]);
        let report: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
        assert_eq!((run.code(), &report["ok"]), (Some(0), &true.into()), "{tier}: {report:#}");
        assert_eq!(report["matrix"]["holds"], true, "{tier}");
        let mut controlled = 0;
        for row in rows(&report) {
            let places: Vec<&String> = row["places"].as_object().unwrap().keys().collect();
            let wanted = if tier == "sealed" { 5 } else { 4 };
            assert_eq!(places.len(), wanted, "{tier}: {row:#}");
            assert_eq!(row["escapes"].as_array().map(Vec::len), Some(0), "{tier}: {row:#}");
            controlled += usize::from(row["control"] == true && row["judged"] == true);
        }
        assert!(controlled > 70, "{tier}: {controlled} of {}", rows(&report).len());
        // Of all names that the guard was asked for only those that are allowed, once.
        let mut looked_up = report["matrix"]["lookedUp"].as_array().unwrap().clone();
        looked_up.sort_by_key(|name| name.as_str().map(str::to_owned));
        assert_eq!(looked_up, SPECIAL_NAMES, "{tier}");
        for row in rows(&report) {
            let operation = row["operation"].as_str().unwrap();
            let is_special = operation.starts_with("an allowed name that is ");
            let wanted = match operation {
                "an allowed name" => json!(["exception"]),
                "an allowed name, another port" => json!(["port-not-allowed"]),
                _ if is_special => json!(["special-address"]),
                _ if row["group"] == "through the guard" => json!(["host-not-allowed"]),
                _ => Value::Null,
            };
            // Two notations of one address are one to the guard.
            let mut found = row["guard"].clone();
            if let Value::Array(reasons) = &mut found {
                reasons.dedup();
            }
            assert_eq!(found, wanted, "{tier}: {operation}");
            assert!(!is_special || row["judged"] == true, "{tier}: {operation}");
        }
        let disagreements = report["matrix"]["disagreements"].as_array().map(Vec::len);
        assert_eq!(disagreements, Some(0), "{tier}: {:#}", report["matrix"]["disagreements"]);
        let said = rows(&report).iter().filter(|row| row["nonoSays"].is_string()).count();
        assert!(said > 20, "{tier}: nono was asked about {said}");
        // Something must work for the rest to mean anything.
        for (operation, place) in [
            ("make one in the workspace", "server"),
            ("accept a caller there and know who it is", "server"),
            ("bind the server's socket in it", "server"),
            ("an allowed name", "server"),
            ("stream", "pen"),
            ("a file in memory", "client"),
        ] {
            assert_eq!(observed(&report, operation, place), "works", "{tier}: {operation}");
        }
        // What the launch has for itself.
        for (operation, has) in [
            ("bind one in /tmp", tier == "sealed"),
            ("bind one there and accept a caller", tier == "sealed"),
            ("listen on a port and connect to it", tier != "ported"),
        ] {
            assert_eq!(
                observed(&report, operation, "server") == "works",
                has,
                "{tier}: {operation}"
            );
            assert_ne!(observed(&report, operation, "client"), "works", "{tier}: {operation}");
        }
        for (operation, place) in [
            ("bind another socket in it", "server"),
            ("one of the host in the workspace", "server"),
            ("bind one in the workspace", "server"),
            ("bind in a folder inside it", "server"),
            ("connect to a foreign socket in it", "server"),
            ("a name that is not allowed", "server"),
            ("a metadata address", "server"),
            ("stream", "server"),
            ("stream", "client"),
            ("a socket by 32-bit calls", "server"),
            ("trace it", "pen"),
        ] {
            assert_ne!(observed(&report, operation, place), "works", "{tier}: {operation}");
        }
        assert_nothing_left(&host);
    }
}

/// The matrix is of the agent that is meant, with its own link and policies.
#[test]
fn the_agents_own_policies_are_tried() {
    let host = Host::new();
    host.add_agent("over-a-port", &standin_over_a_port("over-a-port"));
    let doctor = |arguments: &[&str]| {
        let run = host.run(&[&["doctor", "--json"], arguments].concat());
        serde_json::from_str::<Value>(&run.stdout).expect(&run.stderr)
    };
    let report = doctor(&["over-a-port"]);
    let told = (&report["ok"], &report["matrix"]["agent"]);
    assert_eq!(told, (&true.into(), &"over-a-port".into()), "{report:#}");
    assert_eq!(observed(&report, "bind the server's socket in it", "server"), "EACCES");
    assert_eq!(observed(&report, "an allowed name", "server"), "works");
    // The configured one, where none is named.
    host.configure("agent = \"over-a-port\"\n");
    let path = host.home().join(".config/paddock/agents/over-a-port/server.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"/proc\"", "\"/proc\", \"/dev/pts\"")).unwrap();
    let report = doctor(&["--tier", "isolated"]);
    assert_eq!((&report["ok"], &report["matrix"]["holds"]), (&false.into(), &false.into()));
    assert_eq!(row(&report, "open one of the host")["escapes"], json!(["server"]));
    // The stand-in's are as they were.
    assert_eq!(doctor(&["standin", "--tier", "isolated"])["ok"], true);

    let unknown = host.run(&["doctor", "nobody"]);
    assert_eq!((unknown.code(), unknown.stdout.as_str()), (Some(125), ""), "{}", unknown.stderr);
    let names = "names = [\"nowhere-to-be-found\"]";
    let missing = standin_over_a_port("over-a-port").replace("names = [\"{paddock}\"]", names);
    host.add_agent("over-a-port", &missing);
    let run = host.run(&["doctor"]);
    assert_eq!(run.code(), Some(1), "{}", run.stderr);
    assert!(
        run.stdout.contains("the program of agent over-a-port was not found"),
        "{}",
        run.stdout
    );
    assert_nothing_left(&host);
}

/// A doctor that is ended, by a key and by force.
#[test]
fn what_a_doctor_that_was_ended_leaves_is_gone_with_the_next() {
    let mut host = Host::new();
    let home = host.home();
    host.set("TMPDIR", &home);
    let is_decoy = |name: &str| name.starts_with("paddock-doctor-");
    let decoys = || {
        let places = [home.clone(), host.runtime().join("paddock")];
        let entries =
            places.iter().flat_map(|place| std::fs::read_dir(place).into_iter().flatten());
        entries.flatten().filter(|e| is_decoy(&e.file_name().to_string_lossy())).count()
    };
    for (signal, code, left) in [(Signal::INT, Some(130), 0), (Signal::KILL, None, 2)] {
        let mut command = host.paddock();
        command.arg("doctor").stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        wait_for(LIMIT, || (decoys() == 2).then_some(())).expect("decoys");
        send(child.id().cast_signed(), signal);
        assert_eq!(child.wait().unwrap().code(), code);
        assert_eq!(decoys(), left, "{signal:?}");
    }
    // One that runs keeps its own.
    let mut command = host.paddock();
    command.arg("doctor").stdout(Stdio::null()).stderr(Stdio::null());
    let mut other = command.spawn().unwrap();
    let run = host.run(&["doctor"]);
    assert_eq!((run.code(), other.wait().unwrap().code()), (Some(0), Some(0)), "{}", run.stdout);
    assert_eq!(decoys(), 0);
    // Its launch is one whose keeper was killed, if it came that far.
    assert_eq!(host.run(&["stop", "--all"]).code(), Some(0));
    host.assert_nothing_left();
}

/// Without a veil the host's terminals are there to be opened.
#[test]
fn a_profile_that_lets_something_through_is_named() {
    let host = Host::new();
    let shipped = include_str!("../../profiles/standin/server.json");
    let profile = host.write("mine.json", &shipped.replace("\"/proc\"", "\"/proc\", \"/dev/pts\""));
    let profile = profile.to_str().unwrap();
    let run = host.run(&["doctor", "--tier", "isolated", "--profile", profile]);
    assert_eq!(run.code(), Some(1), "{}{}", run.stdout, run.stderr);
    let told = "  terminal: \"open one of the host\" works in the server and must be refused; \
        a grant too many in the agent's server.json, or another nono\n";
    assert!(run.stdout.ends_with(told), "{}", run.stdout);
    assert!(!run.stdout.chars().any(|c| c.is_control() && c != '\n'));
    assert_nothing_left(&host);
}

#[test]
fn a_profile_that_fails_its_self_test_is_refused_before() {
    let host = Host::new();
    let shipped = include_str!("../../profiles/standin/server.json");
    let profile = host.write("mine.json", &shipped.replace("\"pathname\"", "\"off\""));
    let profile = profile.to_str().unwrap();
    let run = host.run(&["doctor", "--profile", profile]);
    assert_eq!(run.code(), Some(1), "{}", run.stderr);
    assert!(run.stdout.contains("\nthe self-test of the server layer failed"), "{}", run.stdout);
    let json = host.run(&["doctor", "--json", "--profile", profile]);
    let report: Value = serde_json::from_str(&json.stdout).expect(&json.stderr);
    assert_eq!((&report["ok"], &report["matrix"]), (&false.into(), &Value::Null));
    assert!(report["failure"].as_str().unwrap().contains("\"connect to a stream socket\""));
    let missing = host.run(&["doctor", "--profile", "/nonexistent.json"]);
    assert_eq!(missing.code(), Some(125), "{}", missing.stderr);
    assert!(missing.stderr.contains("the agent file /nonexistent.json is not usable"));
}
