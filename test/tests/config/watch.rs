//! How often a launch is looked at.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use paddock_test::faults::{events, fault, hand_in, place};
use paddock_test::host::{Host, LIMIT, standin_file, wait_for};
use serde_json::Value;

use super::{assert_refused, own_file, project};

#[test]
fn an_interval_that_would_be_no_watch_is_refused() {
    let host = Host::new();
    let refused = |text: &str, reason: &str| {
        host.configure(text);
        let message = format!(
            "paddock: the configuration {} is not usable: {reason}\n  \
             next: correct the file, then try again\n",
            own_file(&host).display()
        );
        assert_refused(&host, &host.standin(&["echo ran"]), &message);
    };
    refused("[verify]\nevery = \"1m\"\n", "line 2: \"1m\" is no time; write it as 250ms or 2s");
    refused(
        "[verify]\nevery = \"3s\"\ndescriptors-every = \"4s\"\n",
        "line 2: verify.every: 3s is too long, a launch would not be watched any more; at most 2s",
    );
    refused(
        "[verify]\ndescriptors-every = \"100ms\"\n",
        "line 2: verify.descriptors-every: 100ms is shorter than verify.every, 250ms",
    );
}

/// How often the keeper's watch has gone to sleep.
fn rests(host: &Host) -> u64 {
    let keeper = host.records()[0]["keeper"]["pid"].as_u64().unwrap();
    let tasks = std::fs::read_dir(format!("/proc/{keeper}/task")).unwrap();
    let read = |path: PathBuf, file: &str| std::fs::read_to_string(path.join(file)).unwrap();
    let watch = tasks
        .map(|task| task.unwrap().path())
        .find(|task| read(task.clone(), "comm") == "watch\n")
        .expect("a thread that watches");
    let status = read(watch, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn shorter_intervals_are_more_passes() {
    let [often, seldom] = [Host::new(), Host::new()];
    often.configure("[verify]\nevery = \"2s\"\n");
    project(&often, "[verify]\nevery = \"50ms\"\n");
    seldom.configure("[verify]\nevery = \"2s\"\n");
    let launches = [&often, &seldom].map(|host| host.start(host.standin_command(&["sleep 60"])));
    let before = [rests(&often), rests(&seldom)];
    // Neither is asked for a pass, so that each rests between those that are due.
    wait_for(LIMIT, || (rests(&often) >= before[0] + 200).then_some(())).expect("passes");
    let seldom = rests(&seldom) - before[1];
    assert!(seldom < 100, "{seldom} in the time of 200");
    for launch in launches {
        launch.terminate();
    }
}

/// For how long it was said of a process that it holds something from outside that it
/// has let go of as soon as that was said first.
fn time_to_look_again(descriptors_every: &str) -> Duration {
    let host = Host::new();
    host.configure(&format!(
        "on-violation = \"warn\"\n\
         [verify]\nevery = \"50ms\"\ndescriptors-every = \"{descriptors_every}\"\n"
    ));
    let fault = place(&fault(), &host.workspace().join("fault"));
    // It may bind a socket in the workspace, and be handed something there.
    host.add_agent("binder", &standin_file("binder"));
    let shipped = include_str!("../../../profiles/standin/server.json");
    let bind = "\"filesystem\": { \"unix_socket_dir_bind\": [\"$WORKDIR\"],";
    let profile = shipped.replace("\"filesystem\": {", bind);
    host.write(".config/paddock/agents/binder/server.json", &profile);
    let (socket, note) = (host.workspace().join("hold"), host.workspace().join("note"));
    let command = format!("{} hold {} {}", fault.display(), socket.display(), note.display());
    let launch = host.start(host.agent_command("binder", &[], &[&command]));
    wait_for(LIMIT, || note.exists().then_some(())).expect("it holds what it is sent");

    let told = |holds: bool| {
        let is_it = |line: &Value| {
            let what = line["what"].as_str().unwrap_or_default();
            line["holds"] == holds && (holds || what.contains("holds open the directory"))
        };
        let line = events(&host, "verdict").into_iter().rfind(is_it)?;
        Some(Duration::from_millis(line["time"].as_u64()?))
    };
    assert!(told(false).is_none(), "control: it holds nothing yet");
    let directory = std::fs::File::open(host.home()).unwrap();
    hand_in(&socket, Some(directory.as_fd()));
    let found = wait_for(LIMIT, || told(false)).expect("it is found");
    hand_in(&socket, None);
    let let_go = note.with_extension("0");
    wait_for(LIMIT, || let_go.exists().then_some(())).expect("it lets go");
    let again = wait_for(LIMIT, || told(true).filter(|again| *again > found));
    let again = again.expect("it is looked at again");
    launch.terminate();
    host.assert_nothing_left();
    again.saturating_sub(found)
}

#[test]
fn what_is_held_open_is_looked_at_as_often_as_is_configured() {
    let [often, seldom] = std::thread::scope(|scope| {
        ["50ms", "4s"]
            .map(|every| scope.spawn(move || time_to_look_again(every)))
            .map(|looks| looks.join().unwrap())
    });
    // Between two looks are eighty passes, and between two of these at least 50 ms.
    assert!(seldom >= Duration::from_millis(3_900), "{seldom:?}");
    assert!(often < seldom, "{often:?}, {seldom:?}");
}
