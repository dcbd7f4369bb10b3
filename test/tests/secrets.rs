//! The launch's password, and a provider's key that an agent file passes on: who has them,
//! and where they are never written.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

use paddock_test::agent::AgentHost;
use paddock_test::files::containing;
use paddock_test::host::{Host, LIMIT, Launch, TIERS, send, standin_file, wait_for};
use rustix::process::Signal;
use serde_json::Value;

const KEY: &str = "sk-a-key-of-nobody-51c9";
const VARIABLE: &str = "KEYED_API_KEY";

/// A host with a stand-in whose server gets a provider's key from the caller.
fn host() -> Host {
    let mut host = Host::new();
    host.set(VARIABLE, KEY);
    let file = standin_file("keyed");
    let server = format!("[server]\npass = [\"{VARIABLE}\"]\n");
    assert!(file.contains("[server]\n"));
    host.add_agent("keyed", &file.replacen("[server]\n", &server, 1));
    host
}

fn has(text: &[u8], needle: &str) -> bool {
    text.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// A process of this user's, as anybody of this user can see it.
struct Seen {
    pid: i32,
    arguments: Vec<u8>,
    /// Empty where it cannot be read.
    environment: Vec<u8>,
}

/// The keeper and all that descends from it: nono, bubblewrap, wardens, agent, tools.
fn processes(launch: &Launch<'_>) -> Vec<Seen> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let parent = after.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        parents.push((pid, parent.unwrap_or(0)));
    }
    let mut own = vec![launch.keeper()];
    let mut at = 0;
    while at < own.len() {
        let above = own[at];
        own.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| pid));
        at += 1;
    }
    let read = |pid: i32, file: &str| std::fs::read(format!("/proc/{pid}/{file}"));
    own.into_iter()
        .map(|pid| Seen {
            pid,
            arguments: read(pid, "cmdline").unwrap_or_default(),
            environment: read(pid, "environ").unwrap_or_default(),
        })
        .collect()
}

/// A launch whose tool runs, and its password.
fn launched<'a>(host: &'a Host, tier: &str) -> (Launch<'a>, String) {
    let command = host.agent_command("keyed", &["--tier", tier, "--json"], &["echo up; sleep 300"]);
    let launch = host.start(command);
    let tool =
        || processes(&launch).iter().any(|p| has(&p.arguments, "sleep\x00300")).then_some(());
    wait_for(LIMIT, tool).expect("the tool runs");
    let environment = std::fs::read(format!("/proc/{}/environ", launch.client())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let mark = "PADDOCK_STANDIN_PASSWORD=";
    let password = environment.split('\0').find_map(|line| line.strip_prefix(mark)).unwrap();
    assert_eq!(password.len(), 64, "control");
    (launch, password.to_owned())
}

/// Fails where one of the secrets is in any file of this host's.
fn assert_in_no_file(host: &Host, secrets: &[&str]) {
    for root in [host.home(), host.runtime(), host.workspace()] {
        for secret in secrets {
            assert_eq!(containing(&root, secret.as_bytes()), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn no_argument_holds_a_secret_and_only_the_halves_have_the_password() {
    for tier in TIERS {
        let host = host();
        let (launch, password) = launched(&host, tier);
        let halves = [launch.process("agent", Some("server")), launch.client()];
        let seen = processes(&launch);
        // nono and the warden of each layer, the halves, the tool.
        assert!(seen.len() >= 9, "{tier}: {} processes", seen.len());
        for process in &seen {
            let shown = String::from_utf8_lossy(&process.arguments).replace('\0', " ");
            for secret in [&*password, KEY] {
                assert!(!has(&process.arguments, secret), "{tier}: {shown}");
            }
            let is_half = halves.contains(&process.pid);
            assert_eq!(has(&process.environment, &password), is_half, "{tier}: {shown}");
        }
        // The tool has what its agent has, but for the password: its agent takes that away.
        let tool = seen.iter().find(|process| has(&process.arguments, "sleep\x00300"));
        let tool = &tool.expect("the tool").environment;
        assert!(has(tool, KEY), "{tier}: the agent file passes the key on");
        let client = seen.iter().find(|process| process.pid == halves[1]).unwrap();
        assert!(!has(&client.environment, KEY), "{tier}: not to the client");
        launch.terminate();
        host.assert_nothing_left();
    }
}

#[test]
fn no_file_and_no_output_holds_a_secret() {
    let host = host();
    let (launch, password) = launched(&host, "sealed");
    let secrets = [&*password, KEY];
    let id = launch.id.clone();
    let told_about = |id: &str| {
        for arguments in [
            &["run", "keyed", "--dry-run", "--json"][..],
            &["run", "keyed", "--dry-run"],
            &["status", "--all", "--json"],
            &["status", "--all"],
            &["info", "--json", id],
            &["info", id],
            &["log", "--json", id],
            &["log", id],
            &["log", "--hosts", "--json", id],
            &["list", "--json"],
            &["verify", "--json", id],
            &["verify", id],
            &["config", "show", "keyed", "--json"],
            &["pin", "keyed", "--json"],
        ] {
            let run = host.run(arguments);
            assert!(run.stdout.len() + run.stderr.len() > 20, "{arguments:?}: {run:?}");
            for secret in secrets {
                let is_told = run.stdout.contains(secret) || run.stderr.contains(secret);
                assert!(!is_told, "{arguments:?}: {run:?}");
            }
        }
    };
    told_about(&id);
    let dry = host.run(&["run", "keyed", "--dry-run", "--json"]).stdout;
    let plan: Value = serde_json::from_str(&dry).unwrap();
    let names = plan["agentServer"]["environment"].to_string();
    assert!(names.contains(VARIABLE), "control: the names are told: {names}");
    assert_in_no_file(&host, &secrets);
    let run = launch.terminate();
    for secret in secrets {
        assert!(!run.stderr.contains(secret) && !run.stdout.contains(secret), "{run:?}");
    }
    assert_in_no_file(&host, &secrets);
    told_about(&id);
}

#[test]
fn no_message_of_a_launch_that_fails_holds_a_secret() {
    for tier in TIERS {
        for part in ["server", "client"] {
            let host = host();
            let (launch, password) = launched(&host, tier);
            send(launch.process("agent", Some(part)), Signal::ABORT);
            let run = launch.end();
            assert_ne!(run.code(), Some(0), "control: {run:?}");
            for secret in [&*password, KEY] {
                assert!(!run.stderr.contains(secret) && !run.stdout.contains(secret), "{run:?}");
            }
            assert_in_no_file(&host, &[&password, KEY]);
        }
    }
    // One whose server says that it cannot, to the layers' log and from there to the person.
    let host = host();
    let file = standin_file("broken").replace("\"serve\",", "\"serve\", \"--nonsense\",");
    let file = file.replacen("[server]\n", &format!("[server]\npass = [\"{VARIABLE}\"]\n"), 1);
    host.add_agent("broken", &file);
    let run = host.run(&["run", "broken", "--", "-c", "true"]);
    assert_eq!(run.code(), Some(125), "{run:?}");
    assert!(run.stderr.contains("--nonsense"), "control: {}", run.stderr);
    assert!(!run.stderr.contains(KEY), "{}", run.stderr);
    assert_in_no_file(&host, &[KEY]);
}

#[test]
fn a_tool_of_codexs_gets_the_key_and_not_the_password() {
    let commands = ["env; cat /proc/$PPID/cmdline | tr '\\0' ' '"];
    let Some(mut codex) = AgentHost::new("codex", &commands) else { return };
    let server = format!(
        "model = \"fake-1\"\nmodel_provider = \"fake\"\napproval_policy = \"never\"\n\
         sandbox_mode = \"danger-full-access\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [features]\nplugins = false\napps = false\nremote_plugin = false\n\
         [model_providers.fake]\nname = \"Fake\"\nwire_api = \"responses\"\n\
         base_url = \"{}/v1\"\nenv_key = \"OPENAI_API_KEY\"\n\
         stream_max_retries = 0\nrequest_max_retries = 0\n\
         [projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        codex.model_url(),
        codex.host.workspace().display()
    );
    codex.write_in_home("server", ".codex/config.toml", &server);
    codex.host.set("OPENAI_API_KEY", KEY);
    let mut command = codex.run(codex.host.paddock(), "sealed");
    command.args(["--", "exec", "--json", "Run the tool."]);
    let run = paddock_test::host::finish(command);
    assert_eq!(run.code(), Some(0), "{run:#?}");
    let said = codex.model.conversation().expect("a conversation").to_string();
    assert!(said.contains("HOME=") && said.contains("CODEX_HOME="), "control: {said}");
    assert!(said.contains(&format!("OPENAI_API_KEY={KEY}")), "{said}");
    assert!(!said.contains("PADDOCK_CODEX_TOKEN"), "{said}");
}
