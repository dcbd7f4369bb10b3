//! The configuration: which file is in force, what of it holds, and a project's file
//! that only tightens; each with the real program, and with a launch where that tells.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use paddock_test::faults::{fault, parts};
use paddock_test::host::{
    Finished, Host, LIMIT, finish, paddock, probe, standin_file, standin_over_a_port, wait_for,
};
use paddock_test::service::service;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

/// Writes the project's file.
fn project(host: &Host, text: &str) -> PathBuf {
    let path = host.workspace().join(".paddock.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn own_file(host: &Host) -> PathBuf {
    host.home().join(".config/paddock/config.toml")
}

fn plugins_file(host: &Host) -> PathBuf {
    host.home().join(".config/herdr/plugins/config/paddock/config.toml")
}

fn shown(host: &Host, arguments: &[&str]) -> Value {
    let run = host.run(&[&["config", "show", "--json"], arguments].concat());
    assert_eq!(run.code(), Some(0), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// Value, kind of origin and line of one key.
fn key(shown: &Value, name: &str) -> (Value, String, Value) {
    let keys = shown["keys"].as_array().unwrap();
    let key = keys.iter().find(|key| key["name"] == name).unwrap_or_else(|| panic!("{name}"));
    (key["value"].clone(), key["from"].as_str().unwrap().to_owned(), key["line"].clone())
}

fn plan(host: &Host, agent: &str, options: &[&str]) -> Value {
    let run = finish({
        let mut command = host.paddock();
        command.args(["run", agent, "--dry-run", "--json"]).args(options);
        command
    });
    assert_eq!(run.code(), Some(0), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// Nothing ran, and that was said.
#[track_caller]
fn assert_refused(host: &Host, run: &Finished, message: &str) {
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{}", run.stderr);
    assert_eq!(run.stderr, message);
    assert!(host.records().is_empty());
    host.assert_nothing_left();
}

#[test]
fn every_value_is_shown_with_where_it_comes_from() {
    let mut host = Host::new();
    let run = host.run(&["config", "show"]);
    let first = format!("configuration  {} (there is none)\n\n", own_file(&host).display());
    assert!(run.stdout.starts_with(&first), "{}", run.stdout);
    let line = |name: &str, run: &Finished| -> String {
        let line = run.stdout.lines().find(|line| line.split(' ').next() == Some(name));
        let words = line.unwrap_or_else(|| panic!("{name}: {}", run.stdout)).split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("tier", &run), "tier \"sealed\" default");
    assert_eq!(line("programs.bwrap", &run), "programs.bwrap - default");
    let nono = std::env::var("PADDOCK_NONO").unwrap();
    assert_eq!(line("programs.nono", &run), format!("programs.nono {nono:?} PADDOCK_NONO"));
    assert!(run.stdout.ends_with("\nhosts of standin\nnone, until you grant one\n"), "{run:?}");

    host.configure(
        "agent = \"own\"\ntier = \"isolated\"\n[egress]\nhosts = [\"a.test\", \"*.b.test\"]\n\
         [agents.own]\narguments = [\"-c\"]\nhosts = [\"c.test\"]\n",
    );
    host.add_agent("own", &format!("hosts = [\"file.test\"]\n{}", standin_file("own")));
    project(
        &host,
        "# ours\ntier = \"sealed\"\n[egress]\nhosts = [\"a.test:443\"]\n\
         [agents.own]\nhosts = [\"file.test\", \"c.test\"]\n",
    );
    let run = host.run(&["config", "show"]);
    let file = own_file(&host).display().to_string();
    let ours = host.workspace().join(".paddock.toml").display().to_string();
    for (name, wanted) in [
        ("agent", format!("agent \"own\" {file}:1")),
        ("tier", format!("tier \"sealed\" {ours}:2")),
        (
            "egress.hosts",
            format!("egress.hosts [\"a.test\", \"*.b.test\"] {file}:4; fewer by {ours}:4"),
        ),
        ("agents.own.arguments", format!("agents.own.arguments [\"-c\"] {file}:6")),
        ("agents.own.unix", "agents.own.unix \"mediated\" default".into()),
        (
            "file.test",
            format!(
                "file.test reached agent file {}/.config/paddock/agents/own/agent.toml",
                host.home().display()
            ),
        ),
        ("a.test", format!("a.test reached: a.test:443 {file}:4")),
        ("*.b.test", format!("*.b.test taken away by the project file {file}:4")),
        ("c.test", format!("c.test reached {file}:7")),
    ] {
        assert_eq!(line(name, &run), wanted);
    }
    host.set("PADDOCK_BWRAP", "/x/bwrap");
    let found = shown(&host, &["standin"]);
    assert_eq!(key(&found, "agent"), (json!("own"), "file".into(), json!(1)));
    assert_eq!(key(&found, "tier"), (json!("sealed"), "project".into(), json!(2)));
    assert_eq!(key(&found, "programs.bwrap"), (json!("/x/bwrap"), "variable".into(), Value::Null));
    assert_eq!(key(&found, "agents.standin.unix").1, "default");
    assert_eq!(found["projectFile"], ours.as_str());

    let run = host.run(&["config", "path"]);
    assert_eq!(run.stdout, format!("{file}\n"));
    host.configure("tierr = 1\n");
    assert_eq!(host.run(&["config", "show"]).code(), Some(125));
}

#[test]
fn a_host_that_the_project_file_removes_is_refused() {
    let host = Host::new();
    let port = service();
    let [kept, removed] = ["kept.test", "removed.test"].map(|name| format!("{name}:{port}"));
    host.configure(&format!(
        "[egress]\nhosts = [\"{kept}\", \"{removed}\"]\n\
         exceptions = {{ \"kept.test\" = \"127.0.0.1\", \"removed.test\" = \"127.0.0.1\" }}\n"
    ));
    std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
    let fetch = |name: &str| {
        let run = host.standin(&[&format!("./probe proxy:{name}")]);
        run.stdout
    };
    for name in [&kept, &removed] {
        assert_eq!(fetch(name), format!("proxy:{name} ok\n"), "control");
    }
    let file = project(&host, &format!("[egress]\nhosts = [\"kept.test:{port}\"]\n"));
    let run = host.standin(&[&format!("./probe proxy:{kept}")]);
    assert_eq!(run.stdout, format!("proxy:{kept} ok\n"), "{run:?}");
    let told = format!("paddock: the project file {} sets egress.hosts\n", file.display());
    assert!(run.stderr.starts_with(&told), "{run:?}");
    let refused = fetch(&removed);
    assert!(refused.contains("the proxy answers 403"), "{refused}");
    // Nor with a profile that leaves none.
    project(&host, "egress.profile = \"none\"\n");
    let refused = fetch(&kept);
    assert!(refused.contains("the proxy answers 403"), "{refused}");
    host.assert_nothing_left();
}

#[test]
fn what_a_project_file_would_widen_is_refused_and_nothing_runs() {
    let host = Host::new();
    let own = own_file(&host);
    for (text, what) in [
        (
            "tier = \"ported\"\n",
            "line 1: tier = \"ported\" would allow more than sealed, which holds without it",
        ),
        (
            "\non-violation = \"warn\"\n",
            "line 2: on-violation = \"warn\" would allow more than stop, which holds without it",
        ),
        (
            "[programs]\nnono = \"/tmp/nono\"\n",
            "line 2: programs.nono = \"/tmp/nono\" is not for a project file: it would choose what \
             is run on this host",
        ),
        (
            "shell = \"/tmp/sh\"\n",
            "line 1: shell = \"/tmp/sh\" is not for a project file: it would choose what is run on \
             this host",
        ),
        (
            "[grants]\nread = [\"/home\"]\n",
            "line 2: grants.read = [\"/home\"] is not for a project file: it would let agents do \
             more",
        ),
        (
            "[egress.exceptions]\n\"x.test\" = \"127.0.0.1\"\n",
            "line 1: egress.exceptions = { \"x.test\" = \"127.0.0.1\" } is not for a project file: it \
             would let agents do more",
        ),
        (
            "agents.standin.arguments = [\"-c\", \"id\"]\n",
            "line 1: agents.standin.arguments = [\"-c\", \"id\"] is not for a project file: an \
             agent's arguments can loosen it",
        ),
        (
            "[egress]\nhosts = [\"evil.test\"]\n",
            "line 2: \"evil.test\" in egress.hosts is none of the hosts that this launch may reach \
             without it",
        ),
    ] {
        let file = project(&host, text);
        let message = format!(
            "paddock: the project file {} may only tighten: {what}\n  next: remove it there; if \
             you want it, write it into your own configuration, {}\n",
            file.display(),
            own.display()
        );
        assert_refused(&host, &host.standin(&["echo ran"]), &message);
        let run = host.run(&["run", "standin", "--dry-run"]);
        assert_eq!((run.code(), run.stderr.as_str()), (Some(125), message.as_str()));
    }
    // Everything that looks at the configuration sees it.
    project(&host, "tier = \"ported\"\n");
    for command in [&["doctor", "--quick"][..], &["pin"], &["config", "show"]] {
        let run = host.run(command);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{command:?}");
        assert!(run.stderr.contains("may only tighten: line 1: tier"), "{run:?}");
    }
    // In another workspace it is none.
    let run = finish({
        let mut command = host.paddock();
        command.current_dir(host.home()).args(["config", "show"]);
        command
    });
    assert_eq!(run.code(), Some(0), "{run:?}");
}

#[test]
fn a_project_file_that_is_none_stops_the_launch() {
    let host = Host::new();
    let path = project(&host, "");
    assert_eq!(host.standin(&["echo ran"]).stdout, "ran\n", "control: an empty one");
    let secret = host.write("secret", "token = \"hidden\"\n");
    let refused = |reason: &str| {
        let started = Instant::now();
        let run = host.standin(&["echo ran"]);
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{run:?}");
        let path = path.display();
        let message = format!(
            "paddock: the project file {path} is not usable: {reason}\n  \
             next: correct or remove it; see what it is: ls -l {path}\n"
        );
        assert_eq!(run.stderr, message);
        host.assert_nothing_left();
    };
    project(&host, "on_violation = \"stop\"\n");
    refused("line 1: unknown key `on_violation`: did you mean `on-violation`?");
    project(&host, "[egress]\nprofile = \"nine\"\n");
    refused(
        "line 2: unknown value \"nine\" of `egress.profile`, which is one of \"agent\", \
         \"listed\", \"none\": did you mean \"none\"?",
    );
    std::fs::write(&path, "#".repeat(70_000)).unwrap();
    refused("it is larger than 65536 bytes");
    std::fs::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    refused("it is a symbolic link");
    std::fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    refused("it is not a plain file");
}

#[test]
fn a_stricter_tier_of_the_project_holds() {
    let host = Host::new();
    host.configure("tier = \"isolated\"\n");
    assert_eq!(plan(&host, "standin", &[])["tier"], "isolated", "control");
    let file = project(&host, "tier = \"sealed\"\n");
    let planned = plan(&host, "standin", &[]);
    assert_eq!(planned["tier"], "sealed");
    assert_eq!(planned["projectFile"]["tightens"], json!(["tier"]));
    let run = host.standin(&["echo ran"]);
    assert_eq!(run.stdout, "ran\n", "{run:?}");
    assert_eq!(host.records()[0]["tier"], "sealed");

    let message = format!(
        "paddock: the project file {} wants tier sealed or better, and isolated was asked for\n  \
         next: leave out --tier isolated, or remove `tier` from that file\n",
        file.display()
    );
    let run = host.standin_in("isolated", &["echo ran"]);
    assert_eq!((run.code(), run.stderr.as_str()), (Some(125), message.as_str()));
    assert_eq!(host.records().len(), 1);
    let run = host.run(&["doctor", "--quick", "--json"]);
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(found["wanted"], "sealed");
    let run = host.run(&["pin", "--json"]);
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(found["tier"], "sealed");
}

#[test]
fn the_project_file_of_a_launch_is_that_of_its_workspace() {
    let host = Host::new();
    project(&host, "tier = \"ported\"\n");
    let other = host.home().join("code");
    std::fs::create_dir(&other).unwrap();
    let run_in = |workspace: &std::path::Path| {
        let mut command = host.paddock();
        command.args(["run", "standin", "--dry-run", "--workspace"]).arg(workspace);
        finish(command).code()
    };
    assert_eq!(run_in(&other), Some(0));
    assert_eq!(run_in(&host.workspace()), Some(125));
}

#[test]
fn a_strict_project_lets_nobody_make_a_socket() {
    let host = Host::new();
    host.add_agent("over-a-port", &standin_over_a_port("over-a-port"));
    host.configure("[agents.over-a-port]\nunix = \"mediated\"\n");
    std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
    let connect = || {
        let command = "./probe stream:$PADDOCK_GATE";
        let run = finish(host.agent_command("over-a-port", &[], &[command]));
        run.stdout.split_once(".sock ").unwrap_or_else(|| panic!("{run:?}")).1.to_owned()
    };
    assert_eq!(connect(), "ok\n", "control");
    project(&host, "unix = \"strict\"\n");
    let planned = plan(&host, "over-a-port", &[]);
    assert!(planned["unixRace"].as_str().unwrap().contains("strict filter"), "{planned:#}");
    assert_eq!(connect(), "no Permission denied (os error 13)\n");
    host.assert_nothing_left();
}

#[test]
fn a_project_that_wants_changed_programs_refused_has_them_refused() {
    let host = Host::new();
    host.add_agent("own", &standin_file("own"));
    let program = host.home().join("bin/paddock");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(paddock(), &program).unwrap();
    host.configure(&format!("[agents.own]\nprogram = {program:?}\n"));
    let launch = || finish(host.agent_command("own", &[], &["echo ran"]));
    assert_eq!(launch().stdout, "ran\n", "recorded");
    let change = || {
        // What follows its last section is no part of a program to the kernel.
        let mut bytes = std::fs::read(&program).unwrap();
        bytes.push(0);
        std::fs::write(&program, bytes).unwrap();
    };
    change();
    project(&host, "[pins]\non-program-change = \"refuse\"\n");
    let run = launch();
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{run:?}");
    assert!(run.stderr.contains("pin-mismatch: own (sealed)"), "{run:?}");
    project(&host, "");
    assert_eq!(launch().stdout, "ran\n", "control");
}

#[test]
fn whose_hosts_count_is_the_profiles_to_say() {
    let host = Host::new();
    host.add_agent("own", &format!("hosts = [\"file.test\"]\n{}", standin_file("own")));
    for (profile, hosts) in [
        ("agent", json!(["file.test", "a.test", "b.test"])),
        ("listed", json!(["a.test", "b.test"])),
        ("none", json!([])),
    ] {
        host.configure(&format!(
            "[egress]\nprofile = \"{profile}\"\nhosts = [\"a.test\"]\n[agents.own]\nhosts = [\"b.test\"]\n"
        ));
        assert_eq!(plan(&host, "own", &[])["hosts"], hosts, "{profile}");
    }
}

#[test]
fn configured_arguments_come_before_those_of_the_command_line() {
    let host = Host::new();
    let run = host.standin(&["echo asked"]);
    assert_eq!(run.stdout, "asked\n", "control");
    host.configure("[agents.standin]\narguments = [\"-c\", \"echo configured\"]\n");
    let run = host.standin(&["echo asked"]);
    assert_eq!(run.stdout, "configured\nasked\n", "{run:?}");
}

#[test]
fn grants_for_every_agent_hold_for_each() {
    let host = Host::new();
    let notes = host.write("notes/a", "noted\n");
    let notes = notes.canonicalize().unwrap();
    let read = format!("cat {}; echo more >>{}", notes.display(), notes.display());
    let run = host.standin(&[&read]);
    assert_eq!(run.stdout, "", "control: {run:?}");
    host.configure(&format!("[grants]\nread = [{notes:?}]\n"));
    assert_eq!(host.standin(&[&read]).stdout, "noted\n");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "noted\n", "only read");
    host.configure(&format!("[grants]\nwrite = [{notes:?}]\n"));
    assert_eq!(host.standin(&[&read]).stdout, "noted\n");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "noted\nmore\n");
}

#[test]
fn a_launch_is_watched_as_often_as_is_configured() {
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
    // Each pass reads the state of each task: with so many in a second there are more.
    host.configure("[verify]\nevery = \"50ms\"\ndescriptors-every = \"50ms\"\n");
    let launch = host.start(host.standin_command(&["sleep 60"]));
    assert_eq!(launch.verify().0, Some(0));
    let run = launch.terminate();
    assert_eq!(run.code(), Some(143), "{run:?}");
    host.assert_nothing_left();
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

#[test]
fn a_project_that_wants_the_launch_stopped_has_it_stopped() {
    let host = Host::new();
    host.configure("on-violation = \"warn\"\n");
    let intrude = || {
        let launch = host.start(host.standin_command(&["sleep 60"]));
        let veil = parts(&host).iter().find(|(name, _)| name == "veil-init").expect("a veil").1;
        let mut intrude = std::process::Command::new(fault());
        let note = host.home().join("late");
        host.dress(intrude.arg("intrude").arg(veil.to_string()).arg(note));
        assert!(intrude.status().expect("it starts").success());
        launch
    };
    let launch = intrude();
    let violated = || host.ledger().iter().any(|line| line["event"] == "violation");
    wait_for(LIMIT, || violated().then_some(())).expect("a violation");
    assert_eq!(launch.verify().0, Some(126), "control: it goes on");
    launch.terminate();

    project(&host, "on-violation = \"stop\"\n");
    let run = intrude().end();
    assert_eq!(run.code(), Some(126), "{run:?}");
    host.assert_nothing_left();
}

#[test]
fn settings_for_an_agent_that_there_is_not_are_refused_if_another_was_meant() {
    let host = Host::new();
    host.configure("[agents.standn]\nunix = \"strict\"\n");
    let message = format!(
        "paddock: the configuration {} is not usable: [agents.standn]: there is no agent standn: \
         did you mean standin?\n  next: correct the file, then try again\n",
        own_file(&host).display()
    );
    assert_refused(&host, &host.standin(&["echo ran"]), &message);
    // One that a person has elsewhere.
    host.configure("[agents.elsewhere]\nunix = \"strict\"\n");
    assert_eq!(host.standin(&["echo ran"]).stdout, "ran\n");
    project(&host, "[agents.codexx]\nhosts = []\n");
    let run = host.run(&["run", "standin", "--dry-run"]);
    assert!(run.stderr.contains("there is no agent codexx: did you mean codex?"), "{run:?}");
}

#[test]
fn wherever_a_launch_starts_it_has_the_same_configuration() {
    let mut host = Host::new();
    host.configure("tier = \"isolated\"\n");
    let [own, plugins] = [own_file(&host), plugins_file(&host)];
    let in_force = |host: &Host| host.run(&["config", "path"]).stdout;
    assert_eq!(in_force(&host), format!("{}\n", own.display()));
    host.write(".config/herdr/plugins/config/paddock/config.toml", "tier = \"sealed\"\n");
    // In a terminal, and by herdr.
    assert_eq!(in_force(&host), format!("{}\n", plugins.display()));
    assert_eq!(plan(&host, "standin", &[])["tier"], "sealed");
    let run = host.standin(&["echo ran"]);
    let told = format!(
        "paddock: the configuration is {}; {} is not read\n",
        plugins.display(),
        own.display()
    );
    assert!(run.stdout == "ran\n" && run.stderr.starts_with(&told), "{run:?}");
    assert_eq!(shown(&host, &[])["unread"], own.to_str().unwrap());
    host.set("HERDR_PLUGIN_ID", "paddock");
    host.set("HERDR_PLUGIN_CONFIG_DIR", plugins.parent().unwrap());
    assert_eq!(in_force(&host), format!("{}\n", plugins.display()));
    // Where herdr says it is, if it is elsewhere.
    let elsewhere = host.write("elsewhere/config.toml", "");
    host.set("HERDR_PLUGIN_CONFIG_DIR", elsewhere.parent().unwrap());
    assert_eq!(in_force(&host), format!("{}\n", elsewhere.display()));
    // To another plugin it says another's.
    host.set("HERDR_PLUGIN_ID", "other");
    assert_eq!(in_force(&host), format!("{}\n", plugins.display()));
}

#[test]
fn what_is_granted_for_always_is_kept_in_the_file_in_force() {
    let host = Host::new();
    host.configure("# mine\n");
    let plugins = host.write(
        ".config/herdr/plugins/config/paddock/config.toml",
        "agent = \"standin\" # herdr's\n",
    );
    let launch = host.start(host.standin_command(&["sleep 60"]));
    let run = host.run(&["grant", &launch.id, "host", "a.test", "--always"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    launch.terminate();
    let kept = std::fs::read_to_string(plugins).unwrap();
    assert_eq!(kept, "agent = \"standin\" # herdr's\n\n[agents.standin]\nhosts = [\"a.test\"]\n");
    assert_eq!(std::fs::read_to_string(own_file(&host)).unwrap(), "# mine\n");
    assert_eq!(plan(&host, "standin", &[])["hosts"], json!(["a.test"]));
}

#[test]
fn what_is_kept_and_left_out_all_the_same_is_told() {
    let host = Host::new();
    let launch = host.start(host.standin_command(&["sleep 60"]));
    let grant = |name: &str| host.run(&["grant", &launch.id, "host", name, "--always"]).stdout;
    assert_eq!(grant("a.test"), "granted, for later launches of standin, too\n", "control");
    let left_out = "granted for as long as this launch lives, and kept; but later launches of \
        standin here do not have it: ";
    let file = project(&host, "egress.hosts = [\"a.test\"]\n");
    assert_eq!(grant("b.test"), format!("{left_out}{} leaves it out\n", file.display()));
    project(&host, "egress.profile = \"none\"\n");
    assert_eq!(grant("c.test"), format!("{left_out}egress.profile is \"none\"\n"));
    project(&host, "x = 1\n");
    assert!(grant("d.test").starts_with(&format!("{left_out}the project file ")));
    launch.terminate();
    let kept = std::fs::read_to_string(own_file(&host)).unwrap();
    let wanted = "hosts = [\"a.test\", \"b.test\", \"c.test\", \"d.test\"]\n";
    assert_eq!(kept, format!("[agents.standin]\n{wanted}"));
}

#[test]
fn an_agent_has_no_part_of_the_file_in_force() {
    let host = Host::new();
    host.write(".config/herdr/plugins/config/paddock/config.toml", "");
    let granted = host.home().join(".config/herdr").canonicalize().unwrap();
    host.write(
        ".config/herdr/plugins/config/paddock/config.toml",
        &format!("[grants]\nwrite = [{granted:?}]\n"),
    );
    let run = host.standin(&["echo ran"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{run:?}");
    assert!(run.stderr.contains("Paddock keeps its own things there"), "{run:?}");
    // A file that is linked into the workspace would be the agent's to write.
    std::fs::remove_file(plugins_file(&host)).unwrap();
    let target = host.workspace().join("paddock.toml");
    std::fs::write(&target, "").unwrap();
    std::fs::create_dir_all(own_file(&host).parent().unwrap()).unwrap();
    symlink(&target, own_file(&host)).unwrap();
    let run = host.standin(&["echo ran"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{run:?}");
    let wanted = format!("it overlaps Paddock's own directory {}", target.display());
    assert!(run.stderr.contains(&wanted), "{run:?}");
    std::fs::remove_file(own_file(&host)).unwrap();
    assert_eq!(host.standin(&["echo ran"]).stdout, "ran\n", "control");
}
