//! Going on with a launch from herdr, and shells beside one.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use paddock_test::herdr::plugin_host::{Acted, PluginHost, until};
use paddock_test::host::{Host, standin_file};
use serde_json::{Value, json};

fn host() -> Host {
    let host = Host::new();
    let name = "name = \"boxed\"\n";
    let file = standin_file("boxed").replace(name, &format!("{name}herdr = \"claude\"\n"));
    host.add_agent("boxed", &file);
    let wait = "until [ -e end ]; do sleep 0.01; done";
    host.configure(&format!("agent = \"boxed\"\n[agents.boxed]\narguments = [\"-c\", {wait:?}]\n"));
    host
}

fn record(host: &Host, acted: &Acted) -> Value {
    let launch = &acted.result["launch"];
    let found = host.records().into_iter().find(|record| record["launch"] == *launch);
    found.unwrap_or_else(|| panic!("no launch of {acted:#?}: {:#?}", host.records()))
}

fn has_hint(pid: i32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    environment.split(|b| *b == 0).any(|variable| variable == b"HERDR_AGENT=claude")
}

#[test]
fn what_runs_is_not_reconnected_and_what_was_stopped_goes_on_in_its_pane() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    started.assert_done();
    let pane = started.text("paneId").to_owned();
    let running = herdr.act("reconnect");
    running.assert_failed("conflict");
    assert_eq!(running.text("paneId"), pane);

    herdr.act("stop").assert_done();
    let held = herdr.pane(&pane).expect("it stays to be read");
    held.terminal.wait_for("r goes on with it in a fresh sandbox");
    assert!(!has_hint(held.pid));
    let opened = herdr.received("plugin.pane.open").len();
    let again = herdr.act("reconnect");
    again.assert_done();
    assert_eq!((again.text("paneId"), again.text("resumed")), (&*pane, started.text("launch")));
    assert_ne!(again.text("launch"), started.text("launch"), "fresh sandboxes");
    assert_eq!(herdr.received("plugin.pane.open").len(), opened, "in its pane");
    assert_eq!(record(&host, &again)["keeper"]["pid"], held.pid, "the same process");
    assert!(has_hint(held.pid), "it is the agent again");
    herdr.act("verify-sandbox").assert_done();
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn when_its_pane_is_gone_or_a_shell_it_goes_on_in_a_new_one_and_nothing_is_typed() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let shell = herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    started.assert_done();
    herdr.close(started.text("paneId"));
    until("it ends", || record(&host, &started)["phase"] == "ended");
    herdr.focus(Some(&shell));
    let again = herdr.act("reconnect");
    again.assert_done();
    assert_eq!(again.text("resumed"), started.text("launch"));
    let opened = herdr.received("plugin.pane.open").pop().unwrap();
    assert_eq!(opened["params"]["target_pane_id"], json!(shell));

    herdr.restart();
    until("it ends", || record(&host, &again)["phase"] == "ended");
    let back = again.text("paneId").to_owned();
    assert!(herdr.pane(&back).is_some(), "control: it is a shell now");
    herdr.focus(Some(&back));
    let third = herdr.act("reconnect");
    third.assert_done();
    assert_eq!(third.text("resumed"), again.text("launch"));
    let opened = herdr.received("plugin.pane.open").pop().unwrap();
    assert_eq!(opened["params"]["target_pane_id"], json!(back));
    assert_eq!(herdr.received("pane.send_text"), [] as [Value; 0]);
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_launch_whose_keeper_was_killed_is_ended_before_it_goes_on() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let shell = herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    let keeper = record(&host, started.assert_done())["keeper"]["pid"].as_i64().unwrap();
    paddock_test::host::send(i32::try_from(keeper).unwrap(), rustix::process::Signal::KILL);
    until("the event is dealt with", || !herdr.handled("pane.exited").is_empty());
    assert_eq!(record(&host, &started)["phase"], "ended");
    herdr.focus(Some(&shell));
    herdr.act("reconnect").assert_done();
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_shell_has_a_pane_beside_its_agent_and_is_no_agent_to_herdr_and_ends_with_its_pane() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    started.assert_done();
    let opened = herdr.act("open-shell");
    opened.assert_done();
    let id = opened.text("paneId").to_owned();
    let pane = herdr.pane(&id).unwrap();
    assert!(!has_hint(pane.pid));
    let shell = record(&host, &opened);
    assert_eq!((&shell["agent"], &shell["workspace"]), (&json!("boxed"), &json!(host.workspace())));
    pane.terminal.send("echo $((20 + 22)).\n");
    pane.terminal.wait_for("42.");
    herdr.focus(Some(&id));
    let failed = herdr.act("reconnect");
    failed.assert_failed("target");
    herdr.close(&id);
    until("it ends", || record(&host, &opened)["phase"] == "ended");
    assert_eq!(record(&host, &started)["phase"], "running");
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn without_a_launch_a_shell_opens_under_the_configured_agents_policy() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let opened = herdr.act("open-shell");
    opened.assert_done();
    let pane = herdr.pane(opened.text("paneId")).unwrap();
    // The status of a shell is that of what was typed last: no failure to be read.
    pane.terminal.send("false\nexit\n");
    until("it closes", || herdr.pane(opened.text("paneId")).is_none());
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn of_several_launches_none_is_chosen_for_a_shell() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let shell = herdr.shell_pane(&host.workspace());
    herdr.act("start-agent").assert_done();
    herdr.act("start-agent").assert_done();
    herdr.focus(Some(&shell));
    let before = herdr.received("plugin.pane.open").len();
    let failed = herdr.act("open-shell");
    failed.assert_failed("target");
    assert_eq!(failed.result["launches"].as_array().unwrap().len(), 2, "{failed:#?}");
    assert_eq!(herdr.received("plugin.pane.open").len(), before);
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_shell_that_was_stopped_is_opened_again_in_its_pane() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let opened = herdr.act("open-shell");
    opened.assert_done();
    let id = opened.text("paneId").to_owned();
    herdr.act("stop").assert_done();
    let held = herdr.pane(&id).expect("it stays to be read");
    held.terminal.wait_for("r tries again, any other key closes this pane");
    held.terminal.send("r");
    let is_again = |record: &Value| {
        record["launch"] != opened.result["launch"]
            && record["phase"] == "running"
            && record["pane"]["paneId"] == *id
    };
    until("a shell runs in it", || host.records().iter().any(is_again));
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn what_does_not_come_up_in_its_own_pane_is_told_with_its_kind() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    started.assert_done();
    herdr.act("stop").assert_done();
    let held = herdr.pane(started.text("paneId")).expect("it stays to be read");
    held.terminal.wait_for("r goes on with it in a fresh sandbox");
    let policy = host.home().join(".config/paddock/agents/boxed/server.json");
    let mut value: Value = serde_json::from_slice(&std::fs::read(&policy).unwrap()).unwrap();
    value["filesystem"]["read"] = json!([host.workspace()]);
    std::fs::write(&policy, value.to_string()).unwrap();
    let failed = herdr.act("reconnect");
    failed.assert_failed("pin-mismatch");
    assert_eq!(failed.text("paneId"), started.text("paneId"), "in its pane");
    assert_eq!(herdr.received("pane.send_text").len(), 1);
    herdr.end();
    host.assert_nothing_left();
}
