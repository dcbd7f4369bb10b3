//! What herdr tells its plugin of, and what it finds when it starts: a launch does not
//! outlive its pane or its worktree, and none comes back by itself.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use paddock_test::herdr::plugin_host::{Acted, Manner, PluginHost, until};
use paddock_test::host::{Host, standin_file};
use serde_json::{Value, json};

/// A host whose agent waits for a file.
fn host() -> Host {
    let host = Host::new();
    host.add_agent("boxed", &standin_file("boxed"));
    let wait = "until [ -e end ]; do sleep 0.01; done";
    host.configure(&format!("agent = \"boxed\"\n[agents.boxed]\narguments = [\"-c\", {wait:?}]\n"));
    host
}

/// Starts the agent in a pane beside a shell in that directory.
fn start(herdr: &PluginHost, directory: &std::path::Path) -> Acted {
    herdr.shell_pane(directory);
    let started = herdr.act("start-agent");
    started.assert_done();
    started
}

fn phase(host: &Host, started: &Acted) -> Value {
    let records = host.records();
    let found = records.iter().find(|record| record["launch"] == started.result["launch"]);
    found.map_or(Value::Null, |record| record["phase"].clone())
}

#[test]
fn a_closed_pane_ends_its_launch_and_no_other_and_nothing_is_left() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let (one, two) = (start(&herdr, &host.workspace()), start(&herdr, &host.workspace()));
    herdr.close(one.text("paneId"));
    until("it ends", || phase(&host, &one) == "ended");
    assert_eq!(herdr.handled("pane.closed").len(), 1);
    assert_eq!(phase(&host, &two), "running", "control");
    let before = herdr.received("plugin.pane.open").len();
    herdr.close(two.text("paneId"));
    until("it ends", || phase(&host, &two) == "ended");
    assert_eq!(herdr.received("plugin.pane.open").len(), before, "events open nothing");
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_launch_that_does_not_hear_of_its_panes_end_is_ended_by_the_event() {
    let host = host();
    let herdr = PluginHost::start(&host);
    // One that is not herdr's child, but says it is in a pane of herdr's.
    let pane = herdr.shell_pane(&host.workspace());
    let mut command = host.agent_command("boxed", &[], &[]);
    command.env("HERDR_PANE_ID", &pane).env("HERDR_SOCKET_PATH", host.home().join("h.sock"));
    let mut launch = host.start(command);
    let moved = herdr.move_away(&pane);
    let event = |pane: &str| json!({ "pane_id": pane, "workspace_id": "w1" });
    // Nobody's pane, and one that was only moved.
    herdr.tell("pane.closed", &event("w1:p7"));
    herdr.tell("workspace.closed", &json!({ "workspace_id": "w1", "workspace": null }));
    assert!(!launch.has_ended(), "control: {:?}", herdr.handled("pane.closed"));
    herdr.close(&moved);
    until("it ends", || launch.has_ended());
    let ended = launch.end();
    assert_eq!(ended.code(), Some(143), "{ended:?}");
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_removed_worktree_ends_the_launches_in_it_and_those_beside_it_go_on() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let (tree, beside) = (host.workspace().join("tree"), host.workspace().join("tree2"));
    for directory in [&tree, &beside] {
        std::fs::create_dir(directory).unwrap();
    }
    let (inside, other) = (start(&herdr, &tree), start(&herdr, &beside));
    let removed = |path: &std::path::Path| {
        json!({
            "workspace_id": "w9", "workspace": null, "forced": true,
            "worktree": {
                "path": path, "label": "tree", "is_bare": false, "is_detached": false,
                "is_prunable": false, "is_linked_worktree": true,
            },
        })
    };
    herdr.tell("worktree.removed", &removed(&host.workspace().join("tree3")));
    assert_eq!(phase(&host, &inside), "running", "control");
    std::fs::remove_dir_all(&tree).unwrap();
    herdr.tell("worktree.removed", &removed(&tree));
    until("it ends", || phase(&host, &inside) == "ended");
    assert_eq!(phase(&host, &other), "running", "{:?}", herdr.handled("worktree.removed"));
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_herdr_that_says_nothing_holds_no_event_up() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let started = start(&herdr, &host.workspace());
    herdr.set_manner(Manner::Hang);
    let before = std::time::Instant::now();
    herdr.tell("pane.closed", &json!({ "pane_id": "w1:p7", "workspace_id": "w1" }));
    assert!(before.elapsed() < std::time::Duration::from_secs(15), "{:?}", before.elapsed());
    assert_eq!(phase(&host, &started), "running", "what is not known is not gone");
    herdr.set_manner(Manner::Answer);
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn after_a_restart_no_agent_runs_and_its_pane_says_how_to_go_on() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.start_again();
    let started = start(&herdr, &host.workspace());
    let pane = started.text("paneId").to_owned();
    let launch = started.text("launch").to_owned();
    let mut shells = herdr.panes().into_iter().filter(|id| *id != pane);
    let shell = shells.next_back().unwrap();
    let seen = herdr.restart();
    assert_eq!(seen.code(), Some(0), "{seen:?}");
    assert_eq!(phase(&host, &started), "ended");
    // It is a plain shell, in the worktree, and that is all that runs in it.
    let back = herdr.pane(&pane).expect("it is back");
    until("a shell", || back.foreground().1 == [back.pid]);
    let title = herdr.title(&pane).expect("it says so");
    assert!(title.contains("boxed has ended") && title.contains(&launch), "{title}");
    assert_eq!(herdr.title(&shell), None, "control");
    let shown = herdr.received("notification.show");
    let shown = &shown.last().unwrap()["params"];
    assert!(shown["body"].as_str().unwrap().contains(&launch), "{shown}");

    // It is told once, and nothing was resumed.
    let before = herdr.received("notification.show").len();
    let again = herdr.restart();
    assert_eq!(again.code(), Some(0), "{again:?}");
    assert_eq!(herdr.received("notification.show").len(), before);
    assert_eq!(host.records().len(), 1);
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_keeper_that_outlives_its_herdr_is_ended_at_the_next_start() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let pane = herdr.shell_pane(&host.workspace());
    let mut command = host.agent_command("boxed", &[], &[]);
    command.env("HERDR_PANE_ID", &pane).env("HERDR_SOCKET_PATH", host.home().join("h.sock"));
    let mut launch = host.start(command);
    let seen = herdr.restart();
    assert_eq!(seen.code(), Some(0), "{seen:?}");
    until("it ends", || launch.has_ended());
    drop(launch.end());
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn what_is_still_in_its_pane_goes_on_when_herdr_handed_its_panes_over() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let started = start(&herdr, &host.workspace());
    let seen = herdr.start_again();
    assert_eq!(seen.code(), Some(0), "{seen:?}");
    assert_eq!(phase(&host, &started), "running");
    assert_eq!(herdr.received("notification.show"), [] as [Value; 0]);
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn what_cannot_be_read_is_told_and_ends_nothing() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let started = start(&herdr, &host.workspace());
    let mut command = host.paddock();
    command.args(["herdr", "event"]).env("HERDR_SOCKET_PATH", host.home().join("h.sock"));
    command.env("HERDR_PLUGIN_EVENT_JSON", "{\"data\":{\"type\":\"pane_closed\"}}");
    let run = paddock_test::host::finish(command);
    assert_eq!(run.code(), Some(125), "{run:?}");
    assert!(run.stderr.contains("HERDR_PLUGIN_EVENT_JSON"), "{run:?}");
    assert_eq!(phase(&host, &started), "running");
    herdr.end();
    host.assert_nothing_left();
}

/// A launch that is not herdr's child, but says that it is in that pane.
fn launch_of<'a>(host: &'a Host, pane: &str) -> paddock_test::host::Launch<'a> {
    let mut command = host.agent_command("boxed", &[], &[]);
    command.env("HERDR_PANE_ID", pane).env("HERDR_SOCKET_PATH", host.home().join("h.sock"));
    host.start(command)
}

#[test]
fn one_bad_answer_at_a_start_leaves_one_launch_as_it_is_and_no_other() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let [one, two, three] = [(); 3].map(|()| herdr.shell_pane(&host.workspace()));
    let mut launches = [&one, &two, &three].map(|pane| launch_of(&host, pane));
    // The middle one, so that it is neither the first nor the last to be looked at.
    herdr.refuse("pane.get", &two, 100);
    let seen = herdr.restart();
    assert_eq!(seen.code(), Some(125), "it is told: {seen:?}");
    assert!(seen.stderr.contains("as the test wants it"), "{seen:?}");
    until("the others end", || launches[0].has_ended() && launches[2].has_ended());
    assert!(!launches[1].has_ended(), "what is not known is not gone");
    herdr.refuse("pane.get", &two, 0);
    assert_eq!(herdr.start_again().code(), Some(0));
    until("it ends, too", || launches[1].has_ended());
    for launch in launches {
        launch.end();
    }
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_pane_of_which_herdr_does_not_say_what_runs_in_it_keeps_its_launch() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let started = start(&herdr, &host.workspace());
    herdr.refuse("pane.process_info", started.text("paneId"), 100);
    let seen = herdr.start_again();
    assert_eq!(seen.code(), Some(125), "it is told: {seen:?}");
    assert_eq!(phase(&host, &started), "running");
    // It is asked again before that.
    herdr.refuse("pane.process_info", started.text("paneId"), 1);
    let seen = herdr.start_again();
    assert_eq!(seen.code(), Some(0), "{seen:?}");
    assert_eq!(phase(&host, &started), "running");
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn what_was_stopped_did_not_start_or_is_old_is_no_news_after_a_restart() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let old = start(&herdr, &host.workspace());
    herdr.restart();
    assert_eq!(phase(&host, &old), "ended");
    assert_eq!(herdr.received("notification.show"), [] as [Value; 0], "the first start");

    let stopped = start(&herdr, &host.workspace());
    herdr.act("stop").assert_done();
    let told = herdr.received("notification.show").len();
    let seen = herdr.restart();
    assert_eq!(seen.code(), Some(0), "{seen:?}");
    assert_eq!(herdr.received("notification.show").len(), told);
    assert_eq!(herdr.title(stopped.text("paneId")), None);

    // The control: one that ends with herdr is.
    let cut = start(&herdr, &host.workspace());
    herdr.restart();
    let shown = herdr.received("notification.show");
    let shown = &shown.last().unwrap()["params"]["body"];
    assert!(shown.as_str().unwrap().contains(cut.text("launch")), "{shown}");
    assert!(!shown.as_str().unwrap().contains(stopped.text("launch")), "{shown}");
    herdr.end();
    host.assert_nothing_left();
}
