//! The real Claude Code under the whole stack: its background service in the server
//! sandbox and a terminal that is attached to it in the client sandbox, which meet at
//! sockets whose place is wired in; and the same program as one process. Its model is a
//! script on this host's loopback, which only the guard reaches.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use paddock_test::agent::{AgentHost, LAST_WORDS, program};
use paddock_test::host::{Finished, TIERS, finish, send, wait_for};
use paddock_test::host::{Host, LIMIT};
use paddock_test::model::Turn;
use paddock_test::terminal::Terminal;
use rustix::process::{Pid, Signal, getsid, getuid};

/// What Claude asks before it runs a command.
const QUESTION: &str = "Do you want to proceed?";
/// The list of sessions asks for this.
const LIST: &str = "describe a task for a new session";

/// Claude Code on a host, its model told to it.
fn claude(setup: Option<AgentHost>) -> Option<AgentHost> {
    // For plugins.
    let mut claude = setup?.asks(&["github.com", "downloads.claude.ai"]);
    let url = claude.model_url();
    claude.host.set("ANTHROPIC_BASE_URL", url);
    // For a key it asks whether to use it, for a token not.
    claude.host.set("ANTHROPIC_AUTH_TOKEN", "a-token");
    Some(claude)
}

/// Two answers and no tool.
fn two_answers() -> Option<AgentHost> {
    let turns = ["First answer.", "Second answer."].map(|text| Turn::Say(text.into()));
    claude(AgentHost::with_turns("claude", turns.into()))
}

/// `paddock run claude` on a terminal, where Claude asks before each command.
fn asking(claude: &AgentHost, terminal: &Terminal) -> Command {
    let mut command = claude.run(terminal.paddock(&claude.host), "sealed");
    command.args(["--", "--permission-mode", "manual", "Run the tool."]);
    command
}

/// Out of the session to the list of all, and out of that.
fn leave(terminal: &Terminal) {
    twice(terminal);
    terminal.wait_for(LIST);
    twice(terminal);
}

/// Ctrl-C, and again before Claude has forgotten it. One at the end of a turn is taken for
/// an interruption of that, and asks nothing.
fn twice(terminal: &Terminal) {
    let asked = (0..10).any(|_| {
        terminal.send("\x03");
        let short = Duration::from_secs(3);
        wait_for(short, || terminal.text().contains("Press Ctrl-C again").then_some(())).is_some()
    });
    assert!(asked, "{}", terminal.text());
    terminal.send("\x03");
}

/// One prompt for a script.
fn print(claude: &AgentHost, tier: &str, prompt: &str) -> Command {
    let mut command = claude.run(claude.host.paddock(), tier);
    command.args(["--", "-p", "--dangerously-skip-permissions", prompt]);
    command
}

/// Nothing of the launches is left but records and the one private home.
fn assert_nothing_left(claude: &AgentHost) {
    claude.host.assert_nothing_left();
    assert!(claude.host.agent_home("claude", "server").is_dir());
    assert!(!claude.host.agent_home("claude", "client").exists(), "it has the server's");
    for stray in [".claude", ".claude.json", ".cache/claude-cli-nodejs"] {
        assert!(!claude.host.home().join(stray).exists(), "{stray} in the person's home");
    }
}

#[test]
fn service_and_terminal_meet_at_their_own_sockets_and_the_tool_is_confined() {
    let Some(claude) = claude(AgentHost::two_calls("claude")) else { return };
    let terminal = Terminal::open();
    let modes = terminal.modes();
    let mut launch = claude.host.start_as_it_is(asking(&claude, &terminal));
    std::thread::scope(|scope| {
        let person = scope.spawn(|| {
            for _ in 0..2 {
                terminal.wait_for(QUESTION);
                terminal.send("\r");
                terminal.wait_until_gone(QUESTION);
            }
            terminal.wait_for(LAST_WORDS);
            leave(&terminal);
        });
        claude.verify_to_the_end(&mut launch, || {
            // The control: what is given back has been taken.
            let (settings, _) = terminal.modes();
            assert!(settings != modes.0);
        });
        person.join().unwrap();
    });
    let run = launch.end();
    assert_eq!(run.code(), Some(0), "{}", terminal.text());
    assert_eq!(terminal.modes(), modes, "{}", terminal.text());
    claude.assert_tool_was_confined();
    claude.assert_ledger_is_clean();
    claude.assert_only_allowed_changes();
    assert_nothing_left(&claude);
}

#[test]
fn a_prompt_for_a_script_is_answered_by_one_process_in_each_tier() {
    for tier in TIERS {
        let Some(claude) = claude(AgentHost::two_calls("claude")) else { return };
        let mut launch = claude.host.start(print(&claude, tier, "Run the tool."));
        claude.verify_to_the_end(&mut launch, || {});
        let run = launch.end();
        assert_eq!((run.code(), run.stdout.trim()), (Some(0), LAST_WORDS), "{tier}: {run:#?}");
        assert!(!run.stderr.contains("no git repository"), "{tier}: {run:#?}");
        assert_eq!(claude.host.records()[0]["form"], "solo");
        claude.assert_tool_was_confined();
        claude.assert_ledger_is_clean();
        claude.assert_only_allowed_changes();
        assert_nothing_left(&claude);
    }
}

#[test]
fn a_launch_that_is_stopped_in_the_middle_of_a_turn_leaves_no_worker() {
    // The tool's own children leave its session, and one of them its parent.
    let script = "(setsid sleep 4721 &) ; setsid sleep 4722 & touch made-by-tool ; sleep 4723";
    let Some(claude) = claude(AgentHost::new("claude", &[script])) else { return };
    let terminal = Terminal::open();
    let launch = claude.host.start_as_it_is(asking(&claude, &terminal));
    terminal.wait_for(QUESTION);
    terminal.send("\r");
    let of_the_launch = |mark: &str| {
        let mut processes = claude.host.processes();
        processes.retain(|(_, command)| command.contains(mark));
        processes
    };
    let sleepers =
        || of_the_launch("sleep 472").iter().filter(|(_, c)| c.starts_with("sleep")).count();
    let up = wait_for(LIMIT, || (sleepers() == 3).then_some(()));
    assert!(up.is_some(), "{}\n{:?}", terminal.text(), claude.host.processes());
    // The control: there are workers, in sessions of their own.
    let workers = of_the_launch("bg-pty-host");
    let leads = |pid: i32| {
        let session = getsid(Pid::from_raw(pid));
        session.is_ok_and(|session| session.as_raw_nonzero().get() == pid)
    };
    assert!(workers.iter().any(|(pid, _)| leads(*pid)), "{workers:?}");
    let stopped = claude.host.run(&["stop", &launch.id]);
    assert_eq!(stopped.code(), Some(0), "{stopped:#?}");
    assert_eq!(launch.end().code(), Some(143), "{}", terminal.text());
    assert!(of_the_launch("bg-").is_empty() && sleepers() == 0, "{:?}", claude.host.processes());
    let stop = claude.host.ledger().pop().unwrap();
    assert_eq!((&stop["event"], &stop["survivors"]), (&"stop".into(), &0.into()), "{stop}");
    claude.assert_only_allowed_changes();
    assert_nothing_left(&claude);
}

/// What the model was asked at last must have the first conversation in it.
fn assert_it_went_on(claude: &AgentHost) {
    let asked = claude.model.conversation().unwrap().to_string();
    for said in ["quince", "First answer.", "Which word was it?"] {
        assert!(asked.contains(said), "no {said:?} in {asked}");
    }
}

#[test]
fn a_conversation_goes_on_in_a_fresh_launch() {
    let Some(claude) = two_answers() else { return };
    let terminal = Terminal::open();
    let mut command = claude.run(terminal.paddock(&claude.host), "sealed");
    command.args(["--", "Remember the word quince."]);
    let launch = claude.host.start_as_it_is(command);
    terminal.wait_for("First answer.");
    leave(&terminal);
    assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());

    let terminal = Terminal::open();
    let mut command = terminal.paddock(&claude.host);
    command.args(["resume", "--", "Which word was it?"]);
    let launch = claude.host.start_as_it_is(command);
    terminal.wait_for("Second answer.");
    let (status, report) = launch.verify();
    assert_eq!(status, Some(0), "{report:#}");
    leave(&terminal);
    assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
    assert_it_went_on(&claude);
    assert_nothing_left(&claude);
}

#[test]
fn where_the_sockets_would_be_the_hosts_the_pair_is_refused_and_one_process_goes_on() {
    for tier in ["isolated", "ported"] {
        let Some(claude) = two_answers() else { return };
        let refused = finish(claude.run(claude.host.paddock(), tier));
        assert_eq!(refused.code(), Some(125), "{refused:#?}");
        for said in ["/tmp/cc-daemon-", "paddock run --solo claude"] {
            assert!(refused.stderr.contains(said), "{refused:#?}");
        }
        // The way out is one, and goes on.
        let said = |run: Finished| (run.code(), run.stdout.trim().to_owned(), run.stderr);
        let (code, text, errors) = said(finish(print(&claude, tier, "Remember the word quince.")));
        assert_eq!((code, text.as_str()), (Some(0), "First answer."), "{tier}: {errors}");
        let mut command = claude.host.paddock();
        command.args(["resume", "--tier", tier, "--", "-p", "Which word was it?"]);
        let (code, text, errors) = said(finish(command));
        assert_eq!((code, text.as_str()), (Some(0), "Second answer."), "{tier}: {errors}");
        assert_it_went_on(&claude);
        assert_nothing_left(&claude);
    }
}

/// A service of the person's own, outside of every sandbox; ended when dropped.
struct Service {
    process: Child,
    socket: PathBuf,
}

impl Service {
    /// Started in a home of its own, and listening.
    fn start(host: &Host, program: &Path, home: &Path) -> Self {
        // Without it the service ends at once.
        std::fs::create_dir(home.join(".claude")).unwrap();
        let mut command = outside(host, program, home);
        command.args(["daemon", "run"]).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        // As its name is made: the hash of the path, cut.
        let hash = Command::new("sh")
            .args(["-c", "printf %s \"$1\" | sha256sum | cut -c 1-8", "sh"])
            .arg(home.join(".claude"))
            .output()
            .unwrap();
        let name = String::from_utf8(hash.stdout).unwrap();
        let directory = format!("/tmp/cc-daemon-{}/{}", getuid().as_raw(), name.trim());
        let service = Self { process, socket: Path::new(&directory).join("control.sock") };
        let up = wait_for(LIMIT, || UnixStream::connect(&service.socket).ok());
        assert!(up.is_some(), "control: {} listens", service.socket.display());
        service
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        send(self.process.id().cast_signed(), Signal::TERM);
        let _ = self.process.wait();
        if let Some(directory) = self.socket.parent() {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Claude Code itself, outside of every sandbox.
fn outside(host: &Host, program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    host.dress(&mut command);
    command.env("HOME", home).env("CLAUDE_CONFIG_DIR", home.join(".claude"));
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
    command
}

#[test]
fn a_service_of_the_persons_own_is_not_in_reach() {
    let Some(path) = program("claude") else { return };
    let elsewhere = Host::new();
    let home = elsewhere.home();
    let service = Service::start(&elsewhere, &path, &home);
    let look = format!(
        "touch made-by-tool; ls -d /tmp/cc-daemon-*/*/; ls {} 2>/dev/null || echo it is not there",
        service.socket.display()
    );
    let Some(claude) = claude(AgentHost::new("claude", &[&look])) else { return };
    let terminal = Terminal::open();
    let launch = claude.host.start_as_it_is(asking(&claude, &terminal));
    terminal.wait_for(QUESTION);
    terminal.send("\r");
    terminal.wait_for(LAST_WORDS);
    leave(&terminal);
    assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
    let said = claude.model.outputs().concat();
    let own = service.socket.parent().unwrap().display().to_string();
    assert!(said.contains("/tmp/cc-daemon-"), "control: the launch has one: {said}");
    assert!(said.contains("it is not there") && !said.contains(&own), "{own}: {said}");
    // It listens still, and has no session of the launch's.
    assert!(UnixStream::connect(&service.socket).is_ok(), "control: it listens");
    let mut list = outside(&elsewhere, &path, &home);
    list.args(["agents", "--json", "--all"]);
    let listed = finish(list);
    assert_eq!(listed.stdout.trim(), "[]", "{listed:#?}");
    drop(service);
    claude.assert_only_allowed_changes();
    assert_nothing_left(&claude);
    elsewhere.assert_nothing_left();
}
