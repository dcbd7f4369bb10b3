//! The real Codex under the whole stack: `codex app-server` in the server
//! sandbox, `codex exec --remote` and the terminal UI in the client sandbox. Its
//! model is a script on this host's loopback, which only the guard reaches.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use paddock_test::files::{Listing, changes, listing};
use paddock_test::host::{Host, LIMIT, Launch, TIERS, finish, skip, wait_for};
use paddock_test::model::{ModelServer, Turn};
use paddock_test::terminal::Terminal;
use serde_json::Value;

/// On the allow list without an exception, and not an address of the Internet.
const PRIVATE: &str = "10.9.8.7:80";
/// On no list.
const REFUSED: &str = "refused.test:443";
/// How often the model calls the tool in [`Setup::two_calls`].
const CALLS: usize = 2;
/// What the model says at last.
const LAST_WORDS: &str = "That is all.";

/// A host with Codex set up on it, and the model that Codex is told to use.
struct Setup {
    host: Host,
    model: ModelServer,
    before: Listing,
}

impl Setup {
    /// The model has the shell tool run the commands that `script` makes for a
    /// host. `None` where Codex is not installed.
    fn new(script: impl FnOnce(&Host) -> Vec<String>) -> Option<Self> {
        Self::with(|host| {
            let shell = script(host).into_iter().map(Turn::Shell);
            shell.chain([Turn::Say(LAST_WORDS.into())]).collect()
        })
    }

    /// The model does this, turn by turn.
    fn with(turns: impl FnOnce(&Host) -> Vec<Turn>) -> Option<Self> {
        let Some(program) = std::env::var_os("PADDOCK_TEST_CODEX").map(PathBuf::from) else {
            skip("Codex is not installed; scripts/test.sh installs it where npm is");
            return None;
        };
        let host = Host::new();
        for directory in ["canary", "control/canary"] {
            host.write(&format!("{directory}/secret"), "a secret\n");
        }
        host.write("control/go", "");
        let model = ModelServer::start(turns(&host)).unwrap();
        let port = model.port();
        host.configure(&format!(
            "[egress]\nhosts = [\"model.test:{port}\", \"{PRIVATE}\"]\n\
             exceptions = {{ \"model.test\" = \"127.0.0.1\" }}\n\
             [agents.codex]\nprogram = \"{}\"\n",
            program.display()
        ));

        let common = "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
            check_for_update_on_startup = false\ndisable_paste_burst = true\n\
            [analytics]\nenabled = false\n\
            [features]\nplugins = false\napps = false\nremote_plugin = false\n";
        // Codex sends its shell tool to models that it does not know.
        let server = format!(
            "model = \"fake-1\"\nmodel_provider = \"fake\"\n{common}\
             [model_providers.fake]\nname = \"Fake\"\nwire_api = \"responses\"\n\
             base_url = \"http://model.test:{port}/v1\"\n\
             stream_max_retries = 0\nrequest_max_retries = 0\n\
             [projects.\"{}\"]\ntrust_level = \"trusted\"\n",
            host.workspace().display()
        );
        for (half, text) in [("server", server.as_str()), ("client", common)] {
            let directory = host.agent_home("codex", half).join(".codex");
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).unwrap();
            std::fs::write(directory.join("config.toml"), text).unwrap();
        }
        let before = Self::everything(&host);
        Some(Self { host, model, before })
    }

    /// The model has the tool try what it may not, and ask for hosts.
    fn two_calls() -> Option<Self> {
        Self::new(|host| vec![tool(&host.home().join("canary")), ask_for_hosts()])
    }

    fn everything(host: &Host) -> Listing {
        let mut all = listing(&host.home());
        all.extend(listing(&host.workspace()));
        all
    }

    /// `paddock run codex`, to be given Codex's own arguments.
    fn run(&self, mut command: Command, tier: &str) -> Command {
        command.args(["run", "codex", "--tier", tier, "--workspace"]);
        command.arg(self.host.workspace()).arg("--");
        command
    }

    fn exec(&self, tier: &str) -> Command {
        let mut command = self.run(self.host.paddock(), tier);
        command.args(["exec", "--json", "Run the tool."]);
        command
    }

    /// What the shell tool gave back to the model, call by call.
    fn outputs(&self) -> Vec<String> {
        let conversation = self.model.requests().into_iter().rfind(has_tools);
        let input = conversation.and_then(|request| request["input"].as_array().cloned());
        input
            .unwrap_or_default()
            .iter()
            .filter(|item| item["type"] == "function_call_output")
            .map(|item| item["output"].as_str().map_or(item["output"].to_string(), str::to_owned))
            .collect()
    }

    /// Verifies without a pause. Lets the tool go on once its shell has been seen
    /// where it belongs, and returns when the launch has ended.
    fn verify_to_the_end(&self, launch: &mut Launch<'_>, mut when_seen: impl FnMut()) {
        let (mut held, mut seen) = (0, false);
        let deadline = Instant::now() + LIMIT;
        while !launch.has_ended() {
            assert!(Instant::now() < deadline, "it goes on; tool seen: {seen}");
            let (status, report) = launch.verify();
            match status {
                Some(0) if report["holds"] == true => held += 1,
                // There is nothing to confirm about a launch that is over; but
                // then the model has said its last words.
                Some(0 | 125) if self.outputs().len() == CALLS => continue,
                _ => panic!("after {held} good passes: {status:?} {report:#}"),
            }
            if !seen && let Some(task) = shell_of_the_tool(&report) {
                assert_eq!(
                    [&task["layer"], &task["role"], &task["verdict"]],
                    ["server", "agent", "confined"],
                    "{task:#}"
                );
                seen = true;
                when_seen();
                std::fs::write(self.host.workspace().join("go"), "").unwrap();
            }
        }
        assert!(seen && held > 1, "tool seen: {seen}; {held} good passes");
    }

    /// What the tool said must show that it ran in the server sandbox, and that
    /// nothing beyond was open to it.
    fn assert_tool_was_confined(&self) {
        let outputs = self.outputs();
        assert_eq!(outputs.len(), CALLS, "{outputs:#?}");
        let (inside, asked) = (&outputs[0], &outputs[1]);
        for line in ["in the workspace", "scratch: done", "NoNewPrivs: 1"] {
            assert!(inside.contains(line), "no {line:?} in {inside}");
        }
        for refused in ["read: refused", "write: refused", "create: refused", "remove: refused"] {
            assert!(inside.contains(refused), "not {refused:?} in {inside}");
        }
        // The control: the same script with the same kind of canary, outside.
        let outside = self.control();
        for done in ["read: a secret", "write: done", "create: done", "remove: done"] {
            assert!(outside.contains(done), "the control cannot: {outside}");
        }
        let (within, without) = (filters(inside), filters(&outside));
        assert!(within >= without + 3, "{within} filters inside, {without} outside");

        let secret = std::fs::read_to_string(self.host.home().join("canary/secret"));
        assert_eq!(secret.unwrap(), "a secret\n");

        // Refused for the name, and for the address that a name has; the model, the
        // same way, not.
        assert!(asked.contains("refused.test: HTTP/1.1 403"), "{asked}");
        assert!(asked.contains("private: HTTP/1.1 403"), "{asked}");
        assert!(asked.contains("model: HTTP/1.1 200"), "{asked}");
        // What listens on the host's loopback is there only by way of the guard.
        assert!(asked.contains("past the guard: refused"), "{asked}");
        let port = self.model.port();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    /// The tool's own script, outside of every sandbox.
    fn control(&self) -> String {
        let control = self.host.home().join("control");
        let output = Command::new("bash")
            .args(["-c", &tool(&control.join("canary"))])
            .current_dir(&control)
            .env("TMPDIR", &control)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The ledger must say that all was well from before the agent's first
    /// instruction to the end, and that nothing was asked for but what was asked.
    fn assert_ledger_is_clean(&self) {
        let ledger = self.host.ledger();
        let place = |event: &str| ledger.iter().position(|line| line["event"] == event);
        let (verified, started) = (place("verified"), place("agent-started"));
        assert!(verified.is_some() && verified < started, "{verified:?} {started:?}");
        for bad in ["violation", "verdict", "pass-failed", "gate-refused"] {
            assert_eq!(place(bad), None, "{ledger:#?}");
        }
        let stop = &ledger[place("stop").unwrap()];
        assert_eq!((&stop["status"], &stop["survivors"]), (&0.into(), &0.into()), "{stop}");

        let private = PRIVATE.split(':').next().unwrap();
        let refused = REFUSED.split(':').next().unwrap();
        let mut refusals = 0;
        for line in ledger.iter().filter(|line| line["event"] == "egress") {
            let egress = &line["egress"];
            let reason = match egress["host"].as_str() {
                Some(host) if host == private => Some("special-address"),
                Some(host) if host == refused => Some("host-not-allowed"),
                _ => None,
            };
            if let Some(reason) = reason {
                assert_eq!(egress["decision"], "refused", "{egress}");
                assert_eq!(egress["reason"], reason, "{egress}");
                refusals += 1;
            } else {
                let model = (&"model.test".into(), &self.model.port().into(), &"exception".into());
                if egress["event"] == "decided" {
                    assert_eq!((&egress["host"], &egress["port"], &egress["reason"]), model);
                }
                assert_eq!(egress["decision"], "allowed", "{egress}");
            }
        }
        assert_eq!(refusals, 2, "{ledger:#?}");
    }

    /// Nothing may be left but what the agent wrote where it may.
    fn assert_only_allowed_changes(&self) {
        self.host.assert_nothing_left();
        let home = self.host.home();
        let allowed = [
            self.host.agent_home("codex", "server"),
            self.host.agent_home("codex", "client"),
            self.host.launches(),
            // Paddock's own: what is recorded at the first launch.
            self.host.launches().with_file_name("pins"),
            self.host.workspace().join("made-by-tool"),
            self.host.workspace().join("go"),
            home.join("control"),
        ];
        let after = Self::everything(&self.host);
        let mut changed = changes(&self.before, &after);
        assert!(changed.contains(&self.host.workspace().join("made-by-tool")), "{changed:?}");
        changed.retain(|path| {
            let is_parent = self.host.launches().starts_with(path);
            !is_parent && !allowed.iter().any(|place| path.starts_with(place))
        });
        assert!(changed.is_empty(), "changed: {changed:?}");
        // Codex can leave a server of its own running, for all its clients.
        for half in ["server", "client"] {
            let codex = self.host.agent_home("codex", half).join(".codex");
            assert!(codex.join("config.toml").is_file());
            for daemon in ["app-server-daemon", "app-server-control", "packages"] {
                assert!(!codex.join(daemon).exists(), "{half} has {daemon}");
            }
        }
    }
}

fn has_tools(request: &Value) -> bool {
    request["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

/// The task that a report has about the shell that the tool's script is run by.
fn shell_of_the_tool(report: &Value) -> Option<&Value> {
    report["tasks"].as_array()?.iter().find(|task| {
        let command = task["command"].as_str().unwrap_or_default();
        command.contains("bash") && command.contains("made-by-tool")
    })
}

/// The number of seccomp filters that a script's output tells of.
fn filters(output: &str) -> u32 {
    let mut after = output.split("Seccomp_filters:").skip(1);
    let number = after.next().and_then(|rest| rest.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no filters in {output}"))
}

/// A script that does what it may, tries what it may not, and waits to be
/// looked at. It is bash's, whatever the user's own shell is that Codex runs.
fn tool(canary: &Path) -> String {
    let canary = canary.display();
    let mut script = format!(
        "bash <<'SCRIPT'\ntouch made-by-tool && echo in the workspace\n\
         (touch \"$TMPDIR/scratch\") 2>&1 && echo scratch: done\n\
         echo \"read: $(cat {canary}/secret 2>/dev/null || echo refused)\"\n"
    );
    for (name, command) in [
        ("write", "echo changed >>{}/secret"),
        ("create", "touch {}/new"),
        ("remove", "rm {}/secret"),
    ] {
        let command = command.replace("{}", &canary.to_string());
        let _ = writeln!(
            script,
            "({command}) 2>/dev/null && echo {name}: done || echo {name}: refused"
        );
    }
    script.push_str(
        "echo $(grep -E 'NoNewPrivs|Seccomp_filters' /proc/self/status)\n\
         for i in $(seq 400); do [ -e go ] && break; sleep 0.02; done\nSCRIPT\n",
    );
    script
}

/// A script that asks the guard for hosts as any program would, and tries
/// the model without it.
fn ask_for_hosts() -> String {
    format!(
        "bash <<'SCRIPT'\nport=$(grep -o 'model.test:[0-9]*' \"$CODEX_HOME/config.toml\" | cut -d: -f2)\n\
         proxy=${{HTTPS_PROXY#http://}}\n\
         ask() {{\n\
           exec 3<>/dev/tcp/127.0.0.1/${{proxy##*:}}\n\
           printf 'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\nProxy-Authorization: Basic %s\\r\\n\\r\\n' \
             $1 $1 $(printf %s ${{proxy%@*}} | base64 -w0) >&3\n\
           read -r -t 20 answer <&3; exec 3>&-; echo \"$2: $answer\"\n\
         }}\n\
         ask {REFUSED} refused.test; ask {PRIVATE} private; ask model.test:$port model\n\
         (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null && echo past the guard: done || \
           echo past the guard: refused\nSCRIPT\n"
    )
}

/// The whole of `codex exec` in one tier.
fn codex_exec_in(tier: &str) {
    let Some(codex) = Setup::two_calls() else { return };
    let mut launch = codex.host.start(codex.exec(tier));
    codex.verify_to_the_end(&mut launch, || {});
    let run = launch.end();
    assert_eq!(run.code(), Some(0), "{run:#?}");
    for event in [LAST_WORDS, "\"turn.completed\""] {
        assert!(run.stdout.contains(event), "{run:#?}");
    }
    codex.assert_tool_was_confined();
    codex.assert_ledger_is_clean();
    codex.assert_only_allowed_changes();
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
fn codex_terminal_ui_in(tier: &str) {
    let Some(codex) = Setup::two_calls() else { return };
    let terminal = Terminal::open();
    let modes = terminal.modes();
    let mut command = codex.run(terminal.paddock(&codex.host), tier);
    command.arg("Run the tool.");
    let mut launch = codex.host.start_as_it_is(command);

    std::thread::scope(|scope| {
        let person = scope.spawn(|| {
            terminal.wait_for(LAST_WORDS);
            terminal.wait_for("• Ran bash <<'SCRIPT'");
            // Ctrl-D.
            terminal.send("\x04");
        });
        codex.verify_to_the_end(&mut launch, || {
            terminal.wait_for("Ask Codex to do anything");
            terminal.wait_for("esc to interrupt");
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
    codex.assert_only_allowed_changes();
}

#[test]
fn the_terminal_ui_of_codex_works_confined_and_gives_the_terminal_back() {
    codex_terminal_ui_in("sealed");
}

#[test]
fn the_terminal_ui_of_codex_works_in_the_lesser_tiers() {
    codex_terminal_ui_in("isolated");
    codex_terminal_ui_in("ported");
}

/// A conversation begins in one launch and goes on in another, though a third, in
/// another workspace and the same home, came between.
fn codex_goes_on_in(tier: &str) {
    let turns = ["First answer.", "Second answer."];
    let Some(codex) = Setup::with(|_| turns.map(|text| Turn::Say(text.into())).into()) else {
        return;
    };
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
        let request = codex.model.requests().into_iter().rfind(has_tools).unwrap();
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
        let Some(codex) = Setup::new(|_| vec![script.into()]) else { return };
        let launch = codex.host.start(codex.exec(tier));
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
        codex.assert_only_allowed_changes();
    }
}

#[test]
fn the_program_behind_the_launcher_script_of_npm_is_found() {
    let Some(program) = std::env::var_os("PADDOCK_TEST_CODEX").map(PathBuf::from) else {
        skip("Codex is not installed; scripts/test.sh installs it where npm is");
        return;
    };
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
