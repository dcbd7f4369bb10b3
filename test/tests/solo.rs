//! A launch of one process: under the server's policy, with the terminal, in one
//! sandbox in the pen.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use paddock_test::faults::{Bystander, parts};
use paddock_test::host::{Host, LIMIT, Launch, TIERS, finish, paddock, send, skip, wait_for};
use paddock_test::terminal::Terminal;
use rustix::process::Signal;
use serde_json::{Value, json};

/// `paddock run own` in a tier, to be given arguments.
fn solo(host: &Host, tier: &str) -> Command {
    let mut command = host.paddock();
    command.args(["run", "own", "--tier", tier, "--"]);
    command
}

/// The same on a terminal, once it is up.
fn start<'a>(host: &'a Host, terminal: &Terminal, tier: &str) -> Launch<'a> {
    let mut command = terminal.paddock(host);
    command.args(["run", "own", "--tier", tier]);
    host.start_as_it_is(command)
}

fn layers(report: &Value) -> BTreeSet<String> {
    let tasks = report["tasks"].as_array().unwrap().iter();
    tasks.filter_map(|task| task["layer"].as_str()).map(str::to_owned).collect()
}

#[test]
fn output_errors_and_status_are_the_one_process_in_every_tier() {
    for tier in TIERS {
        let host = Host::new();
        host.add_solo_agent("own", "\"sh\"");
        let mut command = solo(&host, tier);
        command.args(["-c", "echo out; echo err >&2; touch made; exit 7"]);
        let run = finish(command);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(7), "out\n"), "{tier}: {}", run.stderr);
        let told: Vec<&str> = run.stderr.lines().collect();
        assert!(told[0].ends_with(" tasks confirmed, watching"), "{told:?}");
        assert_eq!(told[1..], ["err", "paddock: the agent ended with status 7"]);
        let record = host.records().pop().unwrap();
        assert_eq!(
            (&record["form"], &record["phase"], &record["status"]),
            (&json!("solo"), &json!("ended"), &json!(7))
        );
        assert!(host.workspace().join("made").exists());
        assert!(host.agent_home("own", "server").exists());
        assert!(!host.agent_home("own", "client").exists(), "no client, so no home of one");
        host.assert_nothing_left();
    }
}

#[test]
fn a_solo_launch_has_one_sandbox_in_the_pen_and_every_task_of_it_is_confirmed() {
    for tier in TIERS {
        let host = Host::new();
        host.add_solo_agent("own", "\"sh\"");
        let mut command = solo(&host, tier);
        command.args(["-c", "sleep 300 & wait"]);
        let launch = host.start(command);
        let sleeps = || {
            let report = launch.verify().1;
            let mut tasks = report["tasks"].as_array()?.iter();
            tasks.any(|task| task["command"] == "sleep 300").then_some(())
        };
        wait_for(LIMIT, sleeps).expect("its child is seen");
        let (status, report) = launch.verify();
        assert_eq!((status, &report["holds"]), (Some(0), &json!(true)), "{tier}: {report:#}");
        assert_eq!(layers(&report), ["pen", "server"].map(str::to_owned).into(), "{tier}");
        let names: Vec<String> = parts(&host).into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().any(|name| name == "server-warden"), "control: {names:?}");
        assert!(!names.iter().any(|name| name.starts_with("client")), "{names:?}");
        let proved: Vec<Value> = host
            .ledger()
            .into_iter()
            .filter(|line| line["event"] == "self-test" && line["holds"] == true)
            .map(|line| line["layer"].clone())
            .collect();
        assert_eq!(proved, ["pen", "server"], "{tier}");
        assert_eq!(host.run(&["stop", &launch.id]).code(), Some(0));
        assert_eq!(launch.end().code(), Some(143), "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn one_process_has_the_persons_terminal_and_its_size_and_gives_it_back() {
    for tier in TIERS {
        let host = Host::new();
        let script = "trap 'stty size' WINCH; stty size; [ -t 0 ] && echo on a terminal; \
            while :; do sleep 0.05; done";
        host.add_solo_agent("own", &format!("\"sh\", \"-c\", {script:?}"));
        let terminal = Terminal::open();
        let before = terminal.modes();
        let launch = start(&host, &terminal, tier);
        terminal.wait_for("40 120\non a terminal");
        assert_ne!(terminal.modes(), before, "control: the terminal has been taken");
        terminal.resize(31, 97);
        terminal.wait_for("31 97");
        terminal.resize(50, 60);
        terminal.wait_for("50 60");
        assert_eq!(launch.verify().0, Some(0), "{tier}");
        terminal.send("\x03");
        assert_eq!(launch.end().code(), Some(130), "{tier}: {}", terminal.text());
        let back = wait_for(LIMIT, || (terminal.modes() == before).then_some(()));
        assert!(back.is_some(), "{tier}: {:?}", terminal.modes());
        host.assert_nothing_left();
    }
}

#[test]
fn whatever_it_leaves_running_ends_with_it() {
    for tier in TIERS {
        let host = Host::new();
        host.add_solo_agent("own", "\"sh\"");
        let mut command = solo(&host, tier);
        command.args(["-c", "sleep 597 & setsid sleep 598 & (setsid sleep 599 &); exit 4"]);
        let started = Instant::now();
        let run = finish(command);
        assert_eq!(run.code(), Some(4), "{tier}: {}", run.stderr);
        assert!(started.elapsed() < Duration::from_mins(1));
        host.assert_nothing_left();
    }
}

/// An interactive shell with job control, started on the terminal.
struct Outer(Child);

impl Outer {
    fn start(host: &Host, terminal: &Terminal) -> Option<Self> {
        if Command::new("bash").arg("--version").output().is_err() {
            skip("bash is not installed");
            return None;
        }
        let mut command = terminal.program(host, "bash");
        command.args(["--norc", "--noprofile", "-i"]).env("PS1", "outer$ ");
        let shell = Self(command.spawn().unwrap());
        terminal.wait_for("outer$ ");
        Some(shell)
    }

    fn end(mut self, terminal: &Terminal) {
        terminal.send("exit 0\r");
        wait_for(LIMIT, || self.0.try_wait().unwrap()).expect("the shell ends");
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ctrl_c_reaches_one_process_that_has_no_terminal_of_its_own() {
    let host = Host::new();
    host.add_solo_agent("own", "\"sh\"");
    let terminal = Terminal::open();
    let Some(outer) = Outer::start(&host, &terminal) else { return };
    let paddock = paddock();
    let line = format!("{} run own -- -c 'touch running; sleep 300'", paddock.display());
    terminal.send(&format!("clear; {line} </dev/null; echo status $?\r"));
    let running = host.workspace().join("running");
    let runs = wait_for(LIMIT, || running.exists().then_some(()));
    assert!(runs.is_some(), "{}", terminal.text());
    terminal.send("\x03");
    terminal.wait_for("status 130");
    outer.end(&terminal);
    host.assert_nothing_left();
}

#[test]
fn the_doctor_tries_the_one_sandbox_of_a_solo_agent() {
    let host = Host::new();
    host.add_solo_agent("own", "\"sh\"");
    let run = host.run(&["doctor", "own", "--json"]);
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"));
    let rows = report["matrix"]["rows"].as_array().unwrap();
    assert!(rows.len() > 50, "{run:?}");
    for row in rows {
        let places: Vec<&String> = row["places"].as_object().unwrap().keys().collect();
        assert_eq!(places, ["outside", "pen", "server", "veil"], "{row}");
    }
    assert_eq!(report["matrix"]["holds"], true, "{run:?}");
}

/// The state letter of a process (`proc_pid_stat(5)`).
fn state(pid: i32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn ctrl_z_suspends_all_of_a_solo_launch_and_fg_brings_it_back() {
    for tier in TIERS {
        let host = Host::new();
        let script = "echo up; read line; echo got $line; exit 5";
        host.add_solo_agent("own", &format!("\"sh\", \"-c\", {script:?}"));
        let terminal = Terminal::open();
        let Some(outer) = Outer::start(&host, &terminal) else { return };
        let before = terminal.modes();
        let paddock = paddock();
        terminal.send(&format!("{} run own --tier {tier}; echo status $?\r", paddock.display()));
        terminal.wait_for("\nup");
        let (id, keeper) = wait_for(LIMIT, || {
            let record = host.records().pop().filter(|record| record["phase"] == "running")?;
            let keeper = i32::try_from(record["keeper"]["pid"].as_i64()?).ok()?;
            Some((record["launch"].as_str()?.to_owned(), keeper))
        })
        .expect("it runs");
        let report = host.verify(&id).1;
        let tasks = report["tasks"].as_array().unwrap();
        let mut everything: Vec<i32> =
            tasks.iter().map(|t| i32::try_from(t["pid"].as_i64().unwrap()).unwrap()).collect();
        everything.push(keeper);
        assert!(everything.iter().all(|pid| state(*pid) != Some('T')), "control");
        terminal.send("\x1a");
        terminal.wait_for("Stopped");
        terminal.wait_for("outer$ ");
        for pid in &everything {
            assert_eq!(state(*pid), Some('T'), "{tier}: process {pid}");
        }
        assert_eq!(terminal.modes(), before, "{tier}: the shell has the terminal");
        terminal.send("clear; fg; echo status $?\r");
        let back = wait_for(LIMIT, || (host.verify(&id).0 == Some(0)).then_some(()));
        assert!(back.is_some(), "{tier}: {:#}", host.verify(&id).1);
        terminal.send("this\r");
        terminal.wait_for("got this");
        terminal.wait_for("status 5");
        outer.end(&terminal);
        host.assert_nothing_left();
    }
}

/// Each part of a solo launch that is killed takes all the rest with it.
#[test]
fn a_solo_launch_ends_with_any_of_its_parts() {
    let mut bystander = Bystander::start();
    for tier in TIERS {
        let names = ["veil", "pen-warden", "server-supervisor", "server-warden"];
        for name in names.into_iter().filter(|name| *name != "veil" || tier == "sealed") {
            let host = Host::new();
            host.add_solo_agent("own", "\"sh\"");
            let mut command = solo(&host, tier);
            command.args(["-c", "sleep 597 & setsid sleep 598 & touch up; sleep 600"]);
            let launch = host.start(command);
            let up = host.workspace().join("up");
            wait_for(LIMIT, || up.exists().then_some(())).expect("the agent runs");
            assert_eq!(launch.verify().0, Some(0), "control: {tier}: confined until then");
            let (_, pid) = parts(&host).into_iter().find(|(part, _)| part == name).unwrap();
            send(pid, Signal::KILL);
            let run = launch.end();
            assert_eq!(run.code(), Some(126), "{tier}, {name}: {}", run.stderr);
            assert!(run.stderr.contains("paddock: the agent was stopped: "), "{}", run.stderr);
            host.assert_nothing_left();
        }
    }
    assert!(bystander.lives());
}

#[test]
fn no_solo_agent_outlives_its_keeper() {
    for tier in TIERS {
        let host = Host::new();
        host.add_solo_agent("own", "\"sh\"");
        let mut command = solo(&host, tier);
        command.args(["-c", "sleep 597 & setsid sleep 598 & touch up; sleep 600"]);
        let launch = host.start(command);
        let up = host.workspace().join("up");
        wait_for(LIMIT, || up.exists().then_some(())).expect("the agent runs");
        assert!(!host.processes().is_empty(), "control");
        send(launch.keeper(), Signal::KILL);
        launch.end();
        let gone = wait_for(LIMIT, || host.processes().is_empty().then_some(()));
        assert!(gone.is_some(), "{tier}: {:?}", host.processes());
        assert_eq!(host.run(&["stop", "--all"]).code(), Some(0));
        host.assert_nothing_left();
    }
}

#[test]
fn a_solo_launch_is_shown_before_it_is_started() {
    let host = Host::new();
    host.add_solo_agent("own", "\"sh\"");
    let run = host.run(&["run", "own", "--dry-run", "--json", "--", "-c", "true"]);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&plan["form"], &plan["agentClient"]), (&json!("solo"), &Value::Null));
    assert_eq!(plan["layers"]["client"], Value::Null);
    assert_eq!(plan["agentServer"]["argv"], json!(["sh", "-c", "true"]));
    let grants = plan["grants"].as_array().unwrap();
    assert!(grants.iter().all(|grant| grant["layer"] != "client"), "{grants:#?}");
    let text = host.run(&["run", "own", "--dry-run"]).stdout;
    assert!(text.contains("\nserver layer\n") && text.contains("\nagent\n  sh\n"), "{text}");
    assert!(!text.contains("client"), "{text}");
}

#[test]
fn an_agent_with_both_forms_is_a_pair_unless_it_is_told() {
    let host = Host::new();
    let file = paddock_test::host::standin_file("both");
    host.add_agent("both", &format!("{file}\n[solo]\nargv = [\"sh\"]\n"));
    let run = finish(host.agent_command("both", &[], &["echo from the pair"]));
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "from the pair\n"), "{}", run.stderr);
    let run = finish(host.agent_command("both", &["--solo"], &["echo alone"]));
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "alone\n"), "{}", run.stderr);
    let forms: Vec<Value> = host.records().iter().map(|r| r["form"].clone()).collect();
    assert_eq!(forms, ["pair", "solo"]);
    let run = host.run(&["run", "--solo", "standin"]);
    assert_eq!(run.code(), Some(125));
    assert_eq!(
        run.stderr,
        "paddock: the agent standin has no solo form\n  \
         next: paddock run standin starts it as it is\n"
    );
    host.assert_nothing_left();
}

#[test]
fn a_solo_program_that_is_not_there_is_told() {
    let host = Host::new();
    host.add_solo_agent("own", "\"/usr/bin/there-is-no-such-program\"");
    let run = finish(solo(&host, "sealed"));
    assert_eq!(run.code(), Some(127), "{}", run.stderr);
    assert!(run.stderr.contains("the agent's process could not be started"), "{}", run.stderr);
    host.assert_nothing_left();
}

/// A pair's server may listen where its client finds it; one process has no client.
#[test]
fn a_solo_process_on_the_hosts_network_listens_on_no_port() {
    let listens = "exec perl -MIO::Socket::INET -e 'IO::Socket::INET->new(LocalAddr => \
        q(127.0.0.1), Listen => 1) and print qq(listening\\n) or print qq(refused\\n)'";
    let control = Command::new("sh").args(["-c", listens]).output().unwrap();
    if String::from_utf8_lossy(&control.stdout) != "listening\n" {
        skip("perl, which is to listen, cannot even outside");
        return;
    }
    let host = Host::new();
    host.add_solo_agent("own", "\"sh\"");
    let mut command = solo(&host, "ported");
    command.args(["-c", listens]);
    let run = finish(command);
    assert_eq!(run.stdout, "refused\n", "{}", run.stderr);
}
