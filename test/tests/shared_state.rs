//! `state = "shared"`: an agent that works in a person's own state, by the person's choice.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::symlink;

use paddock_test::host::{Finished, Host, finish, standin_file};
use serde_json::{Value, json};

/// A host with an agent `keeper` that has state in `~/.keeper`, its client, too.
fn host(state: &str) -> Host {
    let host = Host::new();
    let file = standin_file("keeper");
    let file = file.replacen("\n[program]", "state = [\".keeper\"]\n\n[program]", 1);
    let file = file.replace(
        "directories = [\"conversations\"]",
        "directories = [\"conversations\", \".keeper\"]",
    );
    assert!(file.contains("state = ") && file.contains("\", \".keeper\"]"));
    host.add_agent("keeper", &file);
    host.configure(&format!("[agents.keeper]\nstate = \"{state}\"\n"));
    host.write(".keeper/own", "the person's\n");
    host.write(".other/own", "the person's\n");
    host
}

fn run(host: &Host, options: &[&str], commands: &[&str]) -> Finished {
    finish(host.agent_command("keeper", options, commands))
}

#[test]
fn shared_state_is_the_persons_own_read_and_written_and_nothing_else_is() {
    let host = host("shared");
    let other = host.home().join(".other/own");
    let other = other.display();
    let run = run(
        &host,
        &[],
        &[
            "cat ~/.keeper/own",
            "mkdir ~/.keeper/d && echo new >~/.keeper/d/new && mv ~/.keeper/d/new ~/.keeper/moved",
            "rm ~/.keeper/own; ln -s nowhere ~/.keeper/link; chmod 600 ~/.keeper/moved",
            &format!("cat {other} 2>/dev/null || echo not there"),
            "echo private >~/beside; ls -A ~",
        ],
    );
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert_eq!(run.stdout, "the person's\nnot there\n.keeper\nbeside\n", "{}", run.stderr);
    let own = host.home().join(".keeper");
    assert_eq!(std::fs::read(own.join("moved")).unwrap(), b"new\n");
    assert!(own.join("d").is_dir() && !own.join("own").exists());
    assert!(own.join("link").symlink_metadata().unwrap().is_symlink());
    assert!(!host.home().join("beside").exists(), "the home itself stays private");
    // What lies under it in the private home is not touched.
    let private = host.agent_home("keeper", "server").join(".keeper");
    assert_eq!(std::fs::read_dir(private).unwrap().count(), 0);
    host.assert_nothing_left();

    let told = "state = \"shared\": keeper works in your own ";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("{}: what it puts there", own.display())));
    let record = host.records().pop().unwrap();
    assert_eq!(record["shared"], json!([own]));
    let id = record["launch"].as_str().unwrap().to_owned();
    let info = host.run(&["info", &id]).stdout;
    assert!(info.contains(&format!("shared     {}\n", own.display())), "{info}");
    let start = host.ledger().into_iter().find(|line| line["event"] == "start").unwrap();
    let layers: Vec<&Value> =
        start["shared"].as_array().unwrap().iter().map(|shared| &shared["layer"]).collect();
    assert_eq!(layers, ["server", "client"]);
}

#[test]
fn private_is_the_default_and_the_control() {
    for text in ["", "[agents.keeper]\nstate = \"private\"\n"] {
        let host = host("private");
        host.configure(text);
        let run =
            run(&host, &[], &["cat ~/.keeper/own; mkdir -p ~/.keeper; echo x >~/.keeper/new"]);
        assert_eq!(run.code(), Some(0), "{run:?}");
        assert_eq!(run.stdout, "", "{}", run.stderr);
        assert!(!host.home().join(".keeper/new").exists());
        assert!(!run.stderr.contains("your own"), "{}", run.stderr);
        assert!(host.agent_home("keeper", "server").join(".keeper/new").exists());
        assert_eq!(host.records().pop().unwrap()["shared"], json!([]));
    }
}

#[test]
fn a_dry_run_and_the_configuration_tell_it() {
    let host = host("shared");
    let run = host.run(&["run", "keeper", "--dry-run"]);
    let (own, at) =
        (host.home().join(".keeper"), host.agent_home("keeper", "server").join(".keeper"));
    let told = format!("  server  shared     {} at {}\n", own.display(), at.display());
    assert!(run.stdout.contains(&told), "no {told:?} in\n{}", run.stdout);
    let shown = host.run(&["config", "show", "keeper"]).stdout;
    let line = shown.lines().find(|line| line.starts_with("agents.keeper.state")).unwrap();
    assert!(line.contains("\"shared\""), "{line}");
}

#[test]
fn without_a_veil_it_is_refused_with_a_way_out() {
    let host = host("shared");
    for tier in ["isolated", "ported"] {
        let run = run(&host, &["--tier", tier], &["true"]);
        assert_eq!(run.code(), Some(125), "{tier}");
        let told = format!("in the {tier} tier nothing is shown at another path");
        assert!(run.stderr.contains(&told), "{}", run.stderr);
        assert!(run.stderr.contains("[agents.keeper] state = \"private\""), "{}", run.stderr);
    }
    assert_eq!(run(&host, &["--tier", "sealed"], &["true"]).code(), Some(0), "control");
}

#[test]
fn a_project_file_may_make_it_private_and_not_shared() {
    let host = host("shared");
    let project = host.workspace().join(".paddock.toml");
    std::fs::write(&project, "[agents.keeper]\nstate = \"private\"\n").unwrap();
    let tightened = run(&host, &[], &["cat ~/.keeper/own"]);
    assert_eq!(tightened.code(), Some(1), "{tightened:?}");
    host.configure("");
    assert_eq!(run(&host, &[], &["true"]).code(), Some(0), "control");
    std::fs::write(&project, "[agents.keeper]\nstate = \"shared\"\n").unwrap();
    let widened = run(&host, &[], &["true"]);
    assert_eq!(widened.code(), Some(125));
    let told = "may only tighten: line 2: agents.keeper.state";
    assert!(widened.stderr.contains(told), "{}", widened.stderr);
}

#[test]
fn what_cannot_be_shared_is_refused_and_a_link_is_followed_to_where_it_leads() {
    let host = host("shared");
    let own = host.home().join(".keeper");
    let linked = host.home().join("dotfiles/keeper");
    std::fs::create_dir_all(linked.parent().unwrap()).unwrap();
    std::fs::rename(&own, &linked).unwrap();
    symlink(&linked, &own).unwrap();
    let shared = run(&host, &[], &["cat ~/.keeper/own"]);
    assert_eq!(shared.stdout, "the person's\n", "{}", shared.stderr);
    assert!(shared.stderr.contains(&format!("your own {}", linked.display())), "{}", shared.stderr);
    let refused = |what: &str| {
        let run = run(&host, &[], &["true"]);
        assert_eq!(run.code(), Some(125), "{what}: {run:?}");
        assert!(run.stderr.contains(what) && run.stderr.contains("next: "), "{}", run.stderr);
    };
    std::fs::remove_file(&own).unwrap();
    refused("No such file");
    std::fs::write(&own, "").unwrap();
    refused("is no directory of yours");
    std::fs::remove_file(&own).unwrap();
    symlink(host.home().join(".config/paddock"), &own).unwrap();
    refused("Paddock keeps its own things there");
    std::fs::remove_file(&own).unwrap();
    symlink(host.home(), &own).unwrap();
    refused("Paddock keeps its own things there");
    std::fs::remove_file(&own).unwrap();
    std::fs::create_dir(host.home().join(".ssh")).unwrap();
    symlink(".ssh", &own).unwrap();
    refused("keys and settings are in");
    host.configure("[agents.standin]\nstate = \"shared\"\n");
    let standin = host.standin(&["true"]);
    assert_eq!(standin.code(), Some(125));
    assert!(standin.stderr.contains("does not say which directories"), "{}", standin.stderr);
}

#[test]
fn a_link_that_the_agent_left_in_its_home_leads_the_shared_state_nowhere() {
    let host = host("private");
    let planted = run(&host, &[], &["rm -rf ~/.keeper; ln -s /etc ~/.keeper"]);
    assert_eq!(planted.code(), Some(0), "{planted:?}");
    host.configure("[agents.keeper]\nstate = \"shared\"\n");
    let refused = run(&host, &[], &["true"]);
    assert_eq!(refused.code(), Some(125), "{refused:?}");
    assert!(refused.stderr.contains("it is a symbolic link"), "{}", refused.stderr);
}

#[test]
fn a_launch_in_shared_state_is_verified_and_a_socket_there_is_told() {
    let host = host("shared");
    let socket = host.home().join(".keeper/daemon.sock");
    let _daemon = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let holding = "exec 3<~/.keeper 4>~/.keeper/open; cd ~/.keeper; sleep 300";
    let launch = host.start(host.agent_command("keeper", &[], &[holding]));
    let held = paddock_test::host::wait_for(paddock_test::host::LIMIT, || {
        host.home().join(".keeper/open").exists().then_some(())
    });
    assert!(held.is_some());
    for _ in 0..3 {
        let (status, report) = launch.verify();
        assert_eq!((status, &report["holds"]), (Some(0), &json!(true)), "{report:#}");
    }
    assert!(
        host.ledger()
            .iter()
            .any(|line| { line["event"] == "socket-in-reach" && line["path"] == json!(socket) })
    );
    assert_eq!(launch.terminate().code(), Some(143));
    host.assert_nothing_left();
}
