//! `paddock prune`: what is over goes, what runs and what is not a launch's stays.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

use paddock_test::faults::Bystander;
use paddock_test::host::{Finished, Host, LIMIT, Launch, TIERS, send, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

const ONE_DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn sleeping<'a>(host: &'a Host, tier: &str) -> Launch<'a> {
    host.start(host.agent_command("standin", &["--tier", tier], &["sleep 600"]))
}

/// Exit status and both outputs.
fn told(run: &Finished) -> (Option<i32>, &str, &str) {
    (run.code(), &run.stdout, &run.stderr)
}

fn record_of(host: &Host, id: &str) -> PathBuf {
    host.launches().join(id).join("record.json")
}

/// Changes the stored record of a launch that nobody keeps.
fn edit_record(host: &Host, id: &str, change: impl FnOnce(&mut Value)) {
    let path = record_of(host, id);
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut record);
    std::fs::write(path, record.to_string()).unwrap();
}

fn only_launch(host: &Host) -> String {
    host.records()[0]["launch"].as_str().unwrap().to_owned()
}

fn line(host: &Host, id: &str, what: &str) -> String {
    format!("launch {id} (standin, {}) {what}\n", host.workspace().display())
}

/// All names in a directory, and none where it is not there.
fn names(directory: PathBuf) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn what_is_over_goes_and_what_runs_stays() {
    for tier in TIERS {
        let host = Host::new();
        assert_eq!(told(&host.run(&["prune"])), (Some(0), "no launch is over\n", ""));

        assert_eq!(host.standin_in(tier, &["echo kept >~/file"]).code(), Some(0));
        let ended = only_launch(&host);
        let killed = sleeping(&host, tier);
        let stale = killed.id.clone();
        send(killed.keeper(), Signal::KILL);
        killed.end();
        let is_over = || (host.verify(&stale).0 == Some(125)).then_some(());
        assert!(wait_for(LIMIT, is_over).is_some(), "{tier}: left: {:?}", host.processes());
        let running = sleeping(&host, tier);

        let asked = host.run(&["prune", "--dry-run"]);
        let kept = line(
            &host,
            &running.id,
            &format!("is kept: it runs\n  next: paddock stop {}", running.id),
        );
        let would = [&ended, &stale].map(|id| line(&host, id, "would be removed")).concat() + &kept;
        assert_eq!(told(&asked), (Some(0), would.as_str(), ""), "{tier}");
        assert_eq!(host.records().len(), 3, "{tier}: control: nothing was removed");

        let pruned = host.run(&["prune"]);
        let was = [&ended, &stale].map(|id| line(&host, id, "was removed")).concat() + &kept;
        assert_eq!(told(&pruned), (Some(0), was.as_str(), ""), "{tier}");
        assert_eq!(names(host.launches()), [running.id.as_str()], "{tier}");
        assert_eq!(names(host.runtime().join("paddock")), [running.id.as_str()], "{tier}");
        assert_eq!(running.verify().0, Some(0), "{tier}: what runs is as it was");
        running.terminate();
        assert_eq!(host.run(&["prune"]).code(), Some(0), "{tier}");
        assert_eq!(names(host.launches()), Vec::<String>::new(), "{tier}");
        assert_eq!(names(host.runtime().join("paddock")), Vec::<String>::new(), "{tier}");

        let home = host.agent_home("standin", "server");
        assert_eq!(std::fs::read_to_string(home.join("file")).unwrap(), "kept\n", "{tier}");
        let pins = host.home().join(".local/state/paddock/pins");
        assert!(!names(pins).is_empty(), "{tier}: pins stay");
    }
}

#[test]
fn a_launch_that_is_named_goes_alone_or_it_is_said_why_not() {
    let host = Host::new();
    host.standin(&["true"]);
    let first = only_launch(&host);
    host.standin(&["true"]);
    let running = sleeping(&host, "sealed");
    assert_eq!(host.run(&["prune", &first[..6]]).code(), Some(0));
    assert_eq!(host.records().len(), 2, "the other stays");

    let refused = host.run(&["prune", &running.id]);
    let why =
        line(&host, &running.id, &format!("is kept: it runs\n  next: paddock stop {}", running.id));
    assert_eq!(told(&refused), (Some(125), "", format!("paddock: {why}").as_str()));
    assert_eq!(running.verify().0, Some(0));

    let unknown = host.run(&["prune", &first]);
    let why =
        format!("paddock: there is no launch {first:?}\n  next: paddock list shows the launches\n");
    assert_eq!(told(&unknown), (Some(125), "", why.as_str()));
    let odd = host.run(&["prune", "--older-than", "soon"]);
    assert_eq!(odd.code(), Some(2));
    assert!(
        odd.stderr.contains("an age is a number and one of s, m, h, d, w: 7d"),
        "{}",
        odd.stderr
    );
}

#[test]
fn a_launch_of_which_a_process_is_left_is_not_touched() {
    let host = Host::new();
    host.standin(&["true"]);
    let id = only_launch(&host);
    let bystander = Bystander::start();
    let pid = confine::Pid::new(bystander.id()).unwrap();
    let start = confine::proc::start_time(pid).unwrap().0;
    edit_record(&host, &id, |record| {
        let process = json!({ "pid": pid.to_string().parse::<i32>().unwrap(), "start": start });
        record["keeper"] = process.clone();
        record["phase"] = json!("running");
        record["parts"] = json!([{ "name": "pen-warden", "process": process }]);
    });
    let why = line(
        &host,
        &id,
        &format!("is kept: 1 of its processes are left\n  next: paddock stop {id}"),
    );
    for arguments in [&["prune"][..], &["prune", &id], &["prune", "--dry-run"]] {
        let refused = host.run(arguments);
        assert_eq!(told(&refused), (Some(125), "", format!("paddock: {why}").as_str()));
    }
    let json: Value = serde_json::from_str(&host.run(&["prune", "--json"]).stdout).unwrap();
    assert_eq!(
        json,
        json!({ "schema": 1, "dryRun": false, "errors": [], "launches": [{
            "launch": id, "outcome": "processes-left", "left": 1, "error": null,
            "next": format!("paddock stop {id}"),
        }]})
    );
    assert!(record_of(&host, &id).exists());
    // Control: with nothing left it goes.
    drop(bystander);
    assert_eq!(
        told(&host.run(&["prune"])),
        (Some(0), line(&host, &id, "was removed").as_str(), "")
    );
    assert!(names(host.launches()).is_empty());
}

#[test]
fn what_ended_lately_is_kept_where_an_age_is_named() {
    let host = Host::new();
    host.standin(&["true"]);
    let id = only_launch(&host);
    let week = ["prune", "--older-than", "7d"];
    let kept = line(&host, &id, "is kept: it ended later than that");
    assert_eq!(told(&host.run(&week)), (Some(0), kept.as_str(), ""));
    edit_record(&host, &id, |record| {
        let ended = record["ended"].as_u64().unwrap();
        record["ended"] = json!(ended - 8 * ONE_DAY_MS);
    });
    let gone = line(&host, &id, "was removed");
    assert_eq!(told(&host.run(&week)), (Some(0), gone.as_str(), ""));
}

#[test]
fn a_record_that_cannot_be_read_is_told_and_stays() {
    let host = Host::new();
    host.standin(&["true"]);
    let unreadable = only_launch(&host);
    host.standin(&["true"]);
    std::fs::write(record_of(&host, &unreadable), "{").unwrap();
    let pruned = host.run(&["prune"]);
    assert_eq!(pruned.code(), Some(125), "{pruned:?}");
    assert!(pruned.stdout.ends_with(" was removed\n"), "the other goes: {pruned:?}");
    let directory = host.launches().join(&unreadable);
    let next = format!("\n  next: it has no keeper; rm -r {}\n", directory.display());
    assert!(pruned.stderr.ends_with(&next), "{}", pruned.stderr);
    let json: Value = serde_json::from_str(&host.run(&["prune", "--json"]).stdout).unwrap();
    let told = json["errors"][0]["error"].as_str().unwrap();
    assert!(told.contains("record.json cannot be used: "), "{told}");
    assert!(json["errors"][0]["next"].as_str().unwrap().contains("rm -r "), "{json}");
    assert_eq!(names(host.launches()), [unreadable]);
    assert!(directory.join("ledger.jsonl").exists());
}

#[test]
fn links_that_an_agent_left_are_not_followed() {
    let host = Host::new();
    host.standin(&["true"]);
    let id = only_launch(&host);
    let precious = host.write("precious/file", "kept");
    // Where an agent's leftovers would be.
    for link in ["tmp-server", "tmp-client"] {
        let directory = precious.parent().unwrap();
        std::os::unix::fs::symlink(directory, host.launches().join(&id).join(link)).unwrap();
    }
    assert_eq!(host.run(&["prune"]).code(), Some(0));
    assert!(names(host.launches()).is_empty());
    assert_eq!(std::fs::read_to_string(precious).unwrap(), "kept");
}
