//! One launch of the stand-in, end to end.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use paddock_test::files::{changes, listing};
use paddock_test::host::{
    Host, LIMIT, TIERS, finish, send, standin_file, standin_over_a_port, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn the_agents_output_and_status_are_the_launchs() {
    let host = Host::new();
    let run = host.standin(&["echo hello", "exit 3"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(3), "hello\n"), "{}", run.stderr);
    host.assert_nothing_left();
}

#[test]
fn output_errors_and_status_are_the_agents_in_every_tier() {
    for tier in TIERS {
        let host = Host::new();
        let run = host.standin_in(tier, &["echo out; echo err >&2; exit 7"]);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(7), "out\n"), "{tier}: {}", run.stderr);
        let record = host.records().pop().unwrap();
        let id = record["launch"].as_str().unwrap();
        let workspace = host.workspace();
        let mut told: Vec<&str> = run.stderr.lines().collect();
        let verified = told.remove(0);
        let start = format!("paddock: launch {id}: standin in {} ({tier}), ", workspace.display());
        let tasks = verified
            .strip_prefix(&start)
            .and_then(|rest| rest.strip_suffix(" tasks confirmed, watching"));
        assert!(tasks.is_some_and(|n| n.parse::<u32>().is_ok()), "{verified}");
        assert_eq!(told, ["err", "paddock: the agent ended with status 7"]);
        assert_eq!(
            (&record["tier"], &record["phase"], &record["status"]),
            (&tier.into(), &"ended".into(), &7.into())
        );
        assert_eq!(record["reason"], Value::Null);
        host.assert_nothing_left();
    }
}

#[test]
fn a_launch_without_an_argument_runs_the_stand_in_where_it_was_started() {
    let host = Host::new();
    let mut command = host.paddock();
    command.args(["run", "--", "-c", "pwd"]);
    let run = finish(command);
    assert_eq!(run.stdout, format!("{}\n", host.workspace().display()));
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("status"), "{}", run.stderr);
}

#[test]
fn a_signal_that_ends_the_agent_is_told_as_a_shell_would() {
    let host = Host::new();
    for (signal, status) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let run = host.standin(&[&format!("kill -{signal} $$")]);
        assert_eq!(run.code(), Some(status), "a tool by {signal}: {}", run.stderr);
    }
    for (signal, status) in [(Signal::KILL, 137), (Signal::TERM, 143)] {
        let launch = host.start(host.standin_command(&["sleep 300"]));
        send(launch.client(), signal);
        let run = launch.end();
        assert_eq!(run.code(), Some(status), "the client by {signal:?}: {}", run.stderr);
    }
    host.assert_nothing_left();
}

/// Which of the host's namespaces a process has left.
fn left_namespaces(pid: i32) -> Vec<&'static str> {
    let of = |pid: &str, name: &str| std::fs::read_link(format!("/proc/{pid}/ns/{name}")).unwrap();
    ["ipc", "mnt", "net", "pid", "user", "uts"]
        .into_iter()
        .filter(|name| of(&pid.to_string(), name) != of("self", name))
        .collect()
}

#[test]
fn a_tier_is_what_it_says() {
    let wanted = BTreeMap::from([
        ("sealed", vec!["ipc", "mnt", "net", "pid", "user", "uts"]),
        ("isolated", vec!["ipc", "net", "user", "uts"]),
        ("ported", vec![]),
    ]);
    for tier in TIERS {
        let host = Host::new();
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &["sleep 300"]));
        for layer in ["server", "client"] {
            let agent = launch.process("agent", Some(layer));
            assert_eq!(left_namespaces(agent), wanted[tier], "{tier}, {layer}");
        }
        let (status, report) = launch.verify();
        assert_eq!(status, Some(0), "{report:#}");
        assert_eq!(host.records()[0]["tier"], tier);
    }
}

#[test]
fn server_and_client_start_at_the_same_time() {
    let host = Host::new();
    let over_a_port = standin_over_a_port("ported-standin");
    let late = over_a_port.replace(
        r#"argv = ["{program}", "standin", "serve", "--listen", "tcp:127.0.0.1:{port}"]"#,
        r#"argv = ["/bin/sh", "-c", "until [ -e go ]; do sleep 0.01; done; exec \"$0\" \"$@\"",
            "{program}", "standin", "serve", "--listen", "tcp:127.0.0.1:{port}"]"#,
    );
    assert_ne!(late, over_a_port);
    host.add_agent("ported-standin", &late);
    let launch = host.start(host.agent_command("ported-standin", &[], &["echo met"]));
    let halves = wait_for(LIMIT, || {
        let mut halves: Vec<_> = host
            .ledger()
            .iter()
            .filter(|entry| entry["event"] == "agent-started")
            .map(|entry| entry["half"].as_str().unwrap_or_default().to_owned())
            .collect();
        halves.sort();
        (halves.len() == 2).then_some(halves)
    });
    assert_eq!(halves.unwrap(), ["client", "server"]);
    let waits = std::fs::read(format!("/proc/{}/cmdline", launch.client())).unwrap();
    assert_eq!(
        waits.split(|byte| *byte == 0).nth(1),
        Some(&b"await"[..]),
        "the client is there before the server answers"
    );
    assert_eq!(launch.verify().0, Some(0));
    std::fs::write(host.workspace().join("go"), "").unwrap();
    let run = launch.end();
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "met\n"));
}

#[test]
fn an_agent_of_ones_own_is_launched_over_either_kind_of_link() {
    const NAME: &str = "mine";
    for tier in TIERS {
        for agent_file in [standin_over_a_port(NAME), standin_file(NAME)] {
            let host = Host::new();
            host.add_agent(NAME, &agent_file);
            let options = ["--tier", tier];
            let command = host.agent_command(NAME, &options, &["echo met", "exit 4"]);
            let run = finish(command);
            assert_eq!(
                (run.code(), run.stdout.as_str()),
                (Some(4), "met\n"),
                "{tier}: {}",
                run.stderr
            );
            assert_eq!(host.records()[0]["agent"], NAME);
            host.assert_nothing_left();
        }
    }
}

#[test]
fn an_agent_file_with_an_unknown_key_is_refused() {
    let host = Host::new();
    host.add_agent(
        "ported-standin",
        &format!("read-only = true\n{}", standin_file("ported-standin")),
    );
    let run = finish(host.agent_command("ported-standin", &[], &["echo ran"]));
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""));
    let file = host.home().join(".config/paddock/agents/ported-standin/agent.toml");
    let start = format!("paddock: the agent file {} is not usable: ", file.display());
    assert!(run.stderr.starts_with(&start), "{}", run.stderr);
    assert!(run.stderr.contains("read-only"), "{}", run.stderr);
    assert!(run.stderr.ends_with("next: correct the file, then try again\n"), "{}", run.stderr);
    assert!(host.records().is_empty());
}

#[test]
fn a_launch_leaves_home_and_workspace_as_the_agent_left_them() {
    for tier in TIERS {
        let host = Host::new();
        host.write(".bashrc", "# mine\n");
        host.write(".config/other/settings", "mine\n");
        std::fs::create_dir(host.workspace().join(".git")).unwrap();
        std::fs::write(host.workspace().join("kept"), "mine\n").unwrap();
        let (home, workspace) = (listing(&host.home()), listing(&host.workspace()));

        let made = ["mkdir dir && echo x >dir/made && touch \"$HOME/made\""];
        let run = host.standin_in(tier, &made);
        assert_eq!(run.code(), Some(0), "{tier}: {}", run.stderr);

        assert_eq!(
            changes(&workspace, &listing(&host.workspace())),
            [host.workspace().join("dir"), host.workspace().join("dir/made")],
            "{tier}"
        );
        let id = host.records()[0]["launch"].as_str().unwrap().to_owned();
        // The stand-in keeps what was said, by the workspace.
        let kept = host.agent_home("standin", "client").join("conversations");
        let kept = std::fs::read_dir(kept).unwrap().next().unwrap().unwrap().file_name();
        let conversation = kept.into_string().unwrap();
        let wanted: Vec<PathBuf> = [
            ".local",
            ".local/share",
            ".local/share/paddock",
            ".local/share/paddock/homes",
            ".local/share/paddock/homes/standin",
            ".local/share/paddock/homes/standin/client",
            ".local/share/paddock/homes/standin/client/conversations",
            &format!(".local/share/paddock/homes/standin/client/conversations/{conversation}"),
            ".local/share/paddock/homes/standin/server",
            ".local/share/paddock/homes/standin/server/made",
            ".local/state",
            ".local/state/paddock",
            ".local/state/paddock/launches",
            &format!(".local/state/paddock/launches/{id}"),
            &format!(".local/state/paddock/launches/{id}/layers.log"),
            &format!(".local/state/paddock/launches/{id}/ledger.jsonl"),
            &format!(".local/state/paddock/launches/{id}/lock"),
            &format!(".local/state/paddock/launches/{id}/record.json"),
            ".local/state/paddock/pins",
            &format!(".local/state/paddock/pins/standin-{tier}.json"),
        ]
        .map(|path| host.home().join(path))
        .into();
        assert_eq!(changes(&home, &listing(&host.home())), wanted, "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn the_temporary_directory_is_the_launchs_own_and_gone_with_it() {
    for tier in TIERS {
        let host = Host::new();
        // Closed directories in it must not keep it.
        let command = "mkdir -p \"$TMPDIR/a/b\" && touch \"$TMPDIR/a/b/c\" && chmod 0 \"$TMPDIR/a/b\" \
            \"$TMPDIR/a\"; echo \"$TMPDIR\"; stat -c %a \"$TMPDIR\"";
        let run = host.standin_in(tier, &[command]);
        let id = host.records()[0]["launch"].as_str().unwrap().to_owned();
        let own = host.launches().join(id).join("tmp-server");
        let inside = if tier == "sealed" { PathBuf::from("/tmp") } else { own.clone() };
        assert_eq!(run.stdout, format!("{}\n700\n", inside.display()), "{}", run.stderr);
        assert!(!own.exists(), "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn two_launches_at_once_do_not_share_a_temporary_directory() {
    for tier in TIERS {
        let host = Host::new();
        // Each writes the same name, waits until the other has written, reads.
        let meet = |me: &str, other: &str| {
            format!(
                "echo {me} >\"$TMPDIR/who\"; : >{me}; \
                 for i in $(seq 3000); do [ -e {other} ] && break; sleep 0.01; done; \
                 [ -e {other} ] && cat \"$TMPDIR/who\""
            )
        };
        let options = ["--tier", tier];
        let (one, two) = (meet("one", "two"), meet("two", "one"));
        let (one, two) = std::thread::scope(|scope| {
            let start = |command| {
                let command = host.agent_command("standin", &options, &[command]);
                scope.spawn(move || finish(command))
            };
            let (one, two) = (start(&one), start(&two));
            (one.join().unwrap(), two.join().unwrap())
        });
        assert_eq!((one.code(), one.stdout.as_str()), (Some(0), "one\n"), "{}", one.stderr);
        assert_eq!((two.code(), two.stdout.as_str()), (Some(0), "two\n"), "{}", two.stderr);
        host.assert_nothing_left();
    }
}

#[test]
fn a_workspace_below_tmp_is_all_of_tmp_that_there_is() {
    for tier in TIERS {
        let host = Host::new();
        let temporary = tempfile::Builder::new().prefix("pt-").tempdir_in("/tmp").unwrap();
        let workspace = temporary.path().join("ws");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(temporary.path().join("other"), "").unwrap();
        let mut command = host.paddock();
        command.current_dir(&workspace).args(["run", "--tier", tier, "--"]);
        command.args(["-c", "touch made; cat ../other 2>/dev/null || echo hidden; pwd"]);
        let run = finish(command);
        assert_eq!(run.stdout, format!("hidden\n{}\n", workspace.display()), "{}", run.stderr);
        assert!(workspace.join("made").exists(), "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn directories_may_be_behind_links() {
    for tier in TIERS {
        let mut host = Host::new();
        let (home, runtime) = (host.home(), host.runtime());
        let (home_link, runtime_link) = (home.with_file_name("hl"), home.with_file_name("rl"));
        symlink(&home, &home_link).unwrap();
        symlink(&runtime, &runtime_link).unwrap();
        host.set("HOME", &home_link).set("XDG_RUNTIME_DIR", &runtime_link);
        let run = host.standin_in(tier, &["touch \"$HOME/made\" && echo \"$HOME\""]);
        let own = home_link.join(".local/share/paddock/homes/standin/server");
        assert_eq!(run.stdout, format!("{}\n", own.display()), "{tier}: {}", run.stderr);
        assert!(host.agent_home("standin", "server").join("made").exists());
        host.assert_nothing_left();
    }
}
