//! What herdr shows of a launch by the keeper's own word: that the agent is
//! sandboxed, and whether that is verified now.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;
use std::time::{Duration, Instant};

use paddock_test::faults::{events, fault, parts};
use paddock_test::herdr::{PANE, StandIn, listen_and_be_silent};
use paddock_test::host::{Host, LIMIT, TIERS, send, standin_file, wait_for};
use paddock_test::real_herdr::RealHerdr;
use paddock_test::terminal::Terminal;
use rustix::process::Signal;
use serde_json::{Value, json};

/// Waits until the last sign has that verdict.
fn wait_for_sign(herdr: &StandIn, verdict: &str) -> Value {
    let last = || herdr.signs().pop().filter(|sign| sign["tokens"]["verdict"] == verdict);
    wait_for(LIMIT, last).unwrap_or_else(|| panic!("{verdict}: {:#?}", herdr.signs()))
}

#[test]
fn the_pane_says_that_the_agent_is_sandboxed_until_the_launch_ends() {
    for tier in TIERS {
        let mut host = Host::new();
        let herdr = StandIn::beside(&mut host);
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &["sleep 600"]));
        let words =
            if tier == "sealed" { "sandboxed".into() } else { format!("sandboxed: {tier}") };
        let wanted = json!({
            "pane_id": PANE, "source": "plugin:paddock", "ttl_ms": 10_000,
            "clear_title": true, "display_agent": format!("standin [{words}]"),
            "tokens": { "sandbox": tier, "verdict": "confined" },
        });
        assert_eq!(wait_for_sign(&herdr, "confined"), wanted);
        let renewed = || (herdr.signs().len() >= 2).then_some(());
        assert!(wait_for(LIMIT, renewed).is_some(), "{tier}: it goes by itself where it is not");
        assert!(herdr.signs().iter().all(|sign| *sign == wanted), "{tier}: {:#?}", herdr.signs());

        assert_eq!(launch.terminate().code(), Some(143), "{tier}");
        let gone = json!({
            "pane_id": PANE, "source": "plugin:paddock", "clear_display_agent": true,
            "tokens": { "sandbox": null, "verdict": null },
        });
        assert_eq!(herdr.signs().last(), Some(&gone), "{tier}");
        let told = events(&host, "herdr");
        let told: Vec<_> = told.iter().map(|line| (&line["sign"], &line["said"])).collect();
        let ok = json!("ok");
        assert_eq!(told, [(&json!("confined"), &ok), (&json!("no sign"), &ok)], "{tier}");
        assert!(herdr.received().is_empty(), "{tier}: nothing else is told");
        let log = host.run(&["log"]).stdout;
        assert!(log.contains("herdr was told confined: ok"), "{log}");
        host.assert_nothing_left();
    }
}

#[test]
fn a_change_of_the_verdict_shows_within_a_second_both_ways() {
    let mut host = Host::new();
    host.configure("on-violation = \"warn\"\n");
    let herdr = StandIn::beside(&mut host);
    let launch = host.start(host.standin_command(&["sleep 600"]));
    let veil = parts(&host).iter().find(|(name, _)| name == "veil-init").expect("a veil").1;
    wait_for_sign(&herdr, "confined");
    // By the ledger, which is written first.
    let changes = |count: usize| {
        let found = wait_for(LIMIT, || (events(&host, "verdict").len() >= count).then_some(()));
        assert!(found.is_some(), "{:#?}", events(&host, "verdict"));
        Instant::now()
    };

    let note = host.home().join("late");
    let mut intrude = Command::new(fault());
    host.dress(intrude.arg("intrude").arg(veil.to_string()).arg(&note));
    assert!(intrude.status().expect("it starts").success());
    let told = changes(1);
    let sign = wait_for_sign(&herdr, "unconfined");
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    assert_eq!(sign["display_agent"], "standin [NOT CONFINED]");

    let report = launch.verify().1;
    let tasks = report["tasks"].as_array().unwrap();
    let intruder = tasks.iter().find(|task| task["verdict"] == "unconfined").expect("it is seen");
    send(i32::try_from(intruder["pid"].as_i64().unwrap()).unwrap(), Signal::KILL);
    let told = changes(2);
    let sign = wait_for_sign(&herdr, "confined");
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    assert_eq!(sign["display_agent"], "standin [sandboxed]");
    assert_eq!(launch.terminate().code(), Some(143));
    host.assert_nothing_left();
}

#[test]
fn a_suspended_launch_is_shown_as_such_and_verified_anew_when_it_goes_on() {
    let mut host = Host::new();
    let herdr = StandIn::beside(&mut host);
    let terminal = Terminal::open();
    let mut command = terminal.paddock(&host);
    command.args(["run", "standin"]);
    let launch = host.start_as_it_is(command);
    terminal.wait_for("standin> ");
    wait_for_sign(&herdr, "confined");
    send(launch.keeper(), Signal::TSTP);
    let sign = wait_for_sign(&herdr, "suspended");
    assert_eq!(sign["display_agent"], "standin [suspended]");
    assert_eq!(sign["ttl_ms"], 3_600_000, "nobody could renew it");
    let stat = format!("/proc/{}/stat", launch.keeper());
    let is_stopped = || std::fs::read_to_string(&stat).ok()?.contains(") T ").then_some(());
    assert!(wait_for(LIMIT, is_stopped).is_some(), "the keeper is stopped");
    send(launch.keeper(), Signal::CONT);
    wait_for_sign(&herdr, "confined");
    assert_eq!(launch.terminate().code(), Some(143));
    host.assert_nothing_left();
}

#[test]
fn a_herdr_that_never_answers_or_refuses_delays_no_launch() {
    let mut host = Host::new();
    let socket = host.home().join("herdr.sock");
    let held = listen_and_be_silent(&socket);
    host.set("HERDR_PANE_ID", PANE).set("HERDR_SOCKET_PATH", &socket);
    let run = host.standin(&["echo done"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "done\n"), "{run:?}");
    assert!(!held.lock().unwrap().is_empty(), "control: it was spoken to");

    let mut host = Host::new();
    StandIn::beside(&mut host);
    host.set("HERDR_PANE_ID", "w1:pZ");
    let run = host.standin(&["echo done"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "done\n"), "{run:?}");
    let said = events(&host, "herdr");
    assert!(said.iter().all(|line| line["said"] == "pane_not_found"), "{said:#?}");
    assert!(!said.is_empty(), "and it is written down");
}

#[test]
fn the_real_herdr_shows_it_and_forgets_it_when_the_keeper_is_killed() {
    let host = Host::new();
    let name = "name = \"boxed\"\n";
    let file = standin_file("boxed").replace(name, &format!("{name}herdr = \"claude\"\n"));
    host.add_agent("boxed", &file);
    let Some(herdr) = RealHerdr::start(&host) else { return };
    let pane = herdr.shell_pane();
    let shows = |display: &Value, verdict: &Value| {
        let found = wait_for(LIMIT, || {
            let shown = herdr.look(&pane);
            (shown["display_agent"] == *display && shown["tokens"]["verdict"] == *verdict)
                .then_some(())
        });
        assert!(found.is_some(), "{display}: {}\n{}", herdr.look(&pane), herdr.screen(&pane));
    };
    let end = "until [ -e end ]; do sleep 0.05; done";
    let typed = host.agent_command("boxed", &[], &[end]);
    herdr.type_into(&pane, &typed);
    shows(&"claude [sandboxed]".into(), &"confined".into());
    assert_eq!(herdr.look(&pane)["tokens"]["sandbox"], "sealed");
    std::fs::write(host.workspace().join("end"), "").unwrap();
    shows(&Value::Null, &Value::Null);

    std::fs::remove_file(host.workspace().join("end")).unwrap();
    herdr.type_into(&pane, &typed);
    shows(&"claude [sandboxed]".into(), &"confined".into());
    let keeper = host.records().pop().unwrap()["keeper"]["pid"].as_i64().unwrap();
    send(i32::try_from(keeper).unwrap(), Signal::KILL);
    shows(&Value::Null, &Value::Null);
}
