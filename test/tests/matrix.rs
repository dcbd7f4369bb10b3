//! `paddock doctor`: the same operations in five places.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use paddock_test::host::{Host, TIERS};
use serde_json::Value;

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
        // Of all names that were asked of the proxy only the allowed one.
        assert_eq!(report["matrix"]["lookedUp"], serde_json::json!(["own.test"]), "{tier}");
        let disagreements = report["matrix"]["disagreements"].as_array().map(Vec::len);
        assert_eq!(disagreements, Some(0), "{tier}: {:#}", report["matrix"]["disagreements"]);
        let said = rows(&report).iter().filter(|row| row["nonoSays"].is_string()).count();
        assert!(said > 20, "{tier}: nono was asked about {said}");
        // Something must work for the rest to mean anything.
        for (operation, place) in [
            ("make one in the workspace", "server"),
            ("accept a caller there and know who it is", "server"),
            ("bind a socket in it", "server"),
            ("an allowed name", "server"),
            ("stream", "pen"),
            ("a file in memory", "client"),
        ] {
            assert_eq!(observed(&report, operation, place), "works", "{tier}: {operation}");
        }
        for (operation, place) in [
            ("bind in a folder inside it", "server"),
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
