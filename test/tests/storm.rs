//! Processes and threads that come and go faster than they can be looked at:
//! what ends while it is read is no reason to stop a launch.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::SystemTime;

use paddock_test::faults::{fault, place};
use paddock_test::host::{Host, LIMIT, TIERS, skip, wait_for};

/// Passes that are asked for, beside those that the keeper makes by itself.
const PASSES: usize = 25;

/// Runs `command` for the server of a launch in every tier until [`PASSES`]
/// passes in a row have confirmed everything. It has to end once there is a file
/// `enough`.
fn confirm_meanwhile(command: &str) {
    for tier in TIERS {
        let host = Host::new();
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &[command]));
        let mut most = 0;
        for pass in 0..PASSES {
            let (status, report) = launch.verify();
            assert_eq!(status, Some(0), "{tier}, pass {pass}: {report:#}\n{:#?}", host.ledger());
            most = most.max(report["tasks"].as_array().map_or(0, Vec::len));
        }
        std::fs::write(host.workspace().join("enough"), "").unwrap();
        let run = launch.end();
        assert_eq!(run.code(), Some(0), "{tier}: {run:#?}");
        // The control: the keeper did see what came and went.
        assert!(most > 8, "{tier}: {most} tasks at most");
        let odd = |line: &&serde_json::Value| line["event"] == "verdict";
        assert_eq!(host.ledger().iter().find(odd), None);
        host.assert_nothing_left();
    }
}

#[test]
fn a_storm_of_short_processes_stays_confirmed() {
    confirm_meanwhile(
        "until [ -e enough ]; do for i in 1 2 3 4 5 6; do (:) & done; (setsid true &); wait; done",
    );
}

#[test]
fn a_process_whose_first_thread_has_ended_stays_confirmed() {
    if Command::new("python3").arg("-c").arg("import ctypes").status().is_err() {
        return skip("there is no python3 to make such a process with");
    }
    // 60 is exit(2) of one thread, on x86_64.
    let script = "import ctypes,os,threading,time\n\
        def live():\n while not os.path.exists('enough'): time.sleep(0.02)\n os._exit(0)\n\
        [threading.Thread(target=live).start() for _ in range(3)]\n\
        ctypes.CDLL(None).syscall(60, 0)\n";
    confirm_meanwhile(&format!("python3 -c \"{script}\""));
}

#[test]
fn what_forks_faster_than_it_can_be_found_is_ended() {
    for tier in TIERS {
        let host = Host::new();
        let fault = place(&fault(), &host.workspace().join("fault"));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        // Should nothing end them they end by themselves.
        let (end, note) = (now.as_secs() + 60, host.workspace().join("note"));
        let comets = format!(
            "for i in 1 2 3 4 5 6 7 8; do {} comet {end} {} & done; sleep 60",
            fault.display(),
            note.display()
        );
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &[&comets]));
        assert!(wait_for(LIMIT, || note.exists().then_some(())).is_some(), "control: they run");
        assert_eq!(launch.terminate().code(), Some(143), "{tier}");
        host.assert_nothing_left();
    }
}
