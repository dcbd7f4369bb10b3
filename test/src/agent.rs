//! A real agent on a host of its own, told to use a scripted model: what the tests of all
//! agents have in common.
//!
//! The model is on this host's loopback, which only the guard reaches. The scripts that it
//! has the agent's shell tool run lie in the workspace: some agents look into commands, and
//! refuse what they take for an attack.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::files::{Listing, changes, listing};
use crate::host::{Host, Launch, finish, skip};
use crate::model::{ModelServer, Turn};

/// On the allow list without an exception, and not an address of the Internet.
const PRIVATE: &str = "10.9.8.7:80";
/// On no list.
const REFUSED: &str = "refused.test:443";
/// What the model has the shell tool run in [`AgentHost::two_calls`].
const CALLS: [&str; 2] = ["bash ./tool.sh", "bash ./ask.sh"];

/// The agents that are shipped, as they are listed.
pub const SHIPPED: [&str; 8] =
    ["claude", "codex", "copilot", "gemini", "goose", "opencode", "qwen", "standin"];

/// The longest that an agent may take for a prompt: those in JavaScript start slowly, the more so
/// while they are verified without a pause.
pub const PATIENCE: Duration = Duration::from_mins(4);

/// What the model says at last in [`AgentHost::new`].
pub const LAST_WORDS: &str = "That is all.";

/// The program of an agent, where `scripts/test.sh` has installed it; a test without it is
/// skipped.
pub fn program(agent: &str) -> Option<PathBuf> {
    let variable = format!("PADDOCK_TEST_{}", agent.to_ascii_uppercase());
    let program = std::env::var_os(variable).map(PathBuf::from);
    if program.is_none() {
        skip(&format!("{agent} is not installed; scripts/test.sh installs it where npm is"));
    }
    program
}

/// A host with an agent set up on it, and the model that the agent is told to use.
pub struct AgentHost {
    /// The host. The model is `model.test` there.
    pub host: Host,
    /// The model.
    pub model: ModelServer,
    agent: &'static str,
    before: Listing,
    /// Hosts that the agent asks for by itself, and does not get.
    asks: Vec<&'static str>,
}

impl AgentHost {
    /// The model has the shell tool run these commands. `None` where the agent is not
    /// installed.
    pub fn new(agent: &'static str, commands: &[&str]) -> Option<Self> {
        let shell = commands.iter().map(|command| Turn::Shell((*command).to_owned()));
        Self::with_turns(agent, shell.chain([Turn::Say(LAST_WORDS.into())]).collect())
    }

    /// The model has the tool try what it may not, and ask for hosts.
    pub fn two_calls(agent: &'static str) -> Option<Self> {
        Self::new(agent, &CALLS)
    }

    /// The model does this, turn by turn.
    pub fn with_turns(agent: &'static str, turns: Vec<Turn>) -> Option<Self> {
        let program = program(agent)?;
        let host = Host::new();
        for directory in ["canary", "control/canary"] {
            host.write(&format!("{directory}/secret"), "a secret\n");
        }
        host.write("control/go", "");
        let model = ModelServer::start(turns).expect("the loopback has a port");
        let port = model.port();
        host.configure(&format!(
            "[egress]\nhosts = [\"model.test:{port}\", \"{PRIVATE}\"]\n\
             exceptions = {{ \"model.test\" = \"127.0.0.1\" }}\n\
             [agents.{agent}]\nprogram = \"{}\"\n",
            program.display()
        ));
        for (name, script) in
            [("tool.sh", tool(&host.home().join("canary"))), ("ask.sh", ask_for_hosts(port))]
        {
            std::fs::write(host.workspace().join(name), script).expect("the workspace is there");
        }
        let before = everything(&host);
        Some(Self { host, model, agent, before, asks: Vec::new() })
    }

    /// The agent asks for these hosts by itself. None of them is on the list.
    #[must_use]
    pub fn asks(mut self, hosts: &[&'static str]) -> Self {
        self.asks = hosts.to_vec();
        self
    }

    /// The workspace is a git repository.
    #[must_use]
    pub fn in_repository(self) -> Self {
        let mut git = Command::new("git");
        git.args(["init", "--quiet"]).arg(self.host.workspace());
        let run = finish(git);
        assert_eq!(run.code(), Some(0), "{run:#?}");
        self.settled()
    }

    /// What is there now is what was there before.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.before = everything(&self.host);
        self
    }

    /// Where the model is, as the agent sees it.
    pub fn model_url(&self) -> String {
        format!("http://model.test:{}", self.model.port())
    }

    /// Writes a file into the private home of a half of the agent.
    pub fn write_in_home(&self, half: &str, path: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::DirBuilderExt;

        let path = self.host.agent_home(self.agent, half).join(path);
        let above = path.parent().unwrap_or(&path);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
        made.and_then(|()| std::fs::write(&path, text)).expect("the home can be written");
        path
    }

    /// `paddock run AGENT`, to be given options, `--` and the agent's own arguments.
    pub fn run(&self, mut command: Command, tier: &str) -> Command {
        command.args(["run", self.agent, "--tier", tier, "--workspace"]);
        command.arg(self.host.workspace());
        command
    }

    /// Verifies without a pause. Lets the tool go on once its shell has been seen
    /// where it belongs, and returns when the launch has ended.
    pub fn verify_to_the_end(&self, launch: &mut Launch<'_>, mut when_seen: impl FnMut()) {
        let (mut held, mut seen) = (0, false);
        let deadline = Instant::now() + PATIENCE;
        while !launch.has_ended() {
            assert!(Instant::now() < deadline, "it goes on; tool seen: {seen}");
            let (status, report) = launch.verify();
            match status {
                Some(0) if report["holds"] == true => held += 1,
                // There is nothing to confirm about a launch that is over; but
                // then the model has said its last words.
                Some(0 | 125) if self.model.outputs().len() == CALLS.len() => continue,
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
                self.let_go();
            }
        }
        assert!(seen && held > 1, "tool seen: {seen}; {held} good passes");
    }

    /// Lets the tool go on, which waits to be looked at.
    pub fn let_go(&self) {
        std::fs::write(self.host.workspace().join("go"), "").expect("the workspace is there");
    }

    /// What the tool said must show that it ran in the server sandbox, and that
    /// nothing beyond was open to it.
    pub fn assert_tool_was_confined(&self) {
        let outputs = self.model.outputs();
        assert_eq!(outputs.len(), CALLS.len(), "{outputs:#?}");
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
        assert_eq!(secret.ok().as_deref(), Some("a secret\n"));

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
            .expect("bash is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The ledger must say that all was well from before the agent's first
    /// instruction to the end, and that nothing was asked for but what was asked.
    pub fn assert_ledger_is_clean(&self) {
        let ledger = self.host.ledger();
        let place = |event: &str| ledger.iter().position(|line| line["event"] == event);
        let (verified, started) = (place("verified"), place("agent-started"));
        assert!(verified.is_some() && verified < started, "{verified:?} {started:?}");
        for bad in ["violation", "verdict", "pass-failed", "gate-refused"] {
            assert_eq!(place(bad), None, "{ledger:#?}");
        }
        let stop = &ledger[place("stop").expect("it has ended")];
        assert_eq!((&stop["status"], &stop["survivors"]), (&0.into(), &0.into()), "{stop}");

        let private = PRIVATE.split(':').next();
        let refused = REFUSED.split(':').next();
        let mut refusals = 0;
        for line in ledger.iter().filter(|line| line["event"] == "egress") {
            let egress = &line["egress"];
            let reason = match egress["host"].as_str() {
                host if host == private => Some("special-address"),
                host if host == refused => Some("host-not-allowed"),
                Some(host) if self.asks.contains(&host) => {
                    assert_eq!(egress["decision"], "refused", "{egress}");
                    continue;
                }
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
    pub fn assert_only_allowed_changes(&self) {
        self.host.assert_nothing_left();
        let home = self.host.home();
        let allowed = [
            self.host.agent_home(self.agent, "server"),
            self.host.agent_home(self.agent, "client"),
            self.host.launches(),
            // Paddock's own: what is recorded at the first launch.
            self.host.launches().with_file_name("pins"),
            self.host.workspace().join("made-by-tool"),
            self.host.workspace().join("go"),
            home.join("control"),
        ];
        let after = everything(&self.host);
        let mut changed = changes(&self.before, &after);
        assert!(changed.contains(&self.host.workspace().join("made-by-tool")), "{changed:?}");
        changed.retain(|path| {
            let is_parent = allowed.iter().any(|place| place.starts_with(path));
            !is_parent && !allowed.iter().any(|place| path.starts_with(place))
        });
        assert!(changed.is_empty(), "changed: {changed:?}");
    }
}

fn everything(host: &Host) -> Listing {
    let mut all = listing(&host.home());
    all.extend(listing(&host.workspace()));
    all
}

/// The task that a report has about the shell that the tool's script is run by.
fn shell_of_the_tool(report: &Value) -> Option<&Value> {
    let is_it = |task: &&Value| task["command"].as_str() == Some(CALLS[0]);
    report["tasks"].as_array()?.iter().find(is_it)
}

/// The number of seccomp filters that a script's output tells of.
fn filters(output: &str) -> u32 {
    let mut after = output.split("Seccomp_filters:").skip(1);
    let number = after.next().and_then(|rest| rest.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no filters in {output}"))
}

/// A script for bash that does what it may, tries what it may not, and waits to be looked at.
fn tool(canary: &Path) -> String {
    let canary = canary.display();
    let mut script = format!(
        "touch made-by-tool && echo in the workspace\n\
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
         for i in $(seq 400); do [ -e go ] && break; sleep 0.02; done\n",
    );
    script
}

/// A script for bash that asks the guard for hosts as any program would, and tries the
/// model, which listens on `port`, without it.
fn ask_for_hosts(port: u16) -> String {
    format!(
        "proxy=${{HTTPS_PROXY#http://}}\n\
         ask() {{\n\
           exec 3<>/dev/tcp/127.0.0.1/${{proxy##*:}}\n\
           printf 'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\nProxy-Authorization: Basic %s\\r\\n\\r\\n' \
             $1 $1 $(printf %s ${{proxy%@*}} | base64 -w0) >&3\n\
           read -r -t 20 answer <&3; exec 3>&-; echo \"$2: $answer\"\n\
         }}\n\
         ask {REFUSED} refused.test; ask {PRIVATE} private; ask model.test:{port} model\n\
         (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo past the guard: done || \
           echo past the guard: refused\n"
    )
}
