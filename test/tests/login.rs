//! `paddock login`: a sign-in inside the sandbox, kept in the agent's private home.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use paddock_test::agent::program;
use paddock_test::files::containing;
use paddock_test::host::{Finished, Host, TIERS, finish, paddock, standin_file};
use paddock_test::terminal::Terminal;
use serde_json::{Value, json};

const TOKEN: &str = "sk-a-token-of-nobody-7e3f";

/// A host with an agent `signer` whose sign-in asks a service of its own.
fn signer() -> (Host, TcpListener, u16) {
    let host = Host::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    host.configure("[egress]\nexceptions = { \"login.test\" = \"127.0.0.1\" }\n");
    let shipped = "\"{home}/signed-in\"]";
    let file = standin_file("signer");
    assert!(file.contains(shipped));
    let own = format!(
        "\"{{home}}/signed-in\", \"--at\", \"login.test:{port}\"]\nhosts = [\"login.test:{port}\"]"
    );
    host.add_agent("signer", &file.replace(shipped, &own));
    (host, listener, port)
}

/// Runs it with that on its standard input.
fn typed(mut command: Command, text: &str) -> Finished {
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all(text.as_bytes()).unwrap();
    drop(write);
    command.stdin(Stdio::from(read));
    finish(command)
}

fn login(host: &Host, options: &[&str]) -> Command {
    let mut command = host.paddock();
    command.arg("login").args(options);
    command
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The hosts that the guard decided about in the newest launch.
fn decided(host: &Host) -> Vec<(Value, Value)> {
    let ledger = host.ledger().into_iter();
    ledger
        .filter(|line| line["event"] == "egress")
        .map(|line| (line["egress"]["host"].clone(), line["egress"]["decision"].clone()))
        .collect()
}

#[test]
fn a_sign_in_reaches_its_hosts_and_keeps_what_it_got_in_the_private_home() {
    for tier in TIERS {
        let (host, _service, port) = signer();
        let run = typed(login(&host, &["signer", "--tier", tier]), &format!("{TOKEN}\n"));
        assert_eq!(run.code(), Some(0), "{tier}: {run:?}");
        assert!(run.stdout.ends_with("standin: signed in\n"), "{}", run.stdout);
        let kept = host.agent_home("signer", "server").join("signed-in");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), TOKEN);
        assert_eq!(mode(&kept), 0o600);
        // And nowhere else: no record, no ledger, no log.
        for root in [host.home(), host.runtime(), host.workspace()] {
            let found = containing(&root, TOKEN.as_bytes());
            assert!(found.iter().all(|path| *path == kept), "{found:?}");
        }
        assert!(decided(&host).contains(&(json!("login.test"), json!("allowed"))), "{tier}");
        let record = host.records().pop().unwrap();
        assert_eq!((&record["form"], &record["status"]), (&json!("login"), &json!(0)));
        assert_eq!(record["workspace"], json!(host.agent_home("signer", "server")));
        // Nothing on the host obeys what is in a private home.
        let looked_at: Vec<Value> = host
            .ledger()
            .into_iter()
            .filter(|line| line["event"] == "obeyed")
            .map(|line| line["lookedAt"].clone())
            .collect();
        assert_eq!(looked_at, [json!(0)], "{tier}");
        host.assert_nothing_left();

        // The control: in a run the same program asks the same service in vain.
        let text = format!(
            "echo x | {} standin login --keep \"$HOME/again\" --at login.test:{port}",
            paddock().display()
        );
        let run = finish(host.agent_command("signer", &["--tier", tier], &[&text]));
        assert_eq!(run.code(), Some(125), "{tier}: {run:?}");
        assert!(run.stderr.contains("the proxy answers 403"), "{}", run.stderr);
        assert!(decided(&host).contains(&(json!("login.test"), json!("refused"))), "{tier}");
        // What the sign-in left is there for the agent.
        let run = finish(host.agent_command("signer", &["--tier", tier], &["cat ~/signed-in"]));
        assert_eq!(run.stdout, TOKEN, "{tier}: {}", run.stderr);
    }
}

#[test]
fn a_sign_in_is_about_no_workspace_and_nothing_to_go_on_with() {
    let host = Host::new();
    // Anywhere: a project has no say, and home itself is no workspace.
    let mut command = login(&host, &["standin"]);
    command.current_dir(host.home());
    host.write(".paddock.toml", "tier = \"none\"\n");
    assert_eq!(typed(command, "x\n").code(), Some(0));
    let id = host.records().pop().unwrap()["launch"].as_str().unwrap().to_owned();
    for arguments in [&["resume"][..], &["resume", &id]] {
        let run = host.run(arguments);
        assert_eq!(run.code(), Some(125), "{run:?}");
    }
    assert!(host.run(&["resume", &id]).stderr.contains("was a sign-in"));
    assert!(host.run(&["list"]).stdout.contains("standin login"));
    assert!(host.run(&["info", &id]).stdout.contains("standin login (sealed)"));
    let status = host.run(&["status", "--all", "--json"]).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["launches"][0]["form"], "login");
    assert!(host.run(&["status", "--all"]).stdout.contains(" standin/login "));
    // A shell beside it has the agent's workspace of here.
    let shell = host.run(&["shell", &id, "--", "-c", "pwd"]);
    assert_eq!(shell.stdout, format!("{}\n", host.workspace().display()), "{}", shell.stderr);
}

#[test]
fn an_agent_without_a_sign_in_says_where_to_sign_in() {
    let host = Host::new();
    host.add_solo_agent("alone", "\"{program}\", \"--version\"");
    let run = host.run(&["login", "alone"]);
    assert_eq!(run.code(), Some(125));
    assert!(run.stderr.contains("the agent alone has no login form"), "{}", run.stderr);
    assert!(run.stderr.contains("paddock run alone"), "{}", run.stderr);
    assert_eq!(host.run(&["login"]).code(), Some(2));
}

#[test]
fn a_sign_in_shows_what_it_would_do() {
    let (host, _service, port) = signer();
    let run = host.run(&["login", "signer", "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["form"], "login");
    assert_eq!(plan["hosts"], json!([format!("login.test:{port}")]));
    let home = host.agent_home("signer", "server");
    assert_eq!(plan["workspace"], json!(home));
    assert!(!home.exists());
    let run = host.run(&["run", "signer", "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["hosts"], json!([]), "control");
}

#[test]
fn a_person_signs_in_at_the_terminal() {
    let host = Host::new();
    let terminal = Terminal::open();
    let before = terminal.modes();
    let mut command = terminal.paddock(&host);
    command.args(["login", "standin"]);
    let launch = host.start_as_it_is(command);
    terminal.wait_for("type anything");
    let (status, report) = launch.verify();
    assert_eq!(status, Some(0), "{report:#}");
    terminal.send("by hand\r");
    assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
    let kept = host.agent_home("standin", "server").join("signed-in");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "by hand");
    assert_eq!(terminal.modes(), before);
    host.assert_nothing_left();
}

/// Of every process of this user's: its arguments.
fn command_lines() -> Vec<Vec<u8>> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).collect()
}

#[test]
fn codex_keeps_a_key_in_its_private_home_and_shows_it_nowhere() {
    let Some(program) = program("codex") else { return };
    for tier in TIERS {
        let host = Host::new();
        host.configure(&format!("[agents.codex]\nprogram = \"{}\"\n", program.display()));
        let (read, mut write) = std::io::pipe().unwrap();
        let mut command =
            login(&host, &["codex", "--tier", tier, "--json", "--", "--with-api-key"]);
        command.stdin(Stdio::from(read));
        let launch = host.start(command);
        let id = launch.id.clone();
        let codex = launch.process("agent", Some("server"));
        let line = std::fs::read(format!("/proc/{codex}/cmdline")).unwrap();
        assert!(line.ends_with(b"\0login\0--with-api-key\0"), "control: {line:?}");
        write.write_all(format!("{TOKEN}\n").as_bytes()).unwrap();
        let has = |text: &[u8], what: &str| text.windows(what.len()).any(|w| w == what.as_bytes());
        assert!(!command_lines().iter().any(|line| has(line, TOKEN)));
        drop(write);
        let run = launch.end();
        assert_eq!(run.code(), Some(0), "{tier}: {run:?}");
        let kept = host.agent_home("codex", "server").join(".codex/auth.json");
        assert!(std::fs::read_to_string(&kept).unwrap().contains(TOKEN), "{tier}");
        assert_eq!(mode(&kept), 0o600);
        for root in [host.home(), host.runtime(), host.workspace()] {
            let found = containing(&root, TOKEN.as_bytes());
            assert!(found.iter().all(|path| *path == kept), "{found:?}");
        }
        assert!(!host.home().join(".codex").exists());
        for told in [
            run.stdout + &run.stderr,
            host.run(&["list", "--json"]).stdout,
            host.run(&["info", "--json", &id]).stdout,
            host.run(&["log", "--json", &id]).stdout,
            host.run(&["status", "--all", "--json"]).stdout,
        ] {
            assert!(!told.contains(TOKEN), "{told}");
        }
        let run = finish(login(&host, &["codex", "--tier", tier, "--", "status"]));
        assert_eq!(run.code(), Some(0), "{tier}: {run:?}");
        assert!(run.stderr.contains("API key configured"), "{tier}: {run:?}");
        let run = finish(login(&host, &["codex", "--tier", tier, "--", "logout"]));
        assert_eq!(run.code(), Some(0), "{tier}: {run:?}");
        assert!(!kept.exists(), "{tier}");
        host.assert_nothing_left();
    }
}
