//! A server that speaks on its standard input and output, and a client that is given a
//! command in its place.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use paddock_test::host::{Finished, Host, LIMIT, TIERS, finish, send, wait_for};
use rustix::process::Signal;

/// A server that tells which lines it hears. Its starts and ends are in the workspace,
/// which its client cannot write.
const HEARS: &str = "echo \"start ${PADDOCK_LINK_PASSWORD-no password}\" >>servers; \
    while read -r line; do echo \"heard $line\"; done; echo end >>servers";

/// An agent of that name whose server is the script `server`, and whose client is a shell
/// with the bridge in `BRIDGE`.
fn add_agent(host: &Host, name: &str, server: &str) {
    let file = format!(
        "name = \"{name}\"\ntitle = \"it speaks\"\nprogram.names = [\"sh\"]\n\
         [link]\nkind = \"stdio\"\n\
         [server]\nargv = [\"{{program}}\", \"-c\", {server:?}]\n\
         [client]\nargv = [\"{{program}}\"]\nset = {{ BRIDGE = \"{{bridge}}\" }}\n"
    );
    host.add_agent(name, &file);
}

fn run(host: &Host, tier: &str, script: &str) -> Finished {
    finish(host.agent_command("speaking", &["--tier", tier], &[script]))
}

fn servers(host: &Host) -> String {
    std::fs::read_to_string(host.workspace().join("servers")).unwrap_or_default()
}

#[test]
fn each_connection_is_a_server_of_its_own_in_the_servers_sandbox() {
    for tier in TIERS {
        let host = Host::new();
        add_agent(&host, "speaking", HEARS);
        let script = "printf 'one\ntwo\n' | $BRIDGE; echo status $?; \
            echo three | $BRIDGE; $BRIDGE </dev/null; echo status $?; \
            (echo more >>servers) 2>/dev/null || echo the client cannot write";
        let run = run(&host, tier, script);
        let wanted = "heard one\nheard two\nstatus 0\nheard three\nstatus 0\n\
            the client cannot write\n";
        assert_eq!((run.code(), &*run.stdout), (Some(0), wanted), "{tier}: {}", run.stderr);
        assert_eq!(servers(&host), "start no password\nend\n".repeat(3), "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn what_is_carried_is_whole_also_where_the_output_of_the_bridge_is_slow_to_be_read() {
    let host = Host::new();
    add_agent(&host, "speaking", "cat");
    let script = "head -c 20000000 /dev/urandom >$TMPDIR/sent; \
        $BRIDGE <$TMPDIR/sent | (sleep 0.3; cat) | cmp - $TMPDIR/sent && echo whole";
    let run = run(&host, "sealed", script);
    assert_eq!((run.code(), &*run.stdout), (Some(0), "whole\n"), "{}", run.stderr);
}

#[test]
fn a_bridge_that_nobody_reads_ends_and_so_does_its_server_and_the_next_is_served() {
    let host = Host::new();
    // It minds no end of its input.
    add_agent(&host, "speaking", "echo start >>servers; exec sleep 900");
    let until = |count: u32| {
        format!("until [ $(wc -l <servers 2>/dev/null || echo 0) = {count} ]; do sleep 0.01; done")
    };
    let script = format!(
        "mkfifo $TMPDIR/in; \
         $BRIDGE <$TMPDIR/in | ({}; echo read no more) & exec 3>$TMPDIR/in; wait; \
         $BRIDGE <$TMPDIR/in & {}; kill $!; echo served the next",
        until(1),
        until(2)
    );
    let run = run(&host, "sealed", &script);
    let wanted = "read no more\nserved the next\n";
    assert_eq!((run.code(), &*run.stdout), (Some(0), wanted), "{}", run.stderr);
    host.assert_nothing_left();
}

#[test]
fn the_bridge_says_what_it_waits_for_and_what_is_wrong() {
    let host = Host::new();
    add_agent(&host, "speaking", HEARS);
    let script = "mkfifo $TMPDIR/in; $BRIDGE <$TMPDIR/in & exec 3>$TMPDIR/in; echo first >&3; \
        until [ -s servers ]; do sleep 0.01; done; \
        echo second | $BRIDGE 2>$TMPDIR/told 3>&- & \
        until [ -s $TMPDIR/told ]; do sleep 0.01; done; exec 3>&-; wait; cat $TMPDIR/told; \
        $BRIDGE acp 2>&1; echo $?; PADDOCK_LINK_PASSWORD=$(printf %064d 0) $BRIDGE </dev/null 2>$TMPDIR/refused; echo $?; \
        grep -v waiting $TMPDIR/refused; \
        env -u PADDOCK_LINK $BRIDGE 2>&1; echo $?";
    let run = run(&host, "sealed", script);
    let wanted = "heard first\nheard second\n\
        paddock: waiting: the agent's server speaks to one at a time\n\
        paddock: the bridge takes no arguments: those of the agent's server are in its agent file\n\
        125\n\
        125\n\
        paddock: the agent's server was refused, or has ended: it was closed\n\
        paddock: PADDOCK_LINK is not set; the client's own environment has it: it has to pass it on\n\
        125\n";
    assert_eq!((run.code(), &*run.stdout), (Some(0), wanted), "{}", run.stderr);
}

fn socket(host: &Host, launch: &str) -> PathBuf {
    host.runtime().join("paddock").join(launch).join("in/link/agent.sock")
}

/// Without a veil the socket is on the host, where other programs of the user can find it.
#[test]
fn who_has_not_the_launchs_password_starts_no_server() {
    for tier in TIERS {
        let host = Host::new();
        add_agent(&host, "speaking", HEARS);
        let script = "until [ -e go ]; do sleep 0.01; done; echo one | $BRIDGE";
        let command = host.agent_command("speaking", &["--tier", tier], &[script]);
        let launch = host.start(command);
        let socket = socket(&host, &launch.id);
        if tier == "sealed" {
            assert!(!socket.exists(), "{tier}: it is in the veil alone");
        } else {
            wait_for(LIMIT, || socket.exists().then_some(())).expect("it listens");
            let mut caller = UnixStream::connect(&socket).unwrap();
            caller.set_read_timeout(Some(LIMIT)).unwrap();
            caller.write_all(&[b'0'; 64]).unwrap();
            caller.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            caller.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, b"", "{tier}");
        }
        assert_eq!(servers(&host), "", "{tier}");
        std::fs::write(host.workspace().join("go"), "").unwrap();
        let run = launch.end();
        assert_eq!((run.code(), &*run.stdout), (Some(0), "heard one\n"), "control: {run:?}");
        assert_eq!(servers(&host), "start no password\nend\n", "{tier}");
    }
}

#[test]
fn a_launch_ends_with_its_client_whatever_the_server_does() {
    let host = Host::new();
    add_agent(&host, "speaking", "trap '' TERM HUP; echo start >>servers; sleep 900");
    let script = "mkfifo $TMPDIR/in; $BRIDGE <$TMPDIR/in & exec 3>$TMPDIR/in; \
        until [ -s servers ]; do sleep 0.01; done; exit 7";
    let ended = run(&host, "sealed", script);
    assert_eq!(ended.code(), Some(7), "{}", ended.stderr);
    host.assert_nothing_left();

    let launch = host.start(host.agent_command("speaking", &[], &["$BRIDGE"]));
    send(launch.keeper(), Signal::TERM);
    assert_eq!(launch.end().code(), Some(143));
    host.assert_nothing_left();
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let host = Host::new();
    let file = "name = \"speaking\"\ntitle = \"t\"\nprogram.names = [\"sh\"]\n\
        [link]\nkind = \"stdio\"\n[server]\nargv = [\"/usr/bin/there-is-no-such-program\"]\n\
        [client]\nargv = [\"{program}\"]\nset = { BRIDGE = \"{bridge}\" }\n";
    host.add_agent("speaking", file);
    let run = run(&host, "sealed", "echo one | $BRIDGE; $BRIDGE 2>&1");
    assert_eq!(run.code(), Some(125), "{run:?}");
    assert!(run.stdout.starts_with("paddock: the agent's server is not at "), "{}", run.stdout);
    for told in ["the agent's server ended (status 127)", "the agent's server does not start"] {
        assert!(run.stderr.contains(told), "{}", run.stderr);
    }
    host.assert_nothing_left();
}

#[test]
fn an_agent_file_that_cannot_mean_it_is_refused() {
    let host = Host::new();
    for (name, (from, to), why) in [
        ("own", ("[client]\n", "[client]\npassword-variable = \"P\"\n"), "password-variable goes"),
        ("server", ("\"-c\"", "\"{bridge}\""), "\"bridge\", unknown here"),
        ("kind", ("\"stdio\"", "\"unix\""), "\"bridge\", unknown here"),
    ] {
        add_agent(&host, name, "cat");
        let plain = host.run(&["run", name, "--dry-run"]);
        assert_eq!(plain.code(), Some(0), "control: {name}: {plain:?}");
        let path = host.home().join(format!(".config/paddock/agents/{name}/agent.toml"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let run = host.run(&["run", name, "--dry-run"]);
        assert_eq!(run.code(), Some(125), "{name}: {run:?}");
        assert!(run.stderr.contains(why), "{name}: {}", run.stderr);
    }
}

/// The real `codex app-server` and `goose acp`, asked for what they are.
#[test]
fn a_real_agents_server_is_spoken_to_through_the_bridge() {
    let acp = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":\
        {\"protocolVersion\":1,\"clientCapabilities\":{}}}";
    let own = "{\"id\":1,\"method\":\"initialize\",\"params\":\
        {\"clientInfo\":{\"name\":\"test\",\"title\":\"t\",\"version\":\"1\"}}}";
    for (agent, argument, request, answered) in
        [("codex", "app-server", own, "userAgent"), ("goose", "acp", acp, "agentCapabilities")]
    {
        // Where not all tests are to run, scripts/test.sh installs no Goose.
        let is_installed = std::env::var_os("PADDOCK_TEST_GOOSE").is_some();
        if agent == "goose" && !is_installed && std::env::var_os("PADDOCK_TEST_ALL").is_none() {
            continue;
        }
        let Some(program) = paddock_test::agent::program(agent) else { continue };
        let host = Host::new();
        let file = format!(
            "name = \"speaking\"\ntitle = \"t\"\nprogram.names = [{program:?}]\n\
             [link]\nkind = \"stdio\"\n[server]\nargv = [\"{{program}}\", \"{argument}\"]\n\
             [client]\nargv = [\"/bin/sh\"]\nset = {{ BRIDGE = \"{{bridge}}\" }}\n"
        );
        host.add_agent("speaking", &file);
        std::fs::write(host.workspace().join("request"), format!("{request}\n")).unwrap();
        // It has not much time to answer once its input has ended.
        let script = "mkfifo $TMPDIR/in; $BRIDGE <$TMPDIR/in >$TMPDIR/answers & \
            exec 3>$TMPDIR/in; cat request >&3; \
            until [ -s $TMPDIR/answers ]; do sleep 0.01; done; exec 3>&-; wait; \
            head -n 1 $TMPDIR/answers";
        let run = run(&host, "sealed", script);
        assert_eq!(run.code(), Some(0), "{agent}: {}", run.stderr);
        let answer: serde_json::Value = serde_json::from_str(run.stdout.trim()).unwrap();
        assert_eq!(answer["id"], 1, "{agent}: {answer}");
        assert!(!answer["result"][answered].is_null(), "{agent}: {answer}");
        println!("{agent} answers: {answer}");
        host.assert_nothing_left();
    }
}
