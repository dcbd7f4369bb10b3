//! The guide to agents of one's own, run as it stands there.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::process::Command;

use paddock_test::host::{Finished, Host, LIMIT, TIERS, finish, skip, wait_for};
use paddock_test::model::{ModelServer, Turn};
use serde_json::Value;

const GUIDE: &str = include_str!("../../docs/guide/custom-agent.md");
const AGENT: &str = "small-agent";

/// The fenced blocks of the guide in that language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("\n```{language}\n");
    GUIDE.split(&fence).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

/// The block of TOML that has this line.
fn toml(line: &str) -> &'static str {
    let found: Vec<_> =
        blocks("toml").into_iter().filter(|block| block.lines().any(|l| l == line)).collect();
    assert_eq!(found.len(), 1, "{line}");
    found[0]
}

/// A host with the guide's agents on it, its commands done as they are typed there.
fn host() -> Host {
    let mut host = Host::new();
    let [program] = blocks("python")[..] else { panic!("one program") };
    host.script(&format!(".local/bin/{AGENT}"), program);
    let path = std::env::var("PATH").unwrap();
    host.set("PATH", format!("{}:{path}", host.home().join(".local/bin").display()));
    add(
        &host,
        AGENT,
        toml(
            "kind = \"tcp\"                            # they meet on a port of the sandbox's own",
        ),
    );
    for (name, text) in [
        ("server.json", include_str!("../../profiles/standin/server.json")),
        ("client.json", include_str!("../../profiles/standin/client.json")),
    ] {
        assert!(GUIDE.contains(&format!("profiles/standin/{name}")));
        host.write(&format!(".config/paddock/agents/{AGENT}/{name}"), text);
    }
    add(&host, "codex-here", toml("extends = \"codex\""));
    host.write("notes.txt", "a canary\n");
    host
}

fn add(host: &Host, name: &str, text: &str) -> PathBuf {
    host.write(&format!(".config/paddock/agents/{name}/agent.toml"), text)
}

fn run(host: &Host, tier: &str, command: &str) -> Finished {
    let mut paddock = host.paddock();
    paddock.args(["run", AGENT, "--tier", tier, "--workspace"]).arg(host.workspace());
    paddock.args(["--", command]);
    finish(paddock)
}

#[test]
fn the_small_agent_runs_in_two_sandboxes_in_every_tier() {
    for tier in TIERS {
        let host = host();
        let inside = run(&host, tier, "pwd; id -u; cat ~/.small-agent/settings.json");
        assert_eq!(inside.code(), Some(0), "{tier}: {}", inside.stderr);
        let lines: Vec<&str> = inside.stdout.lines().collect();
        let uid = rustix::process::getuid().as_raw().to_string();
        assert_eq!(lines[..2], [host.workspace().to_str().unwrap(), &uid], "{tier}");
        let home = host.agent_home(AGENT, "server");
        let seed: Value = serde_json::from_str(lines[2]).unwrap();
        assert_eq!(seed["cache"], format!("{}/cache", home.display()));
        assert_eq!(std::fs::read_dir(&home).unwrap().count(), 1, "and no temporary file");

        // The same call of the tool, inside and outside.
        let notes = host.home().join("notes.txt");
        let call = format!("cat {}", notes.display());
        let refused = run(&host, tier, &call);
        assert_ne!(refused.code(), Some(0), "{tier}: {}", refused.stdout);
        assert!(!refused.stdout.contains("a canary"), "{tier}: {}", refused.stdout);
        assert_eq!(outside(&host, &call), "a canary\n", "control");
        host.assert_nothing_left();
    }
}

/// The same program with the same tool, without Paddock.
fn outside(host: &Host, call: &str) -> String {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // sha256 of "x".
    let hash = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    let program = host.home().join(".local/bin").join(AGENT);
    let mut server = Command::new(&program);
    host.dress(&mut server);
    let mut server = server.args(["serve", &port.to_string(), hash]).spawn().unwrap();
    let answer = wait_for(LIMIT, || {
        let mut client = Command::new(&program);
        host.dress(&mut client);
        client.env("SMALL_AGENT_PASSWORD", "x").args(["ask", &port.to_string(), call]);
        let answer = finish(client);
        (answer.code() == Some(0)).then_some(answer.stdout)
    });
    server.kill().unwrap();
    server.wait().unwrap();
    answer.expect("the agent answers outside")
}

#[test]
fn the_files_of_the_guide_are_right_and_a_wrong_one_is_told() {
    let host = host();
    let agents = host.home().join(".config/paddock/agents");
    let check = |name: &str| host.run(&["agents", "check", agents.join(name).to_str().unwrap()]);
    for name in [AGENT, "codex-here"] {
        let checked = check(name);
        assert_eq!(checked.code(), Some(0), "{}{}", checked.stdout, checked.stderr);
    }
    let good = std::fs::read_to_string(agents.join(AGENT).join("agent.toml")).unwrap();
    let bad =
        good.replace("processes =", "proceses =").replace("{port}\", \"{pass", "{prot}\", \"{pass");
    add(
        &host,
        AGENT,
        &bad.replace("password-variable =", "pass = [\"SSH_AUTH_SOCK\"]\npassword-variable ="),
    );
    let checked = check(AGENT);
    assert_eq!(checked.code(), Some(125), "{}", checked.stdout);
    let wanted = format!(
        "{}/agent.toml:2: unknown key `proceses`: did you mean `processes`?",
        agents.join(AGENT).display()
    );
    assert!(checked.stdout.starts_with(&wanted), "{}", checked.stdout);
    add(&host, AGENT, &bad.replace("proceses", "processes"));
    let checked = host.run(&["agents", "check", "--json", agents.join(AGENT).to_str().unwrap()]);
    let told: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(
        (&told["ok"], &told["problems"][0]["line"]),
        (&false.into(), &12.into()),
        "{told:#}"
    );
}

#[test]
fn what_is_checked_or_shown_is_not_run() {
    let host = host();
    let mark = host.home().join("ran");
    host.script(".local/bin/small-agent", &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let directory = host.home().join(".config/paddock/agents").join(AGENT);
    for arguments in [
        &["agents"][..],
        &["agents", "show", AGENT],
        &["agents", "check", directory.to_str().unwrap()],
    ] {
        let run = host.run(arguments);
        assert_eq!(run.code(), Some(0), "{arguments:?}: {}{}", run.stdout, run.stderr);
    }
    assert!(!mark.exists());
    let program = host.home().join(".local/bin").join(AGENT);
    finish(Command::new(program));
    assert!(mark.exists(), "control");
}

#[test]
fn an_agent_that_extends_codex_is_codex_with_another_host() {
    let host = host();
    let show = |name: &str| -> Value {
        let run = host.run(&["agents", "show", name, "--json"]);
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
        serde_json::from_str(&run.stdout).unwrap()
    };
    let (mine, shipped) = (show("codex-here"), show("codex"));
    assert_eq!(mine["file"]["hosts"], serde_json::json!(["model.example.com:8080"]));
    assert_eq!(mine["file"]["name"], "codex-here");
    assert_eq!(mine["extends"][0], "codex (shipped)");
    for key in ["link", "client"] {
        assert_eq!(mine["file"][key], shipped["file"][key], "{key}");
    }
    assert_eq!(mine["file"]["server"]["argv"], shipped["file"]["server"]["argv"]);
    assert_ne!(mine["file"]["server"]["pass"], shipped["file"]["server"]["pass"]);
    // What is printed for a person is an agent file, too.
    let printed = host.run(&["agents", "show", "codex-here"]).stdout;
    add(&host, "again", &printed.replace("name = \"codex-here\"\n", ""));
    for (policy, text) in [
        ("server.json", include_str!("../../profiles/codex/server.json")),
        ("client.json", include_str!("../../profiles/codex/client.json")),
    ] {
        host.write(&format!(".config/paddock/agents/again/{policy}"), text);
    }
    assert_eq!(show("again")["file"]["server"], mine["file"]["server"]);
}

#[test]
fn codex_runs_with_the_model_of_the_guide() {
    let Some(program) = std::env::var_os("PADDOCK_TEST_CODEX").map(PathBuf::from) else {
        return skip("Codex is not installed; scripts/test.sh installs it where npm is");
    };
    let host = host();
    let model = ModelServer::start(vec![
        Turn::Shell(format!("cat {}", host.home().join("notes.txt").display())),
        Turn::Say("That is all.".into()),
    ])
    .unwrap();
    let port = model.port().to_string();
    add(&host, "codex-here", &toml("extends = \"codex\"").replace("8080", &port));
    let exception = toml("exceptions = { \"model.example.com\" = \"127.0.0.1\" }");
    host.configure(&format!(
        "{exception}[agents.codex-here]\nprogram = \"{}\"\n",
        program.display()
    ));
    let mut paddock = host.paddock();
    paddock.args(["run", "codex-here", "--workspace"]).arg(host.workspace());
    paddock.args(["--", "exec", "Run the tool."]);
    let run = finish(paddock);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("That is all."), "{}{}", run.stdout, run.stderr);
    let [output] = &model.outputs()[..] else { panic!("{:#?}", model.requests()) };
    assert!(!output.contains("a canary") && output.contains("No such file"), "{output}");
    assert_eq!(model.conversation().unwrap()["model"], "our-model");
    host.assert_nothing_left();
}
