//! The gate and the guard under whoever floods them, from inside and from the host:
//! the keeper lives and stays small, the verdict stands, and who asks afterwards is
//! served. The guard has no life of its own to end: it is a thread of the keeper, so
//! what is tried in mid-transfer is the end of the keeper.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paddock_test::faults::events;
use paddock_test::host::{Host, LIMIT, Launch, TIERS, probe, wait_for};

/// What floods there are, and how many connections each has.
const FLOODS: [(&str, usize); 6] = [
    ("garbage", 500),
    ("silent", 300),
    ("half", 300),
    ("huge", 300),
    ("deep", 300),
    ("many", 10_000),
];
/// Megabytes that the keeper may have at most, whatever is done to it.
const MOST_MEMORY: f64 = 64.0;
/// Threads: the keeper's own, and one for each of the gate's callers at once.
const MOST_THREADS: u64 = 64 + 24;

/// Runs the probe with what it is told, here or in a sandbox; what did not work is told.
const RUN: &str = "touch ready; until [ -e go ]; do sleep 0.01; done; ./probe @attempts";

fn with_probe(host: &Host) {
    std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
}

fn write(path: &Path, lines: &[String]) {
    let new = path.with_extension("new");
    std::fs::write(&new, lines.join("\n")).unwrap();
    std::fs::rename(new, path).unwrap();
}

fn appears(path: &Path) {
    assert!(wait_for(LIMIT, || path.exists().then_some(())).is_some(), "{}", path.display());
}

/// A number of the keeper's `status` (`proc_pid_status(5)`).
fn status(keeper: i32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{keeper}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// The most memory that it has had, in megabytes.
fn peak(keeper: i32) -> f64 {
    f64::from(u32::try_from(status(keeper, "VmHWM")).unwrap()) / 1024.0
}

fn gate(host: &Host, launch: &Launch<'_>) -> PathBuf {
    host.runtime().join("paddock").join(&launch.id).join("in/gate.sock")
}

/// The same floods by a process of the host. Ended when dropped.
struct Outside(Child);

impl Outside {
    fn flood(host: &Host, gate: &Path, attempts: &Path) -> Self {
        let mut command = Command::new(probe());
        host.dress(&mut command);
        command.env("PADDOCK_GATE", gate).arg(format!("@{}", attempts.display()));
        command.stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    fn said(mut self) -> String {
        std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_flood_of_the_gate_ends_the_keeper_or_makes_it_large() {
    for tier in TIERS {
        let host = Host::new();
        with_probe(&host);
        let place = |name: &str| host.workspace().join(name);
        let ask = "paddock ask grants > asked-before && ";
        let rest = "; touch flooded; until [ -e calm ]; do sleep 0.01; done; paddock ask grants";
        let command = format!("{ask}{RUN}{rest}");
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &[&command]));
        appears(&place("ready"));
        let keeper = launch.keeper();
        let (before, threads_before) = (peak(keeper), status(keeper, "Threads"));

        let floods: Vec<_> =
            FLOODS.iter().map(|(kind, count)| format!("flood:{kind} {count}")).collect();
        write(&place("attempts"), &floods);
        write(&place("go"), &[]);
        let mut outside = Outside::flood(&host, &gate(&host, &launch), &place("attempts"));
        let (mut most_threads, mut passes) = (0, 0);
        let over = wait_for(2 * LIMIT, || {
            let (status_of_verify, report) = launch.verify();
            assert_eq!(status_of_verify, Some(0), "{tier}: {report:#}");
            passes += 1;
            most_threads = most_threads.max(status(keeper, "Threads"));
            (place("flooded").exists() && outside.has_ended()).then_some(())
        });
        assert!(over.is_some(), "{tier}: the floods do not end");
        let said = outside.said();
        for flood in &floods {
            assert!(said.contains(&format!("{flood} ok")), "{tier}, by the host: {said}");
        }
        let after = peak(keeper);
        println!(
            "{tier}: {passes} passes, {before:.1} MB before, {after:.1} MB at most, \
             {threads_before} threads before, {most_threads} at most"
        );
        assert!(after < MOST_MEMORY, "{tier}: {before} MB became {after} MB");
        assert!(most_threads <= MOST_THREADS, "{tier}: {most_threads} threads");
        assert!(most_threads > threads_before, "control: the gate did have callers");

        write(&place("calm"), &[]);
        let run = launch.end();
        assert_eq!(run.code(), Some(0), "{tier}: {}", run.stderr);
        for flood in &floods {
            assert!(run.stdout.contains(&format!("{flood} ok")), "{tier}, inside: {}", run.stdout);
        }
        let grants = std::fs::read_to_string(place("asked-before")).unwrap();
        assert!(grants.contains("workspace"), "control: {grants}");
        assert!(run.stdout.ends_with(&grants), "{tier}: {}", run.stdout);
        let refused = events(&host, "gate-refused").len();
        assert!(refused > 100, "{tier}: {refused} are on record");
        host.assert_nothing_left();
    }
}

/// A service of the host's: what it answers goes on for as long as it is taken when
/// `endless`. Its port, and how many bytes were taken.
fn serve(endless: bool) -> (u16, Arc<AtomicU64>) {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let taken = Arc::new(AtomicU64::new(0));
    let counter = taken.clone();
    std::thread::spawn(move || {
        for stream in service.incoming().flatten() {
            // To its end: closing with something unread would be a reset.
            let _ = BufReader::new(&stream).lines().map_while(Result::ok).find(String::is_empty);
            let _ = (&stream).write_all(b"HTTP/1.0 200 OK\r\n\r\n");
            let more = [b'x'; 16 << 10];
            while endless && (&stream).write_all(&more).is_ok() {
                counter.fetch_add(more.len() as u64, Ordering::Relaxed);
            }
        }
    });
    (port, taken)
}

fn allow(host: &Host, port: u16) {
    host.configure(&format!(
        "[egress]\nhosts = [\"ok.test:{port}\"]\nexceptions = {{ \"ok.test\" = \"127.0.0.1\" }}\n"
    ));
}

#[test]
fn a_keeper_that_is_stopped_in_mid_transfer_leaves_nothing() {
    for tier in TIERS {
        let host = Host::new();
        with_probe(&host);
        let (port, taken) = serve(true);
        allow(&host, port);
        let command = format!("./probe download:ok.test:{port}");
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &[&command]));
        let flows = wait_for(LIMIT, || (taken.load(Ordering::Relaxed) > 64 << 20).then_some(()));
        assert!(flows.is_some(), "{tier}: nothing flows");
        let stop = host.run(&["stop", &launch.id]);
        assert_eq!(stop.code(), Some(0), "{tier}: {}", stop.stderr);
        let run = launch.end();
        assert!(!run.stdout.contains("download:"), "control: it was cut, {tier}: {}", run.stdout);
        host.assert_nothing_left();
        // The service's own connection has been cut, too: it takes no more.
        let mut before = taken.load(Ordering::Relaxed);
        let still = wait_for(LIMIT, || {
            std::thread::sleep(Duration::from_millis(50));
            let now = taken.load(Ordering::Relaxed);
            (std::mem::replace(&mut before, now) == now).then_some(())
        });
        assert!(still.is_some(), "{tier}: somebody still takes what is sent");
        let closed: Vec<_> = events(&host, "egress")
            .into_iter()
            .filter(|line| line["egress"]["event"] == "closed")
            .collect();
        assert_eq!(closed.len(), 1, "{tier}: {closed:#?}");
        assert!(closed[0]["egress"]["received"].as_u64() > Some(32 << 20), "{tier}: {closed:#?}");
    }
}

#[test]
fn clients_that_are_slow_with_their_requests_do_not_keep_one_waiting_that_is_quick() {
    let (port, _) = serve(false);
    let host = Host::new();
    with_probe(&host);
    allow(&host, port);
    // Fewer than the guard serves at once, then more: the quick one is served when the
    // slow ones have had the ten seconds that a request may take.
    for (slow, limit) in [(500, 2_000), (1_100, 15_000)] {
        let attempt = format!("slow:{slow} ok.test:{port}");
        let run = host.standin(&[&format!("./probe '{attempt}'")]);
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
        assert!(run.stdout.contains(&format!("{attempt} ok")), "{}", run.stdout);
        let waited = run.stdout.lines().find_map(|line| line.strip_prefix("slow: "));
        let waited: u32 = waited.unwrap().parse().unwrap();
        println!("beside {slow} slow clients the quick one waited {waited} ms at most");
        assert!(waited < limit, "beside {slow} slow ones it waited {waited} ms");
    }
    host.assert_nothing_left();
}
