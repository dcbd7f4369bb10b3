//! What of its caller's environment reaches an agent and its layers, and who
//! can see the launch's password.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use paddock_test::files::containing;
use paddock_test::host::{Host, TIERS, finish, nono, standin_file};

/// Handles on the host, secrets, and what would change a program or a policy.
const NOT_FOR_AGENTS: [(&str, &str); 24] = [
    ("AWS_SECRET_ACCESS_KEY", "secret"),
    ("BASH_ENV", "/nonexistent/bash-env"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus"),
    ("DISPLAY", ":7"),
    ("DOCKER_HOST", "unix:///nonexistent/docker.sock"),
    ("GPG_AGENT_INFO", "/nonexistent/gpg:1:1"),
    ("HERDR_ENV", "1"),
    ("HERDR_PANE_ID", "7"),
    ("HERDR_SOCKET_PATH", "/nonexistent/herdr.sock"),
    ("LD_LIBRARY_PATH", "/nonexistent/lib"),
    ("LD_PRELOAD", ""),
    ("NONO_ALLOW", "/"),
    ("NONO_ALLOW_NET", "true"),
    ("NONO_PROFILE", "/nonexistent/profile.json"),
    ("OPENAI_API_KEY", "secret"),
    ("PADDOCK_STANDIN_PASSWORD", "known"),
    ("SSH_AGENT_PID", "7"),
    ("SSH_AUTH_SOCK", "/nonexistent/ssh.sock"),
    ("STY", "7.pts-7.host"),
    ("TMUX", "/nonexistent/tmux,7,7"),
    ("WAYLAND_DISPLAY", "wayland-7"),
    ("XAUTHORITY", "/nonexistent/xauthority"),
    ("XDG_CONFIG_DIRS", "/nonexistent/xdg"),
    ("XDG_SESSION_ID", "7"),
];

/// All that a tool of the stand-in may find: how to speak and draw, its own
/// directories, the way out; `PWD` is its shell's.
const FOR_TOOLS: [&str; 30] = [
    "COLORTERM",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "HERDR_ENV",
    "HERDR_PANE_ID",
    "HERDR_SOCKET_PATH",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "JAVA_TOOL_OPTIONS",
    "LANG",
    "LC_ALL",
    "NODE_USE_ENV_PROXY",
    "NO_COLOR",
    "NO_PROXY",
    "OLDPWD",
    "PADDOCK_GATE",
    "PATH",
    "PWD",
    "SHELL",
    "SHLVL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "YARN_HTTPS_PROXY",
    "YARN_HTTP_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

fn variables(text: &str) -> BTreeMap<&str, &str> {
    text.split('\0').filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn nothing_of_the_callers_environment_reaches_an_agent_unnamed() {
    // A client that tells its environment.
    let shipped = standin_file("told");
    let server = shipped.split("[client]").next().unwrap();
    let client_only = format!("{server}[client]\nargv = [\"/usr/bin/env\", \"-0\"]\n");
    for tier in TIERS {
        let mut host = Host::new();
        host.add_agent("told", &client_only);
        let state = host.home().join("state");
        for (name, value) in NOT_FOR_AGENTS {
            host.set(name, value);
        }
        host.set("XDG_STATE_HOME", &state).set("LC_ALL", "C").set("TZ", "UTC");

        let mut plain = Command::new("/usr/bin/env");
        host.dress(&mut plain);
        plain.arg("-0");
        let plain = finish(plain).stdout;
        let plain = variables(&plain);
        for (name, value) in NOT_FOR_AGENTS {
            assert_eq!(plain.get(name), Some(&value), "control: a plain child has {name}");
        }

        let tool = finish(host.agent_command("standin", &["--tier", tier], &["env -0"]));
        assert_eq!(tool.code(), Some(0), "{}", tool.stderr);
        let client = finish(host.agent_command("told", &["--tier", tier], &[]));
        assert_eq!(client.code(), Some(0), "{}", client.stderr);
        for (whose, text) in [("tool", &tool.stdout), ("client", &client.stdout)] {
            let found = variables(text);
            let more: Vec<_> = found
                .iter()
                .filter(|(name, _)| **name != "_" && !FOR_TOOLS.contains(name))
                .collect();
            assert!(more.is_empty(), "{tier}, {whose}: {more:?}");
            assert_eq!((found["LC_ALL"], found["TZ"]), ("C", "UTC"), "{tier}, {whose}");
            // herdr's socket is not the caller's.
            assert_eq!(found["HERDR_SOCKET_PATH"], found["PADDOCK_GATE"], "{tier}, {whose}");
            // nono's own directories lie in the launch directory, as what is meant to be
            // found there does.
            let is_meant =
                |name: &str| ["PADDOCK_GATE", "HERDR_SOCKET_PATH", "PATH"].contains(&name);
            let relocated: Vec<_> = found
                .iter()
                .filter(|(name, value)| {
                    !is_meant(name) && Path::new(value).starts_with(host.runtime())
                })
                .collect();
            assert!(relocated.is_empty(), "{tier}, {whose}: {relocated:?}");
        }
        let has_way_out = |text: &str| variables(text).contains_key("HTTPS_PROXY");
        assert!(has_way_out(&tool.stdout), "the server's only way out is named");
        assert!(!has_way_out(&client.stdout), "the client has none");
    }
}

#[test]
fn an_agent_file_cannot_ask_for_a_handle_on_the_host() {
    for name in
        ["SSH_AUTH_SOCK", "HERDR_SOCKET_PATH", "LD_PRELOAD", "NONO_ALLOW", "XDG_RUNTIME_DIR"]
    {
        let host = Host::new();
        let agent = |variable: &str| {
            format!(
                "name = \"asking\"\ntitle = \"asks\"\nprogram.names = [\"{{paddock}}\"]\n\
                 link.kind = \"unix\"\n[server]\nargv = [\"{{program}}\"]\npass = [\"{variable}\"]\n\
                 [client]\nargv = [\"{{program}}\"]\n"
            )
        };
        let dry = ["run", "--dry-run", "asking"];
        host.add_agent("asking", &agent("OPENAI_API_KEY"));
        assert_eq!(host.run(&dry).code(), Some(0), "control: {}", host.run(&dry).stderr);
        host.add_agent("asking", &agent(name));
        let run = host.run(&dry);
        assert_eq!(run.code(), Some(125));
        let wanted = format!("the variable {name} may not be passed to an agent");
        assert!(run.stderr.contains(&wanted), "{}", run.stderr);
    }
}

/// A port of the host's loopback, and a secret in home.
struct Outside {
    listener: TcpListener,
    secret: PathBuf,
}

impl Outside {
    fn of(host: &Host) -> Self {
        let secret = host.write("secret", "the secret\n");
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap(), secret }
    }

    /// Tells which of the two it reaches.
    fn command(&self) -> String {
        let port = self.listener.local_addr().unwrap().port();
        let secret = self.secret.display();
        format!(
            "cat {secret} >/dev/null 2>&1 && echo read; \
             bash -c ': <>/dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo connected; true"
        )
    }
}

#[test]
fn variables_that_widen_nonos_policy_do_not_reach_it() {
    let widening = |host: &mut Host| {
        let home = host.home();
        host.set("NONO_ALLOW", home).set("NONO_ALLOW_NET", "true");
    };
    // The control: nono by itself, with a profile as strict as the server's.
    let mut host = Host::new();
    let outside = Outside::of(&host);
    let profile = host.write("p.json", include_str!("../../profiles/standin/client.json"));
    let by_itself = |host: &Host| {
        let mut command = Command::new(nono());
        host.dress(&mut command);
        command.env("XDG_STATE_HOME", host.runtime()).env("HOME", host.runtime());
        command.args(["run", "--silent", "--no-audit", "--no-rollback", "--profile"]).arg(&profile);
        command.args(["--workdir"]).arg(host.workspace()).arg("--read").arg(host.workspace());
        command.args(["--", "bash", "-c", &outside.command()]);
        finish(command)
    };
    let strict = by_itself(&host);
    assert_eq!((strict.code(), strict.stdout.as_str()), (Some(0), ""), "{}", strict.stderr);
    widening(&mut host);
    let wide = by_itself(&host);
    assert_eq!(wide.stdout, "read\nconnected\n", "control: {}", wide.stderr);

    for tier in TIERS {
        let mut host = Host::new();
        let outside = Outside::of(&host);
        widening(&mut host);
        for (name, value) in [
            ("NONO_OPEN_PORT", outside.listener.local_addr().unwrap().port().to_string()),
            ("NONO_ALLOW_DOMAIN", "*".into()),
            ("NONO_UPSTREAM_PROXY", "127.0.0.1:1".into()),
            ("NONO_PROFILE", profile.to_str().unwrap().into()),
        ] {
            host.set(name, value);
        }
        let mut plain = Command::new("bash");
        host.dress(&mut plain);
        plain.args(["-c", &outside.command()]);
        assert_eq!(finish(plain).stdout, "read\nconnected\n", "control");
        let run = host.standin_in(tier, &[&outside.command()]);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(0), ""), "{tier}: {}", run.stderr);
    }
}

/// The command lines of all of this user's processes.
fn command_lines() -> Vec<Vec<u8>> {
    let own = std::fs::read_dir("/proc").unwrap().flatten();
    own.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).collect()
}

fn contains(text: &[u8], needle: &str) -> bool {
    text.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[test]
fn the_password_is_in_no_argument_and_no_file() {
    let host = Host::new();
    let mut command = host.agent_command("standin", &["--json"], &["env", "sleep 300"]);
    command.env("PADDOCK_STANDIN_PASSWORD", "the caller's");
    let launch = host.start(command);
    let environment = std::fs::read(format!("/proc/{}/environ", launch.client())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let password = variables(&environment)["PADDOCK_STANDIN_PASSWORD"].to_owned();
    assert!(password.len() == 64 && password.bytes().all(|b| b.is_ascii_hexdigit()), "{password}");

    let seen = command_lines();
    let id = launch.id.clone();
    assert!(seen.iter().any(|line| contains(line, &id)), "control: command lines are seen");
    assert!(!seen.iter().any(|line| contains(line, &password)));

    for root in [host.home(), host.runtime(), host.workspace()] {
        assert_eq!(containing(&root, password.as_bytes()), Vec::<PathBuf>::new());
    }
    let state = containing(&host.home(), id.as_bytes());
    assert!(state.len() >= 2, "control: files are searched: {state:?}");

    for arguments in [&["list", "--json"][..], &["info", "--json", &id], &["verify", "--json", &id]]
    {
        let told = host.run(arguments);
        assert_eq!(told.code(), Some(0), "{}", told.stderr);
        assert!(told.stdout.contains(&id), "control: {}", told.stdout);
        assert!(!told.stdout.contains(&password), "{arguments:?}");
    }
    let run = launch.terminate();
    assert!(run.stderr.contains(&id), "control: {}", run.stderr);
    assert!(!run.stderr.contains(&password));
    assert!(!run.stdout.contains(&password), "a tool's environment has it not");
    for root in [host.home(), host.runtime()] {
        assert_eq!(containing(&root, password.as_bytes()), Vec::<PathBuf>::new());
    }
}

#[test]
fn every_launch_has_a_password_of_its_own() {
    let host = Host::new();
    let password = || {
        let launch = host.start(host.standin_command(&["sleep 300"]));
        let environment = std::fs::read(format!("/proc/{}/environ", launch.client())).unwrap();
        let environment = String::from_utf8(environment).unwrap();
        variables(&environment)["PADDOCK_STANDIN_PASSWORD"].to_owned()
    };
    assert_ne!(password(), password());
}
