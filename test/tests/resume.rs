//! `paddock resume`: a fresh launch that goes on where another ended.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Stdio;

use paddock_test::faults::parts;
use paddock_test::host::{
    Finished, Host, LIMIT, TIERS, finish, send, standin_over_a_port, wait_for,
};
use paddock_test::terminal::Terminal;
use rustix::process::Signal;
use serde_json::{Value, json};

/// The id of the newest launch.
fn newest(host: &Host) -> String {
    host.records().last().unwrap()["launch"].as_str().unwrap().to_owned()
}

fn resume(host: &Host, arguments: &[&str]) -> Finished {
    host.run(&[&["resume"], arguments].concat())
}

#[test]
fn the_stand_in_goes_on_with_what_was_said() {
    for tier in TIERS {
        let host = Host::new();
        host.configure(&format!("tier = \"{tier}\"\n"));
        assert_eq!(host.standin_in(tier, &["echo one", "echo two"]).code(), Some(0));
        let first = newest(&host);
        let run = resume(&host, &["--", "-c", "echo three; exit 6"]);
        let wanted = "Continued after 2 commands:\n  echo one\n  echo two\nthree\n";
        assert_eq!((run.code(), run.stdout.as_str()), (Some(6), wanted), "{tier}: {}", run.stderr);
        // A launch like any other, of the same agent, workspace and tier.
        let records = host.records();
        assert_ne!(records[1]["launch"], first.as_str());
        for same in ["agent", "workspace", "tier", "form"] {
            assert_eq!(records[0][same], records[1][same], "{same}");
        }
        assert!(host.ledger().iter().any(|line| line["event"] == "verified"), "{tier}");
        // Of that one, and by the start of its id.
        let run = resume(&host, &[&first[..8], "--", "-c", "true"]);
        assert!(run.stdout.starts_with("Continued after 3 commands:\n"), "{}", run.stdout);
        // The control: a fresh launch knows nothing of it, and is gone on with from then.
        let run = host.standin_in(tier, &["echo fresh"]);
        assert_eq!(run.stdout, "fresh\n");
        let run = resume(&host, &["--", "-c", "true"]);
        assert_eq!(run.stdout, "Continued after 1 commands:\n  echo fresh\n", "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn the_tier_is_what_is_asked_for_or_the_stricter_of_the_launchs_and_the_one_in_force() {
    let host = Host::new();
    let tier_of = |options: &[&str]| -> (String, String) {
        let run = resume(&host, &[&["--dry-run"], options].concat());
        let tier = run.stdout.lines().find_map(|line| line.strip_prefix("tier       "));
        (tier.unwrap_or_else(|| panic!("{run:?}")).to_owned(), run.stderr)
    };
    let quiet = |tier: &str| (tier.to_owned(), String::new());
    assert_eq!(host.standin_in("ported", &["true"]).code(), Some(0));
    let first = newest(&host);
    let told = |tier: &str, rest: &str| {
        let what = format!("paddock: the tier is {tier}, not ported as of launch {first}{rest}\n");
        (tier.to_owned(), what)
    };
    let hint = "; --tier ported asks for it";
    assert_eq!(tier_of(&[]), told("sealed", hint), "what was asked for once is not kept");
    assert_eq!(tier_of(&["--tier", "ported"]), quiet("ported"));
    assert_eq!(tier_of(&["--tier", "isolated"]), told("isolated", ""));
    host.configure("tier = \"isolated\"\n");
    assert_eq!(tier_of(&[]), told("isolated", hint));
    host.configure("tier = \"ported\"\n");
    assert_eq!(tier_of(&[]), quiet("ported"));
    // What a project wants holds, and leaving --tier out is what its error says to do.
    let file = host.workspace().join(".paddock.toml");
    std::fs::write(&file, "tier = \"isolated\"\n").unwrap();
    assert_eq!(tier_of(&[]).0, "isolated");
    let run = resume(&host, &["--tier", "ported"]);
    assert_eq!(run.code(), Some(125), "{run:?}");
    assert!(run.stderr.contains("next: leave out --tier ported"), "{run:?}");
    std::fs::remove_file(&file).unwrap();
    // One that was stricter stays so, and it is the one that is started.
    assert_eq!(host.standin_in("isolated", &["true"]).code(), Some(0));
    assert_eq!(tier_of(&[]), quiet("isolated"));
    let run = resume(&host, &["--", "-c", "true"]);
    assert_eq!((run.code(), &host.records()[2]["tier"]), (Some(0), &json!("isolated")), "{run:?}");
    host.assert_nothing_left();
}

#[test]
fn a_person_goes_on_at_a_terminal() {
    let host = Host::new();
    assert_eq!(host.standin(&["echo one"]).code(), Some(0));
    let terminal = Terminal::open();
    let mut command = terminal.paddock(&host);
    command.arg("resume");
    let launch = host.start_as_it_is(command);
    terminal.wait_for("Continued after 1 commands:\n  echo one\n");
    terminal.wait_for_prompt("standin>");
    assert_eq!(launch.verify().0, Some(0));
    terminal.send("\x04");
    assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
    host.assert_nothing_left();
}

#[test]
fn a_launch_that_runs_is_not_gone_on_with_and_one_whose_keeper_was_killed_is() {
    let host = Host::new();
    let launch = host.start(host.standin_command(&["touch up; sleep 300"]));
    let id = launch.id.clone();
    let up = host.workspace().join("up");
    wait_for(LIMIT, || up.exists().then_some(())).expect("it runs");
    let run = resume(&host, &[&id]);
    assert_eq!(run.code(), Some(125));
    assert_eq!(
        run.stderr,
        format!(
            "paddock: launch {id} still runs: there is nothing to go on with yet\n  \
             next: paddock stop {id}, then: paddock resume {id}\n"
        )
    );
    let run = resume(&host, &[]);
    assert_eq!(run.code(), Some(125));
    assert_eq!(
        run.stderr,
        "paddock: there is no launch to go on with: none has ended\n  \
         next: paddock run starts one; paddock list shows those that run\n"
    );
    assert_eq!(launch.verify().0, Some(0), "it was left alone");
    send(launch.keeper(), Signal::KILL);
    launch.end();
    let run = resume(&host, &["--", "-c", "true"]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert_eq!(run.stdout, "Continued after 1 commands:\n  touch up; sleep 300\n");
    assert_eq!(host.run(&["stop", "--all"]).code(), Some(0));
    host.assert_nothing_left();
}

#[test]
fn what_a_launch_without_a_keeper_left_is_ended_before_it_is_gone_on_with() {
    let host = Host::new();
    let mut command = host.agent_command("standin", &["--tier", "isolated"], &["sleep 600"]);
    // No pipe to the test that what is left would hold open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let launch = host.start_as_it_is(command);
    let (id, keeper) = (launch.id.clone(), launch.keeper());
    // Nobody is left who would see to the rest.
    send(keeper, Signal::STOP);
    for (name, pid) in parts(&host) {
        if name.ends_with("-warden") {
            send(pid, Signal::STOP);
        }
    }
    send(keeper, Signal::KILL);
    launch.end();
    let left = |shown: &Finished| shown.stdout.contains("of its processes run unwatched");
    assert!(left(&host.run(&["verify", &id])), "control: something is left");
    assert_eq!(resume(&host, &[&id, "--dry-run"]).code(), Some(0));
    assert!(left(&host.run(&["verify", &id])), "nothing is ended where nothing is started");
    let run = resume(&host, &[&id, "--tier", "isolated", "--", "-c", "true"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    let records = host.records();
    assert_eq!((&records[0]["launch"], &records[0]["phase"]), (&json!(id), &json!("ended")));
    let ended = |at: usize, key: &str| records[at][key].as_u64().unwrap();
    assert!(ended(0, "ended") <= ended(1, "started"), "{records:#?}");
    host.assert_nothing_left();
}

#[test]
fn the_newest_of_this_workspace_is_meant_or_the_only_one() {
    let host = Host::new();
    let other = host.home().join("other");
    let third = host.home().join("third");
    for directory in [&other, &third] {
        std::fs::create_dir(directory).unwrap();
    }
    let within = |directory: &std::path::Path, arguments: &[&str]| {
        let mut command = host.paddock();
        command.current_dir(directory).args(arguments);
        finish(command)
    };
    let dry = |directory: &std::path::Path| -> Value {
        let run = within(directory, &["resume", "--dry-run", "--json"]);
        serde_json::from_str(&run.stdout).unwrap_or_else(|_| json!(run.stderr))
    };
    assert_eq!(host.standin(&["echo here"]).code(), Some(0));
    let here = host.workspace();
    assert_eq!(dry(&third)["workspace"], here.to_str().unwrap(), "the only one");
    assert_eq!(within(&other, &["run", "--", "-c", "echo there"]).code(), Some(0));
    assert_eq!(dry(&here)["workspace"], here.to_str().unwrap());
    assert_eq!(dry(&other)["workspace"], other.to_str().unwrap());
    let told = within(&third, &["resume"]);
    assert_eq!(told.code(), Some(125));
    assert_eq!(
        told.stderr,
        format!(
            "paddock: there is no launch to go on with: none has ended in {}, and several elsewhere\n  \
             next: paddock list shows them; then: paddock resume LAUNCH\n",
            third.display()
        )
    );
    // A conversation is of a workspace.
    let run = within(&other, &["resume", "--", "-c", "true"]);
    assert_eq!(run.stdout, "Continued after 1 commands:\n  echo there\n");
    // A shell is nothing to go on with, and not in the way.
    assert_eq!(host.run(&["shell", "--", "-c", "true"]).code(), Some(0));
    let shell = newest(&host);
    let run = resume(&host, &["--", "-c", "true"]);
    assert!(run.stdout.starts_with("Continued after 1 commands:\n  echo here\n"), "{run:?}");
    let run = resume(&host, &[&shell]);
    assert_eq!(run.code(), Some(125));
    assert_eq!(
        run.stderr,
        format!(
            "paddock: there is no launch to go on with: {shell} was a shell\n  \
             next: paddock shell standin starts another\n"
        )
    );
}

#[test]
fn an_agent_that_cannot_go_on_is_named() {
    let host = Host::new();
    host.add_solo_agent("own", "\"sh\"");
    assert_eq!(host.run(&["run", "own", "--", "-c", "true"]).code(), Some(0));
    let run = resume(&host, &[]);
    assert_eq!(run.code(), Some(125));
    assert_eq!(
        run.stderr,
        "paddock: the agent own has no way to go on where it ended\n  \
         next: paddock run own starts it afresh\n"
    );
    assert_eq!(host.records().len(), 1, "nothing was started");
    let run = resume(&host, &["zzzz"]);
    assert_eq!((run.code(), run.stderr.contains("there is no launch \"zzzz\"")), (Some(125), true));
}

#[test]
fn one_process_goes_on_by_its_own_arguments() {
    let host = Host::new();
    let resumed = "\"sh\"]\nresume = [\"sh\", \"-c\", \"echo gone on with in $0 $1\", \"{home}\"";
    host.add_solo_agent("own", resumed);
    assert_eq!(host.run(&["run", "own", "--", "-c", "true"]).code(), Some(0));
    // What a person adds are arguments, and no part of another.
    let run = resume(&host, &["--", "$(touch made) --option"]);
    let home = host.agent_home("own", "server");
    let wanted = format!("gone on with in {} $(touch made) --option\n", home.display());
    assert_eq!((run.code(), run.stdout), (Some(0), wanted), "{}", run.stderr);
    assert!(!host.workspace().join("made").exists());
    assert_eq!(host.records()[1]["form"], "solo");
}

#[test]
fn an_agent_of_ones_own_goes_on_over_a_port() {
    let host = Host::new();
    host.add_agent("mine", &standin_over_a_port("mine"));
    let run = finish(host.agent_command("mine", &[], &["echo one"]));
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let run = resume(&host, &["--", "-c", "echo two"]);
    assert_eq!(run.stdout, "Continued after 1 commands:\n  echo one\ntwo\n", "{}", run.stderr);
    host.assert_nothing_left();
}

#[test]
fn a_way_that_leads_elsewhere_by_now_is_not_taken() {
    let host = Host::new();
    let above = host.home().join("above");
    let workspace = above.join("ws");
    std::fs::create_dir_all(&workspace).unwrap();
    let named = workspace.to_str().unwrap();
    let run = host.run(&["run", "standin", "--workspace", named, "--", "-c", "echo one"]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let launch = newest(&host);
    let run = host.run(&["resume", &launch, "--", "-c", "pwd"]);
    assert!(run.stdout.ends_with(&format!("{named}\n")), "control: {run:?}");
    let launch = newest(&host);
    let (moved, secret) = (host.home().join("moved"), host.home().join("secret"));
    std::fs::rename(&above, &moved).unwrap();
    std::fs::create_dir_all(secret.join("ws")).unwrap();
    std::os::unix::fs::symlink(&secret, &above).unwrap();
    for command in ["resume", "shell"] {
        let run = host.run(&[command, &launch, "--", "-c", "pwd"]);
        let wanted = format!("{named} cannot be used: it leads to {}/ws by now", secret.display());
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{command}: {}", run.stderr);
        assert!(run.stderr.contains(&wanted), "{command}: {}", run.stderr);
    }
}
