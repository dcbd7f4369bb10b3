//! A project's file, which only tightens.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use paddock_test::faults::{fault, parts};
use paddock_test::host::{
    Host, LIMIT, finish, paddock, probe, standin_file, standin_over_a_port, wait_for,
};
use paddock_test::service::service;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::{assert_refused, own_file, plan, project};

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
fn a_project_file_draws_nothing_and_is_told_of_in_a_line() {
    let host = Host::new();
    let hostile = "[agents.\"\\u001b]52;c;ZXZpbA==\\u0007\\npaddock: launch x\"]\nhosts = []\n";
    let many: Vec<String> = (0..100).map(|n| format!("[agents.\"a{n}\"]\nhosts = []\n")).collect();
    project(&host, &format!("{hostile}{}", many.concat()));
    for arguments in [&["run", "--dry-run", "standin"][..], &["shell", "--", "-c", "true"]] {
        let run = host.run(arguments);
        assert_eq!(run.code(), Some(0), "{run:?}");
        let first = run.stderr.lines().next().unwrap();
        assert!(first.contains("sets agents.\\u{1b}]52;c;"), "{first:?}");
        assert!(first.ends_with("and 93 more") && first.len() < 1_000, "{first:?}");
        assert!(!run.stderr.contains('\u{1b}') && !run.stderr.contains("\npaddock: launch x"));
    }
    let hosts: Vec<String> = (0..300).map(|n| format!("\"h{n}.test\"")).collect();
    let file = project(&host, &format!("[egress]\nhosts = [{}]\n", hosts.join(", ")));
    let run = host.run(&["run", "--dry-run", "standin"]);
    assert_eq!(run.code(), Some(125), "{run:?}");
    let wanted = format!("{} is not usable: it names more than 256 hosts", file.display());
    assert!(run.stderr.contains(&wanted), "{run:?}");
}
