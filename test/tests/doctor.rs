//! `paddock doctor`, on this host and on hosts that lack something.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use paddock_test::host::{Finished, Host, finish, nono, skip};
use serde_json::Value;

const NAMES: [&str; 42] = [
    "plain-user",
    "landlock",
    "landlock-errata",
    "landlock-files",
    "landlock-network",
    "landlock-signals",
    "landlock-abstract-unix",
    "landlock-unix-paths",
    "landlock-thread-sync",
    "seccomp-filter",
    "seccomp-notification",
    "seccomp-listener",
    "user-namespace",
    "mount-namespace",
    "network-namespace",
    "ipc-namespace",
    "uts-namespace",
    "pid-namespace",
    "proc-in-namespace",
    "pidfd",
    "peer-pidfd",
    "yama",
    "terminal-injection",
    "witness",
    "pidfd-getfd",
    "kcmp",
    "proc",
    "cgroup-delegation",
    "runtime-directory",
    "socket-path",
    "nono",
    "bubblewrap",
    "herdr",
    "git",
    "agent-claude",
    "agent-codex",
    "agent-copilot",
    "agent-gemini",
    "agent-goose",
    "agent-opencode",
    "agent-qwen",
    "agent-standin",
];

/// `paddock doctor --quick --json`, not started yet.
fn doctor(host: &Host) -> Command {
    let mut command = host.paddock();
    command.args(["doctor", "--quick", "--json"]);
    command
}

fn report(run: &Finished) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"))
}

/// One feature: its state, its reason and its advice.
fn feature(report: &Value, name: &str) -> (String, String, String) {
    let features = report["host"]["features"].as_array().unwrap();
    let feature = features.iter().find(|feature| feature["name"] == name).expect(name);
    let text = |key: &str| feature[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("reason"), text("advice"))
}

/// It changed nothing where it looked.
fn assert_nothing_made(host: &Host) {
    assert!(std::fs::read_dir(host.runtime()).unwrap().next().is_none());
    let left: Vec<_> = host.processes();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_feature_is_there_and_this_host_reaches_the_sealed_tier() {
    let host = Host::new();
    let run = finish(doctor(&host));
    let report = report(&run);
    assert_eq!((run.code(), run.stderr.as_str()), (Some(0), ""), "{report:#}");
    let features = report["host"]["features"].as_array().unwrap();
    let names: Vec<&str> = features.iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(names, NAMES);
    for feature in features {
        let state = feature["state"].as_str().unwrap();
        assert!(["enforced", "partial", "missing", "unknown"].contains(&state), "{feature}");
        assert!(!feature["reason"].as_str().unwrap().is_empty(), "{feature}");
    }
    assert_eq!(report["host"]["tier"], "sealed");
    assert_eq!(
        (&report["pins"][0]["state"], &report["matrix"]),
        (&"not-recorded".into(), &Value::Null)
    );
    assert_eq!((&report["ok"], &report["wanted"]), (&true.into(), &"sealed".into()));
    assert_nothing_made(&host);
}

#[test]
fn the_table_is_plain_text() {
    let mut host = Host::new();
    // A directory's name is shown, and may hold anything.
    let odd = host.home().join("a\u{1b}[2Jb\nc");
    std::fs::create_dir(&odd).unwrap();
    host.set("XDG_RUNTIME_DIR", &odd);
    let run = host.run(&["doctor", "--quick"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines.iter().all(|line| !line.chars().any(char::is_control)), "{lines:?}");
    assert!(run.stdout.contains("a\\u{1b}[2Jb\\nc"), "{}", run.stdout);
    for name in NAMES {
        assert!(lines.iter().any(|line| line.starts_with(&format!("{name} "))), "{name}");
    }
    let verdict = lines.iter().position(|line| *line == "this host can reach the sealed tier");
    assert_eq!(verdict, Some(lines.len() - 2));
    assert!(lines[lines.len() - 1].starts_with("pins of standin (sealed) "), "{lines:?}");
}

#[test]
fn a_kernel_whose_landlock_is_too_old() {
    let mut host = Host::new();
    host.set("PADDOCK_TEST_LANDLOCK_ABI", "3");
    let run = finish(doctor(&host));
    let report = report(&run);
    assert_eq!(run.code(), Some(1), "{report:#}");
    assert_eq!((&report["ok"], &report["host"]["tier"]), (&false.into(), &Value::Null));
    let (state, reason, advice) = feature(&report, "landlock");
    assert_eq!((state.as_str(), advice.as_str()), ("partial", "use Linux 6.12 or newer"));
    assert!(reason.starts_with("ABI 3, lowered by PADDOCK_TEST_LANDLOCK_ABI"), "{reason}");
    for (name, state) in [
        ("landlock-files", "enforced"),
        ("landlock-network", "missing"),
        ("landlock-signals", "missing"),
        ("landlock-abstract-unix", "missing"),
    ] {
        assert_eq!(feature(&report, name).0, state, "{name}");
    }
    let table = host.run(&["doctor", "--quick"]);
    assert!(
        table.stdout.contains(
            "\nthis host can reach no tier: landlock-network, landlock-signals, \
             landlock-abstract-unix\n  next: do what is advised above, then: paddock doctor\n"
        ),
        "{}",
        table.stdout
    );
    host.set("PADDOCK_TEST_LANDLOCK_ABI", "99");
    assert_eq!(finish(doctor(&host)).code(), Some(0), "it can only be lowered");
}

#[test]
fn a_host_without_user_namespaces() {
    let host = Host::new();
    let run_within = || host.run_without_user_namespaces(&doctor(&host));
    let Some(run) = run_within() else { return };
    let found = report(&run);
    assert_eq!((run.code(), &found["host"]["tier"]), (Some(1), &"ported".into()), "{found:#}");
    let (state, reason, advice) = feature(&found, "user-namespace");
    assert_eq!(state, "missing");
    assert!(reason.starts_with("unshare(CLONE_NEWUSER): ENOSPC: a limit is reached"), "{reason}");
    assert!(advice.ends_with("; or choose a lesser tier: paddock run --tier ported"), "{advice}");
    for name in ["mount-namespace", "network-namespace", "pid-namespace"] {
        let (state, reason, _) = feature(&found, name);
        assert_eq!(state, "missing");
        assert_eq!(reason, "it takes user-namespace, which is missing");
    }
    host.configure("tier = \"ported\"\n");
    let run = run_within().unwrap();
    assert_eq!((run.code(), &report(&run)["wanted"]), (Some(0), &"ported".into()));
}

#[test]
fn a_host_whose_proc_is_partly_covered() {
    // As container engines do it.
    let host = Host::new();
    let inner = doctor(&host);
    let mut command = Command::new("bwrap");
    command.args(["--dev-bind", "/", "/", "--unshare-user", "--unshare-pid", "--proc", "/proc"]);
    command.args(["--ro-bind", "/proc/sys", "/proc/sys", "--"]);
    command.arg(inner.get_program()).args(inner.get_args());
    host.dress(&mut command);
    let run = finish(command);
    let report = report(&run);
    assert_eq!((run.code(), &report["host"]["tier"]), (Some(1), &"isolated".into()), "{report:#}");
    assert_eq!(feature(&report, "pid-namespace").0, "enforced");
    let (state, reason, advice) = feature(&report, "proc-in-namespace");
    assert_eq!(state, "missing");
    assert!(reason.starts_with("mount(proc): EPERM: "), "{reason}");
    assert!(advice.contains("systempaths=unconfined"), "{advice}");
    assert!(advice.ends_with("paddock run --tier isolated"), "{advice}");
}

#[test]
fn a_host_whose_proc_hides_processes() {
    // A user namespace in another: in the inner one nothing of the outer may be
    // looked at.
    let within = |command: &Command| {
        let mut outer = Command::new("unshare");
        let user = rustix::process::getuid().as_raw();
        let mount = "mount -t proc -o hidepid=2 proc /proc && exec \"$@\"";
        outer.args(["-r", "-m", "-p", "-f", "sh", "-c", mount, "sh"]);
        outer.args(["unshare", "-U", &format!("--map-user={user}")]);
        outer.arg(command.get_program()).args(command.get_args());
        outer
    };
    if !within(&Command::new("true")).status().is_ok_and(|status| status.success()) {
        skip("a /proc that hides processes cannot be mounted here");
        return;
    }
    let host = Host::new();
    let mut command = within(&doctor(&host));
    host.dress(&mut command);
    let run = finish(command);
    let report = report(&run);
    assert_eq!((run.code(), &report["host"]["tier"]), (Some(1), &Value::Null), "{report:#}");
    let (state, reason, advice) = feature(&report, "proc");
    assert_eq!(state, "missing");
    assert!(reason.contains("hidepid="), "{reason}");
    assert_eq!(advice, "as root: mount -o remount,hidepid=off /proc");
}

#[test]
fn a_host_that_listens_to_every_process_already() {
    // A nono with a proxy does: its sandbox has the one listener.
    let host = Host::new();
    let inner = doctor(&host);
    let mut command = Command::new(nono());
    command.args(["run", "--silent", "--no-audit", "--no-rollback", "--allow-domain", "a.test"]);
    command.arg("--allow").arg(host.workspace());
    command.arg("--read").arg(paddock_test::host::paddock().parent().unwrap());
    command.arg("--").arg(inner.get_program()).args(inner.get_args());
    host.dress(&mut command);
    let run = finish(command);
    let report = report(&run);
    assert_eq!((run.code(), &report["host"]["tier"]), (Some(1), &Value::Null), "{report:#}");
    assert_eq!(feature(&report, "seccomp-notification").0, "enforced");
    let (state, reason, advice) = feature(&report, "seccomp-listener");
    assert_eq!(state, "missing");
    assert!(reason.contains("EBUSY") && reason.contains("listener"), "{reason}");
    assert!(!advice.is_empty());
    let (state, reason, _) = feature(&report, "landlock-files");
    assert_eq!(state, "unknown", "what fails anyway shows nothing: {reason}");
}

#[test]
fn a_host_without_bubblewrap_or_nono() {
    let host = Host::new();
    let empty = host.home().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut command = doctor(&host);
    command.env("PATH", &empty);
    let run = finish(command);
    let found = report(&run);
    assert_eq!((run.code(), &found["host"]["tier"]), (Some(1), &"isolated".into()), "{found:#}");
    for name in ["bubblewrap", "git", "herdr"] {
        assert_eq!(feature(&found, name).0, "missing", "{name}");
    }
    let advice = feature(&found, "bubblewrap").2;
    assert_eq!(advice.matches("paddock run --tier isolated").count(), 1, "{advice}");
    let real = nono();
    let newer = host.script(
        "bin/nono",
        &format!(
            "#!/bin/sh\n[ \"$1\" = --version ] || exec {} \"$@\"\necho nono 0.99.0\n",
            real.display()
        ),
    );
    let mut command = doctor(&host);
    command.env("PADDOCK_NONO", &newer);
    let run = finish(command);
    let (state, reason, _) = feature(&report(&run), "nono");
    assert_eq!((run.code(), state.as_str()), (Some(0), "partial"));
    assert!(reason.ends_with("bin/nono 0.99.0; not a version known to work"), "{reason}");
    let mut command = doctor(&host);
    command.env("PADDOCK_NONO", "/nonexistent");
    let run = finish(command);
    assert_eq!((run.code(), &report(&run)["host"]["tier"]), (Some(1), &Value::Null));
}

/// An agent may have written it.
#[test]
fn a_program_in_the_workspace_is_not_run() {
    let host = Host::new();
    let git = host.workspace().join("git");
    for name in ["git", "bwrap", "nono", "herdr"] {
        let script = "#!/bin/sh\necho ran >>\"${0%/*}/ran\"\necho ${0##*/} 9.9.9\n";
        std::fs::write(git.with_file_name(name), script).unwrap();
        let mode = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(git.with_file_name(name), mode).unwrap();
    }
    std::fs::create_dir(host.home().join("elsewhere")).unwrap();
    let run_in = |directory: &std::path::Path| {
        let mut command = doctor(&host);
        command.env_remove("PADDOCK_NONO").env("PATH", host.workspace()).current_dir(directory);
        finish(command)
    };
    let run = run_in(&host.workspace());
    let found = report(&run);
    assert_eq!((run.code(), &found["host"]["tier"]), (Some(1), &Value::Null), "{found:#}");
    for (name, state) in
        [("git", "unknown"), ("herdr", "unknown"), ("bubblewrap", "missing"), ("nono", "missing")]
    {
        let (found, reason, _) = feature(&found, name);
        assert_eq!(found, state, "{name}");
        assert!(reason.contains("which the agent must not be able to write"), "{reason}");
    }
    let ran = host.workspace().join("ran");
    assert!(!ran.exists());
    // From elsewhere it is a program like any other: it is asked, and says who it is.
    let found = report(&run_in(&host.home().join("elsewhere")));
    assert!(ran.exists(), "control");
    assert_eq!(feature(&found, "git").0, "enforced");
    let (state, reason, _) = feature(&found, "bubblewrap");
    assert_eq!(state, "missing");
    assert!(reason.contains("its --version says \"bwrap 9.9.9"), "{reason}");
}

#[test]
fn a_runtime_directory_that_does_not_do() {
    let mut host = Host::new();
    let own = host.runtime().join("paddock");
    std::fs::create_dir(&own).unwrap();
    std::fs::set_permissions(&own, PermissionsExt::from_mode(0o755)).unwrap();
    let run = finish(doctor(&host));
    let (state, _, advice) = feature(&report(&run), "runtime-directory");
    assert_eq!((run.code(), state.as_str()), (Some(1), "missing"));
    assert_eq!(advice, format!("chmod 700 {}", own.display()));
    std::fs::set_permissions(&own, PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(finish(doctor(&host)).code(), Some(0), "what was advised helps");
    assert!(std::fs::read_dir(&own).unwrap().next().is_none(), "nothing is left");

    let long = host.home().join("x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    host.set("XDG_RUNTIME_DIR", &long);
    let run = finish(doctor(&host));
    let (state, _, advice) = feature(&report(&run), "socket-path");
    assert_eq!((run.code(), state.as_str()), (Some(1), "missing"));
    assert_eq!(advice, "set XDG_RUNTIME_DIR to a shorter path");
}

#[test]
fn root_and_a_configuration_that_is_none() {
    let host = Host::new();
    let inner = doctor(&host);
    let mut command = Command::new("bwrap");
    command.args(["--dev-bind", "/", "/", "--unshare-user", "--uid", "0", "--"]);
    command.arg(inner.get_program()).args(inner.get_args());
    host.dress(&mut command);
    let run = finish(command);
    let found = report(&run);
    assert_eq!((run.code(), &found["host"]["tier"]), (Some(1), &Value::Null));
    assert_eq!(feature(&found, "plain-user").0, "missing");

    host.configure("tier = \"none\"\n");
    let run = finish(doctor(&host));
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""));
    assert!(run.stderr.contains("is not usable"), "{}", run.stderr);
}
