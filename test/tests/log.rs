//! `paddock log`: what happened in a launch, line by line and summed up.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use paddock_test::host::{Finished, Host, LIMIT, Launch, finish, probe, send, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

const ANSWER: &[u8] = b"HTTP/1.0 200 OK\r\n\r\n";
const REQUEST: &str = "GET / HTTP/1.0\r\n\r\n";

/// A service of the host's on loopback; its port.
fn serve() -> u16 {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in service.incoming().flatten() {
            // To its end: closing with something unread would be a reset.
            let _ = BufReader::new(&stream).lines().map_while(Result::ok).find(String::is_empty);
            let _ = (&stream).write_all(ANSWER);
        }
    });
    port
}

/// A launch whose tool asks for an allowed host twice and for one that is
/// refused, to its end.
fn launch_that_asks(host: &Host) -> u16 {
    let port = serve();
    host.configure(&format!(
        "[egress]\nhosts = [\"ok.test:{port}\", \"127.0.0.1:{port}\"]\n\
         exceptions = {{ \"ok.test\" = \"127.0.0.1\" }}\n"
    ));
    std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
    let ask = format!("./probe proxy:ok.test:{port} proxy:ok.test:{port} proxy:127.0.0.1:{port}");
    let run = host.standin(&[&ask]);
    assert_eq!(run.stdout.matches(" ok\n").count(), 2, "{run:?}");
    port
}

/// A launch that runs until the workspace has a file `go`.
fn waiting(host: &Host) -> Launch<'_> {
    host.start(host.standin_command(&["until [ -e go ]; do sleep 0.01; done"]))
}

fn let_go(host: &Host) {
    std::fs::write(host.workspace().join("go"), "").unwrap();
}

fn told(run: &Finished) -> (Option<i32>, &str, &str) {
    (run.code(), &run.stdout, &run.stderr)
}

/// The only launch's directory.
fn directory(host: &Host) -> PathBuf {
    host.launches().join(host.records()[0]["launch"].as_str().unwrap())
}

/// The lines without their times.
fn lines(text: &str) -> Vec<&str> {
    let time = "2025-11-30 12:00:00.000  ".len();
    text.lines().map(|line| &line[time..]).collect()
}

/// `paddock log --follow`, and what it prints.
fn follow(host: &Host, options: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut command = host.paddock();
    command.args(["log", "--follow"]).args(options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Its exit status and errors, once it has ended.
fn end(mut child: Child) -> (Option<i32>, String) {
    let status = wait_for(LIMIT, || child.try_wait().unwrap());
    let status = status.unwrap_or_else(|| {
        let _ = child.kill();
        panic!("it goes on")
    });
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (status.code(), errors)
}

#[test]
fn what_happened_is_told_in_words() {
    let host = Host::new();
    let port = launch_that_asks(&host);
    let run = host.run(&["log"]);
    assert_eq!((run.code(), run.stderr.as_str()), (Some(0), ""));
    let found = lines(&run.stdout);
    let workspace = host.workspace();
    let workspace = workspace.display();
    let start = format!("start          standin (sealed) in {workspace}; it may reach ");
    assert!(found[0].starts_with(&start), "{}", found[0]);
    assert!(found[0].contains(&format!("ok.test:{port}")), "{}", found[0]);
    for wanted in [
        "self-test      the server layer holds: ",
        "agent-started  the agent's client was started",
        &format!("egress         ok.test:{port} at 127.0.0.1 allowed (exception)"),
        &format!("egress         ok.test:{port} at 127.0.0.1 closed: 18 B sent, 19 B received ("),
        &format!("egress         127.0.0.1:{port} REFUSED: 127.0.0.1 is not a public address: "),
    ] {
        assert!(found.iter().any(|line| line.starts_with(wanted)), "{wanted}\n{}", run.stdout);
    }
    let last = "stop           ended with status 0; nothing of it is left";
    assert_eq!(found.last(), Some(&last));
    assert!(!run.stdout.contains('\u{1b}'), "colours are for terminals");
    let year = run.stdout.split('-').next().unwrap();
    assert!(year.len() == 4 && year.starts_with("20"), "{}", run.stdout);
}

#[test]
fn json_is_the_ledger_as_it_is() {
    let host = Host::new();
    launch_that_asks(&host);
    let ledger = std::fs::read_to_string(directory(&host).join("ledger.jsonl")).unwrap();
    let run = host.run(&["log", "--json"]);
    assert_eq!(told(&run), (Some(0), ledger.as_str(), ""));
    let numbers = host.ledger().into_iter().map(|line| line["seq"].as_u64().unwrap());
    assert!(numbers.eq(1..=ledger.lines().count() as u64));
}

#[test]
fn hosts_are_summed_up() {
    let host = Host::new();
    launch_that_asks(&host);
    let (sent, received) = (2 * REQUEST.len(), 2 * ANSWER.len());
    let run = host.run(&["log", "--hosts"]);
    assert_eq!(
        told(&run),
        (
            Some(0),
            format!(
                "HOST       CONNECTIONS  OPEN  SENT  RECEIVED  REFUSED                FAILED\n\
                 ok.test              2     0  {sent} B      {received} B  0                      0\n\
                 127.0.0.1            0     0   0 B       0 B  1 (special-address 1)  0\n"
            )
            .as_str(),
            ""
        )
    );
    let run = host.run(&["log", "--hosts", "--json"]);
    let sums: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        sums,
        json!({
            "schema": 1, "launch": host.records()[0]["launch"], "notKept": 0, "hosts": [
                { "host": "ok.test", "connections": 2, "open": 0, "sent": sent,
                  "received": received, "refused": {}, "failed": {} },
                { "host": "127.0.0.1", "connections": 0, "open": 0, "sent": 0, "received": 0,
                  "refused": { "special-address": 1 }, "failed": {} },
            ],
        })
    );
}

#[test]
fn a_tunnel_that_is_open_at_the_end_is_counted_too() {
    let host = Host::new();
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    host.configure(&format!(
        "[egress]\nhosts = [\"ok.test:{port}\"]\nexceptions = {{ \"ok.test\" = \"127.0.0.1\" }}\n"
    ));
    std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
    let ask = format!("./probe proxy:ok.test:{port}");
    let launch = host.start(host.standin_command(&[&ask]));
    let (mut stream, _) = service.accept().unwrap();
    let mut request = [0; REQUEST.len()];
    stream.read_exact(&mut request).unwrap();
    // It waits for the answer.
    assert_eq!(launch.terminate().code(), Some(143));
    let run = host.run(&["log", "--hosts", "--json"]);
    let sums: Value = serde_json::from_str(&run.stdout).unwrap();
    let sum = &sums["hosts"][0];
    assert_eq!(
        (&sum["connections"], &sum["open"], &sum["sent"]),
        (&1.into(), &0.into(), &REQUEST.len().into())
    );
    assert_eq!(host.ledger().last().unwrap()["event"], "stop");
}

#[test]
fn follow_goes_on_until_the_launch_has_ended() {
    let host = Host::new();
    let launch = waiting(&host);
    for options in [&[][..], &["--json"]] {
        let (child, mut output) = follow(&host, options);
        let mut text = String::new();
        while !text.contains("verified") {
            assert!(output.read_line(&mut text).unwrap() > 0, "{text}");
        }
        if options.is_empty() {
            // The first ends by the reader that leaves.
            drop(output);
            assert_eq!(end(child), (Some(0), String::new()));
            assert_eq!(launch.verify().0, Some(0), "control: the launch runs");
            continue;
        }
        let (plain, mut words) = follow(&host, &[&launch.id]);
        let_go(&host);
        output.read_to_string(&mut text).unwrap();
        assert_eq!(end(child), (Some(0), String::new()));
        assert_eq!(text, host.run(&["log", "--json"]).stdout);
        let mut text = String::new();
        words.read_to_string(&mut text).unwrap();
        assert_eq!(end(plain), (Some(0), String::new()));
        assert_eq!(text, host.run(&["log"]).stdout);
        assert!(text.contains("  stop           ended with status 0"), "{text}");
    }
    assert_eq!(launch.end().code(), Some(0));
}

#[test]
fn follow_ends_with_a_keeper_that_is_killed() {
    let host = Host::new();
    let launch = waiting(&host);
    let (child, mut output) = follow(&host, &[]);
    let mut text = String::new();
    // The agent is there before its line is.
    while !text.contains("  agent-started  ") {
        assert!(output.read_line(&mut text).unwrap() > 0, "{text}");
    }
    send(launch.keeper(), Signal::KILL);
    output.read_to_string(&mut text).unwrap();
    assert_eq!(end(child), (Some(0), String::new()));
    assert!(text.contains("  agent-started  ") && !text.contains("  stop  "), "{text}");
    let id = launch.id.clone();
    launch.end();
    assert_eq!(host.run(&["stop", &id]).code(), Some(0));
}

/// Says something at a launch's gate that no warden would say.
fn knock(host: &Host, id: &str, body: &str) {
    let gate = host.runtime().join("paddock").join(id).join("in/gate.sock");
    let mut stream = UnixStream::connect(gate).unwrap();
    stream.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    // Sent away.
    assert_eq!(stream.read(&mut [0]).unwrap_or_default(), 0);
}

#[test]
fn of_a_flood_the_first_lines_and_the_newest_are_kept_and_followed() {
    let host = Host::new();
    let launch = waiting(&host);
    let (child, output) = follow(&host, &["--json"]);
    let reading = std::thread::spawn(move || {
        output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    });
    let count = 10_050;
    (0..count).for_each(|_| knock(&host, &launch.id, "{}"));
    let recorded = wait_for(LIMIT, || {
        let more = std::fs::read_to_string(directory(&host).join("ledger-more.jsonl"));
        (more.unwrap_or_default().lines().count() == count - 10_000).then_some(())
    });
    assert!(recorded.is_some());
    let_go(&host);
    assert_eq!(launch.end().code(), Some(0));
    let followed: Vec<Value> = reading.join().unwrap();
    assert_eq!(end(child), (Some(0), String::new()));
    let refused = followed.iter().filter(|line| line["event"] == "gate-refused").count();
    assert_eq!(refused, count);
    let numbers = followed.iter().map(|line| line["seq"].as_u64().unwrap());
    assert!(numbers.eq(1..=followed.len() as u64), "in order, and each once");
    assert_eq!(followed.last().unwrap()["event"], "stop");
    let full: Vec<&Value> = followed.iter().filter(|line| line["of"].is_string()).collect();
    assert_eq!(full.len(), 1);
    assert_eq!(
        (&full[0]["event"], &full[0]["of"]),
        (&"ledger-full".into(), &"gate-refused".into())
    );
    let text = host.run(&["log"]).stdout;
    let notice = "  after 10000 lines of gate-refused, what comes is in ledger-more.jsonl\n";
    assert!(text.contains(notice));
    host.assert_nothing_left();
}

#[test]
fn what_a_caller_or_a_host_is_called_cannot_draw() {
    let host = Host::new();
    let launch = waiting(&host);
    let name = "fly\u{1b}[2J\u{9b}31m\u{202e}";
    knock(&host, &launch.id, &json!({ name: 1 }).to_string());
    let is_there =
        || host.ledger().iter().any(|line| line["event"] == "gate-refused").then_some(());
    assert!(wait_for(LIMIT, is_there).is_some());
    let_go(&host);
    assert_eq!(launch.end().code(), Some(0));
    let path = directory(&host).join("ledger.jsonl");
    let egress = json!({ "event": "egress", "time": 0, "egress": {
        "event": "decided", "host": name, "decision": "refused", "reason": "bad-host\u{1b}c",
        "message": name, "sent": 0, "received": 0,
    }});
    let mut ledger = File::options().append(true).open(&path).unwrap();
    for line in [&egress, &json!({ name: name, "event": name })] {
        writeln!(ledger, "{line}").unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap().contains('\u{9b}'), "control: it could draw");
    let id = launch_id(&host);
    for options in [&[][..], &["--json"], &["--hosts"], &["--hosts", "--json"]] {
        let run = host.run(&[&["log", &id], options].concat());
        assert_eq!((run.code(), run.stderr.as_str()), (Some(0), ""), "{options:?}");
        let draws = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!run.stdout.contains(draws), "{options:?}: {:?}", run.stdout);
        assert!(run.stdout.contains("fly\\u"), "control: it is shown: {}", run.stdout);
        if options.contains(&"--json") {
            let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
            let names = [&last["event"], &last["hosts"][0]["host"]];
            assert!(names.contains(&&json!(name)), "control: it means the same: {last}");
        }
    }
}

fn launch_id(host: &Host) -> String {
    host.records()[0]["launch"].as_str().unwrap().to_owned()
}

#[test]
fn colours_are_for_a_terminal_whose_person_wants_them() {
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    let mut host = Host::new();
    host.standin(&["true"]);
    let on_a_terminal = |host: &Host| {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let screen = openpt(flags).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let mut command = host.paddock();
        command.arg("log").stdout(ioctl_tiocgptpeer(&screen, flags).unwrap());
        let mut child = command.spawn().unwrap();
        // Its end of the terminal is closed with it.
        drop(command);
        let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
        // Fails once nothing has the other end open.
        while let Ok(n @ 1..) = File::from(screen.try_clone().unwrap()).read(&mut chunk) {
            text.extend_from_slice(&chunk[..n]);
        }
        assert!(child.wait().unwrap().success());
        String::from_utf8(text).unwrap()
    };
    let coloured = on_a_terminal(&host);
    assert!(coloured.contains("\x1b[32mverified     \x1b[0m"), "{coloured}");
    host.set("NO_COLOR", "1");
    let plain = on_a_terminal(&host);
    assert!(plain.contains("  verified  ") && !plain.contains('\u{1b}'), "{plain}");
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_shown() {
    let host = Host::new();
    host.standin(&["true"]);
    let (id, path) = (launch_id(&host), directory(&host).join("ledger.jsonl"));
    let whole = std::fs::read_to_string(&path).unwrap();
    let count = whole.lines().count();
    std::fs::write(&path, format!("{whole}\x1b[2J\n[]\n{{}}\n{{\"event\":\"st")).unwrap();
    let run = host.run(&["log", "--json"]);
    let errors = format!(
        "paddock: line {} of ledger.jsonl and 1 after it cannot be read, and is left out\n\
         paddock: line {} of ledger.jsonl cannot be read, and is left out\n",
        count + 1,
        count + 4
    );
    assert_eq!(told(&run), (Some(0), format!("{whole}{{}}\n").as_str(), errors.as_str()));
    let run = host.run(&["log"]);
    assert_eq!((run.code(), run.stdout.lines().count()), (Some(0), count + 1));

    let lines: Vec<&str> = whole.lines().collect();
    std::fs::write(&path, [lines[0], lines[count - 1]].join("\n") + "\n").unwrap();
    let run = host.run(&["log"]);
    let missing = format!("({} lines were not kept)", count - 2);
    assert_eq!(run.stdout.lines().nth(1), Some(missing.as_str()));

    std::fs::remove_file(&path).unwrap();
    let unreadable = |why: &str| {
        let path = path.display();
        format!(
            "paddock: the ledger {path} cannot be read: {why}\n  next: see what it is: ls -l {path}\n"
        )
    };
    let run = host.run(&["log", &id]);
    assert_eq!(told(&run), (Some(125), "", unreadable("there is none").as_str()));
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    let run = host.run(&["log", "--follow"]);
    assert_eq!(told(&run), (Some(125), "", unreadable("it is a symbolic link").as_str()));
}

#[test]
fn the_launch_is_the_one_that_runs_else_the_newest_or_the_one_that_is_named() {
    let host = Host::new();
    let none = "paddock: there has been no launch\n  next: paddock run starts one\n";
    assert_eq!(told(&host.run(&["log"])), (Some(125), "", none));
    host.standin(&["true"]);
    let unknown =
        "paddock: there is no launch \"no-such\"\n  next: paddock list shows the launches\n";
    assert_eq!(told(&host.run(&["log", "no-such"])), (Some(125), "", unknown));

    let of = |options: &[&str]| {
        let run = host.run(&[&["log", "--json"], options].concat());
        let first = run.stdout.lines().next().unwrap_or_else(|| panic!("{run:?}"));
        serde_json::from_str::<Value>(first).unwrap()["launch"].as_str().unwrap().to_owned()
    };
    let ended = launch_id(&host);
    let running = waiting(&host);
    assert_eq!(of(&[]), running.id);
    assert_eq!(of(&[&ended]), ended);
    let other = waiting(&host);
    let several = format!(
        "paddock: several launches are running: {}, {}\n  next: name one\n",
        running.id, other.id
    );
    assert_eq!(told(&host.run(&["log"])), (Some(125), "", several.as_str()));
    assert_eq!(of(&[&other.id]), other.id);
    running.terminate();
    let newest = other.id.clone();
    other.terminate();
    assert_eq!(of(&[]), newest);
}

#[test]
fn who_reads_the_first_line_alone_gets_no_error() {
    let host = Host::new();
    host.standin(&["true"]);
    let path = directory(&host).join("ledger.jsonl");
    let mut ledger = File::options().append(true).open(path).unwrap();
    (0..20_000).for_each(|n| writeln!(ledger, "{{\"event\":\"more\",\"n\":{n}}}").unwrap());
    let mut command = Command::new("sh");
    let paddock = paddock_test::host::paddock();
    command.args(["-c", "\"$0\" log | head -n 1; exec 3>&1"]).arg(paddock);
    host.dress(&mut command);
    let run = finish(command);
    assert_eq!((run.code(), run.stdout.lines().count(), run.stderr.as_str()), (Some(0), 1, ""));
}
