//! `paddock shell`: a shell in an agent's sandbox.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use paddock_test::agent::SHIPPED;
use paddock_test::host::{
    Finished, Host, LIMIT, Launch, TIERS, finish, probe, send, skip, wait_for,
};
use paddock_test::terminal::Terminal;
use rustix::process::Signal;
use serde_json::{Value, json};

const PROMPT: &str = "[paddock standin] ";

/// `paddock shell standin` in a tier with a script, to its end.
fn script(host: &Host, tier: &str, text: &str) -> Finished {
    host.run(&["shell", "standin", "--tier", tier, "--", "-c", text])
}

/// `paddock shell standin` on the terminal, once it is up.
fn start<'a>(host: &'a Host, terminal: &Terminal, tier: &str) -> Launch<'a> {
    let mut command = terminal.paddock(host);
    command.args(["shell", "standin", "--tier", tier]);
    let launch = host.start_as_it_is(command);
    terminal.wait_for(PROMPT);
    launch
}

fn on(kind: &str, paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| format!("{kind}:{}", path.display())).collect()
}

/// Which of the attempts worked.
fn working(run: &Finished) -> Vec<&str> {
    run.stdout.lines().filter_map(|line| line.strip_suffix(" ok")).collect()
}

#[test]
fn arguments_output_and_status_are_the_shells() {
    for tier in TIERS {
        let host = Host::new();
        let run = script(&host, tier, "echo out; echo err >&2; pwd; exit 9");
        let wanted = format!("out\n{}\n", host.workspace().display());
        assert_eq!((run.code(), run.stdout), (Some(9), wanted), "{tier}: {}", run.stderr);
        let verified = format!(": a shell of standin in {} ({tier}), ", host.workspace().display());
        assert!(run.stderr.contains(&verified), "{}", run.stderr);
        let record = host.records().pop().unwrap();
        assert_eq!((&record["form"], &record["agent"]), (&json!("shell"), &json!("standin")));
        host.assert_nothing_left();
    }
    let host = Host::new();
    let run = host.run(&["shell", "--", "-c", "kill -KILL $$"]);
    assert_eq!(run.code(), Some(137), "{}", run.stderr);
}

#[test]
fn a_shell_may_do_what_the_agents_server_may_and_no_more() {
    for tier in TIERS {
        let host = Host::new();
        std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
        let granted = host.write("granted/file", "x\n");
        let granted = granted.parent().unwrap().to_owned();
        host.configure(&format!("[agents.standin]\nread = [\"{}\"]\n", granted.display()));
        let secrets: Vec<PathBuf> =
            [".ssh/id_ed25519", ".bashrc", "notes"].map(|path| host.write(path, "x\n")).into();
        // Its server's home is there from the first launch on.
        assert_eq!(script(&host, tier, "true").code(), Some(0));
        let own = host.agent_home("standin", "server");
        let bus = host.runtime().join("bus");
        let datagrams = host.home().join("log");
        let in_home = host.home().join("a.sock");
        let _sockets = (
            UnixListener::bind(&bus).unwrap(),
            UnixListener::bind(&in_home).unwrap(),
            UnixDatagram::bind(&datagrams).unwrap(),
        );
        let allowed = [
            on("create", &[host.workspace().join("new"), own.join("new")]),
            on("read", &[granted.join("file"), "/etc/passwd".into()]),
        ]
        .concat();
        let refused = [
            on("read", &secrets),
            on("write", &[&secrets[..], &[granted.join("file")]].concat()),
            on("create", &[host.home().join("new"), granted.join("new")]),
            on("list", &[host.home(), host.launches()]),
            on("stream", &[bus, in_home]),
            on("datagram", &[datagrams]),
        ]
        .concat();
        let attempts = [&allowed[..], &refused].concat();
        let mut command = Command::new(probe());
        host.dress(&mut command);
        let outside = finish({
            command.args(&attempts);
            command
        });
        assert_eq!(working(&outside), attempts, "control: {outside:?}");

        std::fs::write(host.workspace().join("attempts"), attempts.join("\n")).unwrap();
        let inside = script(&host, tier, "./probe @attempts");
        assert_eq!(inside.code(), Some(0), "{tier}: {}", inside.stderr);
        assert_eq!(inside.stdout.lines().count(), attempts.len(), "{}", inside.stdout);
        assert_eq!(working(&inside), allowed, "{tier}: {}", inside.stdout);
        host.assert_nothing_left();
    }
}

/// Answers one connection after the other, as a web server would.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(8).flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes");
        }
    });
    port
}

#[test]
fn a_shell_reaches_the_agents_hosts_by_the_guard_and_no_other() {
    if Command::new("bash").arg("--version").output().is_err() {
        skip("bash, which opens the connections, is not installed");
        return;
    }
    for tier in TIERS {
        let mut host = Host::new();
        host.set("SHELL", "/bin/bash");
        let port = web_server();
        host.configure(&format!(
            "[egress]\nexceptions = {{ \"allowed.test\" = \"127.0.0.1\" }}\n\
             [agents.standin]\nhosts = [\"allowed.test:{port}\"]\n"
        ));
        let text = format!(
            "proxy=${{HTTP_PROXY#http://}}\n\
             ask() {{\n\
               exec 3<>/dev/tcp/127.0.0.1/${{proxy##*:}}\n\
               printf 'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\nProxy-Authorization: Basic %s\\r\\n\\r\\n' \
                 $1 $1 $(printf %s ${{proxy%@*}} | base64 -w0) >&3\n\
               read -r -t 20 answer <&3; exec 3>&-; echo \"$1: $answer\"\n\
             }}\n\
             ask allowed.test:{port}; ask refused.test:{port}\n\
             (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo past the guard || echo not past\n"
        );
        let run = script(&host, tier, &text);
        let lines: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(lines.len(), 3, "{tier}: {run:?}");
        assert!(lines[0].starts_with(&format!("allowed.test:{port}: HTTP/1.1 200")), "{lines:?}");
        assert!(lines[1].starts_with(&format!("refused.test:{port}: HTTP/1.1 403")), "{lines:?}");
        assert_eq!(lines[2], "not past", "{tier}");
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "control");
        let decided: Vec<Value> = host
            .ledger()
            .into_iter()
            .filter(|line| line["event"] == "egress" && line["egress"]["decision"] == "refused")
            .map(|line| line["egress"]["host"].clone())
            .collect();
        assert_eq!(decided, ["refused.test"], "{tier}");
    }
}

#[test]
fn a_person_at_a_shell_has_job_control_a_prompt_and_the_terminals_size() {
    for tier in TIERS {
        let mut host = Host::new();
        let bash = Command::new("bash").arg("--version").output().is_ok();
        host.set("SHELL", if bash { "/bin/bash" } else { "/bin/sh" });
        let terminal = Terminal::open();
        let before = terminal.modes();
        let launch = start(&host, &terminal, tier);
        assert!(terminal.text().contains(&format!("{PROMPT}{}", host.workspace().display())));
        terminal.send("clear; stty size\r");
        terminal.wait_for("40 120");
        terminal.resize(31, 97);
        terminal
            .send("until [ \"$(stty size)\" = '31 97' ]; do sleep 0.02; done; echo $((96+1))\r");
        terminal.wait_for("\n97");
        // Ctrl-C ends what runs, not the shell; Ctrl-Z stops it, not the launch.
        terminal.send("clear; sleep 300\r");
        let sleeps = || {
            let report = launch.verify().1;
            let mut tasks = report["tasks"].as_array()?.iter();
            let task = tasks.find(|task| task["command"] == "sleep 300")?;
            i32::try_from(task["pid"].as_i64()?).ok()
        };
        let sleep = wait_for(LIMIT, sleeps).expect("it sleeps");
        terminal.send("\x1a");
        terminal.wait_for("Stopped");
        let state = std::fs::read_to_string(format!("/proc/{sleep}/stat")).unwrap();
        assert!(state.contains(") T "), "{state}");
        assert_eq!(launch.verify().0, Some(0), "{tier}: the launch goes on");
        terminal.send("fg\r");
        terminal.wait_for("\nsleep 300");
        let goes_on = || {
            let stat = std::fs::read_to_string(format!("/proc/{sleep}/stat")).unwrap();
            (!stat.contains(") T ")).then_some(())
        };
        wait_for(LIMIT, goes_on).expect("it goes on");
        terminal.send("\x03");
        wait_for(LIMIT, || (!Path::new(&format!("/proc/{sleep}")).exists()).then_some(()))
            .expect("Ctrl-C ends it");
        terminal.send("echo still $((20+2))\r");
        terminal.wait_for("still 22");
        terminal.send("exit 3\r");
        assert_eq!(launch.end().code(), Some(3), "{tier}: {}", terminal.text());
        let back = wait_for(LIMIT, || (terminal.modes() == before).then_some(()));
        assert!(back.is_some(), "{tier}: {:?}", terminal.modes());
        host.assert_nothing_left();
    }
}

#[test]
fn the_shell_beside_a_launch_has_its_workspace_and_its_tier() {
    for tier in ["sealed", "ported"] {
        let host = Host::new();
        host.configure(&format!("tier = \"{tier}\"\n"));
        let launch = host.start(host.standin_command(&["sleep 300"]));
        let elsewhere = host.home().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let mut command = host.paddock();
        command.current_dir(&elsewhere).args(["shell", &launch.id[..6], "--", "-c", "pwd"]);
        let run = finish(command);
        let wanted = format!("{}\n", host.workspace().display());
        assert_eq!((run.code(), run.stdout), (Some(0), wanted), "{}", run.stderr);
        let record = host.records().pop().unwrap();
        assert_eq!(record["tier"], tier);
        assert_ne!(record["launch"], launch.id.as_str(), "sandboxes of its own");
        assert_eq!(launch.verify().0, Some(0), "the launch goes on");
        assert_eq!(launch.terminate().code(), Some(143));
        host.assert_nothing_left();
    }
}

#[test]
fn the_shell_beside_a_launch_of_a_lesser_tier_has_the_tier_in_force() {
    let host = Host::new();
    let launch = host.start(host.agent_command("standin", &["--tier", "ported"], &["sleep 300"]));
    let tier_of = |options: &[&str]| -> (String, String) {
        let of = ["shell", &launch.id, "--dry-run", "--json"];
        let run = host.run(&[&of[..], options].concat());
        let plan: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        (plan["tier"].as_str().unwrap().to_owned(), run.stderr)
    };
    let (tier, told) = tier_of(&[]);
    assert_eq!(tier, "sealed");
    assert!(told.contains("the tier is sealed, not ported as of launch"), "{told}");
    assert_eq!(tier_of(&["--tier", "ported"]), ("ported".into(), String::new()), "control");
    launch.terminate();
}

#[test]
fn what_cannot_be_a_shell_is_told_with_what_to_do() {
    let host = Host::new();
    let told = |arguments: &[&str]| {
        let run = host.run(arguments);
        (run.code(), run.stderr)
    };
    assert_eq!(
        told(&["shell", "nobody"]),
        (
            Some(125),
            format!(
                "paddock: there is no agent and no launch \"nobody\"; known agents: {}\n  \
                 next: paddock list; paddock agents\n",
                SHIPPED.join(", ")
            )
        )
    );
    for (path, reason) in [
        ("/usr/bin/env", "it is none of bash, dash, fish, sh and zsh"),
        ("/nonexistent/bash", "No such file"),
    ] {
        host.configure(&format!("shell = \"{path}\"\n"));
        let (code, text) = told(&["shell", "standin"]);
        assert_eq!(code, Some(125), "{text}");
        assert!(text.starts_with(&format!("paddock: the shell {path} cannot be used: ")), "{text}");
        assert!(text.contains(reason), "{text}");
        assert!(text.ends_with("next: name another in the configuration: shell = \"/bin/sh\"\n"));
    }
    let mine = host.home().join("dash");
    std::fs::copy("/bin/sh", &mine).unwrap();
    host.configure(&format!("shell = \"{}\"\n", mine.display()));
    let (code, text) = told(&["shell", "standin"]);
    assert!(code == Some(125) && text.contains("the agent's server may not read it"), "{text}");
    assert!(host.records().is_empty());
    // The control: granted, it is a shell like any other.
    host.configure(&format!(
        "shell = \"{0}\"\n[agents.standin]\nread = [\"{0}\"]\n",
        mine.display()
    ));
    let run = script(&host, "sealed", "echo $SHELL");
    assert_eq!(run.stdout, format!("{}\n", mine.display()), "{}", run.stderr);
}

#[test]
fn a_shell_is_ended_like_any_launch() {
    for tier in TIERS {
        let host = Host::new();
        let start = || {
            let mut command = host.paddock();
            command.args(["shell", "standin", "--tier", tier, "--", "-c"]);
            command.arg("setsid sleep 598 & touch up; sleep 600");
            let launch = host.start(command);
            let up = host.workspace().join("up");
            wait_for(LIMIT, || up.exists().then_some(())).expect("it runs");
            std::fs::remove_file(up).unwrap();
            launch
        };
        let launch = start();
        assert_eq!(launch.verify().0, Some(0), "{tier}");
        assert_eq!(host.run(&["stop", &launch.id]).code(), Some(0));
        assert_eq!(launch.end().code(), Some(143), "{tier}");
        host.assert_nothing_left();
        let launch = start();
        send(launch.keeper(), Signal::KILL);
        launch.end();
        let gone = wait_for(LIMIT, || host.processes().is_empty().then_some(()));
        assert!(gone.is_some(), "{tier}: {:?}", host.processes());
        assert_eq!(host.run(&["stop", "--all"]).code(), Some(0));
        host.assert_nothing_left();
    }
}

/// What the terminal's device is to a program inside, as `major:minor` in hexadecimal.
const DEVICES: &str = "for n in 0 1 2; do stat -L -c %t:%T /dev/fd/$n; done";

#[test]
fn where_some_of_it_goes_elsewhere_nobody_inside_holds_the_persons_terminal() {
    for tier in TIERS {
        let host = Host::new();
        let terminal = Terminal::open();
        let before = terminal.modes();
        let (output, go) = (host.home().join("output"), host.workspace().join("go"));
        let mut command = terminal.paddock(&host);
        let script = format!(
            "{DEVICES}; stty raw -echo <&0 && stty size <&0; touch changed; \
             until [ -e go ]; do sleep 0.01; done; \
             stty icanon <&0; read -r line; echo got $line; cat; echo at its end; echo err >&2; exit 7"
        );
        command.args(["shell", "standin", "--tier", tier, "--", "-c", &script]);
        command.stdout(std::fs::File::create(&output).unwrap());
        let launch = host.start_as_it_is(command);
        let changed = host.workspace().join("changed");
        wait_for(LIMIT, || changed.exists().then_some(())).expect("it has a terminal to change");
        assert_eq!(terminal.modes(), before, "{tier}: the person's is as it was");
        std::fs::write(&go, "").unwrap();
        terminal.send("typed\r");
        let written = || std::fs::read_to_string(&output).unwrap();
        wait_for(LIMIT, || written().contains("got typed\n").then_some(())).expect("it is read");
        terminal.send("more\r\x04");
        assert_eq!(launch.end().code(), Some(7), "{}", terminal.text());
        terminal.wait_for("err");
        let written = written();
        let lines: Vec<&str> = written.lines().collect();
        let own = {
            let device = terminal.device();
            let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
            format!("{major:x}:{minor:x}")
        };
        assert!(lines[0].starts_with("88:") && lines[2].starts_with("88:"), "{written}");
        assert!(!lines.contains(&own.as_str()), "{own}: {written}");
        assert_eq!(lines[3..], ["40 120", "got typed", "more", "at its end"], "{tier}");
        assert_eq!(terminal.modes(), before);
        host.assert_nothing_left();
    }
}

#[test]
fn the_devices_tell_the_persons_terminal_apart() {
    // The control: outside it is what the shell has.
    let host = Host::new();
    let terminal = Terminal::open();
    let mut command = terminal.program(&host, "sh");
    command.args(["-c", DEVICES]).stdout(std::process::Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let device = terminal.device();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
    assert_eq!(text.lines().next(), Some(&*format!("{major:x}:{minor:x}")), "{text}");
}

#[test]
fn what_is_shown_is_whole_where_only_the_input_is_elsewhere() {
    let host = Host::new();
    let terminal = Terminal::open();
    let mut command = host.paddock();
    command.args(["shell", "standin", "--", "-c", "cat; seq 1 2000; printf 'the last'"]);
    command.stdin(std::process::Stdio::piped()).stdout(terminal.stdio()).stderr(terminal.stdio());
    let mut launch = command.spawn().unwrap();
    launch.stdin.take().unwrap().write_all(b"from a pipe\n").unwrap();
    assert_eq!(launch.wait().unwrap().code(), Some(0), "{}", terminal.text());
    terminal.wait_for("\n1999\n2000\nthe last");
    host.assert_nothing_left();
}
