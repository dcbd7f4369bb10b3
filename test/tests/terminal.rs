//! A launch in a person's terminal: keys, signals, sizes, and what is given back.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use paddock_test::host::{Finished, Host, LIMIT, Launch, TIERS, finish, send, skip, wait_for};
use paddock_test::terminal::Terminal;
use rustix::process::Signal;
use serde_json::Value;

/// A stand-in whose client is another program.
fn agent(client: &str) -> String {
    format!(
        "name = \"own\"\ntitle = \"an agent of one's own\"\nprogram.names = [\"{{paddock}}\"]\n\
         link.kind = \"unix\"\n[server]\n\
         argv = [\"{{program}}\", \"standin\", \"serve\", \"--listen\", \"unix:{{link}}\"]\n\
         password-variable = \"PADDOCK_STANDIN_PASSWORD\"\n[client]\nargv = [{client}]\n"
    )
}

/// `paddock run ARGUMENTS` as the terminal's first process, once it is up.
fn start<'a>(host: &'a Host, terminal: &Terminal, arguments: &[&str]) -> Launch<'a> {
    let mut command = terminal.paddock(host);
    command.arg("run").args(arguments);
    host.start_as_it_is(command)
}

/// Types a command at the prompt and waits for the next.
fn ask(terminal: &Terminal, command: &str, answer: &str) {
    terminal.wait_for_prompt("standin>");
    terminal.send(&format!("{command}\r"));
    terminal.wait_for(&format!("\n{answer}\nstandin>"));
}

/// The state letter and the terminal of a process (`proc_pid_stat(5)`).
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.nth(3)?.parse().ok()?))
}

/// Processes of a launch, the keeper left out.
fn processes(report: &Value) -> Vec<i32> {
    let tasks = report["tasks"].as_array().unwrap().clone();
    let mut pids: Vec<i32> =
        tasks.iter().map(|task| i32::try_from(task["pid"].as_i64().unwrap()).unwrap()).collect();
    pids.dedup();
    assert!(pids.len() >= 8, "{report:#}");
    pids
}

#[test]
fn a_person_at_a_terminal_has_a_prompt_and_gets_the_terminal_back() {
    for tier in TIERS {
        let host = Host::new();
        let terminal = Terminal::open();
        let before = terminal.modes();
        let launch = start(&host, &terminal, &["standin", "--tier", tier]);
        terminal.wait_for("standin> ");
        assert_ne!(terminal.modes(), before, "control: the terminal has been taken");
        ask(&terminal, "echo one; echo $((1+1))", "one\n2");
        assert_eq!(launch.verify().0, Some(0));
        terminal.send("\x04");
        assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
        assert_eq!(terminal.modes(), before, "{tier}: {}", terminal.text());
        host.assert_nothing_left();
    }
}

#[test]
fn the_status_at_a_terminal_is_the_agents() {
    let host = Host::new();
    let terminal = Terminal::open();
    let launch = start(&host, &terminal, &[]);
    terminal.wait_for("standin> ");
    terminal.send("exit 7\r\x04");
    assert_eq!(launch.end().code(), Some(7));
    terminal.wait_for("paddock: the agent ended with status 7");
}

#[test]
fn ctrl_c_cancels_the_tool_and_not_the_launch() {
    let host = Host::new();
    let terminal = Terminal::open();
    let launch = start(&host, &terminal, &[]);
    terminal.wait_for("standin> ");
    for round in 0..2 {
        let started = Instant::now();
        terminal.send("touch running; sleep 300\r");
        let running = host.workspace().join("running");
        wait_for(LIMIT, || running.exists().then_some(())).expect("the tool runs");
        // Else the prompt before it could be taken for the next.
        terminal.wait_for_prompt("standin> touch running; sleep 300");
        terminal.send("\x03");
        ask(&terminal, &format!("rm running; echo after {round}"), &format!("after {round}"));
        assert!(started.elapsed() < Duration::from_secs(30));
    }
    // With nothing to cancel it is the line being typed that goes.
    terminal.wait_for_prompt("standin>");
    terminal.send("echo never");
    terminal.wait_for_prompt("standin> echo never");
    terminal.send("\x03");
    ask(&terminal, "echo clean", "clean");
    assert!(!terminal.text().contains("\nnever"), "{}", terminal.text());
    assert_eq!(launch.verify().0, Some(0));
    terminal.send("\x04");
    assert_eq!(launch.end().code(), Some(0));
}

#[test]
fn a_client_has_the_size_of_the_persons_terminal_from_first_to_last() {
    for tier in TIERS {
        let host = Host::new();
        let script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done";
        host.add_agent("own", &agent(&format!("\"sh\", \"-c\", {script:?}")));
        let terminal = Terminal::open();
        let launch = start(&host, &terminal, &["own", "--tier", tier]);
        terminal.wait_for("40 120");
        terminal.resize(31, 97);
        terminal.wait_for("31 97");
        terminal.resize(40, 120);
        terminal.resize(50, 60);
        terminal.wait_for("50 60");
        // The keys go to the client, whose status is the launch's.
        terminal.send("\x03");
        assert_eq!(launch.end().code(), Some(130), "{tier}: {}", terminal.text());
    }
}

#[test]
fn a_shell_as_client_has_job_control() {
    let host = Host::new();
    host.add_agent("own", &agent("\"sh\", \"-i\""));
    let terminal = Terminal::open();
    let launch = start(&host, &terminal, &["own"]);
    terminal.wait_for("$ ");
    terminal.send("stty size; tty | sed 's/[0-9]//'\r");
    terminal.wait_for("40 120\n/dev/pts/");
    terminal.send("sleep 300\r");
    // It is in the foreground of the client's terminal, which is its own.
    let sleeps = wait_for(LIMIT, || {
        let report = launch.verify().1;
        let mut tasks = report["tasks"].as_array()?.iter();
        let task = tasks.find(|task| task["command"] == "sleep 300")?;
        i32::try_from(task["pid"].as_i64()?).ok()
    });
    let sleep = sleeps.expect("it sleeps");
    terminal.send("\x1a");
    terminal.wait_for("Stopped");
    terminal.send("echo still $((20+2))\r");
    terminal.wait_for("still 22");
    terminal.send("fg\r");
    terminal.wait_for("\nsleep 300");
    // The shell gives it the terminal before it continues it.
    let goes_on = || stat(sleep).filter(|(state, _)| *state != 'T').map(drop);
    wait_for(LIMIT, goes_on).expect("it goes on");
    terminal.send("\x03");
    terminal.wait_for_prompt("^C\n$");
    terminal.send("exit 3\r");
    assert_eq!(launch.end().code(), Some(3), "{}", terminal.text());
}

/// An interactive shell with job control, started on the terminal.
struct Shell {
    child: Child,
}

impl Shell {
    fn start(host: &Host, terminal: &Terminal) -> Option<Self> {
        if Command::new("bash").arg("--version").output().is_err() {
            skip("bash is not installed");
            return None;
        }
        let mut command = terminal.program(host, "bash");
        command.args(["--norc", "--noprofile", "-i"]).env("PS1", "shell$ ");
        let shell = Self { child: command.spawn().unwrap() };
        terminal.wait_for("shell$ ");
        Some(shell)
    }

    fn end(mut self, terminal: &Terminal) {
        terminal.send("exit 0\r");
        wait_for(LIMIT, || self.child.try_wait().unwrap()).expect("the shell ends");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command line of the program under test, for a shell.
fn run_line(host: &Host, arguments: &str) -> String {
    format!("{} run {arguments}\r", host.paddock().get_program().to_str().unwrap())
}

/// The running launch's id and keeper.
fn running(host: &Host) -> (String, i32) {
    let found = wait_for(LIMIT, || {
        let record = host.records().pop().filter(|record| record["phase"] == "running")?;
        let keeper = i32::try_from(record["keeper"]["pid"].as_i64()?).ok()?;
        Some((record["launch"].as_str()?.to_owned(), keeper))
    });
    found.expect("a running launch")
}

#[test]
fn ctrl_z_suspends_everything_and_fg_brings_it_back() {
    for tier in TIERS {
        let host = Host::new();
        let terminal = Terminal::open();
        let Some(shell) = Shell::start(&host, &terminal) else { return };
        let before = terminal.modes();
        terminal.send(&run_line(&host, &format!("standin --tier {tier}")));
        terminal.wait_for("standin> ");
        let (id, keeper) = running(&host);
        terminal.send("touch running; sleep 300\r");
        let running = host.workspace().join("running");
        wait_for(LIMIT, || running.exists().then_some(())).expect("the tool runs");
        let everything = processes(&host.verify(&id).1);
        let working = everything.iter().filter(|pid| stat(**pid).unwrap().0 != 'T').count();
        assert_eq!(working, everything.len(), "control: none is stopped yet");

        for round in 1..=2 {
            terminal.send("\x1a");
            terminal.wait_for("Stopped");
            terminal.send(&format!("echo shell {round}\r"));
            terminal.wait_for(&format!("shell {round}\nshell$"));
            assert_eq!(terminal.modes(), before, "{tier}: the shell has the terminal");
            for pid in everything.iter().chain([&keeper]) {
                let state = stat(*pid).map(|(state, _)| state);
                assert_eq!(state, Some('T'), "{tier}: process {pid}");
            }
            terminal.send("clear; fg\r");
            // The next one is to be waited for.
            terminal.wait_until_gone("Stopped");
            let back = wait_for(LIMIT, || (host.verify(&id).0 == Some(0)).then_some(()));
            assert!(back.is_some(), "{tier}: {:#}", host.verify(&id).1);
        }
        terminal.send("\x03");
        ask(&terminal, "echo again", "again");
        assert_eq!(host.verify(&id).0, Some(0));
        terminal.send("\x04");
        terminal.wait_for("shell$ ");
        let told: Vec<_> = host
            .ledger()
            .iter()
            .map(|entry| entry["event"].as_str().unwrap().to_owned())
            .filter(|event| {
                ["suspended", "resumed", "violation", "verdict"].contains(&event.as_str())
            })
            .collect();
        assert_eq!(told, ["suspended", "resumed", "suspended", "resumed"], "{tier}");
        shell.end(&terminal);
        host.assert_nothing_left();
    }
}

#[test]
fn the_terminal_is_given_back_however_the_launch_ends() {
    type End = fn(&Host, &Launch<'_>);
    let ends: [(&str, i32, End); 4] = [
        ("paddock stop", 143, |host, launch| {
            assert_eq!(host.run(&["stop", &launch.id]).code(), Some(0));
        }),
        ("SIGHUP", 129, |_, launch| send(launch.keeper(), Signal::HUP)),
        ("SIGKILL of the client's nono", 126, |_, launch| {
            send(launch.process("supervisor", Some("client")), Signal::KILL);
        }),
        ("SIGKILL of the client", 137, |_, launch| send(launch.client(), Signal::KILL)),
    ];
    for (how, status, end) in ends {
        let host = Host::new();
        // A full-screen client: another screen, no cursor, reports switched on.
        let script = "stty raw -echo; printf '\\033[?1049h\\033[?25l\\033[?2004h\\033[?1000h'; \
            echo drawn; sleep 300";
        host.add_agent("own", &agent(&format!("\"sh\", \"-c\", {script:?}")));
        let terminal = Terminal::open();
        let before = terminal.modes();
        let launch = start(&host, &terminal, &["own"]);
        terminal.wait_for("drawn");
        let taken = terminal.modes();
        assert!(taken.0 != before.0 && taken.1.len() == 4, "control: {:?}", taken.1);
        end(&host, &launch);
        let run = launch.end();
        assert_eq!(run.code(), Some(status), "{how}: {}", terminal.text());
        let back = wait_for(LIMIT, || (terminal.modes() == before).then_some(()));
        assert!(back.is_some(), "{how}: {:?}", terminal.modes());
        host.assert_nothing_left();
    }
}

#[test]
fn pipes_work_instead_of_a_terminal() {
    let host = Host::new();
    let shell = |line: &str| -> Finished {
        let mut command = Command::new("sh");
        host.dress(&mut command);
        command.args(["-c", line]).env("P", host.paddock().get_program()).stdin(Stdio::null());
        finish(command)
    };
    let run =
        shell("printf 'echo one\\necho two\\nexit 3\\n' | $P run 2>/dev/null | cat; echo end");
    assert_eq!(run.stdout, "one\ntwo\nend\n", "{}", run.stderr);
    let run = shell("echo 'exit 3' | $P run");
    assert_eq!(run.code(), Some(3), "{}", run.stderr);
    // Nobody reads on: like any program it ends, and so does everything in it.
    let run = shell("$P run -- -c 'while :; do echo y; done' | head -n 2");
    assert_eq!(run.stdout, "y\ny\n", "{}", run.stderr);
    host.assert_nothing_left();
}

#[test]
fn ctrl_c_reaches_an_agent_that_has_no_terminal_of_its_own() {
    let host = Host::new();
    let terminal = Terminal::open();
    let Some(shell) = Shell::start(&host, &terminal) else { return };
    for redirection in ["</dev/null", ">out", "2>err", "</dev/null >out 2>err"] {
        terminal.send("clear\r");
        let line = run_line(&host, "-- -c 'touch running; sleep 300'");
        terminal.send(&line.replace('\r', &format!(" {redirection}; echo status $?\r")));
        let running = host.workspace().join("running");
        let runs = wait_for(LIMIT, || running.exists().then_some(()));
        assert!(runs.is_some(), "{redirection}: {}", terminal.text());
        terminal.send("\x03");
        terminal.wait_for("status 130");
        std::fs::remove_file(running).unwrap();
        let shell_only = || host.processes().iter().all(|(_, line)| line.starts_with("bash "));
        assert!(wait_for(LIMIT, || shell_only().then_some(())).is_some(), "{:?}", host.processes());
    }
    shell.end(&terminal);
}

#[test]
fn ctrl_z_suspends_a_launch_that_has_no_terminal_of_its_own() {
    let host = Host::new();
    let terminal = Terminal::open();
    let Some(shell) = Shell::start(&host, &terminal) else { return };
    let line =
        run_line(&host, "-- -c 'touch running; until [ -e go ]; do sleep 0.05; done; exit 6'");
    terminal.send(&line.replace('\r', " </dev/null >out 2>err\r"));
    let running_tool = host.workspace().join("running");
    wait_for(LIMIT, || running_tool.exists().then_some(())).expect("the tool runs");
    let (id, keeper) = running(&host);
    let everything = processes(&host.verify(&id).1);
    terminal.send("\x1a");
    terminal.wait_for("Stopped");
    for pid in everything.iter().chain([&keeper]) {
        // Some tools have ended meanwhile.
        assert!(matches!(stat(*pid), None | Some(('T' | 'Z', _))), "process {pid}");
    }
    assert_eq!(stat(keeper).unwrap().0, 'T');
    terminal.send("clear; fg; echo status $?\r");
    let back = wait_for(LIMIT, || (host.verify(&id).0 == Some(0)).then_some(()));
    assert!(back.is_some(), "{:#}", host.verify(&id).1);
    std::fs::write(host.workspace().join("go"), "").unwrap();
    terminal.wait_for("status 6");
    shell.end(&terminal);
    host.assert_nothing_left();
}

#[test]
fn no_process_of_a_launch_has_the_persons_terminal() {
    for tier in TIERS {
        let host = Host::new();
        let terminal = Terminal::open();
        let launch = start(&host, &terminal, &["standin", "--tier", tier]);
        terminal.wait_for("standin> ");
        let device = terminal.device();
        assert_eq!(stat(launch.keeper()).unwrap().1, device, "control: the keeper has it");
        let report = launch.verify().1;
        for task in report["tasks"].as_array().unwrap() {
            let pid = i32::try_from(task["pid"].as_i64().unwrap()).unwrap();
            let tty = stat(pid).unwrap().1;
            // The client has one that its nono made for it; behind the veil such
            // are numbered anew.
            let in_client = task["layer"] == "client" && task["role"] != "supervisor";
            let is_own = in_client && (tty != device || tier == "sealed");
            assert!(tty == 0 || is_own, "{tier}: {task}: {tty}");
        }
        let of_client = std::fs::metadata(format!("/proc/{}/fd/0", launch.client())).unwrap();
        let of_keeper = std::fs::metadata(format!("/proc/{}/fd/0", launch.keeper())).unwrap();
        let identity = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
        assert_ne!(identity(&of_client), identity(&of_keeper), "{tier}");
        terminal.send("\x04");
        launch.end();
    }
}

/// What `ls -l` said of a process's descriptors, without numbers.
fn held(listing: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(listing).unwrap();
    let targets = text.lines().filter_map(|line| line.split_once(" -> "));
    targets.map(|(_, target)| target.replace(|c: char| c.is_ascii_digit(), "")).collect()
}

#[test]
fn an_agent_inherits_nothing_that_could_raise_a_prompt() {
    let listing = |to: &str| {
        let script = format!("(ls -l /proc/$$/fd >\"{to}\"); exec \"$0\" \"$@\"");
        format!("argv = [\"sh\", \"-c\", {script:?}, \"{{program}}\", \"standin\"")
    };
    let client = "\"{program}\", \"standin\", \"attach\", \"--connect\", \"unix:{link}\"";
    let plain = "argv = [\"{program}\", \"standin\"";
    let text = agent(client)
        .replace("[client]", "[client]\npassword-variable = \"PADDOCK_STANDIN_PASSWORD\"")
        .replacen(plain, &listing("{workspace}/server"), 1)
        .replacen(plain, &listing("{home}/client"), 1);
    for tier in TIERS {
        let host = Host::new();
        host.add_agent("own", &text);
        let terminal = Terminal::open();
        let launch = start(&host, &terminal, &["own", "--tier", tier]);
        terminal.wait_for("standin> ");
        ask(
            &terminal,
            "(ls -l /proc/$$/fd >tool); (: <>/dev/tty) 2>/dev/null || echo no terminal",
            "no terminal",
        );
        let silent = ["/dev/null", "pipe:[]", "pipe:[]"];
        assert_eq!(held(&host.workspace().join("server")), silent, "{tier}");
        assert_eq!(held(&host.workspace().join("tool")), silent, "{tier}");
        let client = host.agent_home("own", "client").join("client");
        assert_eq!(held(&client), ["/dev/pts/", "/dev/pts/", "/dev/pts/"], "{tier}");
        terminal.send("\x04");
        assert_eq!(launch.end().code(), Some(0));
    }
}
