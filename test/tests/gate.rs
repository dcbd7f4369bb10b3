//! The gate knows its callers: who is real is served, and each fake is refused for a
//! reason of its own.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use paddock_test::host::{Finished, Host, Launch, TIERS, finish, nono, paddock, probe};
use serde_json::Value;

/// An agent whose own program is the probe: a rule lets nobody else ask. The server is
/// the stand-in's, whose tools start what the test says.
fn add_agent(host: &Host, rules: &str) {
    let file = format!(
        "name = \"asking\"\ntitle = \"asks the gate\"\n[program]\nnames = [\"{}\"]\n\
         [link]\nkind = \"unix\"\n[server]\n\
         argv = [\"{{paddock}}\", \"standin\", \"serve\", \"--listen\", \"unix:{{link}}\"]\n\
         password-variable = \"PADDOCK_STANDIN_PASSWORD\"\n[client]\n\
         argv = [\"{{paddock}}\", \"standin\", \"attach\", \"--connect\", \"unix:{{link}}\"]\n\
         password-variable = \"PADDOCK_STANDIN_PASSWORD\"\n{rules}",
        probe().display()
    );
    host.add_agent("asking", &file);
    host.configure(&format!("[agents.asking]\nread = [\"{}\"]\n", paddock().display()));
    // The stand-in's client is no program of this agent's.
    let shipped = include_str!("../../profiles/standin/client.json");
    let client =
        shipped.replace("\"read\": [", &format!("\"read\": [\"{}\", ", paddock().display()));
    host.write(".config/paddock/agents/asking/client.json", &client);
}

const OWN_PROGRAM: &str = "[[gate]]\nrequests = [\"grants\"]\nsandbox = \"server\"\n\
    program = \"agent\"\nfrom-agent = true\n";

/// What a tool of that agent prints.
fn tool(host: &Host, tier: &str, command: &str) -> Finished {
    finish(host.agent_command("asking", &["--tier", tier], &[command]))
}

/// The ledger's lines about calls of the newest launch: whether each was refused.
fn calls(host: &Host) -> Vec<Value> {
    host.ledger().into_iter().filter(|line| line["event"] == "gate-call").collect()
}

fn gate_of(host: &Host, launch: &Launch<'_>) -> PathBuf {
    host.runtime().join("paddock").join(&launch.id).join("in/gate.sock")
}

#[test]
fn a_fake_is_told_from_the_real_one_in_every_tier() {
    let library = ["/lib/x86_64-linux-gnu/libutil.so.1", "/lib64/libutil.so.1"];
    let library = library.iter().map(Path::new).find(|path| path.exists());
    let probe = probe().display().to_string();
    for tier in TIERS {
        let host = Host::new();
        add_agent(&host, OWN_PROGRAM);
        std::fs::copy(&probe, host.workspace().join("paddock-probe")).unwrap();
        let script = format!("#!/bin/sh\npaddock ask grants\n: {probe}\n");
        std::fs::write(host.workspace().join("script"), script).unwrap();
        let preloaded = library.map(|library| {
            std::fs::copy(library, host.workspace().join("more.so")).unwrap();
            format!("LD_PRELOAD=./more.so {probe} gate:grants")
        });
        let traced = format!(
            "/usr/bin/python3 -c 'import ctypes, os\nlibc = ctypes.CDLL(None)\npid = os.fork()\n\
             if pid == 0:\n    libc.ptrace(0, 0, 0, 0)\n    os.execv(\"{probe}\", [\"probe\", \
             \"gate:grants\"])\nwhile True:\n    _, status = os.wait()\n    \
             if os.WIFEXITED(status): break\n    libc.ptrace(7, pid, 0, 0)\n'"
        );
        let cases: Vec<(&str, Option<String>, &str)> = vec![
            ("the real one", Some(format!("{probe} gate:grants")), ""),
            (
                "a copy elsewhere",
                Some("./paddock-probe gate:grants".into()),
                "not-allowed: it does not run the agent's own program",
            ),
            (
                "a script with its name",
                Some("cp script paddock-probe.sh; sh ./paddock-probe.sh 2>&1".into()),
                "not-allowed: it does not run the agent's own program",
            ),
            (
                "an argument with its name",
                Some(format!("bash -c 'exec -a {probe} ./paddock-probe gate:grants'")),
                "not-allowed: it does not run the agent's own program",
            ),
            ("the right one with a library of its own", preloaded, "not-allowed: it has code of "),
            (
                "the right one traced",
                Path::new("/usr/bin/python3").exists().then_some(traced),
                "traced: it is traced by process ",
            ),
            (
                "an orphan of the agent's",
                Some(format!(
                    "(setsid sh -c 'sleep 0.3; {probe} gate:grants >out; touch done' &) ; \
                     until [ -e done ]; do sleep 0.01; done; cat out"
                )),
                "not-allowed: the agent's own process is not among its parents",
            ),
            (
                "something else that is asked for",
                Some(format!("{probe} gate:notify")),
                "not-allowed: no rule in the agent's file",
            ),
            (
                "another program on the same connection",
                Some(format!("{probe} gate-then:./paddock-probe")),
                "not-allowed: it does not run the agent's own program",
            ),
        ];
        for (case, command, refused) in cases {
            let Some(command) = command else {
                paddock_test::host::skip(case);
                continue;
            };
            let run = tool(&host, tier, &command);
            let told = format!("{tier}, {case}: {}{}", run.stdout, run.stderr);
            let calls = calls(&host);
            let last = &calls.last().unwrap_or_else(|| panic!("{told}"))["refused"];
            if refused.is_empty() {
                assert_eq!(run.stdout, "gate:grants ok\n", "{told}");
                assert_eq!((calls.len(), last), (1, &Value::Null), "{told}");
                let caller = &calls[0]["caller"];
                assert_eq!(
                    (&caller["layer"], &caller["ofAgent"]),
                    (&"server".into(), &true.into())
                );
                assert_eq!(caller["program"], probe.as_str(), "{told}");
            } else {
                assert!(run.stdout.contains(refused), "{told}");
                let (code, why) = refused.split_once(": ").unwrap();
                assert_eq!(last["code"], code, "{told}");
                assert!(last["why"].as_str().unwrap().starts_with(why), "{told}");
            }
            if case.starts_with("another program") {
                assert!(run.stdout.starts_with("gate-then ok\n"), "control: {told}");
            }
        }
    }
}

/// The child runs the agent's own program, too, and descends from the agent: all that is
/// wrong is that another process connected.
#[test]
fn what_a_child_writes_on_its_parents_connection_is_nobodys() {
    for tier in TIERS {
        let host = Host::new();
        add_agent(&host, OWN_PROGRAM);
        let probe = probe().display().to_string();
        let run = tool(&host, tier, &format!("{probe} gate-by-child 2>&1; {probe} gate:grants"));
        let told = format!("{tier}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("not-the-caller: the request was written by"), "{told}");
        assert!(run.stdout.contains("gate:grants ok"), "control: {told}");
        assert_eq!(calls(&host).len(), 1, "{told}");
        let ledger = host.ledger();
        let refused = ledger.iter().filter(|line| line["event"] == "gate-refused");
        let whys: Vec<_> = refused.filter_map(|line| line["why"].as_str()).collect();
        assert!(whys.iter().any(|why| why.starts_with("not-the-caller: ")), "{whys:?}: {told}");
    }
}

/// By the socket itself, which a process of the user can reach.
#[test]
fn who_is_in_no_sandbox_of_the_launch_is_refused() {
    for tier in TIERS {
        let host = Host::new();
        add_agent(&host, OWN_PROGRAM);
        let wait = "until [ -e enough ]; do sleep 0.01; done";
        let launch = host.start(host.agent_command("asking", &["--tier", tier], &[wait]));
        let ask = format!("gate:grants@{}", gate_of(&host, &launch).display());

        let mut plain = Command::new(probe());
        host.dress(&mut plain);
        let run = finish({
            plain.arg(&ask);
            plain
        });
        let refused = "outside: it descends from no warden of this launch";
        assert!(run.stdout.contains(refused), "{tier}: {}{}", run.stdout, run.stderr);

        // In a sandbox, and not in this launch's.
        let mut other = Command::new(nono());
        other.args(["run", "--silent", "--no-audit", "--no-rollback", "--block-net"]);
        other.arg("--workdir").arg(host.workspace()).arg("--allow").arg(host.workspace());
        other.arg("--read").arg(probe().parent().unwrap());
        other.arg("--allow-unix-socket").arg(gate_of(&host, &launch));
        other.arg("--").arg(probe()).arg(&ask);
        host.dress(&mut other);
        let run = finish(other);
        assert!(run.stdout.contains(refused), "{tier}: {}{}", run.stdout, run.stderr);

        // Another user does not get so far.
        let directory = gate_of(&host, &launch).parent().unwrap().parent().unwrap().to_owned();
        let mode = std::fs::metadata(directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(launch.verify().0, Some(0));
        std::fs::write(host.workspace().join("enough"), "").unwrap();
        assert_eq!(launch.end().code(), Some(0));
    }
}

#[test]
fn the_client_is_another_sandbox_to_a_rule() {
    let host = Host::new();
    for (sandbox, wanted) in
        [("client", "gate:grants ok\n"), ("server", "it is in the client sandbox")]
    {
        let rules = format!("[[gate]]\nrequests = [\"grants\"]\nsandbox = \"{sandbox}\"\n");
        add_agent(&host, &rules);
        let path = host.home().join(".config/paddock/agents/asking/agent.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let client =
            "argv = [\"{paddock}\", \"standin\", \"attach\", \"--connect\", \"unix:{link}\"]";
        assert!(text.contains(client));
        let asking = text.replace(client, "argv = [\"{program}\", \"gate:grants\"]");
        std::fs::write(&path, asking).unwrap();
        assert_eq!(host.run(&["pin", "--accept", "asking"]).code(), Some(0));
        let run = host.run(&["run", "asking"]);
        assert!(run.stdout.contains(wanted), "{sandbox}: {}{}", run.stdout, run.stderr);
    }
}

/// Without a rule nobody is served, and nothing that is inside can answer a question.
#[test]
fn what_no_rule_allows_is_refused_and_nobody_inside_answers() {
    for tier in TIERS {
        let host = Host::new();
        add_agent(&host, "");
        let run = tool(&host, tier, &format!("{} gate:grants", probe().display()));
        assert!(run.stdout.contains("not-allowed: no rule"), "{tier}: {}", run.stdout);

        let wait = "until [ -e path ]; do sleep 0.01; done; cp $(cat probe) p; ./p $(cat path)";
        std::fs::write(host.workspace().join("probe"), probe().to_str().unwrap()).unwrap();
        let launch = host.start(host.agent_command("asking", &["--tier", tier], &[wait]));
        let control = host.runtime().join("paddock").join(&launch.id).join("control.sock");
        let connect = format!("stream:{}", control.display());
        let mut outside = Command::new(probe());
        host.dress(&mut outside);
        outside.arg(&connect);
        assert_eq!(finish(outside).stdout, format!("{connect} ok\n"), "control");
        std::fs::write(host.workspace().join("path.new"), &connect).unwrap();
        let named = host.workspace().join("path");
        std::fs::rename(host.workspace().join("path.new"), named).unwrap();
        let run = launch.end();
        assert!(run.stdout.starts_with(&format!("{connect} no ")), "{tier}: {}", run.stdout);
    }
}
