//! The real OpenCode under the whole stack: `opencode serve` in the server sandbox,
//! `opencode run --attach` and the terminal UI in the client sandbox, and all of it as one
//! process. Its model is a script on this host's loopback, which only the guard reaches.
//!
//! OpenCode takes seconds to start and every processor while it does: the launches are few,
//! and there is one at a time.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paddock_test::agent::{AgentHost, LAST_WORDS, program};
use paddock_test::host::{Host, skip, wait_for};
use paddock_test::model::Turn;
use paddock_test::terminal::Terminal;
use serde_json::{Value, json};

/// Held by a test for as long as it runs OpenCode.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What it takes on a busy host.
const SLOWLY: Duration = Duration::from_mins(4);

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// OpenCode on a host, its model told to it, and the hosts of its agent file left out.
fn opencode(setup: Option<AgentHost>) -> Option<AgentHost> {
    let opencode = setup?;
    let file = opencode.host.home().join(".config/paddock/config.toml");
    let configuration = std::fs::read_to_string(file).unwrap();
    let listed = "[egress]\nprofile = \"listed\"\n";
    opencode.host.configure(&configuration.replacen("[egress]\n", listed, 1));
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": { "baseURL": format!("{}/v1", opencode.model_url()), "apiKey": "k" },
        "models": {
            "fake-1": { "name": "Fake One", "limit": { "context": 128_000, "output": 8_000 } },
        },
    });
    let settings = json!({
        "model": "fake/fake-1",
        "small_model": "fake/fake-1",
        "share": "disabled",
        "enabled_providers": ["fake"],
        "provider": { "fake": provider },
        "permission": { "*": "allow" },
    });
    opencode.write_in_home("server", ".config/opencode/opencode.json", &settings.to_string());
    // It fetches its interface for plugins there, and works without.
    opencode.write_in_home("server", ".npmrc", "registry=https://registry.test/\n");
    Some(opencode.asks(&["models.opencode.ai", "registry.test"]).settled())
}

fn two_calls() -> Option<AgentHost> {
    opencode(AgentHost::two_calls("opencode"))
}

fn run(opencode: &AgentHost, tier: &str) -> Command {
    let mut command = opencode.run(opencode.host.paddock(), tier);
    command.args(["--", "run", "--format", "json", "Run the tool."]);
    command
}

/// The whole of `opencode run` in one tier.
fn opencode_run_in(tier: &str) {
    let Some(opencode) = two_calls().map(AgentHost::in_repository) else { return };
    let _alone = alone();
    let mut launch = opencode.host.start(run(&opencode, tier));
    opencode.verify_to_the_end(&mut launch, || {});
    let run = launch.end();
    assert_eq!(run.code(), Some(0), "{run:#?}");
    assert!(run.stdout.contains(LAST_WORDS), "{run:#?}");
    assert_eq!(opencode.host.records()[0]["form"], "pair");
    opencode.assert_tool_was_confined();
    opencode.assert_ledger_is_clean();
    opencode.assert_only_allowed_changes();
}

#[test]
fn opencode_run_is_confined_from_its_first_instruction_to_its_end() {
    opencode_run_in("sealed");
}

#[test]
fn opencode_run_is_confined_in_the_lesser_tiers() {
    opencode_run_in("isolated");
    opencode_run_in("ported");
}

/// Attached, `opencode run` would end without the answer.
#[test]
fn without_a_git_repository_opencode_run_is_one_process_that_shows_the_answer() {
    let Some(opencode) = two_calls() else { return };
    let _alone = alone();
    let mut launch = opencode.host.start(run(&opencode, "sealed"));
    opencode.verify_to_the_end(&mut launch, || {});
    let run = launch.end();
    assert_eq!(run.code(), Some(0), "{run:#?}");
    assert!(run.stdout.contains(LAST_WORDS), "{run:#?}");
    assert!(run.stderr.contains("there is no git repository in "), "{run:#?}");
    assert_eq!(opencode.host.records()[0]["form"], "solo");
    opencode.assert_tool_was_confined();
    opencode.assert_ledger_is_clean();
    opencode.assert_only_allowed_changes();
}

/// A person's whole session with the terminal UI, in a directory that is no repository,
/// and another one that goes on with it.
#[test]
fn the_terminal_ui_of_opencode_works_confined_and_goes_on_in_a_fresh_launch() {
    let turns = ["bash ./tool.sh", "bash ./ask.sh"].map(|command| Turn::Shell(command.into()));
    let said = [LAST_WORDS, "Second answer."].map(|text| Turn::Say(text.into()));
    let turns = turns.into_iter().chain(said).collect();
    let Some(opencode) = opencode(AgentHost::with_turns("opencode", turns)) else { return };
    let _alone = alone();
    let host = &opencode.host;
    let terminal = Terminal::open();
    let modes = terminal.modes();
    let mut launch = host.start_as_it_is(opencode.run(terminal.paddock(host), "sealed"));
    terminal.wait_for_within(SLOWLY, "Ask anything");
    // The control: what is given back has been taken.
    let (settings, on) = terminal.modes();
    assert!(settings != modes.0 && on.contains(&"the alternate screen"), "{on:?}");
    terminal.send("Run the tool, for the word quince.");
    terminal.wait_for_within(SLOWLY, "for the word quince.");
    terminal.send("\r");
    std::thread::scope(|scope| {
        let person = scope.spawn(|| {
            terminal.wait_for_within(SLOWLY, LAST_WORDS);
            quit(&terminal);
        });
        opencode.verify_to_the_end(&mut launch, || {});
        person.join().unwrap();
    });
    assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
    assert_eq!(terminal.modes(), modes, "{}", terminal.text());
    opencode.assert_tool_was_confined();
    opencode.assert_ledger_is_clean();
    opencode.assert_only_allowed_changes();

    let terminal = Terminal::open();
    let modes = terminal.modes();
    let mut command = terminal.paddock(host);
    command.arg("resume");
    let launch = host.start_as_it_is(command);
    terminal.wait_for_within(SLOWLY, LAST_WORDS);
    terminal.send("Which word was it?");
    terminal.wait_for_within(SLOWLY, "Which word was it?");
    terminal.send("\r");
    terminal.wait_for_within(SLOWLY, "Second answer.");
    let (status, report) = launch.verify();
    assert_eq!(status, Some(0), "{report:#}");
    quit(&terminal);
    assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
    assert_eq!(terminal.modes(), modes, "{}", terminal.text());
    let asked = opencode.model.conversation().unwrap()["messages"].to_string();
    for said in ["quince", LAST_WORDS, "Which word was it?"] {
        assert!(asked.contains(said), "no {said:?} in {asked}");
    }
    host.assert_nothing_left();
}

/// Has the terminal UI end.
fn quit(terminal: &Terminal) {
    terminal.send("/exit");
    terminal.wait_for_within(SLOWLY, "/exit");
    terminal.send("\r");
}

#[test]
fn an_opencode_that_is_stopped_in_the_middle_of_a_turn_leaves_nothing() {
    // The tool's own children leave its session, and one of them its parent.
    let script = "(setsid sleep 4721 &) ; setsid sleep 4722 & touch made-by-tool ; sleep 4723";
    let setup = opencode(AgentHost::new("opencode", &[script])).map(AgentHost::in_repository);
    let Some(opencode) = setup else { return };
    let _alone = alone();
    let launch = opencode.host.start(run(&opencode, "sealed"));
    let sleepers = || {
        let processes = opencode.host.processes();
        let is_sleeper = |(_, command): &&(i32, String)| command.starts_with("sleep 472");
        processes.iter().filter(is_sleeper).count()
    };
    let up = wait_for(SLOWLY, || (sleepers() == 3).then_some(()));
    assert!(up.is_some(), "{:?}", opencode.host.processes());
    let (status, report) = launch.verify();
    assert_eq!(status, Some(0), "{report:#}");
    let run = launch.terminate();
    assert_eq!(run.code(), Some(143), "{run:#?}");
    let stop = opencode.host.ledger().pop().unwrap();
    assert_eq!((&stop["event"], &stop["survivors"]), (&"stop".into(), &0.into()), "{stop}");
    opencode.assert_only_allowed_changes();
}

/// The words for each version, taken from the package that the program is in.
#[test]
fn the_words_are_those_of_the_version_of_the_package() {
    for (version, package, words) in [
        ("1.18.33", "opencode-linux-x64", "attach http://127.0.0.1:"),
        ("2.0.12", "@opencode/cli-linux-x64", "--server http://127.0.0.1:"),
    ] {
        let host = Host::new();
        let package = format!("node_modules/{package}");
        host.write(&format!("{package}/package.json"), &format!("{{\"version\":\"{version}\"}}"));
        let program = host.script(&format!("{package}/bin/opencode"), "#!/bin/sh\nexit 3\n");
        host.configure(&format!("[agents.opencode]\nprogram = \"{}\"\n", program.display()));
        let plan = |arguments: &[&str]| {
            let run = host.run(&[&["run", "opencode", "--dry-run", "--json"], arguments].concat());
            serde_json::from_str::<Value>(&run.stdout).unwrap_or_else(|_| panic!("{run:#?}"))
        };
        let argv = |plan: &Value, half: &str| {
            let words = plan[half]["argv"].as_array().unwrap().iter().skip(1);
            words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        let plan = plan(&[]);
        let server = argv(&plan, "agentServer");
        assert!(server.starts_with("serve --hostname 127.0.0.1 --port "), "{server}");
        let client = argv(&plan, "agentClient");
        assert!(client.starts_with(words), "{version}: {client}");
        assert!(!server.contains("service") && !client.contains("standalone"), "{plan:#}");
    }
}

/// What the public sources say of version 2: its words, its variable for the password, its
/// path for a look at its health.
const VERSION_2: &str = r#"#!/usr/bin/python3
import base64, http.server, os, sys, urllib.request
password = os.environ["OPENCODE_PASSWORD"]
wanted = "Basic " + base64.b64encode(b"opencode:" + password.encode()).decode()
class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        allowed = self.headers.get("Authorization") == wanted
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(self.path.encode())
words = sys.argv[1:]
if words[0] == "serve":
    assert words[1::2] == ["--hostname", "--port"], words
    http.server.HTTPServer((words[2], int(words[4])), Server).serve_forever()
assert words[:2] == ["run", "--server"], words
request = urllib.request.Request(words[2] + "/api/health", headers={"Authorization": wanted})
print(urllib.request.urlopen(request).status, words[3:])
"#;

#[test]
fn what_has_the_words_of_version_2_meets_its_server_with_the_password() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return skip("there is no /usr/bin/python3");
    }
    let host = Host::new();
    let package = "node_modules/@opencode/cli-linux-x64";
    host.write(&format!("{package}/package.json"), "{\"version\":\"2.0.12\"}");
    let program = host.script(&format!("{package}/bin/opencode"), VERSION_2);
    host.configure(&format!("[agents.opencode]\nprogram = \"{}\"\n", program.display()));
    let run = host.run(&["run", "opencode", "--", "run", "a prompt"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "200 ['a prompt']\n"), "{run:#?}");
    host.assert_nothing_left();
}

#[test]
fn the_program_that_npm_installed_is_of_a_known_version() {
    let Some(program) = program("opencode") else { return };
    let host = Host::new();
    host.configure(&format!("[agents.opencode]\nprogram = \"{}\"\n", program.display()));
    let run = host.run(&["run", "opencode", "--dry-run"]);
    assert_eq!(run.code(), Some(0), "{run:#?}");
    assert!(!run.stderr.contains("not known to work"), "{run:#?}");
}
