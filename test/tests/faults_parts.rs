//! Parts of a launch that are killed or stopped: the launch ends, all of it and
//! nothing else, and says why.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use paddock_test::faults::{Bystander, parts};
use paddock_test::host::{Finished, Host, LIMIT, Launch, TIERS, send, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// The longest that the end of a part may go unnoticed and the launch go on.
/// A pass of the watch every 250 ms sees it, or a witness that is silent for 2 s;
/// the rest is for a machine that is busy with other tests. What it took is
/// printed.
const NOTICED: Duration = Duration::from_secs(10);

/// A launch whose agent has processes in the foreground, in the background and
/// in a session of their own, and would go on for ten minutes.
fn start<'a>(host: &'a Host, tier: &str) -> Launch<'a> {
    let commands = ["sleep 597 & setsid sleep 598 & touch up; sleep 600"];
    let launch = host.start(host.agent_command("standin", &["--tier", tier], &commands));
    let up = host.workspace().join("up");
    assert!(wait_for(LIMIT, || up.exists().then_some(())).is_some(), "the agent runs");
    launch
}

fn part(host: &Host, name: &str) -> Option<i32> {
    parts(host).into_iter().find(|(part, _)| part == name).map(|(_, pid)| pid)
}

/// Sends `signal` to one part in each tier that has it; the launch must end by
/// itself, as unconfined, for a reason that contains `reason`.
fn without(name: &str, signal: Signal, reason: &[&str]) {
    let mut bystander = Bystander::start();
    let mut tried = 0;
    for tier in TIERS {
        let host = Host::new();
        let launch = start(&host, tier);
        assert_eq!(launch.verify().0, Some(0), "control: {tier}: confined until then");
        let Some(pid) = part(&host, name) else {
            assert!(name.starts_with("veil") && tier != "sealed", "{tier} has no {name}");
            assert_eq!(launch.terminate().code(), Some(143));
            continue;
        };
        tried += 1;
        let sent = Instant::now();
        send(pid, signal);
        let run = launch.end();
        let took = sent.elapsed();
        let case = format!("{tier}, {name}, {took:?}: {}", run.stderr);
        assert_eq!(run.code(), Some(126), "{case}");
        assert!(run.stderr.contains("paddock: the agent was stopped: "), "{case}");
        assert!(reason.iter().any(|reason| run.stderr.contains(reason)), "{case}");
        assert!(took < NOTICED, "{case}");
        println!("{tier}: {name} {signal:?}: over after {took:?}");
        host.assert_nothing_left();
        assert!(bystander.lives(), "{case}");
    }
    assert!(tried > 0);
}

#[test]
fn the_pens_warden_is_killed() {
    // Its nono ends with it, and may be missed first.
    let reasons = ["the warden of the pen sandbox is lost", "the pen's nono ended"];
    without("pen-warden", Signal::KILL, &reasons);
}

#[test]
fn the_servers_warden_is_killed() {
    without("server-warden", Signal::KILL, &["the warden of the server sandbox is lost"]);
}

#[test]
fn the_clients_warden_is_killed() {
    without("client-warden", Signal::KILL, &["the warden of the client sandbox is lost"]);
}

/// The supervisor's end, or that of what ends with it, whichever is seen first.
const SERVER_LOST: [&str; 2] =
    ["nono of the server sandbox ended", "the warden of the server sandbox is lost"];
const CLIENT_LOST: [&str; 2] =
    ["nono of the client sandbox ended", "the warden of the client sandbox is lost"];

#[test]
fn the_servers_supervisor_is_killed() {
    without("server-supervisor", Signal::KILL, &SERVER_LOST);
}

#[test]
fn the_clients_supervisor_is_killed() {
    without("client-supervisor", Signal::KILL, &CLIENT_LOST);
}

/// All ends with the veil, so any part may be the first that is missed.
const ANY_LOST: [&str; 3] = ["the veil ended", "sandbox ended", "sandbox is lost"];

#[test]
fn the_pens_supervisor_is_killed() {
    without("pen-supervisor", Signal::KILL, &[&ANY_LOST[..], &["the pen's nono ended"]].concat());
}

#[test]
fn the_veil_is_killed_outside() {
    without("veil", Signal::KILL, &ANY_LOST);
}

#[test]
fn the_veil_is_killed_inside() {
    without("veil-init", Signal::KILL, &ANY_LOST);
}

/// It was seen to be stopped, or was stopped after it had been looked at and
/// before it was asked.
const SILENT: [&str; 2] = ["is stopped, so it cannot bear witness", "did not answer in time"];

#[test]
fn the_pens_warden_is_stopped() {
    without("pen-warden", Signal::STOP, &SILENT);
}

#[test]
fn the_servers_warden_is_stopped() {
    without("server-warden", Signal::STOP, &SILENT);
}

#[test]
fn the_clients_warden_is_stopped() {
    without("client-warden", Signal::STOP, &SILENT);
}

#[test]
fn an_inner_supervisor_is_stopped() {
    // Its warden cannot send what it knows: that passes through the supervisor.
    without("server-supervisor", Signal::STOP, &["warden of the server sandbox did not answer"]);
    without("client-supervisor", Signal::STOP, &["warden of the client sandbox did not answer"]);
}

/// `paddock COMMAND` about one launch: exit status and what it printed.
fn ask(host: &Host, command: &str, id: &str) -> (Option<i32>, String) {
    let run = host.run(&[command, id]);
    (run.code(), run.stdout + &run.stderr)
}

/// What `list` says of the newest launch.
fn state(host: &Host) -> String {
    let run = host.run(&["list", "--json"]);
    let list: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let launches = list["launches"].as_array().cloned().unwrap_or_default();
    launches.last().map_or(String::new(), |l| l["state"].as_str().unwrap_or_default().to_owned())
}

/// The state of a process (`proc_pid_stat(5)`).
fn state_letter(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// After the keeper's end: nothing runs, the commands say so, and `stop` leaves
/// nothing behind.
fn assert_dead_and_tidied(host: &Host, id: &str, case: &str) {
    let gone = wait_for(NOTICED, || host.processes().is_empty().then_some(()));
    assert!(gone.is_some(), "{case}: left running: {:?}", host.processes());
    // A leader can be a zombie a moment before its other threads are gone.
    let stale = wait_for(NOTICED, || (state(host) == "stale").then_some(()));
    assert!(stale.is_some(), "{case}: {}", state(host));
    // A process that is about to end names this host no more, and is there.
    let mut said = (None, String::new());
    let told = wait_for(NOTICED, || {
        said = ask(host, "verify", id);
        (said.0 == Some(125)).then_some(())
    });
    assert!(told.is_some(), "{case}: {said:?}");
    let text = said.1;
    assert!(text.contains("its keeper is gone, and nothing of it is left running"), "{text}");
    assert!(text.contains(&format!("paddock stop {id} tidies up")), "{case}: {text}");
    let (code, text) = ask(host, "stop", id);
    assert_eq!(code, Some(0), "{case}: {text}");
    assert_eq!(state(host), "ended", "{case}");
    let (code, text) = ask(host, "verify", id);
    assert_eq!(code, Some(0), "{case}: {text}");
    host.assert_nothing_left();
}

#[test]
fn the_keeper_is_killed() {
    let mut bystander = Bystander::start();
    for tier in TIERS {
        // Alone, and together with whoever would see to the rest.
        for with in ["nobody", "pen-supervisor", "pen-warden", "server-warden"] {
            let host = Host::new();
            let launch = start(&host, tier);
            let id = launch.id.clone();
            let case = format!("{tier}, with {with}");
            assert!(host.processes().len() > 5, "control: {case}");
            assert_eq!(state(&host), "running", "control: {case}");
            let other = part(&host, with);
            send(launch.keeper(), Signal::KILL);
            other.inspect(|pid| send(*pid, Signal::KILL));
            let run = launch.end();
            assert_eq!(run.code(), None, "{case}: {}", run.stderr);
            assert_dead_and_tidied(&host, &id, &case);
        }
    }
    assert!(bystander.lives());
}

#[test]
fn a_killed_keeper_that_nobody_reaps_is_dead() {
    for tier in TIERS {
        let host = Host::new();
        let launch = start(&host, tier);
        let (id, keeper) = (launch.id.clone(), launch.keeper());
        send(keeper, Signal::KILL);
        let is_zombie = || (state_letter(keeper) == Some('Z')).then_some(());
        assert!(wait_for(LIMIT, is_zombie).is_some(), "control: {tier}: it is a zombie");
        // Only the keeper itself names this host's directories still, and a
        // zombie shows neither arguments nor environment.
        assert_dead_and_tidied(&host, &id, tier);
        assert!(is_zombie().is_some(), "control: {tier}: it was one all the time");
        assert_eq!(launch.end().code(), None);
    }
}

#[test]
fn a_keeper_that_is_stopped_says_nothing_and_its_launch_can_be_ended() {
    let mut bystander = Bystander::start();
    for tier in TIERS {
        let host = Host::new();
        let launch = start(&host, tier);
        let (id, keeper) = (launch.id.clone(), launch.keeper());
        send(keeper, Signal::STOP);
        // The agent runs on, as confined as before, with nobody watching; that
        // is never told as "confined".
        assert!(wait_for(LIMIT, || (state_letter(keeper) == Some('T')).then_some(())).is_some());
        let asked = Instant::now();
        let (code, text) = ask(&host, "verify", &id);
        assert_eq!(code, Some(125), "{tier}: {text}");
        assert!(text.contains("the keeper is stopped and watches nothing"), "{text}");
        assert!(text.contains(&format!("kill -CONT {keeper} continues it")), "{text}");
        let (code, text) = ask(&host, "stop", &id);
        assert_eq!(code, Some(0), "{tier}: {text}");
        assert!(asked.elapsed() < NOTICED, "{tier}: {:?}", asked.elapsed());
        assert_eq!(launch.end().code(), None, "{tier}: it was killed");
        assert_eq!(state(&host), "ended", "{tier}");
        host.assert_nothing_left();
    }
    assert!(bystander.lives());
}

#[test]
fn a_keeper_that_was_stopped_and_continued_goes_on_watching() {
    let host = Host::new();
    let launch = start(&host, "sealed");
    send(launch.keeper(), Signal::STOP);
    let warden = part(&host, "server-warden").expect("a warden");
    send(warden, Signal::STOP);
    send(launch.keeper(), Signal::CONT);
    let run: Finished = launch.end();
    assert_eq!(run.code(), Some(126), "{}", run.stderr);
    assert!(run.stderr.contains("cannot bear witness"), "{}", run.stderr);
    host.assert_nothing_left();
}
