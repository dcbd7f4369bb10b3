//! herdr and what is inside: its hooks' reports get out, for the own pane and without
//! a session; nothing else does. Beside a herdr that is made up, and the real one
//! where `HERDR_BIN` names it.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;
use std::time::{Duration, Instant};

use paddock_test::faults::events;
use paddock_test::herdr::{OTHER_METHODS, PANE, StandIn, listen_and_be_silent};
use paddock_test::host::{Finished, Host, LIMIT, TIERS, finish, probe, standin_file, wait_for};
use paddock_test::real_herdr::RealHerdr;
use serde_json::{Value, json};

/// A request as a hook of herdr's for Claude Code makes it.
fn request(method: &str, params: &Value) -> String {
    let request = json!({ "id": format!("id of {method}"), "method": method, "params": params });
    format!("herdr:{request}")
}

/// Of a state, with everything that must not get out.
fn report(state: &str) -> String {
    let params = json!({
        "pane_id": "w7:p7", "source": "herdr:claude", "agent": "claude", "seq": u64::MAX,
        "state": state, "message": format!("\u{1b}[2J{state}"), "agent_session_id": "inside",
    });
    request("pane.report_agent", &params)
}

/// Of a session, which herdr would resume.
fn session(pane: &str, id: &str) -> Value {
    json!({
        "pane_id": pane, "source": "herdr:claude", "agent": "claude",
        "agent_session_id": id, "session_start_source": "startup",
    })
}

/// Has what inside waits for that file try these.
fn let_try(host: &Host, file: &str, attempts: &[String]) {
    let path = host.workspace().join(file);
    std::fs::write(path.with_extension("new"), attempts.join("\n")).unwrap();
    std::fs::rename(path.with_extension("new"), path).unwrap();
}

/// A command that waits for each of these files and tries what is in it.
fn try_each(files: &[&str]) -> String {
    let files = files.join(" ");
    format!("for f in {files}; do until [ -e $f ]; do sleep 0.01; done; ./probe @$f; done")
}

fn place_probe(host: &Host) {
    std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
}

/// What `attempts` came to in a launch in that tier.
fn try_inside(host: &Host, tier: &str, attempts: &[String]) -> Finished {
    place_probe(host);
    let_try(host, "all", attempts);
    let run = host.standin_in(tier, &["./probe @all"]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    host.assert_nothing_left();
    run
}

/// The control: what they come to outside.
fn try_outside(host: &Host, attempts: &[String]) -> Finished {
    let mut command = Command::new(probe());
    host.dress(&mut command);
    command.args(attempts);
    finish(command)
}

/// The replies that were printed.
fn replies(run: &Finished) -> Vec<Value> {
    let lines = run.stdout.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Of the ledger, the requests in herdr's protocol.
fn recorded(host: &Host) -> Vec<Value> {
    let lines = events(host, "herdr").into_iter();
    lines.map(|mut line| line["herdr"].take()).filter(|record| !record.is_null()).collect()
}

#[test]
fn states_reach_herdr_for_the_own_pane_and_no_session_does_and_at_the_end_none_stays() {
    let states = ["working", "blocked", "idle"];
    for tier in TIERS {
        let mut host = Host::new();
        let herdr = StandIn::beside(&mut host);
        place_probe(&host);
        let tool = try_each(&["working", "blocked", "idle", "end"]);
        let command = host.agent_command("standin", &["--tier", tier], &[&tool]);
        let launch = host.start(command);
        let own_session = request("pane.report_agent_session", &session(PANE, "inside"));
        for state in states {
            let attempts = [own_session.clone(), report(state), own_session.clone()];
            let_try(&host, state, &attempts);
            herdr.wait_for(state);
        }
        let_try(&host, "end", &[]);
        let run = launch.end();
        assert_eq!(run.code(), Some(0), "{tier}: {run:?}");
        let replies = replies(&run);
        assert_eq!(replies.len(), 9, "{tier}: {run:?}");
        for reply in &replies {
            assert_eq!(reply["result"], json!({ "type": "ok" }), "{tier}: the hook is content");
        }

        assert_eq!(herdr.told(), ["working", "blocked", "idle", "released"], "{tier}");
        for request in herdr.received() {
            let mut wanted = json!({ "pane_id": PANE, "source": "paddock", "agent": "standin" });
            if let Some(state) = request["params"]["state"].as_str() {
                wanted["state"] = state.into();
                wanted["message"] = format!("[2J{state}").into();
            }
            assert_eq!(request["params"], wanted, "{tier}");
        }
        let records = recorded(&host);
        let outcomes: Vec<_> = records.iter().map(|record| &record["outcome"]).collect();
        assert_eq!(outcomes, ["kept", "forwarded", "kept"].repeat(3), "{tier}");
        assert!(records.iter().all(|record| record["session"] == true), "{tier}");
        host.assert_nothing_left();

        let control = try_outside(&host, std::slice::from_ref(&own_session));
        assert!(control.stdout.ends_with(" ok\n"), "{control:?}");
        assert_eq!(herdr.told().last().unwrap(), "pane.report_agent_session", "control");
    }
}

#[test]
fn everything_else_of_herdrs_protocol_is_refused_in_its_shape_and_written_down() {
    let params = json!({
        "pane_id": PANE, "text": "id\n", "workspace_id": "w1", "tab_id": "w1:t1",
        "root": { "type": "pane", "command": ["/bin/sh"] },
    });
    let mut attempts: Vec<String> =
        OTHER_METHODS.iter().map(|method| request(method, &params)).collect();
    attempts.push(request("no.such.method", &params));
    for tier in TIERS {
        let mut host = Host::new();
        let herdr = StandIn::beside(&mut host);
        let run = try_inside(&host, tier, &attempts);
        let (replies, records) = (replies(&run), recorded(&host));
        assert_eq!((replies.len(), records.len()), (attempts.len(), attempts.len()), "{run:?}");
        let methods = OTHER_METHODS.iter().chain(&["no.such.method"]);
        for (method, (reply, record)) in methods.zip(replies.iter().zip(&records)) {
            assert_eq!(reply["id"], format!("id of {method}"), "{tier}");
            assert_eq!(reply["error"]["code"], "refused_in_sandbox", "{tier}: {reply}");
            assert!(reply["error"]["message"].as_str().unwrap().contains(method), "{tier}");
            assert_eq!(
                (&record["method"], &record["outcome"]),
                (&json!(method), &json!("refused"))
            );
            assert_eq!(record["why"], reply["error"]["message"], "{tier}");
        }
        assert_eq!(herdr.received(), [] as [Value; 0], "{tier}: nothing to take back, either");

        let control = try_outside(&host, &attempts[..]);
        assert!(control.stdout.lines().all(|line| !line.contains("refused")), "{control:?}");
        assert_eq!(herdr.told()[..OTHER_METHODS.len()], OTHER_METHODS, "control");
    }
}

#[test]
fn a_state_told_by_the_gates_own_protocol_reaches_herdr_too() {
    let mut host = Host::new();
    let herdr = StandIn::beside(&mut host);
    place_probe(&host);
    let tool = format!("paddock ask report blocked which one && {}", try_each(&["end"]));
    let launch = host.start(host.agent_command("standin", &[], &[&tool]));
    herdr.wait_for("blocked");
    let_try(&host, "end", &[]);
    assert_eq!(launch.end().code(), Some(0));
    assert_eq!(herdr.received()[0]["params"]["message"], "which one");
    assert_eq!(herdr.told(), ["blocked", "released"]);
}

#[test]
fn what_is_no_request_is_answered_as_herdr_does() {
    let mut host = Host::new();
    let herdr = StandIn::beside(&mut host);
    let long = format!("herdr:{{\"id\":\"{}\"}}", "x".repeat(70_000));
    let attempts = ["herdr:{}", "herdr:{\"id\":", long.as_str()].map(str::to_owned);
    let run = try_inside(&host, "sealed", &attempts);
    let replies = replies(&run);
    assert_eq!(replies.len(), attempts.len(), "{run:?}");
    for reply in &replies {
        assert_eq!(
            (&reply["id"], &reply["error"]["code"]),
            (&json!(""), &json!("invalid_request"))
        );
    }
    assert!(herdr.received().is_empty());
}

#[test]
fn herdrs_own_socket_is_out_of_reach() {
    for tier in TIERS {
        let mut host = Host::new();
        let herdr = StandIn::beside(&mut host);
        let attempt = [format!("stream:{}", herdr.socket.display())];
        let run = try_inside(&host, tier, &attempt);
        assert!(run.stdout.contains(" no "), "{tier}: {run:?}");
        let control = try_outside(&host, &attempt);
        assert!(control.stdout.ends_with(" ok\n"), "control: {control:?}");
    }
}

#[test]
fn a_launch_that_is_ended_takes_its_state_off_the_pane() {
    for tier in TIERS {
        let mut host = Host::new();
        let herdr = StandIn::beside(&mut host);
        place_probe(&host);
        let_try(&host, "all", &[report("working")]);
        let tool = "./probe @all; sleep 600";
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &[tool]));
        herdr.wait_for("working");
        assert_eq!(launch.terminate().code(), Some(143), "{tier}");
        assert_eq!(herdr.told(), ["working", "released"], "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn a_herdr_that_never_answers_delays_nobody() {
    let count = 60;
    for tier in TIERS {
        let mut host = Host::new();
        let socket = host.home().join("herdr.sock");
        let held = listen_and_be_silent(&socket);
        host.set("HERDR_PANE_ID", PANE).set("HERDR_SOCKET_PATH", &socket);
        place_probe(&host);
        let_try(&host, "all", &vec![report("working"); count]);
        let started = Instant::now();
        let run = host.standin_in(tier, &["./probe @all"]);
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
        assert_eq!(replies(&run).len(), count, "{tier}: all were answered");
        let connections = held.lock().unwrap().len();
        assert!(connections > 0, "control: herdr was spoken to");
        // Half a second is waited for herdr, by the keeper alone.
        let limit = Duration::from_millis(500) * u32::try_from(count).unwrap();
        assert!(started.elapsed() < limit, "{tier}: {:?}", started.elapsed());
        assert!(connections < count / 2, "{tier}: {connections}");
        let said = events(&host, "herdr").into_iter().filter(|line| line["said"].is_string());
        let said: Vec<_> = said.map(|line| line["said"].clone()).collect();
        assert!(said.contains(&json!("herdr did not answer in time")), "{tier}: {said:?}");
        host.assert_nothing_left();
    }
}

#[test]
fn of_a_flood_herdr_hears_little_and_the_last() {
    let mut host = Host::new();
    let herdr = StandIn::beside(&mut host);
    let flood = 300;
    let mut attempts = vec![report("working"); flood];
    attempts.push(report("blocked"));
    place_probe(&host);
    let command = host.agent_command("standin", &[], &[&try_each(&["all", "enough"])]);
    let launch = host.start(command);
    let started = Instant::now();
    let_try(&host, "all", &attempts);
    herdr.wait_for("blocked");
    let told = herdr.told().len();
    let most = usize::try_from(started.elapsed().as_millis()).unwrap() / 200 + 2;
    assert!(told <= most && told < flood / 2, "{told} of {most}");
    let_try(&host, "enough", &[]);
    assert_eq!(replies(&launch.end()).len(), flood + 1, "control: each was answered");
    assert_eq!(recorded(&host).len(), flood + 1);
}

#[test]
fn herdr_is_told_when_it_comes_back() {
    let mut host = Host::new();
    let socket = host.home().join("herdr.sock");
    host.set("HERDR_PANE_ID", PANE).set("HERDR_SOCKET_PATH", &socket);
    place_probe(&host);
    let launch = host.start(host.agent_command("standin", &[], &[&try_each(&["one", "end"])]));
    let_try(&host, "one", &[report("working")]);
    let is_noted = || {
        let lines = events(&host, "herdr");
        let mut said = lines.iter().filter_map(|line| line["said"].as_str());
        said.any(|said| said.starts_with("herdr cannot be reached")).then_some(())
    };
    wait_for(LIMIT, is_noted).expect("control: it is not there");
    let herdr = StandIn::listen(&socket);
    herdr.wait_for("working");
    let_try(&host, "end", &[]);
    assert_eq!(launch.end().code(), Some(0));
    assert_eq!(herdr.told(), ["working", "released"]);
}

#[test]
fn without_a_herdr_none_is_named_and_none_is_spoken_to() {
    for (name, value) in [("HERDR_PANE_ID", PANE), ("HERDR_SOCKET_PATH", "/nonexistent/h.sock")] {
        // Half of what herdr says to its panes is not a pane.
        let mut host = Host::new();
        host.set("HERDR_ENV", "1").set(name, value);
        place_probe(&host);
        let_try(&host, "all", &[report("idle")]);
        let tool = "env | grep -c ^HERDR_; HERDR_SOCKET_PATH=$PADDOCK_GATE ./probe @all";
        let run = host.standin(&[tool]);
        assert_eq!((run.code(), run.stdout.lines().next()), (Some(0), Some("0")), "{run:?}");
        let reply = &replies(&run)[0];
        assert_eq!(reply["id"], "id of pane.report_agent");
        assert_eq!(reply["error"]["code"], "refused_in_sandbox");
        assert_eq!(recorded(&host)[0]["outcome"], "refused");
    }
}

#[test]
fn a_line_without_an_end_is_no_request_and_holds_nobody_up() {
    let mut host = Host::new();
    let herdr = StandIn::beside(&mut host);
    place_probe(&host);
    let half = report("working").replace("herdr:", "mute:");
    let_try(&host, "half", &[half]);
    let_try(&host, "whole", &[report("idle")]);
    let tool = "./probe @half >half.out & ./probe @whole; kill -0 $! && wait; cat half.out";
    let run = host.standin(&[tool]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert_eq!(replies(&run)[0]["result"]["type"], "ok", "one beside it is answered at once");
    assert!(run.stdout.ends_with(" no unexpected end of file\n"), "{run:?}");
    assert_eq!(herdr.told(), ["idle", "released"]);
    let refused = events(&host, "gate-refused");
    let why = "its request in herdr's protocol did not end: timed out";
    assert!(refused.iter().any(|line| line["why"] == why), "{refused:#?}");
}

#[test]
fn who_is_not_of_the_agent_reports_nothing() {
    for tier in TIERS {
        let mut host = Host::new();
        let herdr = StandIn::beside(&mut host);
        place_probe(&host);
        let_try(&host, "all", &[report("working")]);
        let orphan = "(setsid sh -c 'until [ -e go ]; do sleep 0.01; done; ./probe @all >out; \
            touch done' </dev/null >/dev/null 2>&1 &)";
        let then = "touch go; until [ -e done ]; do sleep 0.01; done; cat out";
        let run = host.standin_in(tier, &[orphan, then]);
        assert_eq!(run.code(), Some(0), "{run:?}");
        let error = &replies(&run)[0]["error"];
        assert_eq!(error["code"], "refused_in_sandbox", "{tier}: {error}");
        let why = "not-allowed: the agent's own process is not among its parents";
        assert_eq!(error["message"], why, "{tier}");
        assert_eq!(recorded(&host)[0]["method"], "pane.report_agent", "{tier}");
        let call = &events(&host, "gate-call")[0];
        assert_eq!(
            (&call["request"], &call["refused"]["code"]),
            (&"herdr".into(), &"not-allowed".into())
        );
        assert!(herdr.received().is_empty(), "{tier}");
        let control = host.standin_in(tier, &["./probe @all"]);
        assert_eq!(replies(&control)[0]["result"]["type"], "ok", "control: {control:?}");
    }
}

/// The stand-in as an agent that herdr knows.
fn add_known_agent(host: &Host, kind: &str) {
    let file = standin_file("boxed");
    let name = "name = \"boxed\"\n";
    host.add_agent("boxed", &file.replace(name, &format!("{name}herdr = \"{kind}\"\n")));
}

#[test]
fn a_real_hook_of_herdrs_shows_its_state_from_inside_and_keeps_its_session_there() {
    let host = Host::new();
    add_known_agent(&host, "kimi");
    let hook = host.workspace().join("hook.sh");
    let Some(herdr) = RealHerdr::start(&host) else { return };
    host.write(".kimi-code/config.toml", "");
    let installed = herdr.cli(&["integration", "install", "kimi"]);
    assert_eq!(installed.code(), Some(0), "{installed:?}");
    std::fs::copy(host.home().join(".kimi-code/hooks/herdr-agent-state.sh"), &hook).unwrap();
    let call = |action: &str| {
        let hook = hook.display();
        format!("echo '{{\"session_id\":\"5e5510\"}}' | sh {hook} {action}")
    };
    let calls = format!("{}; {}", call("session"), call("working"));

    let (pane, control) = (herdr.shell_pane(), herdr.shell_pane());
    let until_end = format!("{calls}; until [ -e end ]; do sleep 0.01; done");
    herdr.type_into(&pane, &host.agent_command("boxed", &[], &[&until_end]));
    let is_shown = |pane: &str| {
        let shown = herdr.look(pane);
        (shown["agent"] == "kimi" && shown["agent_status"] == "working").then_some(shown)
    };
    let shown = wait_for(LIMIT, || is_shown(&pane));
    let shown = shown.unwrap_or_else(|| panic!("{}\n{:#?}", herdr.screen(&pane), host.ledger()));
    assert!(shown["agent_session"].is_null(), "{shown}");
    std::fs::write(host.workspace().join("end"), "").unwrap();
    let is_ended = || host.records().first()?["status"].as_u64();
    assert_eq!(wait_for(LIMIT, is_ended), Some(0));

    // herdr believes a source of its own only where it sees that agent run.
    let mut outside = Command::new("env");
    let when_seen = format!("until [ -e seen ]; do sleep 0.01; done; {calls}; sleep 60");
    outside.args(["HERDR_AGENT=kimi", "sh", "-c", &when_seen]);
    herdr.type_into(&control, &outside);
    let is_seen = || (herdr.look(&control)["agent"] == "kimi").then_some(());
    assert!(wait_for(LIMIT, is_seen).is_some(), "{}", herdr.screen(&control));
    std::fs::write(host.workspace().join("seen"), "").unwrap();
    let session = || {
        let shown = is_shown(&control)?;
        (shown["agent_session"]["value"] == "5e5510").then_some(())
    };
    let found = wait_for(LIMIT, session);
    assert!(found.is_some(), "control: outside it is told, too: {}", herdr.look(&control));
}

#[test]
fn the_real_herdr_shows_the_state_and_after_its_restart_no_agent_runs_unsandboxed() {
    let mut host = Host::new();
    // What herdr resumes: says that it was, and with which words.
    let ran = host.home().join("ran");
    host.script("bin/claude", &format!("#!/bin/sh\necho \"$*\" >>'{}'\n", ran.display()));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", host.home().join("bin").display());
    host.set("PATH", path);
    add_known_agent(&host, "claude");
    place_probe(&host);
    let Some(mut herdr) = RealHerdr::start(&host) else { return };

    let (pane, control) = (herdr.shell_pane(), herdr.shell_pane());
    let shows = |herdr: &RealHerdr<'_>, agent: &Value, status: &str| {
        let found = wait_for(LIMIT, || {
            let shown = herdr.look(&pane);
            (shown["agent"] == *agent && shown["agent_status"] == status).then_some(())
        });
        assert!(found.is_some(), "{status}: {}\n{}", herdr.look(&pane), herdr.screen(&pane));
        assert!(herdr.look(&pane)["agent_session"].is_null(), "{}", herdr.look(&pane));
    };
    let reports = |state: &str| {
        [request("pane.report_agent_session", &session(&pane, "inside")), report(state)]
    };
    let files = ["one", "two", "end"];
    let typed = host.agent_command("boxed", &[], &[&try_each(&files)]);
    herdr.type_into(&pane, &typed);
    for (file, state) in [("one", "working"), ("two", "blocked")] {
        let_try(&host, file, &reports(state));
        shows(&herdr, &"claude".into(), state);
    }
    let_try(&host, "end", &[]);
    shows(&herdr, &Value::Null, "unknown");

    for file in files {
        std::fs::remove_file(host.workspace().join(file)).unwrap();
    }
    herdr.type_into(&pane, &typed);
    let_try(&host, "one", &reports("working"));
    shows(&herdr, &"claude".into(), "working");
    // The control: the same session, told to herdr itself.
    herdr.ask("pane.report_agent_session", &session(&control, "outside"));
    assert_eq!(herdr.look(&control)["agent_session"]["value"], "outside");
    let of_launch = || {
        let mut processes = host.processes();
        processes.retain(|(_, arguments)| arguments.contains("standin"));
        processes
    };
    assert!(!of_launch().is_empty(), "control: the launch shows among the processes");

    herdr.restart();
    let resumed = || std::fs::read_to_string(&ran).ok();
    assert!(wait_for(LIMIT, resumed).is_some(), "the control is resumed");
    let after = herdr.look(&pane);
    assert!(after["agent"].is_null() && after["agent_session"].is_null(), "{after}");
    let is_gone = wait_for(LIMIT, || of_launch().is_empty().then_some(()));
    assert!(is_gone.is_some(), "{:?}", of_launch());
    assert_eq!(resumed().as_deref(), Some("--resume outside\n"), "and nothing else is");
}
