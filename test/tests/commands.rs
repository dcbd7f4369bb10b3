//! The commands beside `run`, and what `run` prints for scripts.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::Stdio;

use paddock_test::agent::SHIPPED;
use paddock_test::host::{Finished, Host, LIMIT, Launch, TIERS, finish, send, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

fn parsed(run: &Finished) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn sleeping(host: &Host) -> Launch<'_> {
    let launch = host.start(host.standin_command(&["sleep 300"]));
    // It is up when its tool runs.
    launch.process("agent", Some("server"));
    launch
}

/// Exit status and both outputs.
fn told(run: &Finished) -> (Option<i32>, &str, &str) {
    (run.code(), &run.stdout, &run.stderr)
}

#[test]
fn a_dry_run_says_what_would_be_started_and_starts_nothing() {
    let host = Host::new();
    host.configure(
        "[egress]\nhosts = [\"a.test:8080\"]\nexceptions = { \"a.test\" = \"127.0.0.1\" }\n",
    );
    let run = host.run(&["run", "--dry-run", "--json", "--", "-c", "touch made"]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert_eq!(run.stderr, "");
    let plan = parsed(&run);
    assert_eq!(
        keys(&plan),
        [
            "agent",
            "agentClient",
            "agentServer",
            "agentSource",
            "exceptions",
            "extends",
            "form",
            "git",
            "grants",
            "hosts",
            "knownToWork",
            "launch",
            "layers",
            "ports",
            "processes",
            "program",
            "projectFile",
            "schema",
            "shared",
            "sockets",
            "tier",
            "unixRace",
            "version",
            "workspace"
        ]
    );
    assert_eq!(keys(&plan["agentClient"]), ["argv", "environment", "home"]);
    assert_eq!(keys(&plan["layers"]), ["client", "pen", "server", "veil"]);
    assert_eq!(keys(&plan["grants"][0]), ["access", "layer", "path"]);
    assert_eq!((&plan["schema"], &plan["form"]), (&json!(1), &json!("pair")));
    assert_eq!(plan["workspace"], host.workspace().to_str().unwrap());
    assert_eq!(plan["ports"], json!({ "server": 4600, "guard": 4601 }));
    assert_eq!(plan["hosts"], json!(["a.test:8080"]));
    assert_eq!(plan["exceptions"], json!({ "a.test": "127.0.0.1" }));

    let text = host.run(&["run", "--dry-run"]);
    assert_eq!(text.code(), Some(0), "{}", text.stderr);
    for part in ["agent      standin (", "\nveil layer\n", "\npen layer\n", "\ngrants\n"] {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
    let isolated = parsed(&host.run(&["run", "--dry-run", "--json", "--tier", "isolated"]));
    assert_eq!(isolated["layers"]["veil"], Value::Null);

    assert!(!host.home().join(".local").exists());
    assert!(!host.runtime().join("paddock").exists());
    assert!(!host.workspace().join("made").exists());
}

#[test]
fn run_tells_scripts_what_happens_a_line_each() {
    let host = Host::new();
    let events = |run: &Finished| -> Vec<Value> {
        run.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    };
    let run = finish(host.agent_command("standin", &["--json"], &["exit 3"]));
    let told = events(&run);
    let id = host.records()[0]["launch"].clone();
    let tasks = told[0]["tasks"].as_u64().unwrap();
    assert!(tasks >= 7, "{tasks}");
    assert_eq!(
        told,
        [
            json!({ "event": "verified", "launch": id, "agent": "standin", "tier": "sealed", "tasks": tasks }),
            json!({ "event": "ended", "status": 3, "reason": null, "next": null }),
        ]
    );

    let launch = host.start(host.agent_command("standin", &["--json"], &["sleep 300"]));
    let run = launch.terminate();
    let told = events(&run);
    assert_eq!(run.code(), Some(143));
    assert_eq!(
        told.last(),
        Some(&json!({
            "event": "ended", "status": 143, "reason": "stopped by SIGTERM", "next": null
        }))
    );

    let run = host.run(&["run", "nobody", "--json"]);
    assert_eq!(
        events(&run),
        [json!({
            "event": "ended",
            "status": 125,
            "reason": format!("there is no agent \"nobody\"; known: {}", SHIPPED.join(", ")),
            "next": "paddock agents lists them",
        })]
    );
    assert_eq!(run.code(), Some(125));
}

#[test]
fn list_shows_every_launch_with_its_state() {
    let host = Host::new();
    assert_eq!(told(&host.run(&["list"])), (Some(0), "no launches; paddock run starts one\n", ""));
    assert_eq!(parsed(&host.run(&["list", "--json"])), json!({ "schema": 1, "launches": [] }));

    host.standin(&["true"]);
    let launch = sleeping(&host);
    let list = host.run(&["list"]);
    let rows: Vec<Vec<&str>> =
        list.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let first = host.records()[0]["launch"].as_str().unwrap().to_owned();
    let workspace = host.workspace();
    let workspace = workspace.to_str().unwrap();
    let without_age = |row: &[&str]| -> Vec<String> {
        [&row[..4], &row[5..]].concat().iter().map(|w| (*w).to_owned()).collect()
    };
    assert_eq!(without_age(&rows[0]), [first.as_str(), "ended", "standin", "sealed", workspace]);
    assert_eq!(without_age(&rows[1]), [&launch.id, "running", "standin", "sealed", workspace]);
    assert_eq!(rows.len(), 2);

    let list = parsed(&host.run(&["list", "--json"]));
    let states: Vec<&Value> =
        list["launches"].as_array().unwrap().iter().map(|l| &l["state"]).collect();
    assert_eq!(states, ["ended", "running"]);
    assert_eq!(
        keys(&list["launches"][1]),
        [
            "agent",
            "boot",
            "ended",
            "form",
            "keeper",
            "launch",
            "launchDirectory",
            "namespaces",
            "pane",
            "parts",
            "phase",
            "reason",
            "schema",
            "shared",
            "started",
            "state",
            "status",
            "tier",
            "workspace"
        ]
    );
    assert_eq!(list["launches"][1]["keeper"]["pid"], launch.keeper());
}

#[test]
fn what_cannot_be_read_is_no_launch_that_has_ended() {
    let host = Host::new();
    let launch = host.start(host.standin_command(&["sleep 600"]));
    for command in ["verify", "stop"] {
        let record = host.launches().join(&launch.id).join("record.json");
        let text = std::fs::read(&record).unwrap();
        std::fs::write(&record, "{").unwrap();
        let run = host.run(&[command, "--all"]);
        let json = host.run(&[command, "--all", "--json"]);
        std::fs::write(&record, text).unwrap();
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{command}");
        assert!(run.stderr.contains("record.json cannot be used: "), "{command}: {}", run.stderr);
        assert_eq!(json.code(), Some(125), "{command}");
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(json["errors"].as_array().map(Vec::len), Some(1), "{command}: {json}");
    }
    assert_eq!(host.run(&["verify", "--all"]).code(), Some(0), "control");
    assert_eq!(launch.terminate().code(), Some(143));
}

/// Without a veil nothing refuses that (`docs/threat-model.md`).
#[test]
fn an_agent_that_closes_the_state_directory_hides_nothing() {
    let host = Host::new();
    // Once the test has seen it run.
    let close = "until [ -e go ]; do sleep 0.01; done; chmod 000 $(dirname $TMPDIR)/record.json && chmod 000 $(dirname $TMPDIR) && \
                 chmod 000 $(dirname $(dirname $TMPDIR)) && touch closed; sleep 600";
    let launch = host.start(host.agent_command("standin", &["--tier", "isolated"], &[close]));
    std::fs::write(host.workspace().join("go"), "").unwrap();
    let closed = host.workspace().join("closed");
    let did = wait_for(LIMIT, || closed.exists().then_some(()));
    assert!(did.is_some(), "control: it can close them");
    assert_eq!(host.run(&["verify", "--all"]).code(), Some(0));
    let stopped = host.run(&["stop", "--all"]);
    let wanted = format!("launch {} has ended; nothing of it is left\n", launch.id);
    assert_eq!(told(&stopped), (Some(0), wanted.as_str(), ""));
    assert_eq!(launch.end().code(), Some(143));
}

#[test]
fn info_shows_a_launch_or_what_would_be_used() {
    let host = Host::new();
    let programs = host.run(&["info"]);
    assert_eq!(programs.code(), Some(0), "{}", programs.stderr);
    let named: Vec<&str> =
        programs.stdout.lines().map(|line| line.split("  ").next().unwrap()).collect();
    let first_four = ["paddock", "warden", "nono", "bwrap"];
    assert_eq!(&named[..4], first_four, "without a launch, the programs");
    let programs = parsed(&host.run(&["info", "--programs", "--json"]));
    assert_eq!(keys(&programs["programs"][2]), ["name", "path", "source", "version"]);
    assert_eq!(programs["programs"][2]["version"], "0.81.0");
    assert_eq!(programs["programs"][2]["source"], "PADDOCK_NONO");

    let paths = parsed(&host.run(&["info", "--paths", "--json"]));
    let launches = host.launches();
    assert_eq!(paths["paths"]["launches"], launches.to_str().unwrap());
    assert_eq!(paths["paths"]["sockets"], host.runtime().join("paddock").to_str().unwrap());
    let paths = host.run(&["info", "--paths"]).stdout;
    assert!(paths.contains(&format!("launches       {}\n", launches.display())), "{paths}");

    let agents = host.run(&["info", "--agents"]).stdout;
    assert!(
        agents.contains(
            "standin    Paddock's stand-in agent: runs the shell commands it is told (shipped)\n"
        ),
        "{agents}"
    );
    let agents = parsed(&host.run(&["info", "--agents", "--json"]));
    assert_eq!(keys(&agents["agents"][0]), ["name", "source", "title"]);

    let launch = sleeping(&host);
    let info = host.run(&["info"]);
    let start = format!(
        "launch     {} (running)\nagent      standin (sealed)\nworkspace  {}\nkeeper     {}@",
        launch.id,
        host.workspace().display(),
        launch.keeper()
    );
    assert!(info.stdout.starts_with(&start), "{}", info.stdout);
    for part in ["veil", "veil-init", "pen-supervisor", "pen-warden", "client-warden"] {
        assert!(info.stdout.contains(&format!("\n  {part:<18} ")), "{}", info.stdout);
    }
    let info = parsed(&host.run(&["info", "--json", &launch.id]));
    assert_eq!((&info["launch"], &info["state"]), (&json!(launch.id), &json!("running")));
    assert!(Path::new(info["ledger"].as_str().unwrap()).exists());

    let id = launch.id.clone();
    launch.terminate();
    let ended = host.run(&["info", &id]).stdout;
    assert!(ended.contains("\nstatus     143 stopped by SIGTERM\n"), "{ended}");
}

#[test]
fn verify_looks_at_a_running_launch_and_at_what_an_ended_one_left() {
    let host = Host::new();
    let launch = sleeping(&host);
    for command in ["verify", "verify-sandbox"] {
        let run = host.run(&[command]);
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
        let mut lines = run.stdout.lines();
        let first = lines.next().unwrap();
        let start = format!("launch {} (standin, sealed): confined, ", launch.id);
        assert!(first.starts_with(&start) && first.ends_with(" us"), "{first}");
        assert!(run.stdout.contains("\n  server  agent "), "{}", run.stdout);
        assert!(lines.all(|l| l.contains(" confined ") || l.contains(" builder ")));
    }
    let run = host.run(&["verify", "--json"]);
    let report = parsed(&run);
    let one = &report["launches"][0];
    assert_eq!(
        (run.code(), &one["holds"], &one["state"]),
        (Some(0), &true.into(), &"running".into())
    );
    assert_eq!(one["everything"], true);
    let tasks = one["tasks"].as_array().unwrap();
    assert!(tasks.len() >= 12, "{}", tasks.len());
    for task in tasks {
        assert_eq!(
            keys(task),
            ["command", "layer", "pid", "reasons", "role", "start", "task", "verdict"]
        );
        assert_eq!(task["reasons"], json!([]));
        let outermost =
            task["role"] == "veil" || task["role"] == "supervisor" && task["layer"] == "pen";
        let wanted = if outermost { "builder" } else { "confined" };
        assert_eq!(task["verdict"], wanted, "{task}");
    }
    let id = launch.id.clone();
    launch.terminate();
    let run = host.run(&["verify", &id]);
    let wanted = format!("launch {id} has ended; nothing of it is left\n");
    assert_eq!(told(&run), (Some(0), wanted.as_str(), ""));
    let run = host.run(&["verify", &id, "--json"]);
    assert_eq!(
        (run.code(), parsed(&run)),
        (
            Some(0),
            json!({ "schema": 1, "errors": [], "launches": [
                { "ok": true, "holds": false, "launch": id, "state": "ended", "left": [] }
            ]})
        )
    );
}

#[test]
fn stop_ends_a_launch_and_says_so() {
    let host = Host::new();
    let launch = sleeping(&host);
    let run = host.run(&["stop"]);
    let wanted = format!("launch {} has ended; nothing of it is left\n", launch.id);
    assert_eq!(told(&run), (Some(0), wanted.as_str(), ""));
    let id = launch.id.clone();
    let ended = launch.end();
    assert_eq!(ended.code(), Some(143));
    assert!(ended.stderr.ends_with("paddock: stopped by paddock stop\n"), "{}", ended.stderr);
    assert_eq!(host.records()[0]["reason"], "stopped by paddock stop");
    host.assert_nothing_left();

    let again = host.run(&["stop", &id]);
    assert_eq!(told(&again), (Some(0), wanted.as_str(), ""), "what has ended stays ended");
    let again = host.run(&["stop", &id, "--json"]);
    assert_eq!(
        parsed(&again),
        json!({
            "schema": 1, "errors": [],
            "launches": [{ "launch": id, "left": 0, "error": null }]
        })
    );
}

#[test]
fn two_stops_at_once_both_find_nothing_left() {
    let host = Host::new();
    let launch = sleeping(&host);
    let id = launch.id.as_str();
    let stops: Vec<Finished> = std::thread::scope(|scope| {
        let start = || scope.spawn(|| host.run(&["stop", id]));
        let running: Vec<_> = (0..3).map(|_| start()).collect();
        running.into_iter().map(|stop| stop.join().unwrap()).collect()
    });
    let wanted = format!("launch {id} has ended; nothing of it is left\n");
    for stop in &stops {
        assert_eq!(told(stop), (Some(0), wanted.as_str(), ""));
    }
    assert_eq!(launch.end().code(), Some(143));
    host.assert_nothing_left();
}

#[test]
fn all_means_every_launch_that_runs() {
    let host = Host::new();
    host.standin(&["true"]);
    let none = (Some(0), "no launch is running\n", "");
    assert_eq!(told(&host.run(&["verify", "--all"])), none);
    assert_eq!(told(&host.run(&["stop", "--all"])), none);

    let (one, two) = (sleeping(&host), sleeping(&host));
    let both = host.run(&["verify", "--all", "--json"]);
    let verified = parsed(&both);
    let launches = verified["launches"].as_array().unwrap();
    assert_eq!((both.code(), launches.len()), (Some(0), 2));
    assert!(launches.iter().all(|launch| launch["holds"] == true));

    let stop = host.run(&["stop", "--all"]);
    assert_eq!(
        told(&stop),
        (
            Some(0),
            format!(
                "launch {} has ended; nothing of it is left\n\
                 launch {} has ended; nothing of it is left\n",
                one.id, two.id
            )
            .as_str(),
            ""
        )
    );
    assert_eq!((one.end().code(), two.end().code()), (Some(143), Some(143)));
    host.assert_nothing_left();
}

#[test]
fn the_start_of_an_id_names_a_launch_when_no_other_starts_so() {
    let host = Host::new();
    let (one, two) = (sleeping(&host), sleeping(&host));
    let common = one.id.bytes().zip(two.id.bytes()).take_while(|(a, b)| a == b).count();
    let prefix = &one.id[..=common];
    let run = parsed(&host.run(&["verify", "--json", prefix]));
    assert_eq!(run["launches"][0]["launch"], one.id.as_str());

    let shared = &one.id[..common];
    let several = format!("{}, {}", one.id, two.id);
    for command in ["verify", "stop", "info"] {
        assert_eq!(
            told(&host.run(&[command, shared])),
            (
                Some(125),
                "",
                format!(
                    "paddock: several launches match {shared:?}: {several}\n  \
                     next: paddock list shows the launches\n"
                )
                .as_str()
            )
        );
        assert_eq!(
            told(&host.run(&[command, "no-such"])),
            (
                Some(125),
                "",
                "paddock: there is no launch \"no-such\"\n  next: paddock list shows the launches\n"
            )
        );
    }
    for command in ["verify", "stop"] {
        assert_eq!(
            told(&host.run(&[command])),
            (
                Some(125),
                "",
                format!(
                    "paddock: several launches are running: {several}\n  next: name one, or say --all\n"
                )
                .as_str()
            )
        );
    }
    assert_eq!(host.run(&["verify", "--all"]).code(), Some(0), "nothing was stopped");
    one.terminate();
    two.terminate();
    for command in ["verify", "stop"] {
        assert_eq!(
            told(&host.run(&[command])),
            (
                Some(125),
                "",
                "paddock: no launch is running\n  next: paddock list shows the launches\n"
            )
        );
    }
}

#[test]
fn a_record_of_another_version_is_named_and_left_alone() {
    let host = Host::new();
    host.standin(&["true"]);
    let id = host.records()[0]["launch"].as_str().unwrap().to_owned();
    let path = host.launches().join(&id).join("record.json");
    let text = std::fs::read_to_string(&path).unwrap().replace("\"schema\": 2", "\"schema\": 9");
    std::fs::write(&path, &text).unwrap();
    let wanted = format!(
        "paddock: the record {} has schema version 9; this paddock knows 2\n",
        path.display()
    );
    let advice = "  next: use the paddock that wrote it, or remove the file\n";
    for command in ["info", "verify", "stop"] {
        assert_eq!(
            told(&host.run(&[command, &id])),
            (Some(125), "", format!("{wanted}{advice}").as_str())
        );
    }
    assert_eq!(
        told(&host.run(&["list"])),
        (Some(0), "no launches; paddock run starts one\n", wanted.as_str())
    );
    let run = host.standin(&["echo runs"]);
    assert_eq!(run.stdout, "runs\n", "other launches are not kept by it: {}", run.stderr);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_signal_to_the_keeper_ends_everything() {
    let host = Host::new();
    for (signal, status, name) in [(Signal::TERM, 143, "SIGTERM"), (Signal::HUP, 129, "SIGHUP")] {
        // Neither tool nor its children listen to any signal but KILL.
        let launch = host.start(host.standin_command(&[
            "trap '' HUP INT TERM; (setsid sleep 301 &) ; sleep 300; sleep 300",
        ]));
        launch.process("agent", Some("server"));
        send(launch.keeper(), signal);
        let run = launch.end();
        assert_eq!(run.code(), Some(status), "{}", run.stderr);
        let wanted = format!("paddock: stopped by {name}\n");
        assert!(run.stderr.ends_with(&wanted), "{}", run.stderr);
        let record = host.records().pop().unwrap();
        assert_eq!(record["status"], status);
        assert_eq!(record["reason"], format!("stopped by {name}"));
        let stop = host.ledger().pop().unwrap();
        assert_eq!((&stop["event"], &stop["survivors"]), (&json!("stop"), &json!(0)));
        host.assert_nothing_left();
    }
}

#[test]
fn ctrl_c_while_a_launch_starts_ends_it_before_the_agent() {
    for tier in TIERS {
        let host = Host::new();
        let mut command = host.agent_command("standin", &["--tier", tier], &["touch ran"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let started = wait_for(LIMIT, || (!host.records().is_empty()).then_some(()));
        assert!(started.is_some());
        send(child.id().cast_signed(), Signal::INT);
        let run = Finished::from(child.wait_with_output().unwrap());
        assert_eq!(told(&run), (Some(130), "", "paddock: stopped by the keyboard\n"), "{tier}");
        assert!(!host.workspace().join("ran").exists());
        host.assert_nothing_left();
    }
}

#[test]
fn help_has_examples_and_wrong_usage_says_what_is_right() {
    let host = Host::new();
    for command in [&[][..], &["run"], &["verify"], &["stop"], &["log"], &["info"], &["agents"]] {
        let help = host.run(&[command, &["--help"]].concat());
        assert_eq!((help.code(), help.stderr.as_str()), (Some(0), ""));
        let (_, examples) = help.stdout.split_once("Examples:\n").expect(&help.stdout);
        assert!(examples.starts_with("  paddock "), "{examples}");
    }
    let long = host.run(&["--help"]).stdout.replace('\n', " ");
    for words in ["125 Paddock failed", "126 the agent is not", "127 the agent was not found"] {
        assert!(long.contains(words), "{words}: {long}");
    }
    assert!(!long.contains("warden") && !long.contains("await"), "inner commands: {long}");
    for (wrong, told) in [
        (&["fly"][..], "unrecognized subcommand 'fly'"),
        (&["run", "--tier", "none"], "[possible values: sealed, isolated, ported]"),
        (&["run", "standin", "stray"], "unexpected argument 'stray'"),
        (&["stop", "--all", "bcdf"], "cannot be used with"),
    ] {
        let run = host.run(wrong);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(2), ""));
        assert!(run.stderr.contains(told), "{}", run.stderr);
    }
    let version = host.run(&["--version"]);
    assert_eq!(version.stdout, format!("paddock {}\n", env!("CARGO_PKG_VERSION")));
}
