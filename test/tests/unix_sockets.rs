//! AF_UNIX without races: what holds against threads that change an address while
//! it is looked at, in each tier, beside the control that the race can be won.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::process::Command;

use paddock_test::host::{
    Finished, Host, LIMIT, Launch, TIERS, finish, probe, standin_over_a_port, wait_for,
};
use serde_json::Value;

/// An agent whose halves meet at a port: the only kind that can be strict.
const AGENT: &str = "ported-standin";

/// Sockets of the person's that nothing inside may reach; they count who did.
struct Decoys {
    stream: (PathBuf, UnixListener),
    datagram: (PathBuf, UnixDatagram),
}

impl Decoys {
    fn in_home_of(host: &Host) -> Self {
        let [stream, datagram] = ["a.sock", "a.sock.d"].map(|name| host.home().join(name));
        let listening = UnixListener::bind(&stream).unwrap();
        let taking = UnixDatagram::bind(&datagram).unwrap();
        listening.set_nonblocking(true).unwrap();
        taking.set_nonblocking(true).unwrap();
        Self { stream: (stream, listening), datagram: (datagram, taking) }
    }

    /// What came since it was asked last, full queues counted as they are.
    fn reached(&self) -> [usize; 2] {
        let connections = std::iter::from_fn(|| self.stream.1.accept().ok()).count();
        let datagrams = std::iter::from_fn(|| self.datagram.1.recv(&mut [0; 4]).ok()).count();
        [connections, datagrams]
    }

    fn race(&self, seconds: u64, mode: &str, allowed: &std::path::Path) -> String {
        let paths = [&self.stream.0, &self.datagram.0].map(|path| path.display().to_string());
        format!("race:{seconds} {mode} {} {} {}", paths[0], paths[1], allowed.display())
    }
}

/// What racing by one way came to.
#[derive(Debug)]
struct Tally {
    attempts: u64,
    without_socket: u64,
    reached: u64,
    elsewhere: u64,
}

/// By connecting and by sending.
fn tallies(run: &Finished) -> [Tally; 2] {
    ["connect ", "send "].map(|way| {
        let line = run.stdout.lines().find_map(|line| line.strip_prefix(way));
        let line = line.unwrap_or_else(|| panic!("{way}: {run:?}"));
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [attempts, without_socket, reached, elsewhere] = numbers[..] else { panic!("{line}") };
        Tally { attempts, without_socket, reached, elsewhere }
    })
}

/// A launch whose tool waits for what it is to try.
fn start<'a>(host: &'a Host, tier: &str, unix: &str) -> Launch<'a> {
    host.configure(&format!("[agents.{AGENT}]\nunix = \"{unix}\"\n"));
    host.add_agent(AGENT, &standin_over_a_port(AGENT));
    std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
    let wait = "touch ready; until [ -e attempts ]; do sleep 0.01; done; ./probe @attempts";
    let launch = host.start(host.agent_command(AGENT, &["--tier", tier], &[wait]));
    let ready = host.workspace().join("ready");
    wait_for(LIMIT, || ready.exists().then_some(())).expect("the tool runs");
    launch
}

/// Has the tool try it, and ends.
fn attempt(host: &Host, launch: Launch<'_>, attempts: &[String]) -> Finished {
    let list = host.workspace().join("attempts");
    std::fs::write(list.with_extension("new"), attempts.join("\n")).unwrap();
    std::fs::rename(list.with_extension("new"), &list).unwrap();
    let run = launch.end();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    host.assert_nothing_left();
    run
}

fn gate(host: &Host, launch: &Launch<'_>) -> PathBuf {
    host.runtime().join("paddock").join(&launch.id).join("in/gate.sock")
}

/// 30 s with `PADDOCK_TEST_ALL`.
fn seconds() -> u64 {
    if std::env::var_os("PADDOCK_TEST_ALL").is_some() { 30 } else { 3 }
}

#[test]
fn racing_threads_reach_no_socket_where_something_holds_and_do_where_nothing_does() {
    for (tier, unix) in
        [("sealed", "mediated"), ("sealed", "strict"), ("isolated", "strict"), ("ported", "strict")]
    {
        let host = Host::new();
        let decoys = Decoys::in_home_of(&host);
        let launch = start(&host, tier, unix);
        let race = decoys.race(seconds(), "all", &gate(&host, &launch));
        let run = attempt(&host, launch, &[race]);
        let raced = tallies(&run);
        println!("{tier}, {unix}: {raced:?}");
        assert_eq!(decoys.reached(), [0, 0], "{tier}, {unix}");
        for tally in &raced {
            assert!(tally.attempts > 100 && tally.reached == 0, "{tier}, {unix}: {tally:?}");
            // All of them, or none.
            let without = if unix == "strict" { tally.attempts } else { 0 };
            assert_eq!(tally.without_socket, without, "{tier}, {unix}: {tally:?}");
        }
        let is_mediated = unix == "mediated";
        assert_eq!(raced[0].elsewhere > 0, is_mediated, "control: it may reach the gate, or not");
    }

    let host = Host::new();
    let decoys = Decoys::in_home_of(&host);
    let launch = start(&host, "isolated", "mediated");
    // To the first success of each way, which comes soon.
    let race = decoys.race(30, "once", &gate(&host, &launch));
    let raced = tallies(&attempt(&host, launch, &[race]));
    println!("isolated, mediated: {raced:?}");
    let [connections, datagrams] = decoys.reached();
    assert!(connections > 0 && datagrams > 0, "control: mediation alone loses: {raced:?}");
    assert!(raced.iter().all(|tally| tally.without_socket == 0), "{raced:?}");

    let mut outside = Command::new(probe());
    host.dress(&mut outside);
    let none = host.home().join("none");
    outside.arg(decoys.race(30, "once", &none));
    let raced = tallies(&finish(outside));
    assert!(raced.iter().all(|tally| tally.reached > 0), "control: they answer: {raced:?}");
    assert!(decoys.reached().iter().all(|count| *count > 0));
}

#[test]
fn a_strict_agent_works_without_sockets_and_every_process_has_the_filter() {
    for tier in TIERS {
        let filters = ["mediated", "strict"].map(|unix| {
            let host = Host::new();
            let decoys = Decoys::in_home_of(&host);
            let launch = start(&host, tier, unix);
            let of = |role: &str, layer: &str| -> u32 {
                let pid = launch.process(role, Some(layer));
                let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
                let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
                line.unwrap().trim().parse().unwrap()
            };
            let filters = ["pen", "server", "client"].map(|layer| of("warden", layer));
            assert_eq!([of("agent", "server"), of("agent", "client")], filters[1..], "{tier}");
            let (status, report) = launch.verify();
            assert_eq!((status, &report["holds"]), (Some(0), &true.into()), "{report:#}");
            let tries = [
                format!("stream:{}", gate(&host, &launch).display()),
                format!("stream:{}", decoys.stream.0.display()),
                "run:true".to_owned(),
            ];
            let run = attempt(&host, launch, &tries);
            let [to_gate, to_decoy, other] = run.stdout.lines().collect::<Vec<_>>()[..] else {
                panic!("{run:?}")
            };
            assert_eq!(to_gate.ends_with(" ok"), unix == "mediated", "{tier}: {to_gate}");
            assert!(to_decoy.contains(" no ") && other.ends_with(" ok"), "{tier}: {run:?}");
            filters
        });
        let [[pen, server, client], strict] = filters;
        assert_eq!(strict, [pen, server + 1, client + 1], "{tier}");
    }
}

#[test]
fn an_agent_that_meets_at_a_socket_is_refused_in_strict_before_anything_starts() {
    let host = Host::new();
    let control = host.standin(&["true"]);
    assert_eq!(control.code(), Some(0), "control: {}", control.stderr);
    let launches = host.records().len();
    host.configure("unix = \"strict\"\n");
    let run = host.standin(&["true"]);
    assert_eq!(run.code(), Some(125), "{}", run.stderr);
    assert_eq!(
        run.stderr,
        "paddock: the client of agent standin meets its server at an AF_UNIX socket, and unix = \
         \"strict\" lets it have none\n\
\x20 next: in the configuration: [agents.standin] unix = \"mediated\"; paddock run --solo \
         standin has one process, where its agent file has [solo]; of an agent of your own the \
         halves can meet at a port instead (link.kind = \"tcp\")\n"
    );
    assert_eq!(host.records().len(), launches);
    host.assert_nothing_left();
    host.configure("unix = \"strict\"\n[agents.standin]\nunix = \"mediated\"\n");
    assert_eq!(host.standin(&["true"]).code(), Some(0), "as the advice says");
}

#[test]
fn the_plan_says_what_stops_a_race() {
    for (tier, unix, wanted) in [
        ("sealed", "mediated", &["veil: "][..]),
        ("sealed", "strict", &["veil: ", "strict filter: "]),
        ("isolated", "mediated", &["mediation only: "]),
        ("ported", "mediated", &["mediation only: "]),
        ("isolated", "strict", &["strict filter: "]),
        ("ported", "strict", &["strict filter: "]),
    ] {
        let mut host = Host::new();
        host.configure(&format!("unix = \"{unix}\"\n"));
        host.add_agent(AGENT, &standin_over_a_port(AGENT));
        // As on a kernel without rules about the paths of sockets.
        host.set("PADDOCK_TEST_LANDLOCK_ABI", "8");
        let options = ["run", AGENT, "--dry-run", "--tier", tier];
        let text = host.run(&options);
        let plan = host.run(&[&options[..], &["--json"]].concat());
        let plan: Value = serde_json::from_str(&plan.stdout).expect(&plan.stderr);
        let told = plan["unixRace"].as_str().unwrap();
        let parts: Vec<&str> = told.split("; ").collect();
        assert_eq!(parts.len(), wanted.len(), "{told}");
        assert!(parts.iter().zip(wanted).all(|(part, start)| part.starts_with(start)), "{told}");
        assert!(text.stdout.contains(&format!("\nAF_UNIX    {told}\n")), "{}", text.stdout);
    }
}

#[test]
fn the_doctor_judges_the_race_where_something_holds() {
    for (unix, is_judged) in [("mediated", false), ("strict", true)] {
        let mut host = Host::new();
        let home = host.home();
        host.set("TMPDIR", &home).set("PADDOCK_TEST_LANDLOCK_ABI", "8");
        host.configure(&format!("unix = \"{unix}\"\n"));
        host.add_agent(AGENT, &standin_over_a_port(AGENT));
        let run = host.run(&["doctor", AGENT, "--json", "--tier", "isolated"]);
        let report: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
        assert_eq!((run.code(), &report["ok"]), (Some(0), &true.into()), "{unix}: {report:#}");
        let rows = report["matrix"]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| {
            row["group"] == "AF_UNIX"
                && row["operation"].as_str().unwrap().starts_with("two threads race")
        });
        let row = row.expect("a row");
        assert_eq!((&row["judged"], &row["control"]), (&is_judged.into(), &true.into()), "{row:#}");
        let server = &row["places"]["server"]["observed"];
        assert!(!is_judged || server != "works", "{row:#}");
    }
}

/// What of the host's is shown below `/tmp` may hold sockets of somebody's.
#[test]
fn where_something_of_the_hosts_is_below_tmp_its_sockets_are_not_in_reach() {
    let host = Host::new();
    let below = tempfile::Builder::new().prefix("paddock-below-").tempdir_in("/tmp").unwrap();
    let (workspace, read) = (below.path().join("ws"), below.path().join("read"));
    let own = host.home().join("ws");
    for directory in [&workspace, &read, &own] {
        std::fs::create_dir(directory).unwrap();
    }
    let connect = |at: &std::path::Path| {
        format!(
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
            at.display()
        )
    };
    let outside = |at: &std::path::Path| {
        let mut command = Command::new("sh");
        command.args(["-c", &connect(at)]);
        finish(command).code()
    };
    let run = |workspace: &std::path::Path, script: &str| {
        let mut command = host.paddock();
        command.args(["run", "standin", "--workspace"]).arg(workspace).args(["--", "-c", script]);
        finish(command)
    };
    let bind = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/own.sock\")'";
    assert_eq!(run(&own, bind).code(), Some(0), "control: else they may be made in /tmp");
    for (granted, at, workspace) in
        [("", workspace.join("host.sock"), &workspace), ("read", read.join("host.sock"), &own)]
    {
        if !granted.is_empty() {
            host.configure(&format!("[grants]\n{granted} = [\"{}\"]\n", read.display()));
        }
        let _listener = UnixListener::bind(&at).unwrap();
        assert_eq!(outside(&at), Some(0), "control");
        let refused = run(workspace, &connect(&at));
        assert_ne!(refused.code(), Some(0), "{refused:#?}");
        assert!(refused.stderr.contains("PermissionError"), "{refused:#?}");
        assert_ne!(run(workspace, bind).code(), Some(0), "nor are any made beside it");
    }
}
