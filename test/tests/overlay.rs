//! `paddock overlay` on a real terminal, over real launches.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use paddock_test::herdr::StandIn;
use paddock_test::herdr::plugin_host::{Manner, PluginHost, until};
use paddock_test::host::{Host, LIMIT, Launch, send, wait_for};
use paddock_test::terminal::Terminal;
use rustix::process::Signal;

fn start(host: &Host) -> Launch<'_> {
    host.start(host.standin_command(&["sleep 900"]))
}

/// The overlay on a terminal, ended when dropped.
struct Shown {
    terminal: Terminal,
    child: Child,
    before: (String, Vec<&'static str>),
}

impl Shown {
    fn start(host: &Host, rows: u16, columns: u16) -> Self {
        Self::start_with(host, rows, columns, &[])
    }

    fn start_with(host: &Host, rows: u16, columns: u16, variables: &[(&str, &str)]) -> Self {
        let terminal = Terminal::of_size(rows, columns);
        let before = terminal.modes();
        let mut command = terminal.paddock(host);
        command.arg("overlay").env("LC_ALL", "C.UTF-8").envs(variables.iter().copied());
        let child = command.spawn().unwrap();
        let shown = Self { terminal, child, before };
        shown.terminal.wait_for("VERDICT");
        assert_ne!(shown.terminal.modes(), shown.before, "control: the terminal has been taken");
        shown
    }

    /// Waits for its end, and that the terminal is as it was.
    fn ended(mut self) -> Option<i32> {
        let status = wait_for(LIMIT, || self.child.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("it ends: {}", self.terminal.text()));
        let given_back = wait_for(LIMIT, || (self.terminal.modes() == self.before).then_some(()));
        assert!(given_back.is_some(), "{:?}, not {:?}", self.terminal.modes(), self.before);
        status.code()
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn launches_are_shown_verified_and_stopped() {
    let host = Host::new();
    let (first, second) = (start(&host), start(&host));
    let shown = Shown::start(&host, 40, 130);
    let terminal = &shown.terminal;
    terminal.wait_for("launches: 2");
    terminal.wait_for(&format!("{} (standin, sealed)", first.id));
    terminal.wait_for("network: its own, with nothing but loopback");
    terminal.wait_for("warden paddock-warden server");
    terminal.wait_for("✓ confined: all of");

    terminal.send("j");
    terminal.wait_for(&format!("{} (standin, sealed)", second.id));
    terminal.send("v");
    terminal.wait_for(&format!("launch {}: all of", second.id));
    terminal.send("s");
    terminal.wait_for(&format!("stop launch {}", second.id));
    terminal.send("n");
    terminal.wait_until_gone("stop launch");
    assert_eq!(second.verify().0, Some(0), "control: a no stops nothing");
    terminal.send("sy");
    terminal.wait_for(&format!("launch {} has ended; nothing of it is left", second.id));
    terminal.wait_for("launches: 1, ended: 1");
    assert_eq!(second.end().code(), Some(143));
    assert_eq!(first.verify().0, Some(0));
    terminal.send("P");
    terminal.wait_for("remove records and ledgers of launches that have ended?");
    terminal.send("y");
    terminal.wait_for("removed: 1 launches that had ended");
    terminal.wait_until_gone("ended: 1");
    assert_eq!(host.records().len(), 1, "the one that runs is there still");

    let asked = Instant::now();
    terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    drop(first);
    host.assert_nothing_left();
}

#[test]
fn a_question_is_answered_and_the_ledger_is_searched() {
    let host = Host::new();
    let command = "paddock ask host wanted.test --wait 600 >answer; sleep 900";
    let launch = host.start(host.standin_command(&[command]));
    let shown = Shown::start(&host, 24, 80);
    let terminal = &shown.terminal;
    terminal.wait_for("the agent asks for");
    terminal.send("a");
    terminal.wait_for(&format!("launch {} asks for the host wanted.test", launch.id));
    terminal.send("l");
    terminal.wait_for("granted for as long as this launch lives");
    let answer = host.workspace().join("answer");
    let told =
        wait_for(LIMIT, || std::fs::read_to_string(&answer).ok().filter(|text| !text.is_empty()));
    assert_eq!(told.as_deref(), Some("granted: launch\n"));
    terminal.wait_until_gone("the agent asks for");

    terminal.send("l");
    terminal.wait_for("granted: the host wanted.test (launch)");
    terminal.wait_for("self-test");
    terminal.send("/self-TEST\r");
    terminal.wait_for("with \"self-TEST\"");
    terminal.wait_until_gone("granted: the host");
    terminal.send("q");
    terminal.wait_for("VERDICT");
    terminal.send("p");
    terminal.wait_for("profiles and pins of standin (sealed)");
    terminal.wait_for("as recorded");
    terminal.send("\x1b");
    terminal.wait_for("VERDICT");
    terminal.send("?");
    terminal.wait_for("stop the launch, after a question");
    terminal.send("\x03");
    assert_eq!(shown.ended(), Some(0));
}

#[test]
fn a_small_terminal_shows_the_list_and_the_details_after_enter() {
    let host = Host::new();
    let (first, second) = (start(&host), start(&host));
    let shown = Shown::start(&host, 15, 60);
    let terminal = &shown.terminal;
    terminal.wait_for("launches: 2");
    assert!(!terminal.text().contains("workspace"), "{}", terminal.text());
    let is_selected = |launch: &Launch<'_>| {
        terminal.send("\r");
        terminal.wait_for(&format!("{} (standin, sealed)", launch.id));
        terminal.wait_for("workspace");
        terminal.send("q");
        terminal.wait_for("VERDICT");
    };
    is_selected(&first);
    // Below the border, the heading and the first launch.
    terminal.send("\x1b[<0;10;4M\x1b[<0;10;4m");
    is_selected(&second);
    // Where there is no launch nothing is selected by a click.
    terminal.send("\x1b[<0;10;8M\x1b[<0;10;8m");
    is_selected(&second);
    let wheel = |down: bool| format!("\x1b[<{};10;4M", 64 + i32::from(down));
    terminal.send(&wheel(false));
    is_selected(&first);
    terminal.send(&wheel(true));
    is_selected(&second);
    terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
}

#[test]
fn the_pane_of_a_launch_is_brought_to_the_front() {
    let mut host = Host::new();
    let herdr = StandIn::beside(&mut host);
    let _launch = start(&host);
    let shown = Shown::start(&host, 24, 80);
    shown.terminal.wait_for("w1:p9");
    shown.terminal.send("g");
    shown.terminal.wait_for("herdr shows pane w1:p9");
    let focus = herdr.received().into_iter().find(|request| request["method"] == "pane.focus");
    assert_eq!(focus.expect("it was asked")["params"]["pane_id"], "w1:p9");
    shown.terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
}

#[test]
fn a_shell_beside_a_launch_has_the_terminal_until_it_ends() {
    let host = Host::new();
    let _launch = start(&host);
    let shown = Shown::start(&host, 24, 80);
    let terminal = &shown.terminal;
    terminal.wait_for("confined: all of");
    terminal.send("o");
    terminal.wait_until_gone("VERDICT");
    terminal.wait_for("tasks confirmed, watching");
    terminal.send("echo in=$((40+2))\r");
    terminal.wait_for("in=42");
    terminal.send("exit\r");
    terminal.wait_for("the shell beside launch");
    terminal.wait_for("VERDICT");
    terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
}

#[test]
fn in_herdr_the_overlay_opens_a_shell_in_a_pane_and_waits_for_none() {
    let host = Host::new();
    let launch = start(&host);
    let herdr = PluginHost::start(&host);
    let own = herdr.shell_pane(&host.workspace());
    let socket = host.home().join("h.sock").into_os_string().into_string().unwrap();
    let variables = [("HERDR_ENV", "1"), ("HERDR_SOCKET_PATH", &*socket), ("HERDR_PANE_ID", &*own)];
    let shown = Shown::start_with(&host, 24, 120, &variables);
    let terminal = &shown.terminal;
    terminal.wait_for("confined: all of");

    // A herdr that says nothing is waited for beside the keys, not before them: what is
    // typed meanwhile would take the message away.
    herdr.set_manner(Manner::Hang);
    terminal.send("o");
    terminal.wait_for("is being opened in a pane");
    terminal.send("?");
    terminal.wait_for("Ctrl-C quits");
    terminal.wait_for("o opens the shell in this terminal now");
    terminal.send("q");
    assert_eq!(host.records().len(), 1, "there is no shell yet");
    terminal.send("q");
    assert_eq!(shown.ended(), Some(0));

    herdr.set_manner(Manner::Answer);
    let shown = Shown::start_with(&host, 24, 120, &variables);
    shown.terminal.wait_for("confined: all of");
    shown.terminal.send("o");
    shown.terminal.wait_for(&format!("the shell beside launch {} is in pane", launch.id));
    let opened = &herdr.received("plugin.pane.open")[0]["params"];
    let wanted = [("entrypoint", "shell"), ("placement", "split"), ("target_pane_id", &*own)];
    for (key, value) in wanted {
        assert_eq!(opened[key], value, "{opened}");
    }
    let id = herdr.panes().into_iter().find(|id| *id != own).expect("its pane");
    let pane = herdr.pane(&id).unwrap();
    pane.terminal.send("echo in=$((40+2))\r");
    pane.terminal.wait_for("in=42");
    assert!(!shown.terminal.text().contains("in=42"), "it is not in the overlay's terminal");
    shown.terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
    assert!(herdr.pane(&id).is_some(), "it goes on without the overlay");
    pane.terminal.send("exit\r");
    until("it closes", || herdr.pane(&id).is_none());
    drop(launch);
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn where_herdr_has_no_such_plugin_the_overlays_shell_has_its_terminal() {
    let host = Host::new();
    let _launch = start(&host);
    let herdr = PluginHost::start(&host);
    let own = herdr.shell_pane(&host.workspace());
    let socket = host.home().join("h.sock").into_os_string().into_string().unwrap();
    let variables = [
        ("HERDR_ENV", "1"),
        ("HERDR_SOCKET_PATH", &*socket),
        ("HERDR_PANE_ID", &*own),
        ("HERDR_PLUGIN_ID", "another"),
    ];
    let shown = Shown::start_with(&host, 24, 120, &variables);
    let terminal = &shown.terminal;
    terminal.wait_for("confined: all of");
    terminal.send("o");
    terminal.wait_for("no such plugin");
    terminal.wait_for("o opens the shell in this terminal now");
    terminal.send("o");
    terminal.wait_for("tasks confirmed, watching");
    terminal.send("exit\r");
    terminal.wait_for("the shell beside launch");
    terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
    assert_eq!(herdr.panes(), [own]);
}

#[test]
fn a_shell_that_has_the_terminal_is_ended_before_the_overlay() {
    let host = Host::new();
    let launch = start(&host);
    let shown = Shown::start(&host, 24, 80);
    shown.terminal.wait_for("confined: all of");
    shown.terminal.send("o");
    shown.terminal.wait_for("tasks confirmed, watching");
    shown.terminal.send("echo in=$((40+2))\r");
    shown.terminal.wait_for("in=42");
    assert_eq!(host.records().len(), 2, "control: the shell runs");
    send(shown.pid(), Signal::TERM);
    assert_eq!(shown.ended(), Some(143));
    let running = host.records().into_iter().filter(|record| record["phase"] == "running");
    let running: Vec<String> = running.map(|record| record["launch"].to_string()).collect();
    assert_eq!(running, [format!("{:?}", launch.id)], "the launch goes on");
    drop(launch);
    host.assert_nothing_left();
}

#[test]
fn a_shell_is_opened_by_the_overlays_own_program_however_it_was_replaced() {
    let host = Host::new();
    let _launch = start(&host);
    let own = host.home().join("paddock");
    std::fs::copy(paddock_test::host::paddock(), &own).unwrap();
    let terminal = Terminal::of_size(24, 80);
    let mut overlay =
        terminal.program(&host, &own).arg("overlay").env("LC_ALL", "C.UTF-8").spawn().unwrap();
    terminal.wait_for("confined: all of");
    std::fs::remove_file(&own).unwrap();
    terminal.send("o");
    // It does run, and says why that is no program to build a sandbox with.
    terminal.wait_for("it was replaced while running; start it again");
    terminal.wait_for("Enter goes back to the overlay");
    terminal.send("\r");
    terminal.wait_for("VERDICT");
    terminal.send("q");
    assert!(wait_for(LIMIT, || overlay.try_wait().unwrap()).is_some(), "{}", terminal.text());
}

#[test]
fn a_keeper_that_hangs_holds_up_nobody() {
    let host = Host::new();
    let (hanging, other) = (start(&host), start(&host));
    send(hanging.keeper(), Signal::STOP);
    let shown = Shown::start(&host, 24, 100);
    shown.terminal.wait_for("? unknown");
    shown.terminal.wait_for("✓ confined");
    shown.terminal.wait_for("suspended");
    let asked = Instant::now();
    shown.terminal.send("j");
    shown.terminal.wait_for(&format!("{} (standin", other.id));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    shown.terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
    send(hanging.keeper(), Signal::CONT);
}

#[test]
fn a_keeper_that_takes_a_question_and_is_silent_holds_up_nobody() {
    let host = Host::new();
    let (silent, other) = (start(&host), start(&host));
    // Somebody who says nothing is where its keeper was.
    let record = host.records().into_iter().find(|r| r["launch"] == *silent.id).unwrap();
    let own = Path::new(record["launchDirectory"].as_str().unwrap()).join("control.sock");
    let aside = own.with_extension("aside");
    std::fs::rename(&own, &aside).unwrap();
    let listener = UnixListener::bind(&own).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&calls);
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            told.fetch_add(1, Ordering::SeqCst);
            held.push(stream);
        }
    });
    let shown = Shown::start(&host, 24, 100);
    let terminal = &shown.terminal;
    terminal.wait_for("✓ confined");
    terminal.wait_for("? unknown");
    terminal.send("k");
    terminal.wait_for("does not answer within 2 s");
    terminal.wait_for("✓ confined");
    assert!(calls.load(Ordering::SeqCst) > 0, "control: it was asked");
    let asked = Instant::now();
    terminal.send("j");
    terminal.wait_for(&format!("{} (standin", other.id));
    terminal.wait_for("✓ confined: all of");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
    std::fs::rename(&aside, &own).unwrap();
    assert_eq!(silent.verify().0, Some(0), "control: the keeper was well all the time");
}

#[test]
fn the_terminal_is_given_back_after_signals() {
    let host = Host::new();
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let shown = Shown::start(&host, 24, 80);
        send(shown.pid(), signal);
        assert_eq!(shown.ended(), Some(status), "{signal:?}");
    }
}

#[test]
fn ctrl_z_suspends_it_where_a_shell_can_continue_it() {
    let host = Host::new();
    let terminal = Terminal::of_size(24, 80);
    let mut command = terminal.program(&host, "sh");
    command.arg("-i").env("PS1", "prompt$ ").env("PADDOCK", paddock_test::host::paddock());
    let mut shell = command.spawn().unwrap();
    terminal.wait_for_prompt("prompt$ ");
    terminal.send("\"$PADDOCK\" overlay\r");
    terminal.wait_for("VERDICT");
    terminal.send("\x1a");
    terminal.wait_for_prompt("prompt$ ");
    let modes = terminal.modes();
    assert!(!modes.1.contains(&"the alternate screen"), "{modes:?}");
    assert!(!modes.1.contains(&"mouse reports"), "{modes:?}");
    terminal.send("echo a=$((1+1))\r");
    terminal.wait_for("a=2");
    terminal.send("fg\r");
    terminal.wait_for("VERDICT");
    terminal.send("q");
    terminal.wait_for_prompt("prompt$ ");
    terminal.send("exit\r");
    assert!(wait_for(LIMIT, || shell.try_wait().unwrap()).is_some(), "{}", terminal.text());

    // As the first process of a terminal it is nobody's job.
    let shown = Shown::start(&host, 24, 80);
    shown.terminal.send("\x1a");
    shown.terminal.wait_for("no shell here could continue it");
    shown.terminal.send("q");
    assert_eq!(shown.ended(), Some(0));
}

#[test]
fn without_a_terminal_it_names_what_prints_the_same() {
    let host = Host::new();
    let run = host.run(&["overlay"]);
    assert_eq!(run.code(), Some(125));
    assert_eq!(
        run.stderr,
        "paddock: the overlay needs a terminal\n  next: paddock status prints the same in lines\n"
    );
}
