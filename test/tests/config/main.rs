//! The configuration: which file is in force, what of it holds, and a project's file
//! that only tightens; each with the real program, and with a launch where that tells.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agents;
mod file;
mod tightening;
mod watch;

use std::path::PathBuf;

use paddock_test::host::{Finished, Host, finish};
use serde_json::Value;

/// Writes the project's file.
fn project(host: &Host, text: &str) -> PathBuf {
    let path = host.workspace().join(".paddock.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn own_file(host: &Host) -> PathBuf {
    host.home().join(".config/paddock/config.toml")
}

fn plugins_file(host: &Host) -> PathBuf {
    host.home().join(".config/herdr/plugins/config/paddock/config.toml")
}

fn shown(host: &Host, arguments: &[&str]) -> Value {
    let run = host.run(&[&["config", "show", "--json"], arguments].concat());
    assert_eq!(run.code(), Some(0), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// Value, kind of origin and line of one key.
fn key(shown: &Value, name: &str) -> (Value, String, Value) {
    let keys = shown["keys"].as_array().unwrap();
    let key = keys.iter().find(|key| key["name"] == name).unwrap_or_else(|| panic!("{name}"));
    (key["value"].clone(), key["from"].as_str().unwrap().to_owned(), key["line"].clone())
}

fn plan(host: &Host, agent: &str, options: &[&str]) -> Value {
    let run = finish({
        let mut command = host.paddock();
        command.args(["run", agent, "--dry-run", "--json"]).args(options);
        command
    });
    assert_eq!(run.code(), Some(0), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// Nothing ran, and that was said.
#[track_caller]
fn assert_refused(host: &Host, run: &Finished, message: &str) {
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{}", run.stderr);
    assert_eq!(run.stderr, message);
    assert!(host.records().is_empty());
    host.assert_nothing_left();
}
