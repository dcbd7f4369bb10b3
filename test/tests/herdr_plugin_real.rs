//! Paddock as a plugin of the real herdr, where `HERDR_BIN` names one: linked, its keys
//! pressed on an attached terminal, its panes closed, the server started again.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Command, Stdio};

use paddock_test::host::{Host, LIMIT, standin_file, wait_for};
use paddock_test::real_herdr::RealHerdr;
use paddock_test::terminal::Terminal;
use serde_json::{Value, json};

/// What the agent does: it tells that it works and waits for a file.
const WORK: &str = "paddock ask report working; until [ -e end ]; do sleep 0.05; done";
/// herdr's prefix, then shift and a letter.
const START_AGENT: &str = "\x02A";
const RECONNECT: &str = "\x02B";
const OPEN_SHELL: &str = "\x02S";
const SANDBOXES: &str = "\x02O";

/// The stand-in, which herdr takes for Claude Code, as the configured agent.
fn host() -> Host {
    let host = Host::new();
    let name = "name = \"boxed\"\n";
    let file = standin_file("boxed").replace(name, &format!("{name}herdr = \"claude\"\n"));
    host.add_agent("boxed", &file);
    host.configure(&format!("agent = \"boxed\"\n[agents.boxed]\narguments = [\"-c\", {WORK:?}]\n"));
    host
}

/// The newest launch, once it is running in a pane.
fn running(host: &Host, count: usize) -> Value {
    let newest = || {
        let records = host.records();
        (records.len() == count).then_some(())?;
        records.last().filter(|record| record["phase"] == "running").cloned()
    };
    wait_for(LIMIT, newest).unwrap_or_else(|| panic!("{:#?}", host.records()))
}

fn pane_of(record: &Value) -> &str {
    record["pane"]["paneId"].as_str().expect("a pane")
}

/// Waits until a launch has ended.
fn until_over_beside(host: &Host, record: &Value) -> Value {
    let ended = || {
        let found = host.records().into_iter().find(|one| one["launch"] == record["launch"])?;
        (found["phase"] == "ended").then_some(found)
    };
    wait_for(LIMIT, ended).unwrap_or_else(|| panic!("{:#?}", host.records()))
}

/// The same, and nothing of any is left.
fn until_over(host: &Host, record: &Value) -> Value {
    let ended = until_over_beside(host, record);
    let left = wait_for(LIMIT, || of_launches(host).is_empty().then_some(()));
    assert!(left.is_some(), "left: {:?}", of_launches(host));
    ended
}

/// Processes of launches and their agents.
fn of_launches(host: &Host) -> Vec<(i32, String)> {
    let mut processes = host.processes();
    processes.retain(|(_, arguments)| {
        ["standin", "paddock-warden", "nono", "bwrap"].iter().any(|name| arguments.contains(name))
    });
    processes
}

/// Binds the usual keys by the action for that.
fn bind_keys(herdr: &RealHerdr<'_>, terminal: &Terminal) {
    let installed = herdr.act("install-keybindings");
    assert_eq!(installed.result["ok"], true, "{installed:#?}");
    dismiss(terminal);
}

/// Closes the popup in which an action says what it came to, since herdr shows no
/// notification as it comes.
fn dismiss(terminal: &Terminal) {
    terminal.wait_for("any key closes this pane");
    terminal.send(" ");
    terminal.wait_until_gone("any key closes this pane");
}

/// Waits for what `herdr pane get` says.
fn until_shows(herdr: &RealHerdr<'_>, pane: &str, wanted: &[(&str, Value)]) {
    let shows = || {
        let shown = herdr.look(pane);
        wanted.iter().all(|(key, value)| shown[*key] == *value).then_some(())
    };
    let screen = || herdr.screen(pane);
    assert!(wait_for(LIMIT, shows).is_some(), "{wanted:?}: {}\n{}", herdr.look(pane), screen());
}

#[test]
fn herdr_takes_the_plugin_with_every_action_and_nothing_to_warn_of() {
    let host = host();
    let Some(herdr) = RealHerdr::start(&host) else { return };
    herdr.link_plugin();
    let listed = herdr.ask("plugin.action.list", &json!({ "plugin_id": "paddock" }));
    let actions = listed["actions"].as_array().unwrap();
    let mut ids: Vec<&str> =
        actions.iter().map(|action| action["action_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let wanted = [
        "doctor",
        "forget-mapping",
        "info",
        "install-keybindings",
        "list-sandboxes",
        "open-shell",
        "prune-mappings",
        "reconnect",
        "sandboxes",
        "start-agent",
        "stop",
        "verify-sandbox",
    ];
    assert_eq!(ids, wanted, "{listed:#}");
    let nothing = herdr.act("stop");
    assert_eq!(
        (&nothing.result["ok"], &nothing.result["errorKind"]),
        (&json!(false), &json!("target"))
    );
    assert_eq!(
        (&nothing.log["status"], &nothing.log["exit_code"]),
        (&json!("failed"), &json!(125))
    );
}

#[test]
fn a_chord_opens_the_agents_pane_and_herdr_shows_agent_state_and_sandbox() {
    let host = host();
    let Some(herdr) = RealHerdr::start(&host) else { return };
    herdr.link_plugin();
    let shell = herdr.shell_pane();
    let terminal = Terminal::open();
    let _screen = herdr.attach(&terminal);
    terminal.wait_for("shell");
    bind_keys(&herdr, &terminal);

    terminal.send(START_AGENT);
    let record = running(&host, 1);
    let pane = pane_of(&record).to_owned();
    assert_eq!(record["workspace"], json!(host.workspace()));
    until_shows(
        &herdr,
        &pane,
        &[
            ("agent", "claude".into()),
            ("agent_status", "working".into()),
            ("display_agent", "claude [sandboxed]".into()),
            ("focused", true.into()),
        ],
    );
    // The control: of the shell beside it herdr tells nothing of the kind.
    let control = herdr.look(&shell);
    assert!(control["agent"].is_null() && control["display_agent"].is_null(), "{control}");
    let agents = herdr.ask("agent.list", &json!({}));
    assert_eq!(agents["agents"][0]["pane_id"], pane.as_str(), "{agents:#}");
    terminal.wait_for("claude [sandboxed]");

    let verified = herdr.act("verify-sandbox");
    assert_eq!(verified.result["verdict"], "confined", "{verified:#?}");
    assert_eq!(verified.result["launch"], record["launch"]);
    assert_eq!(verified.log["status"], "succeeded");

    std::fs::write(host.workspace().join("end"), "").unwrap();
    assert_eq!(until_over(&host, &record)["status"], 0);
    let closed = wait_for(LIMIT, || (herdr.panes() == [shell.as_str()]).then_some(()));
    assert!(closed.is_some(), "{:?}", herdr.panes());
    terminal.wait_until_gone("claude [sandboxed]");
}

#[test]
fn the_other_chords_open_a_shell_in_a_sandbox_and_go_on_with_a_launch_that_ended() {
    let host = host();
    let Some(herdr) = RealHerdr::start(&host) else { return };
    herdr.link_plugin();
    let shell = herdr.shell_pane();
    let terminal = Terminal::open();
    let _screen = herdr.attach(&terminal);
    terminal.wait_for("shell");
    bind_keys(&herdr, &terminal);
    terminal.send(START_AGENT);
    let first = running(&host, 1);
    until_shows(&herdr, pane_of(&first), &[("focused", true.into())]);
    assert_eq!(herdr.act("stop").result["ok"], true);
    until_over(&host, &first);
    dismiss(&terminal);
    // The pane waits for a key, which the action presses.
    terminal.wait_for("r goes on with it in a fresh sandbox");
    // herdr goes on taking it for an agent, since its process is the same: an idle one,
    // of which nothing is claimed.
    let ended = [
        ("agent", "claude".into()),
        ("agent_status", "idle".into()),
        ("display_agent", Value::Null),
        ("tokens", Value::Null),
    ];
    until_shows(&herdr, pane_of(&first), &ended);
    terminal.send(RECONNECT);
    let second = running(&host, 2);
    assert_eq!(pane_of(&second), pane_of(&first));
    until_shows(&herdr, pane_of(&second), &[("display_agent", "claude [sandboxed]".into())]);

    terminal.send(OPEN_SHELL);
    let third = running(&host, 3);
    let outside = host.write("outside", "a secret");
    let opened = wait_for(LIMIT, || {
        let new = |id: &String| *id != shell && id != pane_of(&second);
        herdr.panes().into_iter().find(new)
    });
    let opened = opened.expect("its pane");
    until_shows(&herdr, &opened, &[("focused", true.into())]);
    terminal.send(&format!("cat {}; echo status $?\r", outside.display()));
    terminal.wait_for("status 1");
    assert!(!terminal.text().contains("a secret"), "{}", terminal.text());
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "a secret", "control");
    assert!(herdr.look(&opened)["agent"].is_null(), "a shell is no agent");
    terminal.send("exit\r");
    until_over_beside(&host, &third);
    let stopped = herdr.act("stop");
    assert_eq!(stopped.result["launch"], second["launch"], "{stopped:#?}");
    until_over(&host, &second);
}

#[test]
fn a_pane_that_is_closed_takes_its_launch_with_it() {
    let host = host();
    let Some(herdr) = RealHerdr::start(&host) else { return };
    herdr.link_plugin();
    herdr.shell_pane();
    let started = herdr.act("start-agent");
    assert_eq!(started.result["ok"], true, "{started:#?}");
    let record = running(&host, 1);
    let pane = pane_of(&record);
    assert_eq!(started.result["paneId"], pane);
    assert!(!of_launches(&host).is_empty(), "control: it shows among the processes");
    herdr.ask("pane.close", &json!({ "pane_id": pane }));
    // By its signals, or where it takes longer than herdr waits by being killed.
    let ended = until_over(&host, &record);
    assert!([129, 143, 125].map(Value::from).contains(&ended["status"]), "{ended:#}");
    drop(herdr);
    host.assert_nothing_left();
}

#[test]
fn a_worktree_that_is_removed_takes_its_launch_with_it() {
    let host = host();
    let Some(herdr) = RealHerdr::start(&host) else { return };
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        host.dress(&mut command);
        let names = ["AUTHOR", "COMMITTER"].map(|who| format!("GIT_{who}_NAME"));
        let mails = ["AUTHOR", "COMMITTER"].map(|who| format!("GIT_{who}_EMAIL"));
        command.envs(names.iter().chain(&mails).map(|name| (name, "a@b.test")));
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().unwrap().success(), "git {arguments:?}");
    };
    git(&["init"]);
    git(&["commit", "--allow-empty", "-m", "first"]);
    herdr.link_plugin();
    let shell = herdr.shell_pane();
    let first = herdr.look(&shell)["workspace_id"].clone();
    let created =
        herdr.ask("worktree.create", &json!({ "workspace_id": first, "branch": "topic" }));
    let workspace = created["workspace"]["workspace_id"].as_str().expect("a workspace").to_owned();
    herdr.ask("workspace.focus", &json!({ "workspace_id": workspace }));
    let started = herdr.act("start-agent");
    assert_eq!(started.result["ok"], true, "{started:#?}");
    let record = running(&host, 1);
    let checkout = record["workspace"].as_str().unwrap();
    assert!(checkout.contains("topic"), "{record:#}");
    herdr.ask("worktree.remove", &json!({ "workspace_id": workspace, "force": true }));
    until_over(&host, &record);
    assert!(!std::path::Path::new(checkout).exists(), "control: it is gone");
}

#[test]
fn after_a_restart_of_herdr_no_agent_runs_and_its_pane_says_so_and_how_to_go_on() {
    let host = host();
    let Some(mut herdr) = RealHerdr::start(&host) else { return };
    herdr.link_plugin();
    herdr.shell_pane();
    let started = herdr.act("start-agent");
    assert_eq!(started.result["ok"], true, "{started:#?}");
    let record = running(&host, 1);
    let pane = pane_of(&record).to_owned();
    until_shows(&herdr, &pane, &[("display_agent", "claude [sandboxed]".into())]);

    herdr.restart();
    until_over(&host, &record);
    let marked = || herdr.look(&pane)["title"].as_str().map(str::to_owned);
    let title = wait_for(LIMIT, marked).unwrap_or_else(|| {
        panic!("{}\n{:#?}\n{}", herdr.look(&pane), herdr.logs(), herdr.screen(&pane))
    });
    assert!(title.contains("reconnect"), "{title}");
    let after = herdr.look(&pane);
    assert!(after["agent"].is_null() && after["agent_session"].is_null(), "{after}");
    assert!(after["display_agent"].is_null() && after["tokens"].is_null(), "{after}");
    assert_eq!(host.records().len(), 1, "nothing is resumed by itself");

    herdr.ask("pane.focus", &json!({ "pane_id": pane }));
    let again = herdr.act("reconnect");
    assert_eq!(again.result["ok"], true, "{again:#?}");
    assert_eq!(again.result["resumed"], record["launch"]);
    let fresh = running(&host, 2);
    until_shows(&herdr, pane_of(&fresh), &[("display_agent", "claude [sandboxed]".into())]);
    assert_eq!(herdr.act("verify-sandbox").result["verdict"], "confined");
    assert_eq!(herdr.act("stop").result["ok"], true);
    until_over(&host, &fresh);
}

#[test]
fn the_overlay_opens_over_what_is_there_and_goes_again() {
    let host = host();
    let Some(herdr) = RealHerdr::start(&host) else { return };
    herdr.link_plugin();
    let shell = herdr.shell_pane();
    let terminal = Terminal::open();
    let _screen = herdr.attach(&terminal);
    terminal.wait_for("shell");
    bind_keys(&herdr, &terminal);
    let started = herdr.act("start-agent");
    assert_eq!(started.result["ok"], true, "{started:#?}");
    let record = running(&host, 1);
    let opened = herdr.act("sandboxes");
    assert_eq!(opened.result["ok"], true, "{opened:#?}");
    let overlay = opened.result["paneId"].as_str().expect("a pane").to_owned();
    terminal.wait_for(record["launch"].as_str().unwrap());
    let before = herdr.panes();
    terminal.send("o");
    let beside = wait_for(LIMIT, || {
        let is_new = |one: &Value| one["phase"] == "running" && one["launch"] != record["launch"];
        host.records().into_iter().find(is_new)
    });
    let beside = beside.unwrap_or_else(|| panic!("no shell runs:\n{}", terminal.text()));
    let opened = pane_of(&beside).to_owned();
    assert!(!before.contains(&opened), "{opened} of {before:?}");
    until_shows(&herdr, &opened, &[("focused", true.into())]);
    terminal.wait_until_gone("VERDICT");
    terminal.send("exit\r");
    until_over_beside(&host, &beside);
    until_shows(&herdr, &overlay, &[("focused", true.into())]);
    terminal.wait_for("VERDICT");
    terminal.send("q");
    let gone = wait_for(LIMIT, || (!herdr.panes().contains(&overlay)).then_some(()));
    assert!(gone.is_some(), "{:?}\n{}", herdr.panes(), herdr.screen(&overlay));
    assert!(herdr.panes().contains(&shell));
    assert_eq!(
        herdr.look(pane_of(&record))["focused"],
        true,
        "the agent's pane has the focus again"
    );
    terminal.send(SANDBOXES);
    terminal.wait_for("VERDICT");
    terminal.send("q");
    terminal.wait_until_gone("VERDICT");
    until_shows(&herdr, pane_of(&record), &[("focused", true.into())]);
    assert_eq!(herdr.act("stop").result["ok"], true);
    until_over(&host, &record);
}
