//! The real Codex under the whole stack: `codex app-server` in the server
//! sandbox, `codex exec --remote` and the terminal UI in the client sandbox. Its
//! model is a script on this host's loopback, which only the guard reaches.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::Command;

use paddock_test::agent::{AgentHost, LAST_WORDS, program};
use paddock_test::host::{Host, LIMIT, TIERS, finish, wait_for};
use paddock_test::model::Turn;
use paddock_test::terminal::Terminal;
use serde_json::Value;

/// Codex on a host, its model told to it.
fn codex(setup: Option<AgentHost>) -> Option<AgentHost> {
    let codex = setup?;
    let common = "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
        check_for_update_on_startup = false\ndisable_paste_burst = true\n\
        [analytics]\nenabled = false\n\
        [features]\nplugins = false\napps = false\nremote_plugin = false\n";
    // Codex sends its shell tool to models that it does not know.
    let server = format!(
        "model = \"fake-1\"\nmodel_provider = \"fake\"\n{common}\
         [model_providers.fake]\nname = \"Fake\"\nwire_api = \"responses\"\n\
         base_url = \"{}/v1\"\n\
         stream_max_retries = 0\nrequest_max_retries = 0\n\
         [projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        codex.model_url(),
        codex.host.workspace().display()
    );
    codex.write_in_home("server", ".codex/config.toml", &server);
    codex.write_in_home("client", ".codex/config.toml", common);
    Some(codex)
}

fn two_calls() -> Option<AgentHost> {
    codex(AgentHost::two_calls("codex"))
}

fn exec(codex: &AgentHost, tier: &str) -> Command {
    let mut command = codex.run(codex.host.paddock(), tier);
    command.args(["--", "exec", "--json", "Run the tool."]);
    command
}

fn assert_only_allowed_changes(codex: &AgentHost) {
    codex.assert_only_allowed_changes();
    // Codex can leave a server of its own running, for all its clients.
    for half in ["server", "client"] {
        let codex = codex.host.agent_home("codex", half).join(".codex");
        assert!(codex.join("config.toml").is_file(), "control");
        for daemon in ["app-server-daemon", "app-server-control", "packages"] {
            assert!(!codex.join(daemon).exists(), "{half} has {daemon}");
        }
    }
}

/// The whole of `codex exec` in one tier.
fn codex_exec_in(tier: &str) {
    let Some(codex) = two_calls() else { return };
    let mut launch = codex.host.start(exec(&codex, tier));
    codex.verify_to_the_end(&mut launch, || {});
    let run = launch.end();
    assert_eq!(run.code(), Some(0), "{run:#?}");
    for event in [LAST_WORDS, "\"turn.completed\""] {
        assert!(run.stdout.contains(event), "{run:#?}");
    }
    codex.assert_tool_was_confined();
    codex.assert_ledger_is_clean();
    assert_only_allowed_changes(&codex);
}

#[test]
fn codex_exec_is_confined_from_its_first_instruction_to_its_end() {
    codex_exec_in("sealed");
}

#[test]
fn codex_exec_is_confined_without_a_veil_too() {
    codex_exec_in("isolated");
}

#[test]
fn codex_exec_is_confined_without_namespaces_too() {
    codex_exec_in("ported");
}

/// A person's whole session with the terminal UI in one tier.
fn codex_terminal_ui_in(tier: &str, options: &[&str]) {
    let Some(mut codex) = two_calls() else { return };
    if options.contains(&"--solo") {
        // Tips for the start screen; the client of a pair has no way out.
        codex = codex.asks(&["raw.githubusercontent.com"]);
    }
    let terminal = Terminal::open();
    let modes = terminal.modes();
    let mut command = codex.run(terminal.paddock(&codex.host), tier);
    command.args(options).args(["--", "Run the tool."]);
    let mut launch = codex.host.start_as_it_is(command);

    std::thread::scope(|scope| {
        let person = scope.spawn(|| {
            terminal.wait_for(LAST_WORDS);
            terminal.wait_for("• Ran bash ./tool.sh");
            // Ctrl-D.
            terminal.send("\x04");
        });
        codex.verify_to_the_end(&mut launch, || {
            terminal.wait_for("Ask Codex to do anything");
            terminal.wait_for("esc to interrupt");
            let processes = codex.host.processes();
            let is_of_a_daemon = |(_, command): &&(i32, String)| {
                command.contains("managed-daemon") || command.contains("app-server daemon")
            };
            assert_eq!(processes.iter().find(is_of_a_daemon), None);
            // The control: what is given back has been taken.
            let (settings, on) = terminal.modes();
            assert!(settings != modes.0 && on.contains(&"the alternate screen"), "{on:?}");
        });
        person.join().unwrap();
    });
    let run = launch.end();
    assert_eq!(run.code(), Some(0), "{}", terminal.text());
    assert_eq!(terminal.modes(), modes, "{}", terminal.text());
    codex.assert_tool_was_confined();
    codex.assert_ledger_is_clean();
    assert_only_allowed_changes(&codex);
}

#[test]
fn the_terminal_ui_of_codex_works_confined_and_gives_the_terminal_back() {
    codex_terminal_ui_in("sealed", &[]);
}

#[test]
fn the_terminal_ui_of_codex_works_in_the_lesser_tiers() {
    codex_terminal_ui_in("isolated", &[]);
    codex_terminal_ui_in("ported", &[]);
}

/// By itself it would start a server in the background, and be its client.
#[test]
fn the_terminal_ui_of_codex_as_one_process_starts_no_server_of_its_own() {
    codex_terminal_ui_in("sealed", &["--solo"]);
}

#[test]
fn codex_exec_as_one_process_is_confined() {
    let Some(codex) = two_calls() else { return };
    let mut command = codex.run(codex.host.paddock(), "sealed");
    command.args(["--solo", "--", "exec", "--json", "Run the tool."]);
    let mut launch = codex.host.start(command);
    codex.verify_to_the_end(&mut launch, || {});
    let run = launch.end();
    assert_eq!(run.code(), Some(0), "{run:#?}");
    assert!(run.stdout.contains(LAST_WORDS), "{run:#?}");
    codex.assert_tool_was_confined();
    codex.assert_ledger_is_clean();
    assert_only_allowed_changes(&codex);
}

/// A conversation begins in one launch and goes on in another, though a third, in
/// another workspace and the same home, came between.
fn codex_goes_on_in(tier: &str) {
    let turns = ["First answer.", "Second answer."];
    let turns = turns.map(|text| Turn::Say(text.into())).into();
    let Some(codex) = codex(AgentHost::with_turns("codex", turns)) else { return };
    let host = &codex.host;
    let exec = |workspace: &Path, prompt: &str| {
        let mut command = host.paddock();
        command.args(["run", "codex", "--tier", tier, "--workspace"]).arg(workspace);
        let run = finish({
            command.args(["--", "exec", prompt]);
            command
        });
        assert_eq!(run.code(), Some(0), "{tier}: {run:#?}");
        assert!(run.stdout.contains("First answer."), "{run:#?}");
    };
    let last_request = || {
        let request = codex.model.conversation().unwrap();
        request["input"].to_string()
    };
    exec(&host.workspace(), "Remember the word quince.");
    let other = host.home().join("other");
    std::fs::create_dir(&other).unwrap();
    exec(&other, "Remember the word medlar.");
    assert!(!last_request().contains("quince"), "control: another conversation");

    let terminal = Terminal::open();
    let modes = terminal.modes();
    let mut command = terminal.paddock(host);
    // A lesser tier is asked for each time.
    command.args(["resume", "--tier", tier, "--", "Which word was it?"]);
    let launch = host.start_as_it_is(command);
    terminal.wait_for("Second answer.");
    let (status, report) = launch.verify();
    assert_eq!(status, Some(0), "{tier}: {report:#}");
    terminal.send("\x04");
    assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
    assert_eq!(terminal.modes(), modes, "{}", terminal.text());
    let asked = last_request();
    for said in ["quince", "First answer.", "Which word was it?"] {
        assert!(asked.contains(said), "{tier}: no {said:?} in {asked}");
    }
    assert!(!asked.contains("medlar"), "{tier}: {asked}");
    let records = host.records();
    assert_eq!(records[2]["workspace"], records[0]["workspace"]);
    assert_eq!(records[2]["tier"], tier);
    host.assert_nothing_left();
}

#[test]
fn a_conversation_of_codex_goes_on_in_a_fresh_launch() {
    codex_goes_on_in("sealed");
}

#[test]
fn a_conversation_of_codex_goes_on_in_the_lesser_tiers() {
    codex_goes_on_in("isolated");
    codex_goes_on_in("ported");
}

#[test]
fn a_launch_that_is_stopped_in_the_middle_of_a_turn_leaves_nothing() {
    for tier in TIERS {
        // The tool's own children leave its session, and one of them its parent.
        let script = "(setsid sleep 4711 &) ; setsid sleep 4712 & touch made-by-tool ; sleep 4713";
        let Some(codex) = codex(AgentHost::new("codex", &[script])) else { return };
        let launch = codex.host.start(exec(&codex, tier));
        let sleepers = || {
            let processes = codex.host.processes();
            let is_sleeper = |(_, command): &&(i32, String)| command.starts_with("sleep 471");
            processes.iter().filter(is_sleeper).count()
        };
        let up = wait_for(LIMIT, || (sleepers() == 3).then_some(()));
        assert!(up.is_some(), "{tier}: {:?}", codex.host.processes());
        let (status, report) = launch.verify();
        assert_eq!(status, Some(0), "{tier}: {report:#}");
        let run = launch.terminate();
        assert_eq!(run.code(), Some(143), "{tier}: {run:#?}");
        let stop = codex.host.ledger().pop().unwrap();
        assert_eq!((&stop["event"], &stop["survivors"]), (&"stop".into(), &0.into()), "{stop}");
        assert_only_allowed_changes(&codex);
    }
}

#[test]
fn the_program_behind_the_launcher_script_of_npm_is_found() {
    let Some(program) = program("codex") else { return };
    let mut host = Host::new();
    // As npm makes it: a link on PATH to the script in the package.
    let modules = program.ancestors().find(|path| path.ends_with("node_modules")).unwrap();
    let package = modules.join("@openai/codex");
    // Beside its native part, or around it: that depends on npm's version.
    let package = if package.is_dir() { &package } else { modules.parent().unwrap() };
    let script = package.join("bin/codex.js");
    assert!(script.is_file(), "{script:?}");
    let bin = host.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(&script, bin.join("codex")).unwrap();
    host.set("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let run = host.run(&["run", "codex", "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
    let program = program.canonicalize().unwrap();
    assert_eq!(plan["program"].as_str(), program.to_str(), "{run:#?}");
    assert_eq!(plan["agentServer"]["argv"][0].as_str(), program.to_str(), "{run:#?}");
}
