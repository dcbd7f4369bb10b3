//! Paddock as a plugin: its actions, beside a herdr that is made up and speaks in the
//! real one's shapes. The launches are real.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;

use paddock_test::agent::SHIPPED;
use paddock_test::herdr::plugin_host::{Acted, PluginHost, until};
use paddock_test::host::{Host, nono, send, standin_file};
use serde_json::{Value, json};

/// What the agent does: it waits for a file.
const UNTIL_END: &str = "until [ -e end ]; do sleep 0.01; done";

/// A host whose agent waits for its end: the stand-in, which herdr takes for Claude Code.
fn host() -> Host {
    let host = Host::new();
    let file = standin_file("boxed")
        .replace("name = \"boxed\"\n", "name = \"boxed\"\nherdr = \"claude\"\n");
    host.add_agent("boxed", &file);
    host.configure(&format!(
        "agent = \"boxed\"\n[agents.boxed]\narguments = [\"-c\", {UNTIL_END:?}]\n"
    ));
    host
}

/// The record of the launch that an action tells of.
fn record(host: &Host, acted: &Acted) -> Value {
    let found =
        host.records().into_iter().find(|record| record["launch"] == acted.result["launch"]);
    found.unwrap_or_else(|| panic!("no launch of {acted:#?}: {:#?}", host.records()))
}

fn until_ended(host: &Host, launch: &str) {
    until("it ends", || {
        let records = host.records();
        let found = records.iter().find(|record| record["launch"] == launch);
        found.is_some_and(|record| record["phase"] == "ended")
    });
}

/// Nothing is left, and herdr was asked for nothing that it does not know.
fn all_over(host: &Host, herdr: &PluginHost) {
    herdr.end();
    host.assert_nothing_left();
}

fn group_of(pid: i32) -> i32 {
    let pid = rustix::process::Pid::from_raw(pid);
    rustix::process::getpgid(pid).unwrap().as_raw_nonzero().get()
}

fn environment(pid: i32) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect()
}

#[test]
fn start_agent_opens_the_keeper_beside_the_focused_pane_and_herdr_can_tell_which_agent_it_is() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let shell = herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    started.assert_done();
    assert_eq!(started.text("agent"), "boxed");
    let id = started.text("paneId");
    let launched = record(&host, &started);
    assert_eq!(launched["workspace"], json!(host.workspace()));
    assert_eq!(launched["pane"]["paneId"], id);

    let opened = &herdr.received("plugin.pane.open")[0]["params"];
    assert_eq!((&opened["placement"], &opened["target_pane_id"]), (&json!("split"), &json!(shell)));
    assert_eq!((&opened["direction"], &opened["focus"]), (&json!("right"), &json!(true)));

    // The keeper is the process that herdr started: nothing was typed into a shell.
    let pane = herdr.pane(id).unwrap();
    assert_eq!(launched["keeper"]["pid"], pane.pid);
    assert_eq!(group_of(pane.pid), pane.pid, "leader of its group");
    assert_eq!(pane.foreground().0, Some(pane.pid), "and that is in the foreground");
    let hint = b"HERDR_AGENT=claude".to_vec();
    assert!(environment(pane.pid).contains(&hint), "readable for another process of the user");
    // The control: nono, which stands between, cannot be read, and a shell has no hint.
    let pen = launched["parts"].as_array().unwrap().iter().find_map(|part| {
        part["name"].as_str()?.contains("nono").then(|| part["process"]["pid"].as_i64()).flatten()
    });
    if let Some(pen) = pen {
        assert!(std::fs::read(format!("/proc/{pen}/environ")).is_err(), "control");
    }
    assert!(!environment(herdr.pane(&shell).unwrap().pid).contains(&hint), "control");

    // A clean end closes the pane, and nothing is said of it.
    std::fs::write(host.workspace().join("end"), "").unwrap();
    until_ended(&host, started.text("launch"));
    until("the pane closes", || herdr.pane(id).is_none());
    assert_eq!(herdr.received("notification.show"), [] as [Value; 0]);
    all_over(&host, &herdr);
}

#[test]
fn the_directory_is_the_worktree_of_the_workspace_then_that_of_the_pane() {
    let host = host();
    let herdr = PluginHost::start(&host);
    for directory in ["main/.git", "main/src", "linked"] {
        std::fs::create_dir_all(host.workspace().join(directory)).unwrap();
    }
    let inside = host.workspace().join("main/src");
    herdr.shell_pane(&inside);
    let started = herdr.act("start-agent");
    started.assert_done();
    assert_eq!(record(&host, &started)["workspace"], json!(host.workspace().join("main")));

    let linked = host.workspace().join("linked");
    std::fs::write(linked.join(".git"), "gitdir: nowhere\n").unwrap();
    herdr.set_worktree(&linked);
    let started = herdr.act("start-agent");
    started.assert_done();
    assert_eq!(record(&host, &started)["workspace"], json!(linked));
    all_over(&host, &herdr);
}

#[test]
fn home_and_the_root_are_nobodys_workspace() {
    let host = host();
    let herdr = PluginHost::start(&host);
    for directory in [host.home(), "/".into()] {
        herdr.shell_pane(&directory);
        let failed = herdr.act("start-agent");
        failed.assert_failed("target");
        assert!(failed.text("next").contains("focus"), "{failed:#?}");
    }
    assert_eq!(herdr.received("plugin.pane.open"), [] as [Value; 0]);
    assert_eq!(herdr.received("notification.show").len(), 2);
    all_over(&host, &herdr);
}

#[test]
fn open_in_direction_and_ratio_are_as_configured() {
    let host = host();
    let text = std::fs::read_to_string(host.home().join(".config/paddock/config.toml")).unwrap();
    host.configure(&format!("{text}[herdr]\ndirection = \"down\"\nratio = 0.25\n"));
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    herdr.act("start-agent").assert_done();
    let opened = &herdr.received("plugin.pane.open")[0]["params"];
    assert_eq!(opened["direction"], "down");
    let set = &herdr.received("layout.set_split_ratio")[0]["params"];
    assert_eq!((&set["ratio"], &set["path"]), (&json!(0.25), &json!([])));

    host.configure(&format!("{text}[herdr]\nopen-in = \"tab\"\n"));
    herdr.act("start-agent").assert_done();
    let opened = &herdr.received("plugin.pane.open")[1]["params"];
    assert_eq!((&opened["placement"], &opened["workspace_id"]), (&json!("tab"), &json!("w1")));
    all_over(&host, &herdr);
}

#[test]
fn a_start_that_fails_tells_why_and_its_pane_stays_until_a_key_is_pressed() {
    let mut host = host();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' run '*) echo 'no such rule' >&2; exit 9 ;; esac\nexec '{}' \"$@\"\n",
        nono().display()
    );
    let script = host.script("nono", &script);
    host.set("PADDOCK_NONO", script);
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let failed = herdr.act("start-agent");
    failed.assert_failed("startup");
    let pane = herdr.pane(failed.text("paneId")).expect("it is held");
    pane.terminal.wait_for("any other key closes this pane");
    assert!(pane.terminal.text().contains("layer did not start"), "{}", pane.terminal.text());
    assert_eq!(herdr.received("notification.show").len(), 1);
    assert_eq!(group_of(pane.pid), pane.pid, "it is the same process");

    pane.terminal.send("q");
    until("the pane closes", || herdr.pane(failed.text("paneId")).is_none());
    all_over(&host, &herdr);
}

#[test]
fn a_held_pane_is_ended_by_its_signals() {
    let host = host();
    host.configure("agent = \"boxed\"\n[agents.boxed]\narguments = [\"-c\", \"exit 3\"]\n");
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let acted = herdr.act("start-agent");
    let id = acted.text("paneId").to_owned();
    let pane = herdr.pane(&id).expect("held");
    pane.terminal.wait_for("the agent ended with status 3");
    pane.terminal.wait_for("any other key closes this pane");
    let of_herdr = |name: &str| {
        let mut variables = environment(pane.pid).into_iter();
        variables.any(|variable| variable.starts_with(name.as_bytes()))
    };
    assert!(!of_herdr("HERDR_AGENT="), "what waits for a key is no agent");
    assert!(of_herdr("HERDR_PANE_ID="), "control");
    let started = std::time::Instant::now();
    send(pane.pid, rustix::process::Signal::TERM);
    until("it ends", || pane.has_ended().is_some());
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    all_over(&host, &herdr);
}

#[test]
fn what_can_be_told_before_opens_no_pane() {
    let host = host();
    host.configure("agent = \"nobody\"\n");
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    herdr.act("start-agent").assert_failed("not-found");
    host.configure("agnt = \"boxed\"\n");
    herdr.act("start-agent").assert_failed("config");
    assert_eq!(herdr.received("plugin.pane.open"), [] as [Value; 0]);
    all_over(&host, &herdr);
}

#[test]
fn a_key_starts_the_only_installed_agent_where_none_is_named_and_never_the_stand_in() {
    let host = Host::new();
    let mut text = format!("[agents.boxed]\narguments = [\"-c\", {UNTIL_END:?}]\n");
    let real: Vec<&str> = SHIPPED.into_iter().filter(|name| *name != "standin").collect();
    for name in &real {
        let _ = write!(text, "[agents.{name}]\nprogram = \"/nonexistent/{name}\"\n");
    }
    host.configure(&text);
    let herdr = PluginHost::start(&host);
    let shell = herdr.shell_pane(&host.workspace());
    let file = host.home().join(".config/paddock/config.toml");
    let failed = herdr.act("start-agent");
    failed.assert_failed("config");
    let message = format!("none is installed of: {}", real.join(", "));
    assert!(failed.text("message").ends_with(&message), "{failed:#?}");
    assert!(failed.text("next").contains(file.to_str().unwrap()), "{failed:#?}");
    assert_eq!(herdr.received("plugin.pane.open"), [] as [Value; 0]);
    let run = host.run(&["run", "--dry-run"]);
    assert!(run.stdout.contains("standin"), "control, what is typed starts it: {run:?}");

    host.add_agent("boxed", &standin_file("boxed"));
    let started = herdr.act("start-agent");
    assert_eq!(started.assert_done().text("agent"), "boxed");
    let shown = herdr.received("notification.show").pop().unwrap();
    assert!(shown["params"]["body"].as_str().unwrap().contains("only one"), "{shown}");
    std::fs::write(host.workspace().join("end"), "").unwrap();
    until_ended(&host, started.text("launch"));

    herdr.focus(Some(&shell));
    host.add_agent("another", &standin_file("another"));
    let failed = herdr.act("start-agent");
    failed.assert_failed("config");
    assert_eq!(failed.result["agents"], json!(["another", "boxed"]));
    assert!(failed.text("next").ends_with("agent = \"another\""), "{failed:#?}");
    host.configure(&format!("agent = \"boxed\"\n{text}"));
    assert_eq!(herdr.act("start-agent").assert_done().text("agent"), "boxed", "control");
    all_over(&host, &herdr);
}

#[test]
fn a_policy_that_is_not_as_recorded_is_a_pin_mismatch_in_its_pane_and_in_the_result() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    started.assert_done();
    std::fs::write(host.workspace().join("end"), "").unwrap();
    until_ended(&host, started.text("launch"));

    let policy = host.home().join(".config/paddock/agents/boxed/server.json");
    let mut value: Value = serde_json::from_slice(&std::fs::read(&policy).unwrap()).unwrap();
    value["filesystem"]["read"] = json!([host.workspace()]);
    std::fs::write(&policy, value.to_string()).unwrap();
    // The pane that had the focus is gone: it is opened in a tab instead.
    let failed = herdr.act("start-agent");
    failed.assert_failed("pin-mismatch");
    let opened = herdr.received("plugin.pane.open").pop().unwrap();
    assert_eq!(opened["params"]["placement"], "tab");
    assert!(failed.text("next").contains("paddock pin --accept boxed"), "{failed:#?}");
    let pane = herdr.pane(failed.text("paneId")).unwrap();
    pane.terminal.wait_for("paddock pin --accept boxed");
    all_over(&host, &herdr);
}

#[test]
fn directories_that_others_can_use_are_a_matter_of_permission() {
    use std::os::unix::fs::PermissionsExt;
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let own = host.runtime().join("paddock");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
    let failed = herdr.act("start-agent");
    failed.assert_failed("permission");
    assert!(failed.text("next").starts_with("chmod 700"), "{failed:#?}");
    all_over(&host, &herdr);
}

#[test]
fn info_verify_list_and_stop_are_about_the_focused_pane() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let shell = herdr.shell_pane(&host.workspace());
    let (one, two) = (herdr.act("start-agent"), herdr.act("start-agent"));
    let (one, two) = (one.assert_done(), two.assert_done());
    // Two run in the workspace; the shell is the pane of neither.
    herdr.focus(Some(&shell));
    for action in ["stop", "verify-sandbox", "info"] {
        let failed = herdr.act(action);
        failed.assert_failed("target");
        let named = failed.result["launches"].as_array().unwrap();
        assert_eq!(named.len(), 2, "{failed:#?}");
    }
    herdr.focus(Some(one.text("paneId")));
    let info = herdr.act("info");
    assert_eq!(info.assert_done().text("launch"), one.text("launch"));
    assert_eq!(info.text("state"), "running");
    let verified = herdr.act("verify-sandbox");
    verified.assert_done();
    assert_eq!(
        (verified.text("launch"), verified.text("verdict")),
        (one.text("launch"), "confined")
    );
    assert!(verified.result["tasks"].as_u64().unwrap() > 4, "{verified:#?}");
    let listed = herdr.act("list-sandboxes");
    assert_eq!(listed.assert_done().result["launches"].as_array().unwrap().len(), 2);

    let stopped = herdr.act("stop");
    assert_eq!(stopped.assert_done().text("launch"), one.text("launch"));
    assert_eq!(record(&host, one)["phase"], "ended");
    assert_eq!(record(&host, two)["phase"], "running", "the other goes on");
    // Its pane stays to be read; of what runs in the workspace there is one now.
    herdr.focus(Some(&shell));
    let verified = herdr.act("verify-sandbox");
    assert_eq!(verified.assert_done().text("launch"), two.text("launch"));
    herdr.act("stop").assert_done();
    herdr.act("stop").assert_failed("target");
    all_over(&host, &herdr);
}

#[test]
fn a_launch_is_found_by_its_pane_also_when_that_was_moved() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let (one, two) = (herdr.act("start-agent"), herdr.act("start-agent"));
    let (one, two) = (one.assert_done(), two.assert_done());
    let moved = herdr.move_away(one.text("paneId"));
    assert_ne!(moved, one.text("paneId"));
    herdr.focus(Some(&moved));
    let info = herdr.act("info");
    assert_eq!(info.assert_done().text("launch"), one.text("launch"));
    herdr.focus(Some(two.text("paneId")));
    assert_eq!(herdr.act("info").text("launch"), two.text("launch"), "control");
    all_over(&host, &herdr);
}

#[test]
fn a_launch_that_is_not_confirmed_is_an_error_of_its_own() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    let keeper =
        i32::try_from(record(&host, started.assert_done())["keeper"]["pid"].as_i64().unwrap());
    herdr.act("verify-sandbox").assert_done();
    // Without its keeper nothing of it is confirmed.
    send(keeper.unwrap(), rustix::process::Signal::STOP);
    let failed = herdr.act("verify-sandbox");
    failed.assert_failed("unknown");
    assert!(failed.text("message").contains("the keeper is stopped"), "{failed:#?}");
    send(keeper.unwrap(), rustix::process::Signal::CONT);
    herdr.act("stop").assert_done();
    all_over(&host, &herdr);
}

#[test]
fn forget_and_prune_keep_what_runs() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let shell = herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    started.assert_done();
    let running = herdr.act("forget-mapping");
    running.assert_failed("conflict");
    assert_eq!(running.text("launch"), started.text("launch"));
    let pruned = herdr.act("prune-mappings");
    assert_eq!(pruned.assert_done().result["removed"], json!([]));

    herdr.act("stop").assert_done();
    let forgotten = herdr.act("forget-mapping");
    assert_eq!(forgotten.assert_done().text("paneId"), started.text("paneId"));
    assert_eq!(record(&host, &started)["pane"], Value::Null);
    herdr.focus(Some(&shell));
    let pruned = herdr.act("prune-mappings");
    assert_eq!(pruned.assert_done().result["removed"], json!([started.text("launch")]));
    assert_eq!(host.records(), [] as [Value; 0]);
    all_over(&host, &herdr);
}

#[test]
fn the_keys_are_bound_and_herdr_reads_them_and_what_is_taken_stays() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let bound = herdr.act("install-keybindings");
    bound.assert_done();
    let file = host.home().join(".config/herdr/config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for chord in bound.result["chords"].as_array().unwrap() {
        assert_eq!(chord["state"], "added", "{bound:#?}");
        assert!(text.contains(chord["action"].as_str().unwrap()), "{text}");
    }
    assert_eq!(herdr.received("server.reload_config").len(), 1);
    let again = herdr.act("install-keybindings");
    assert_eq!(again.assert_done().result["chords"][0]["state"], "present");
    assert_eq!(herdr.received("server.reload_config").len(), 1, "nothing to read");

    let own = "[keys]\nsplit_vertical = \"prefix+shift+a\"\n";
    std::fs::write(&file, own).unwrap();
    let taken = herdr.act("install-keybindings");
    taken.assert_failed("conflict");
    assert!(taken.text("next").contains("paddock.start-agent"), "{taken:#?}");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with(own));
    all_over(&host, &herdr);
}

#[test]
fn without_notifications_a_pane_says_it_until_a_key_is_pressed() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.show_notifications(false);
    herdr.shell_pane(&host.workspace());
    herdr.act("stop").assert_failed("target");
    let popup = herdr.popup().expect("a popup");
    popup.terminal.wait_for("no launch runs in this pane or workspace");
    popup.terminal.wait_for("any key closes this pane");
    // There is one popup at most: the next is told over what is there.
    herdr.act("list-sandboxes").assert_done();
    let opened = herdr.received("plugin.pane.open");
    assert_eq!(opened.last().unwrap()["params"]["placement"], "overlay");
    let over = herdr.panes().pop().unwrap();
    herdr.pane(&over).unwrap().terminal.wait_for("0 of 0 launches not ended");
    herdr.pane(&over).unwrap().terminal.send("x");
    until("it closes", || herdr.pane(&over).is_none());
    popup.terminal.send("x");
    until("it closes", || popup.has_ended().is_some());
    all_over(&host, &herdr);
}

#[test]
fn the_result_comes_first_and_nothing_holds_the_output_open() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.show_notifications(false);
    herdr.shell_pane(&host.workspace());
    // `finish` fails when something that it left has the output open.
    for action in [
        "install-keybindings",
        "start-agent",
        "sandboxes",
        "info",
        "verify-sandbox",
        "list-sandboxes",
        "reconnect",
        "stop",
        "forget-mapping",
        "prune-mappings",
    ] {
        let acted = herdr.act(action);
        assert_eq!(acted.text("action"), action, "{acted:#?}");
        assert_eq!((&acted.result["schemaVersion"], acted.text("plugin")), (&json!(1), "paddock"));
        assert!(acted.result["ok"].is_boolean(), "{acted:#?}");
    }
    all_over(&host, &herdr);
}

#[test]
fn without_its_programs_every_action_says_how_to_get_them() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let programs = host.home().join("plugin root/bin");
    std::fs::remove_file(programs.join("paddock-warden")).unwrap();
    for action in ["start-agent", "doctor"] {
        let failed = herdr.act(action);
        failed.assert_failed("not-found");
        assert_eq!(failed.text("action"), action);
        assert!(
            failed.text("next").ends_with("plugin root/scripts/install-binary.sh"),
            "{failed:#?}"
        );
    }
    all_over(&host, &herdr);
}

#[test]
fn doctor_tells_in_a_few_words_what_this_host_reaches_or_what_is_missing() {
    let mut host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let examined = herdr.act("doctor");
    assert_eq!(examined.assert_done().text("tier"), "sealed");
    let shown = &herdr.received("notification.show")[0]["params"];
    assert!(shown["title"].as_str().unwrap().contains("sealed"), "{shown}");
    herdr.end();
    drop(herdr);

    host.set("PADDOCK_NONO", "/nonexistent/nono");
    std::fs::remove_dir_all(host.home().join("plugin root")).unwrap();
    std::fs::remove_dir_all(host.home().join("plugin state")).unwrap();
    std::fs::remove_file(host.home().join("h.sock")).unwrap();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let failed = herdr.act("doctor");
    failed.assert_failed("startup");
    assert!(failed.text("message").contains("nono"), "{failed:#?}");
    all_over(&host, &herdr);
}

#[test]
fn an_agent_is_started_by_the_name_of_its_directory_not_by_that_in_its_file() {
    let host = host();
    // Its file says another's name, that of an agent with a policy of its own.
    host.add_agent("strict", &standin_file("boxed"));
    let wait = format!("arguments = [\"-c\", {UNTIL_END:?}]\n");
    host.configure(&format!("agent = \"strict\"\n[agents.strict]\n{wait}[agents.boxed]\n{wait}"));
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    for action in ["open-shell", "start-agent"] {
        let started = herdr.act(action);
        assert_eq!(started.assert_done().text("agent"), "strict", "{action}");
        assert_eq!(record(&host, &started)["agent"], "strict", "{action}");
        let opened = herdr.received("plugin.pane.open").pop().unwrap();
        let order = opened["params"]["env"]["PADDOCK_PANE"].as_str().unwrap();
        let order: Value = serde_json::from_str(order).unwrap();
        assert_eq!(order["what"], "strict", "{action}");
        herdr.close(started.text("paneId"));
        until_ended(&host, started.text("launch"));
        herdr.shell_pane(&host.workspace());
    }
    all_over(&host, &herdr);
}

#[test]
fn a_pane_whose_order_cannot_be_read_starts_nothing() {
    let host = host();
    for kind in ["agent", "shell", "resume"] {
        let mut command = host.paddock();
        command.args(["herdr", "pane", kind]).env("PADDOCK_PANE", "{\"what\":");
        let run = paddock_test::host::finish(command);
        assert!(run.stdout.contains("PADDOCK_PANE cannot be read"), "{kind}: {run:?}");
        assert!(run.stdout.contains("any key closes this pane"), "{kind}: {run:?}");
    }
    assert_eq!(host.records(), [] as [Value; 0]);
    host.assert_nothing_left();
}

#[test]
fn what_a_program_left_on_in_its_terminal_neither_hides_the_reason_nor_closes_its_pane() {
    use paddock_test::terminal::Terminal;
    let host = host();
    let terminal = Terminal::open();
    let before = terminal.modes();
    // Concealed, on the alternate screen, with mouse reports, in the middle of a title.
    let left_on = "printf 'kept\\r\\n\\033[?1049h\\033[?1003h\\033[?1006h\\033[?2004h\\033[?1h\\033=\\033[?25l\\033[2;3r\\033[?6h\\033[8m\\033]0;half'";
    let mut command = terminal.program(&host, "sh");
    command.args(["-c", &format!("{left_on}; exec \"$0\" herdr pane held")]);
    command.arg(paddock_test::host::paddock());
    command.env("PADDOCK_PANE", "{\"text\":\"this is why\"}");
    let mut child = command.spawn().unwrap();
    terminal.wait_for("any key closes this pane");
    let text = terminal.text();
    assert!(text.contains("kept") && text.contains("this is why"), "{text}");
    let (_, states) = terminal.modes();
    assert_eq!(states, before.1, "{text}");
    // A mouse report, an answer to a question, a focus report: none is a key.
    terminal.send("\x1b[<35;4;5M\x1b[?62;22c\x1b]11;rgb:1e/1e/1e\x1b\\\x1b[I");
    until("it has read them", || terminal.unread() == 0);
    assert!(child.try_wait().unwrap().is_none(), "{}", terminal.text());
    terminal.send("x");
    until("it closes", || child.try_wait().unwrap().is_some());
    assert_eq!(terminal.modes(), before);
}

#[test]
fn herdr_is_asked_once_for_each_launch_that_could_be_the_focused_panes() {
    let host = host();
    let herdr = PluginHost::start(&host);
    let shell = herdr.shell_pane(&host.workspace());
    herdr.act("start-agent").assert_done();
    herdr.act("start-agent").assert_done();
    herdr.focus(Some(&shell));
    let before = herdr.received("pane.get").len();
    herdr.act("info").assert_failed("target");
    assert_eq!(herdr.received("pane.get").len(), before + 2);
    all_over(&host, &herdr);
}

#[test]
fn the_keys_are_bound_also_where_no_herdr_runs() {
    let host = host();
    let herdr = host.script("herdr", "#!/bin/sh\necho 'config: ok'\n");
    let file = host.home().join(".config/herdr/config.toml");
    for socket in [None, Some(host.home().join("none.sock"))] {
        let _ = std::fs::remove_file(&file);
        let mut command = host.paddock();
        command.args(["herdr", "install-keybindings"]).env("HERDR_BIN_PATH", &herdr);
        command.envs(socket.map(|socket| ("HERDR_SOCKET_PATH", socket)));
        let bound = Acted::from(paddock_test::host::finish(command));
        bound.assert_done();
        assert!(std::fs::read_to_string(&file).unwrap().contains("paddock.reconnect"));
    }
    host.assert_nothing_left();
}

#[test]
fn doctor_and_prune_tell_what_kind_of_failure_it_is() {
    let host = host();
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let started = herdr.act("start-agent");
    started.assert_done();
    herdr.act("stop").assert_done();
    let record = host.launches().join(started.text("launch")).join("record.json");
    std::fs::write(&record, "{").unwrap();
    let pruned = herdr.act("prune-mappings");
    pruned.assert_failed("unknown");
    assert_eq!(pruned.result["errors"].as_array().unwrap().len(), 1, "{pruned:#?}");
    std::fs::remove_dir_all(record.parent().unwrap()).unwrap();
    herdr.act("prune-mappings").assert_done();
    host.configure("agnt = \"boxed\"\n");
    herdr.act("doctor").assert_failed("config");
    all_over(&host, &herdr);
}
