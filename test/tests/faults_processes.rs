//! Processes that are hard to keep track of, that pretend, or that merely have
//! the number of one that is meant.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use paddock_test::faults::{Bystander, events, fault, hand_in, parts, place};
use paddock_test::host::{
    Finished, Host, LIMIT, Launch, TIERS, finish, send, standin_file, wait_for, warden,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A launch whose agent does what is in the file `next` of the workspace.
fn obedient<'a>(host: &'a Host, tier: &str) -> Launch<'a> {
    obedient_agent(host, tier, "standin")
}

fn obedient_agent<'a>(host: &'a Host, tier: &str, agent: &str) -> Launch<'a> {
    let commands = ["while :; do if [ -e next ]; then mv next now; sh now; touch done; fi; \
                     sleep 0.02; done"];
    host.start(host.agent_command(agent, &["--tier", tier], &commands))
}

/// Has the agent do something, to its end.
fn tell_agent(host: &Host, text: &str) {
    let file = |name: &str| host.workspace().join(name);
    let _ = std::fs::remove_file(file("done"));
    std::fs::write(file("new"), text).expect("a file");
    std::fs::rename(file("new"), file("next")).expect("a name");
    let done = wait_for(LIMIT, || file("done").exists().then_some(()));
    assert!(done.is_some(), "the agent does it: {text}");
}

fn wait_until_exists(path: &Path) {
    assert!(wait_for(LIMIT, || path.exists().then_some(())).is_some(), "{}", path.display());
}

/// Tasks of a report whose command contains `text`.
fn with_command(report: &Value, text: &str) -> Vec<Value> {
    let tasks = report["tasks"].as_array().expect("tasks").iter();
    tasks.filter(|t| t["command"].as_str().is_some_and(|c| c.contains(text))).cloned().collect()
}

fn is_dumpable(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/environ")).is_ok()
}

#[test]
fn processes_that_are_hard_to_keep_track_of_are_seen_and_ended() {
    let mut bystander = Bystander::start();
    for tier in TIERS {
        let host = Host::new();
        let fault = place(&fault(), &host.workspace().join("fault"));
        let launch = obedient(&host, tier);
        let kinds = ["wait", "orphan", "undumpable", "hostile", "bare"];
        for kind in kinds {
            let note = host.workspace().join(kind);
            tell_agent(&host, &format!("{} {kind} {} &", fault.display(), note.display()));
            wait_until_exists(&note);
        }
        let (code, report) = launch.verify();
        assert_eq!((code, &report["holds"]), (Some(0), &json!(true)), "{tier}: {report:#}");
        let mut members = Vec::new();
        for kind in kinds {
            let note = host.workspace().join(kind);
            let found = with_command(&report, note.to_str().expect("text"));
            let [task] = &found[..] else { panic!("{tier}, {kind}: {found:?}") };
            assert_eq!(
                (&task["role"], &task["layer"], &task["verdict"]),
                (&json!("agent"), &json!("server"), &json!("confined")),
                "{tier}, {kind}: {task}"
            );
            let pid = i32::try_from(task["pid"].as_i64().expect("a pid")).expect("a pid");
            assert_eq!(is_dumpable(pid), kind != "undumpable", "control: {tier}, {kind}");
            members.push(pid);
        }

        // The control for what follows: the names are as bad as they can be.
        let hostile = members[3];
        let comm = std::fs::read(format!("/proc/{hostile}/comm")).expect("a name");
        assert!(comm.starts_with(b"x) S 1 1\n\x1b[2J"), "control: {comm:?}");
        let shown = host.run(&["verify", &launch.id]);
        assert_eq!(shown.code(), Some(0), "{}", shown.stderr);
        assert!(shown.stdout.contains("x) S 1 1\\n\\u{1b}[2J\\xff"), "{}", shown.stdout);
        let draws = |c: char| c.is_control() && c != '\n' || c == char::REPLACEMENT_CHARACTER;
        assert!(!shown.stdout.contains(draws), "{:?}", shown.stdout);
        // A line for the launch, and one for each task.
        let (lines, counted) = (shown.stdout.lines().count(), ", {} tasks in ");
        let counted = counted.replace("{}", &(lines - 1).to_string());
        assert!(shown.stdout.contains(&counted), "{}", shown.stdout);

        assert_eq!(launch.terminate().code(), Some(143), "{tier}");
        for (pid, kind) in members.iter().zip(kinds) {
            assert!(
                !Path::new(&format!("/proc/{pid}/fd")).exists() || is_gone(*pid),
                "{tier}, {kind}"
            );
        }
        host.assert_nothing_left();
    }
    assert!(bystander.lives());
}

/// Whether a witness is refused depends on whether the process may be looked into
/// at that very moment.
#[test]
fn a_process_that_can_be_looked_into_now_and_then_is_no_false_alarm() {
    for tier in TIERS {
        let host = Host::new();
        let fault = place(&fault(), &host.workspace().join("fault"));
        let launch = obedient(&host, tier);
        let speeds = [50, 500, 5_000, 50_000];
        for microseconds in speeds {
            let note = host.workspace().join(format!("flicker-{microseconds}"));
            let command =
                format!("{} flicker {} {microseconds} &", fault.display(), note.display());
            tell_agent(&host, &command);
            wait_until_exists(&note);
        }
        for _ in 0..25 {
            let (code, report) = launch.verify();
            assert_eq!(code, Some(0), "{tier}: {report:#}");
            assert_eq!(with_command(&report, "flicker").len(), speeds.len(), "{tier}");
        }
        assert_eq!(launch.terminate().code(), Some(143), "{tier}");
        host.assert_nothing_left();
    }
}

/// Landlock does not see who listens without having bound a port.
#[test]
fn who_listens_on_the_hosts_network_ends_the_launch() {
    for tier in TIERS {
        let host = Host::new();
        let fault = place(&fault(), &host.workspace().join("fault"));
        let launch = obedient(&host, tier);
        let note = host.workspace().join("note");
        tell_agent(&host, &format!("{} listen {} &", fault.display(), note.display()));
        if tier == "ported" {
            let run = launch.end();
            assert_eq!(run.code(), Some(126), "{}", run.stderr);
            let reason = "holds open a socket that listens on the host's port ";
            assert!(run.stderr.contains(reason), "{}", run.stderr);
        } else {
            wait_until_exists(&note);
            let (code, report) = launch.verify();
            assert_eq!(code, Some(0), "control: its own network, {tier}: {report:#}");
            assert_eq!(launch.terminate().code(), Some(143), "{tier}");
        }
        host.assert_nothing_left();
    }
}

#[test]
fn what_leads_outside_is_found_also_with_who_cannot_be_looked_into() {
    for (tier, what) in [("sealed", "directory"), ("sealed", "socket"), ("isolated", "socket")] {
        for opaque in ["", "opaque", "thread"] {
            let host = Host::new();
            let fault = place(&fault(), &host.workspace().join("fault"));
            // It may bind sockets in the workspace, and be handed something there.
            host.add_agent("binder", &standin_file("binder"));
            let shipped = include_str!("../../profiles/standin/server.json");
            let bind = "\"filesystem\": { \"unix_socket_dir_bind\": [\"$WORKDIR\"],";
            let profile = shipped.replace("\"filesystem\": {", bind);
            host.write(".config/paddock/agents/binder/server.json", &profile);
            let launch = obedient_agent(&host, tier, "binder");
            let (socket, note) = (host.workspace().join("hold"), host.workspace().join("note"));
            let command =
                format!("{} hold {} {}", fault.display(), socket.display(), note.display());
            tell_agent(&host, &format!("{command} {opaque} &"));
            wait_until_exists(&note);

            let case = format!("{tier}, {what}, {opaque}");
            let harmless = std::fs::File::open("/dev/null").expect("a device");
            hand_in(&socket, Some(harmless.as_fd()));
            wait_until_exists(&note.with_extension("1"));
            let (code, report) = launch.verify();
            assert_eq!(code, Some(0), "control: {case}: {report:#}");
            let holder = with_command(&report, "hold");
            let pid = holder.first().and_then(|task| i32::try_from(task["pid"].as_i64()?).ok());
            assert_eq!(is_dumpable(pid.expect("it")), opaque != "opaque", "control: {case}");

            let directory = std::fs::File::open(host.home()).expect("a directory");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let (descriptor, reason) = match what {
                "directory" => (directory.as_fd(), "holds open the directory "),
                _ => (listener.as_fd(), "holds open a socket of another network"),
            };
            hand_in(&socket, Some(descriptor));
            let run = launch.end();
            assert_eq!(run.code(), Some(126), "{case}: {}", run.stderr);
            assert!(run.stderr.contains(reason), "{case}: {}", run.stderr);
            host.assert_nothing_left();
        }
    }
}

/// Dead, though perhaps not reaped by the host's first process yet.
fn is_gone(pid: i32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.iter().rposition(|b| *b == b')').and_then(|at| stat.get(at + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}

/// `paddock-warden LAYER` on the host, with all that a warden has but its place.
fn false_warden(host: &Host, gate: &Path, layer: &str) -> Command {
    let mut command = Command::new(warden());
    host.dress(&mut command);
    command.args([layer, "--gate"]).arg(gate);
    command.env("PADDOCK_LAYER", layer).env("NONO_CAP_FILE", "/tmp/.nono-0123456789abcdef.json");
    command
}

fn gate(host: &Host, launch: &Launch<'_>) -> PathBuf {
    host.runtime().join("paddock").join(&launch.id).join("in/gate.sock")
}

#[test]
fn a_process_that_forges_markers_is_no_member() {
    for tier in TIERS {
        let host = Host::new();
        let launch = obedient(&host, tier);
        let gate = gate(&host, &launch);
        let wardens = |report: &Value| {
            let tasks = report["tasks"].as_array().expect("tasks").iter();
            tasks.filter(|task| task["role"] == "warden").count()
        };
        let (code, before) = launch.verify();
        assert_eq!((code, wardens(&before)), (Some(0), 3), "control: {tier}: {before:#}");

        // On the host: one that looks like a warden, and says nothing.
        let mut pretender = Command::new("sleep");
        pretender.arg0(warden()).arg("600").env("PADDOCK_LAUNCH", &launch.id);
        let mut pretender = pretender.stdin(Stdio::null()).spawn().expect("sleep");
        // On the host: one that knocks at the gate, as each of them.
        for layer in ["pen", "server", "client"] {
            let run = finish(within_own_namespace(&false_warden(&host, &gate, layer)));
            assert_eq!(run.code(), Some(0), "{tier}, {layer}: {}", run.stderr);
            assert!(run.stdout.contains("status 125\n"), "{}{}", run.stdout, run.stderr);
            // It took nobody for below it: outside a sandbox the kernel would
            // have let it end everything of the user's.
            assert!(run.stdout.contains("others live\n"), "{}{}", run.stdout, run.stderr);
        }
        // In the sandbox: the agent does the same.
        let knock = format!(
            "for layer in pen server client; do PADDOCK_LAYER=$layer {} $layer --gate {}; \
             echo $? >>statuses; done",
            warden().display(),
            gate.display()
        );
        tell_agent(&host, &knock);
        let statuses = std::fs::read_to_string(host.workspace().join("statuses"));
        assert_eq!(statuses.expect("statuses"), "125\n125\n125\n", "{tier}");

        let refused = wait_for(LIMIT, || {
            let refused = events(&host, "gate-refused");
            (refused.len() >= 6).then_some(refused)
        });
        let refused =
            refused.unwrap_or_else(|| panic!("{tier}: {:?}", events(&host, "gate-refused")));
        assert_eq!(refused.len(), 6, "{tier}: {refused:?}");
        for refusal in &refused {
            assert!(refusal["caller"]["pid"].is_i64(), "{tier}: {refusal}");
            assert_eq!(refusal["why"], "its layer has a warden already", "{tier}");
        }

        let (code, after) = launch.verify();
        assert_eq!((code, wardens(&after)), (Some(0), 3), "{tier}: {after:#}");
        let pretender_id = i64::from(pretender.id());
        let tasks = after["tasks"].as_array().expect("tasks");
        assert!(!tasks.iter().any(|task| task["pid"] == pretender_id), "{tier}: {after:#}");
        assert_eq!(launch.terminate().code(), Some(143), "{tier}");
        assert!(matches!(pretender.try_wait(), Ok(None)), "{tier}: it was no member");
        pretender.kill().and_then(|()| pretender.wait()).expect("it ends");
        host.assert_nothing_left();
    }
}

/// `command` as one of two processes in a pid namespace of their own, so that
/// should it end all it can reach, that is not everything of the person's who
/// runs this test. Tells its status, and whether the other one lives.
fn within_own_namespace(command: &Command) -> Command {
    let script = "sleep 600 & other=$!; \"$@\"; echo status $?; \
                  kill -0 $other && echo others live; kill -9 $other";
    let mut outer = Command::new("bwrap");
    outer.args(["--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"]);
    // Without a pid namespace's own first process the shell would be it, which
    // no signal from within can reach.
    outer
        .args(["--", "sh", "-c", script, "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    outer.env_clear().stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        outer.envs(value.map(|value| (name, value)));
    }
    outer
}

#[test]
fn a_false_warden_on_the_host_would_reach_everything() {
    // The control for the test above: unsandboxed, the kernel tells the same
    // user's processes to be within reach, by the very call that wardens use.
    let mut bystander = Bystander::start();
    let id = confine::Pid::new(bystander.id()).expect("an id");
    assert_eq!(confine::witness::testify(&[id]), [confine::witness::Testimony::Inside]);
    assert!(bystander.lives());
}

/// Changes the stored record of a launch that nobody keeps.
fn edit_record(host: &Host, id: &str, change: impl FnOnce(&mut Value)) {
    let path = host.launches().join(id).join("record.json");
    let mut record: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("it")).expect("JSON");
    change(&mut record);
    std::fs::write(path, record.to_string()).expect("a record");
}

/// A launch whose keeper was killed, and of which nothing runs any more.
fn stale_launch(host: &Host, tier: &str) -> String {
    let launch = host.start(host.agent_command("standin", &["--tier", tier], &["sleep 600"]));
    let (id, keeper) = (launch.id.clone(), launch.keeper());
    send(keeper, Signal::KILL);
    assert_eq!(launch.end().code(), None);
    let gone = wait_for(LIMIT, || (host.verify(&id).0 == Some(125)).then_some(()));
    assert!(gone.is_some(), "left: {:?}", host.processes());
    id
}

fn start_time(pid: i32) -> u64 {
    let pid = confine::Pid::new(pid).expect("an id");
    confine::proc::start_time(pid).expect("it runs").0
}

#[test]
fn a_reused_pid_in_a_state_file_is_not_touched() {
    for tier in TIERS {
        let host = Host::new();
        let id = stale_launch(&host, tier);
        let mut bystander = Bystander::start();
        let started = start_time(bystander.id());
        let name_it = |start: u64| {
            edit_record(&host, &id, |record| {
                let process = json!({ "pid": bystander.id(), "start": start });
                record["keeper"] = process.clone();
                for part in record["parts"].as_array_mut().expect("parts") {
                    part["process"] = process.clone();
                }
            });
        };
        // All of them name its number, and a process that began at another
        // time.
        name_it(started - 1);
        let shown = host.run(&["verify", &id]);
        assert_eq!(shown.code(), Some(125), "{tier}: {}{}", shown.stdout, shown.stderr);
        assert!(shown.stdout.contains("nothing of it is left running"), "{}", shown.stdout);
        let stopped = host.run(&["stop", &id]);
        assert_eq!(stopped.code(), Some(0), "{tier}: {}{}", stopped.stdout, stopped.stderr);
        host.assert_nothing_left();

        // Control: with the right time it is the one that is meant.
        name_it(started);
        let shown = host.run(&["verify", "--json", &id]);
        assert_eq!(shown.code(), Some(126), "control: {tier}: {}", shown.stdout);
        assert!(shown.stdout.contains(&format!("\"pid\":{}", bystander.id())), "{}", shown.stdout);
        assert!(bystander.lives(), "{tier}");
    }
}

#[test]
fn reused_numbers_of_namespaces_do_not_make_another_launch_a_member() {
    // The kernel gives such a number again as soon as it is free.
    let mut bystander = Bystander::start();
    let host = Host::new();
    let stale = stale_launch(&host, "isolated");
    let launch = host.start(host.standin_command(&["sleep 600"]));
    let record = |id: &str| {
        host.records().into_iter().find(|record| record["launch"] == *id).expect("a record")
    };
    let of_another = record(&launch.id)["namespaces"].clone();
    assert!(of_another["network"].is_u64() && of_another["ipc"].is_u64(), "{of_another}");
    let own = |kind: &str| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(format!("/proc/self/ns/{kind}")).expect("a namespace").ino()
    };
    let of_host = json!({ "ipc": own("ipc"), "network": own("net") });
    for number in [of_another, of_host] {
        edit_record(&host, &stale, |record| {
            record["phase"] = json!("running");
            record["namespaces"] = number.clone();
        });
        let shown = host.run(&["verify", &stale]);
        assert!(shown.stdout.contains("nothing of it is left"), "{number}: {}", shown.stdout);
        let stopped = host.run(&["stop", &stale]);
        assert_eq!(stopped.code(), Some(0), "{}{}", stopped.stdout, stopped.stderr);
        let (code, report) = launch.verify();
        assert_eq!((code, &report["holds"]), (Some(0), &json!(true)), "{report:#}");
    }
    let id = launch.id.clone();
    assert_eq!(launch.terminate().code(), Some(143));
    assert!(record(&id)["namespaces"].is_null(), "an ended launch claims none");
    assert!(bystander.lives());
}

#[test]
fn what_a_launch_left_in_its_network_is_found_by_that_alone() {
    // The control for the test above.
    let host = Host::new();
    let mut command = host.agent_command("standin", &["--tier", "isolated"], &["sleep 600"]);
    // No pipe to the test that what is left would hold open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let launch = host.start_as_it_is(command);
    let (id, keeper) = (launch.id.clone(), launch.keeper());
    // Nobody is left who would see to the rest.
    send(keeper, Signal::STOP);
    for (name, pid) in parts(&host) {
        if name.ends_with("-warden") {
            send(pid, Signal::STOP);
        }
    }
    send(keeper, Signal::KILL);
    assert_eq!(launch.end().code(), None);
    edit_record(&host, &id, |record| record["parts"] = json!([]));
    let shown = host.run(&["verify", &id]);
    assert_eq!(shown.code(), Some(126), "{}{}", shown.stdout, shown.stderr);
    assert!(shown.stdout.contains("of its processes run unwatched"), "{}", shown.stdout);
    let stopped = host.run(&["stop", &id]);
    assert_eq!(stopped.code(), Some(0), "{}{}", stopped.stdout, stopped.stderr);
    host.assert_nothing_left();
}

#[test]
fn a_shell_that_becomes_paddock_keeps_its_jobs() {
    for tier in TIERS {
        let host = Host::new();
        let mut shell = Command::new("sh");
        host.dress(&mut shell);
        let script = "sleep 600 >/dev/null 2>&1 & echo $! >job; exec \"$0\" \"$@\"";
        let run = host.agent_command("standin", &["--tier", tier], &["touch ran"]);
        shell.args(["-c", script]).arg(run.get_program()).args(run.get_args());
        let job = host.workspace().join("job");
        let run: Finished = finish(shell);
        let pid = std::fs::read_to_string(&job).expect("a job").trim().parse().expect("an id");
        assert_eq!(run.code(), Some(125), "{tier}: {}", run.stderr);
        let told = format!("paddock: this process had children before it became paddock: {pid}\n");
        assert!(run.stderr.starts_with(&told), "{tier}: {}", run.stderr);
        assert!(!is_gone(pid), "{tier}: it is not the launch's");
        assert!(!host.workspace().join("ran").exists(), "{tier}");
        send(pid, Signal::KILL);
        host.assert_nothing_left();
    }
}

/// A server of the test's own, outside every sandbox, that counts its callers.
struct ForeignServers {
    tcp: u16,
    calls: Arc<AtomicUsize>,
}

impl ForeignServers {
    /// At a port of the host, at a path below home, and at one in the workspace.
    fn open(host: &Host) -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let answer = |mut stream: Box<dyn Read>, calls: &AtomicUsize| {
            calls.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 64]);
        };
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let counted = calls.clone();
        std::thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                answer(Box::new(stream), &counted);
            }
        });
        for path in Self::paths(host) {
            let listener = UnixListener::bind(path).expect("a socket");
            let counted = calls.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    answer(Box::new(stream), &counted);
                }
            });
        }
        Self { tcp: port, calls }
    }

    fn paths(host: &Host) -> [PathBuf; 2] {
        [host.home().join("foreign.sock"), host.workspace().join("foreign.sock")]
    }

    fn addresses(&self, host: &Host) -> Vec<String> {
        let unix = Self::paths(host).map(|path| format!("unix:{}", path.display()));
        [vec![format!("tcp:127.0.0.1:{}", self.tcp)], unix.to_vec()].concat()
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[test]
fn a_client_that_is_pointed_at_a_foreign_server_does_not_reach_it() {
    // Each tries for five seconds, so all at once.
    std::thread::scope(|scope| {
        for tier in TIERS {
            scope.spawn(move || {
                let host = Host::new();
                let foreign = ForeignServers::open(&host);
                let addresses = foreign.addresses(&host);
                for (n, address) in addresses.iter().enumerate() {
                    let text = include_str!("../../profiles/standin/agent.toml")
                        .replace("name = \"standin\"", &format!("name = \"astray-{n}\""))
                        .replace(
                            "\"--connect\", \"unix:{link}\"",
                            &format!("\"--connect\", \"{address}\""),
                        );
                    host.add_agent(&format!("astray-{n}"), &text);
                }
                std::thread::scope(|scope| {
                    for (n, address) in addresses.iter().enumerate() {
                        let host = &host;
                        scope.spawn(move || {
                            let agent = format!("astray-{n}");
                            let run =
                                finish(host.agent_command(&agent, &["--tier", tier], &["true"]));
                            // The client's own status: it found no server.
                            let case = format!("{tier}, {address}: {}", run.stderr);
                            assert_eq!(run.code(), Some(125), "{case}");
                            assert!(
                                run.stderr.contains(&format!("cannot reach {address}")),
                                "{case}"
                            );
                        });
                    }
                });
                assert_eq!(foreign.calls(), 0, "{tier}");

                // Control: the same client, outside.
                for (n, address) in addresses.iter().enumerate() {
                    let mut attach = host.paddock();
                    attach.args(["standin", "attach", "--connect", address, "-c", "true"]);
                    attach.env("PADDOCK_STANDIN_PASSWORD", "0".repeat(64));
                    let run = finish(attach);
                    assert_ne!(run.code(), Some(0), "{address}: {}", run.stderr);
                    assert_eq!(foreign.calls(), n + 1, "control: {address}: {}", run.stderr);
                }
                host.assert_nothing_left();
            });
        }
    });
}
