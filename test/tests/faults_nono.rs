//! A nono that does not do what it is for, and processes that it leaves where
//! none belong: no agent runs, or not for long.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use confine::Pid;
use confine::pidfd::PidFd;
use paddock_test::faults::{Bystander, events, fault, parts, place};
use paddock_test::host::{Finished, Host, LIMIT, Launch, TIERS, nono, wait_for};

/// Runs a launch that leaves the file `ran` in the workspace if its agent runs.
fn launch(host: &Host, agent: &str, tier: &str) -> Finished {
    let command = host.agent_command(agent, &["--tier", tier], &["touch ran"]);
    paddock_test::host::finish(command)
}

fn has_run(host: &Host) -> bool {
    host.workspace().join("ran").exists()
}

/// Server or client, whichever came first.
const INNER: &str = "server|client";

/// No agent ran, the person is told why, and nothing but the launch was touched.
fn assert_refused(host: &Host, run: &Finished, layer: &str, reason: &str, case: &str) {
    let told = |layer| format!("paddock: the self-test of the {layer} layer failed: ");
    assert_eq!(run.code(), Some(126), "{case}: {}", run.stderr);
    assert!(layer.split('|').any(|l| run.stderr.contains(&told(l))), "{case}: {}", run.stderr);
    assert!(run.stderr.contains(reason), "{case}: {}", run.stderr);
    assert!(!has_run(host), "{case}: the agent ran");
    assert!(events(host, "agent-started").is_empty(), "{case}");
    host.assert_nothing_left();
}

/// The real nono, where a stand-in can find it in every layer.
fn real_nono(host: &Host) -> PathBuf {
    let path = host.workspace().join("real-nono");
    if path.exists() { path } else { place(&nono(), &path) }
}

fn use_nono(host: &Host, path: &Path) {
    host.configure(&format!("[programs]\nnono = \"{}\"\n", path.display()));
}

/// A shell script in nono's place, which looks at each argument `$a` in turn.
/// `BEHIND` in it becomes what removes all arguments up to `--`, `PASS` what
/// makes the real nono run with the arguments that were kept.
///
/// What that nono starts waits until nobody can look into it any more, as is
/// the case with the real one a moment after it started: until then it would
/// show that it is another program than the one that was checked.
fn script(host: &Host, text: &str) -> PathBuf {
    const TARRY: &str = "while [ \"$(stat -c %u /proc/$PPID/status)\" = \"$(id -u)\" ]; \
                         do sleep 0.01; done; exec \"$@\"";
    let real = real_nono(host).display().to_string();
    let behind = "while [ \"$1\" != -- ]; do shift; done; shift";
    let pass = |look: &str| {
        format!(
            "for a do shift; {look}\n case \"$a$tarries\" in --) tarries=1; \
             set -- \"$@\" -- /bin/sh -c '{TARRY}' sh;; *) set -- \"$@\" \"$a\";; esac; done\n\
             exec {real} \"$@\""
        )
    };
    let text = match text.split_once("PASS") {
        Some((before, look)) => before.to_owned() + &pass(look),
        None => text.to_owned(),
    };
    let text = text.replace("BEHIND", behind);
    host.script(
        "bin/nono",
        &format!("#!/bin/sh\ncase $1 in --version | profile) exec {real} \"$@\";; esac\n{text}\n"),
    )
}

/// The program that misbehaves, as a nono with that fault.
fn stand_in(host: &Host, name: &str) -> PathBuf {
    real_nono(host);
    place(&fault(), &host.home().join("bin").join(format!("nono-{name}")))
}

const NOT_BELOW: &str = "it was not started by its layer's nono";
const OTHER_NONO: &str = "its supervisor's program is not the nono that was checked";
const HOST_SOCKET: &str = "\"connect to a socket of the host\" worked, but must be refused";
const HOST_NETWORK: &str = "it is in the host's network namespace";

#[test]
fn the_real_nono_in_a_place_of_its_own_runs_the_agent() {
    // The control for every other test here.
    for tier in TIERS {
        let host = Host::new();
        use_nono(&host, &place(&nono(), &host.home().join("own/nono")));
        let run = launch(&host, "standin", tier);
        assert_eq!(run.code(), Some(0), "{tier}: {}", run.stderr);
        assert!(has_run(&host), "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn a_nono_that_runs_the_command_unsandboxed_gets_no_agent() {
    let mut bystander = Bystander::start();
    for tier in TIERS {
        // In place of itself, as a child, and as the very file that was checked.
        for (kind, sealed_off, ported) in [
            ("exec", NOT_BELOW, NOT_BELOW),
            ("child", OTHER_NONO, OTHER_NONO),
            ("checked", HOST_NETWORK, "must be refused"),
        ] {
            let host = Host::new();
            use_nono(
                &host,
                &match kind {
                    "exec" => script(&host, "BEHIND; exec \"$@\""),
                    "child" => script(&host, "BEHIND; \"$@\"; exit $?"),
                    _ => stand_in(&host, "unsandboxed"),
                },
            );
            let run = launch(&host, "standin", tier);
            let reason = if tier == "ported" { ported } else { sealed_off };
            assert_refused(&host, &run, "pen", reason, &format!("{tier}, {kind}"));
        }
    }
    assert!(bystander.lives());
}

#[test]
fn a_nono_that_applies_landlock_and_nothing_else_gets_no_agent() {
    let mut bystander = Bystander::start();
    for tier in TIERS {
        let host = Host::new();
        use_nono(&host, &stand_in(&host, "landlock"));
        let run = launch(&host, "standin", tier);
        // In the ported tier it gets as far as what Landlock does not do; all
        // that comes before in the self-test was refused.
        let reason = if tier == "ported" {
            "\"open a UDP socket\" worked, but must be refused"
        } else {
            HOST_NETWORK
        };
        assert_refused(&host, &run, "pen", reason, tier);
    }
    assert!(bystander.lives());
}

#[test]
fn a_nono_that_skips_isolation_gets_no_agent() {
    let without = "PASS if [ \"$a\" = --isolate ]; then drop=1; continue; \
        elif [ -n \"$drop\" ]; then drop=; continue; fi";
    for (tier, reason) in [("sealed", OTHER_NONO), ("isolated", HOST_NETWORK)] {
        let host = Host::new();
        use_nono(&host, &script(&host, without));
        let run = launch(&host, "standin", tier);
        assert_refused(&host, &run, "pen", reason, tier);
    }
    // Control: where nothing is to be isolated, the same script does no harm.
    let host = Host::new();
    use_nono(&host, &script(&host, without));
    let run = launch(&host, "standin", "ported");
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert!(has_run(&host));
}

#[test]
fn a_nono_that_skips_mediation_gets_no_agent() {
    // It gives the real one another policy than it was given.
    let without = "PASS case \"$a\" in */profiles/LAYER.json) \
        sed s/pathname/off/ \"$a\" >$PWD/LAYER.json; a=$PWD/LAYER.json; esac";
    for (tier, layer, fails, reason) in [
        ("sealed", "server", "pen", OTHER_NONO),
        ("isolated", "server", INNER, OTHER_NONO),
        ("ported", "server", "server", HOST_SOCKET),
        ("ported", "client", "client", HOST_SOCKET),
    ] {
        let host = Host::new();
        // The client's nono may not write to the workspace, but it starts in
        // the pen, which may.
        use_nono(&host, &script(&host, &without.replace("LAYER", layer)));
        let run = launch(&host, "standin", tier);
        assert_refused(&host, &run, fails, reason, &format!("{tier}, {layer}"));
    }
    // Control: the same script, for a policy that is not there.
    let host = Host::new();
    use_nono(&host, &script(&host, &without.replace("LAYER", "none")));
    let run = launch(&host, "standin", "ported");
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert!(has_run(&host));
}

#[test]
fn a_nono_that_fails_only_inside_the_pen_gets_no_agent() {
    let mut bystander = Bystander::start();
    let inside =
        |rest: &str| format!("case \" $* \" in *' pen --gate '*) ;; *) {rest};; esac; PASS :");
    for (kind, reason) in [("exec", NOT_BELOW), ("child", OTHER_NONO), ("checked", HOST_SOCKET)] {
        let host = Host::new();
        use_nono(
            &host,
            &match kind {
                "exec" => script(&host, &inside("BEHIND; exec \"$@\"")),
                "child" => script(&host, &inside("BEHIND; \"$@\"; exit $?")),
                _ => stand_in(&host, "inner"),
            },
        );
        // In the other tiers the pen's nono is known by its file, so that one
        // which is right in the pen and wrong inside cannot be had.
        let run = launch(&host, "standin", "ported");
        assert_refused(&host, &run, INNER, reason, kind);
    }
    assert!(bystander.lives());
}

/// The stand-in under another name, with one of its policies changed.
fn agent_with(host: &Host, layer: &str, from: &str, to: &str) {
    let text = include_str!("../../profiles/standin/agent.toml");
    host.add_agent("changed", &text.replace("name = \"standin\"", "name = \"changed\""));
    let policy = match layer {
        "server" => include_str!("../../profiles/standin/server.json"),
        _ => include_str!("../../profiles/standin/client.json"),
    };
    assert!(policy.contains(from), "{layer} has {from}");
    host.write(&format!(".config/paddock/agents/changed/{layer}.json"), &policy.replace(from, to));
}

#[test]
fn a_policy_that_asks_for_too_little_gets_no_agent() {
    let signals = (
        "\"signal_mode\": \"isolated\"",
        "\"signal_mode\": \"allow_all\"",
        "\"signal a process outside\" worked",
    );
    for tier in TIERS {
        // The first that gets through; behind the veil there is no other.
        let socket = if tier == "sealed" { "\"connect to a stream socket\"" } else { HOST_SOCKET };
        let mediation = ("\"pathname\"", "\"off\"", socket);
        for layer in ["server", "client"] {
            for (from, to, reason) in [mediation, signals] {
                let host = Host::new();
                agent_with(&host, layer, from, to);
                let run = launch(&host, "changed", tier);
                assert_refused(&host, &run, layer, reason, &format!("{tier}, {layer}, {to}"));
            }
        }
        // Control: an agent of one's own with the policies as they are.
        let host = Host::new();
        agent_with(&host, "server", "\"pathname\"", "\"pathname\"");
        let run = launch(&host, "changed", tier);
        assert_eq!(run.code(), Some(0), "{tier}: {}", run.stderr);
        assert!(has_run(&host), "{tier}");
    }
}

#[test]
fn a_process_that_nono_starts_beside_the_pen_is_found_before_the_agent_starts() {
    let mut bystander = Bystander::start();
    for starts_one in [true, false] {
        let host = Host::new();
        use_nono(&host, &stand_in(&host, "late"));
        let (note, asked) = (host.workspace().join("late"), host.workspace().join("be-late"));
        if starts_one {
            std::fs::write(&asked, "").unwrap();
        }
        let run = launch(&host, "standin", "ported");
        let case = format!("{starts_one}: {}", run.stderr);
        assert_eq!(note.exists(), starts_one, "control, {case}");
        if starts_one {
            assert_eq!(run.code(), Some(126), "{case}");
            let reason = "stray) is unconfined: descends from no warden of this launch";
            assert!(run.stderr.contains(reason), "{case}");
            assert!(!has_run(&host), "{case}");
        } else {
            assert_eq!(run.code(), Some(0), "control, {case}");
            assert!(has_run(&host), "control, {case}");
        }
        host.assert_nothing_left();
    }
    assert!(bystander.lives());
}

/// A launch whose agent runs for as long as it is let.
fn long_launch<'a>(host: &'a Host, tier: &str) -> Launch<'a> {
    let commands = ["sleep 599 & touch ran; sleep 600"];
    let launch = host.start(host.agent_command("standin", &["--tier", tier], &commands));
    assert!(wait_for(LIMIT, || has_run(host).then_some(())).is_some(), "the agent runs");
    launch
}

/// Has an unconfined process born into a launch that is under way, and measures
/// the time from then until no process of the launch is left.
/// It is born `after` that time, since the watch looks at regular ones.
fn time_to_end(
    host: &Host,
    launch: Launch<'_>,
    after: Duration,
    note: &Path,
    bear: impl FnOnce(),
) -> Duration {
    let (code, report) = launch.verify();
    assert_eq!(code, Some(0), "control: confined until then: {report:#}");
    let tasks = report["tasks"].as_array().expect("tasks").clone();
    let open = |pid: i32| Pid::new(pid).and_then(|pid| PidFd::open(pid).ok());
    let pids = tasks.iter().filter_map(|task| i32::try_from(task["pid"].as_i64()?).ok());
    let mut members: Vec<PidFd> = pids.filter_map(open).collect();
    assert!(members.len() > 5, "{report:#}");

    std::thread::sleep(after);
    bear();
    let pid = wait_for(LIMIT, || std::fs::read_to_string(note).ok()).expect("it was born");
    let born = std::fs::metadata(note).and_then(|m| m.modified()).expect("when it was born");
    members.extend(open(pid.trim().parse().expect("an id")));
    let since = |time: std::time::SystemTime| time.elapsed().unwrap_or_default();
    let ended = wait_for(LIMIT, || {
        members.iter().all(|member| member.has_ended().unwrap_or(true)).then(|| since(born))
    });
    let took = ended.expect("every process of the launch ends");

    let run = launch.end();
    assert_eq!(run.code(), Some(126), "{}", run.stderr);
    for reason in [
        "paddock: the agent was stopped: process",
        "stray) is unconfined: descends from no warden of this launch",
        "no_new_privs is not set",
        "no seccomp filter applies",
        "the kernel says it is not in the Landlock domain of the pen sandbox",
    ] {
        assert!(run.stderr.contains(reason), "{reason}: {}", run.stderr);
    }
    assert_eq!(events(host, "violation").len(), 1);
    host.assert_nothing_left();
    took
}

/// In the sealed tier: a process of the host that entered the veil's pid
/// namespace and was orphaned there.
fn intruder_in_a_sealed_launch(after: Duration) -> Duration {
    let host = Host::new();
    let note = host.home().join("late");
    let launch = long_launch(&host, "sealed");
    let parts = parts(&host);
    let veil = parts.iter().find(|(name, _)| name == "veil-init").expect("a veil").1;
    time_to_end(&host, launch, after, &note, || {
        let mut intrude = std::process::Command::new(fault());
        host.dress(intrude.arg("intrude").arg(veil.to_string()).arg(&note));
        assert!(intrude.status().expect("it starts").success());
    })
}

/// In the ported tier: a process that the pen's supervisor starts beside the
/// pen.
fn late_child_in_a_ported_launch(after: Duration) -> Duration {
    let host = Host::new();
    use_nono(&host, &stand_in(&host, "late"));
    let launch = long_launch(&host, "ported");
    let (note, asked) = (host.workspace().join("late"), host.workspace().join("be-late"));
    time_to_end(&host, launch, after, &note, || std::fs::write(asked, "").expect("a file"))
}

#[test]
fn an_unconfined_process_that_is_born_later_ends_the_launch() {
    let mut bystander = Bystander::start();
    for (tier, once) in [
        ("sealed", intruder_in_a_sealed_launch as fn(Duration) -> Duration),
        ("ported", late_child_in_a_ported_launch),
    ] {
        // PADDOCK_TEST_ALL=1 measures how long that takes.
        let runs = if std::env::var_os("PADDOCK_TEST_ALL").is_some() { 30 } else { 1 };
        let phase = |n| Duration::from_millis(250) * u32::try_from(n).unwrap_or(0) / 30;
        let mut times: Vec<Duration> = (0..runs).map(|n| once(phase(n))).collect();
        times.sort();
        println!(
            "{tier}: from birth to no survivor, {runs} runs: least {:?}, median {:?}, most {:?}",
            times[0],
            times[runs / 2],
            times[runs - 1]
        );
        // A pass every 250 ms, and what a loaded machine adds.
        assert!(times[runs - 1] < Duration::from_secs(10), "{tier}: {times:?}");
    }
    assert!(bystander.lives());
}

#[test]
fn a_person_who_only_wants_to_be_warned_is() {
    let host = Host::new();
    host.configure("on-violation = \"warn\"\n");
    let launch = long_launch(&host, "sealed");
    let veil = parts(&host).iter().find(|(name, _)| name == "veil-init").expect("a veil").1;
    let note = host.home().join("late");
    let mut intrude = std::process::Command::new(fault());
    host.dress(intrude.arg("intrude").arg(veil.to_string()).arg(&note));
    assert!(intrude.status().expect("it starts").success());
    let started = Instant::now();
    let told = wait_for(LIMIT, || (!events(&host, "violation").is_empty()).then_some(()));
    assert!(told.is_some(), "after {:?}", started.elapsed());
    let (code, report) = launch.verify();
    assert_eq!((code, &report["holds"]), (Some(126), &false.into()), "{report:#}");
    let run = launch.terminate();
    assert_eq!(run.code(), Some(143), "{}", run.stderr);
    assert!(run.stderr.contains("paddock: not confined: process"), "{}", run.stderr);
    host.assert_nothing_left();
}
