//! What was recorded of an agent at its first launch holds at every later one.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paddock_test::host::{Finished, Host, finish, nono, paddock, standin_file};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

/// An agent of one's own.
fn agent() -> String {
    format!("hosts = [\"a.test\"]\n{}", standin_file("own"))
}

/// A host with that agent.
fn host() -> Host {
    let host = Host::new();
    host.add_agent("own", &agent());
    host
}

fn launch(host: &Host) -> Finished {
    finish(host.agent_command("own", &[], &["echo ran"]))
}

#[track_caller]
fn assert_quiet(run: &Finished) {
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "ran\n"), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.ends_with(" tasks confirmed, watching\n"), "{}", run.stderr);
}

/// Nothing ran; what was said.
#[track_caller]
fn assert_refused<'a>(host: &Host, run: &'a Finished) -> &'a str {
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{}", run.stderr);
    host.assert_nothing_left();
    &run.stderr
}

/// The ledger's lines of that kind, of the newest launch.
fn events(host: &Host, event: &str) -> Vec<Value> {
    host.ledger().into_iter().filter(|line| line["event"] == event).collect()
}

fn pin_file(host: &Host, agent: &str, tier: &str) -> PathBuf {
    host.home().join(format!(".local/state/paddock/pins/{agent}-{tier}.json"))
}

/// Changes the server's profile of the agent.
fn edit(host: &Host, from: &str, to: &str) {
    let path = host.home().join(".config/paddock/agents/own/server.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
}

fn pin(host: &Host, arguments: &[&str]) -> (Option<i32>, Value) {
    let run = host.run(&[&["pin", "own", "--json"], arguments].concat());
    let value = serde_json::from_str(&run.stdout);
    (run.code(), value.unwrap_or_else(|e| panic!("{e}: {run:?}")))
}

#[test]
fn the_first_launch_records_and_the_second_is_quiet() {
    let host = host();
    assert_eq!(pin(&host, &[]).1["state"], "not-recorded");
    assert_quiet(&launch(&host));
    let pinned = events(&host, "pinned");
    assert_eq!(pinned.len(), 1);
    let path = pin_file(&host, "own", "sealed");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let text = std::fs::read(&path).unwrap();

    assert_quiet(&launch(&host));
    assert_eq!(events(&host, "pinned").len() + events(&host, "pin-changed").len(), 0);
    assert_eq!(std::fs::read(&path).unwrap(), text, "nothing of a launch is in it");
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "what nono was asked with is gone");

    let (code, told) = pin(&host, &[]);
    assert_eq!((code, &told["state"]), (Some(0), &"same".into()));
    assert_eq!(told["recorded"]["policies"], pinned[0]["policies"]);
    assert_eq!(told["recorded"], told["present"]);
    // The tool that everybody has agrees on the hashes.
    for (name, program) in told["recorded"]["programs"].as_object().unwrap() {
        let mut command = std::process::Command::new("sha256sum");
        let sum = command.arg(program["path"].as_str().unwrap()).output().unwrap().stdout;
        let sum = String::from_utf8(sum).unwrap();
        assert_eq!(sum.split(' ').next(), program["sha256"].as_str(), "{name}");
    }
    // Of another tier nothing is recorded.
    assert_eq!(pin(&host, &["--tier", "isolated"]).1["state"], "not-recorded");
    // Words for readers are no policy.
    edit(&host, "The agent's server", "Another description");
    assert_quiet(&launch(&host));
}

#[test]
fn a_policy_that_allows_more_is_refused_until_it_is_accepted() {
    let host = host();
    assert_quiet(&launch(&host));
    let secret = host.write("secret", "s\n");
    for (from, to, told) in [
        (
            "\"/bin\"",
            &*format!("{secret:?}, \"/bin\""),
            format!("now also reads {}", secret.display()),
        ),
        ("\"pathname\"", "\"off\"", "AF_UNIX mediation: was pathname, is off".to_owned()),
        (
            "\"groups\": {",
            "\"groups\": { \"include\": [\"git_config\"],",
            "now has nono's group git_config".to_owned(),
        ),
        (
            "\"linux\": {",
            "\"environment\": { \"set_vars\": { \"X\": \"y\" } }, \"linux\": {",
            "environment.set_vars.X is now y".to_owned(),
        ),
        (
            "\"workdir\"",
            "\"network\": { \"connect_port\": [22] }, \"workdir\"",
            "now also connects to port 22".to_owned(),
        ),
        ("\"read\": [", "\"read\": [\"$WORKDIR/x\", ", "now also reads $WORKDIR/x".to_owned()),
    ] {
        edit(&host, from, to);
        let run = launch(&host);
        let text = assert_refused(&host, &run);
        assert!(
            text.starts_with("paddock: pin-mismatch: own (sealed) is not as it was recorded\n")
        );
        assert!(text.contains(&format!("\n    {told}\n")), "{told}: {text}");
        assert!(text.ends_with("\n  next: paddock pin --accept own, if that is meant to be so\n"));
        let (code, shown) = pin(&host, &[]);
        assert_eq!((code, &shown["state"]), (Some(125), &"refused".into()));
        let change = &shown["changes"]["policies"][0];
        assert_eq!(change["layer"], "server");
        for hash in [&change["was"], &change["is"]] {
            assert!(text.contains(hash.as_str().unwrap()), "{hash}: {text}");
        }
        assert!(host.run(&["pin", "own"]).stdout.contains(&format!("     + {told}\n")));
        let doctor = host.run(&["doctor", "--quick"]);
        let line = "pins of own (sealed)              refused       not as recorded; a launch does not start\n";
        assert!(doctor.stdout.contains(line), "{}", doctor.stdout);
        assert_eq!(doctor.code(), Some(1));

        assert_eq!(pin(&host, &["--accept"]).0, Some(0));
        assert_eq!(pin(&host, &[]).1["state"], "same");
        assert_eq!(host.run(&["doctor", "--quick"]).code(), Some(0), "control: as recorded");
        if told.starts_with("now also reads /") {
            assert_quiet(&launch(&host));
        }
    }
}

#[test]
fn a_host_or_a_variable_more_in_the_agent_file_is_refused() {
    let host = host();
    assert_quiet(&launch(&host));
    for (from, to, told) in [
        ("\"a.test\"", "\"a.test\", \"b.test\"", "now also reaches the host b.test"),
        ("[server]\n", "[server]\npass = [\"KEY\"]\n", "now also gets the caller's variable KEY"),
        ("\"serve\"", "\"serve\", \"--more\"", "agent.server.argv"),
        ("[server]\n", "[server]\nset = { PATH = \"/x\" }\n", "agent.server.set"),
        ("[server]\n", "[server]\ndirectories = [\"x\"]\n", "agent.server.directories is now x"),
        (
            "\"PADDOCK_STANDIN_PASSWORD\"\n\n[client]",
            "\"OTHER\"\n\n[client]",
            "server.password-variable",
        ),
        ("[\"{paddock}\"]", "[\"{paddock}\", \"x\"]", "agent.program.names"),
    ] {
        host.add_agent("own", &agent().replace(from, to));
        let run = launch(&host);
        assert!(assert_refused(&host, &run).contains(told), "{}", run.stderr);
    }
    host.add_agent("own", &agent().replace("\"a.test\"", ""));
    let run = launch(&host);
    assert_eq!(run.stdout, "ran\n", "{}", run.stderr);
    assert!(run.stderr.contains("no longer reaches the host a.test"), "{}", run.stderr);
}

/// The same program by another path, in a package of which all is read.
#[test]
fn a_program_that_brings_a_package_with_it_is_refused() {
    let host = host();
    assert_quiet(&launch(&host));
    let package = host.home().join("node_modules/mine");
    std::fs::create_dir_all(package.join("bin")).unwrap();
    let program = package.join("bin/own");
    std::fs::copy(paddock(), &program).unwrap();
    let names = format!("names = [{program:?}]");
    host.add_agent("own", &agent().replace("names = [\"{paddock}\"]", &names));
    let run = launch(&host);
    let told = format!("\n    now also reads {}\n", package.display());
    assert!(assert_refused(&host, &run).contains(&told), "{}", run.stderr);
}

#[test]
fn a_policy_that_allows_less_is_told_and_recorded() {
    let host = host();
    assert_quiet(&launch(&host));
    edit(&host, ", \"/etc/alternatives\"", "");
    assert_eq!(pin(&host, &[]).1["state"], "changed");
    let run = launch(&host);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "ran\n"), "{}", run.stderr);
    assert!(
        run.stderr.starts_with("paddock: own may do less than before: server policy: recorded ")
    );
    assert!(run.stderr.contains("\n  no longer reads /etc/alternatives\n"), "{}", run.stderr);
    let changed = &events(&host, "pin-changed")[0]["policies"][0];
    assert_eq!(changed["changes"][0]["what"], "no longer reads /etc/alternatives");
    assert_eq!(changed["changes"][0]["widens"], false);
    assert_quiet(&launch(&host));
    // What was given up is more now.
    edit(&host, "\"/bin\"", "\"/bin\", \"/etc/alternatives\"");
    let run = launch(&host);
    assert!(assert_refused(&host, &run).contains("now also reads /etc/alternatives"));
}

#[test]
fn what_an_own_profile_says_cannot_draw() {
    let host = host();
    assert_quiet(&launch(&host));
    edit(&host, "\"/bin\"", "\"/x\\u001b[2Jy\", \"/bin\"");
    let run = launch(&host);
    assert!(
        assert_refused(&host, &run).contains("now also reads /x\\u{1b}[2Jy\n"),
        "{}",
        run.stderr
    );
    let shown = host.run(&["pin", "own"]);
    assert!(shown.stdout.contains("/x\\u{1b}[2Jy") && !shown.stdout.contains('\x1b'));
}

#[test]
fn a_replaced_program_is_told_or_refused_as_configured() {
    let host = host();
    let program = host.home().join("bin/paddock");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(paddock(), &program).unwrap();
    let configured = format!("[agents.own]\nprogram = {program:?}\n");
    host.configure(&configured);
    assert_quiet(&launch(&host));

    // The same once more is no news, in whatever file.
    std::fs::remove_file(&program).unwrap();
    std::fs::copy(paddock(), &program).unwrap();
    assert_quiet(&launch(&host));

    // What follows its last section is no part of a program to the kernel.
    let mut bytes = std::fs::read(&program).unwrap();
    bytes.push(0);
    std::fs::write(&program, bytes).unwrap();
    host.configure(&format!("{configured}[pins]\non-program-change = \"refuse\"\n"));
    let run = launch(&host);
    let text = assert_refused(&host, &run);
    let told = format!("the agent's program {} changed: recorded ", program.display());
    assert!(text.contains(&told), "{text}");
    assert!(text.contains("next: paddock pin --accept own"), "{text}");
    assert_eq!(pin(&host, &[]).0, Some(125));

    host.configure(&configured);
    assert_eq!(pin(&host, &[]).1["state"], "changed");
    let run = launch(&host);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "ran\n"), "{}", run.stderr);
    assert!(run.stderr.starts_with(&format!("paddock: {told}")), "{}", run.stderr);
    let changed = &events(&host, "pin-changed")[0]["programs"][0];
    assert_eq!((&changed["name"], changed["policies"].is_null()), (&"agent".into(), true));
    assert_ne!(changed["was"], changed["is"]);
    assert_quiet(&launch(&host));

    // Accepted beforehand, it is not refused.
    host.configure(&format!("{configured}[pins]\non-program-change = \"refuse\"\n"));
    std::fs::remove_file(&program).unwrap();
    std::fs::copy(paddock(), &program).unwrap();
    assert_eq!(pin(&host, &["--accept"]).0, Some(0));
    assert_quiet(&launch(&host));
}

#[test]
fn another_nono_is_told_and_its_groups_count() {
    let host = host();
    assert_quiet(&launch(&host));
    // One that makes of every profile what the real one does, and more.
    let path = host.script(
        "bin/nono",
        &format!(
            "#!/bin/sh\ncase $* in profile*manifest*) {real} \"$@\" | \
             sed 's|\"path\": \"/usr\"|\"path\": \"/srv\"|';; *) exec {real} \"$@\";; esac\n",
            real = nono().display()
        ),
    );
    let mut command = host.agent_command("own", &[], &["echo ran"]);
    command.env("PADDOCK_NONO", &path);
    let run = finish(command);
    let text = assert_refused(&host, &run);
    assert!(text.contains("\n    now also reads /srv\n"), "{text}");
    assert!(text.contains(&format!("\n  nono {} (it was ", path.display())), "{text}");
}

#[test]
fn a_policy_that_nono_cannot_resolve_is_refused() {
    let host = host();
    edit(&host, "\"filesystem\": {", "\"filesystem\": { \"bogus\": 1,");
    let run = launch(&host);
    let text = assert_refused(&host, &run);
    assert!(text.contains("nono cannot tell what it makes of the server policy: "), "{text}");
    assert!(text.contains("unknown field"), "{text}");
    assert!(!pin_file(&host, "own", "sealed").exists());

    let path = host.script(
        "bin/nono",
        "#!/bin/sh\ncase $1 in --version) echo nono 0.81.0;; *) echo '[]';; esac\n",
    );
    let mut command = host.standin_command(&["echo ran"]);
    command.env("PADDOCK_NONO", &path);
    let run = finish(command);
    let text = assert_refused(&host, &run);
    assert!(text.contains("what it shows as the manifest is not a JSON object"), "{text}");
}

/// nono would run it outside of the sandbox, or leave the sandbox to others.
#[test]
fn a_policy_that_does_more_than_confine_is_refused() {
    for (from, to, key) in [
        (
            "\"workdir\"",
            "\"session_hooks\": { \"before\": { \"script\": \"/bin/true\" } }, \"workdir\"",
            "\"session_hooks\" is no part of a sandbox",
        ),
        ("\"linux\": {", "\"linux\": { \"sandbox_policy\": \"external\",", "linux.sandbox_policy"),
        ("\"security\": {", "\"security\": { \"capability_elevation\": true,", "security.cap"),
        ("\"meta\"", "// a comment\n \"meta\"", "it must be plain JSON"),
    ] {
        let host = host();
        edit(&host, from, to);
        let path = host.home().join(".config/paddock/agents/own/server.json");
        for run in [launch(&host), host.run(&["pin", "own", "--accept"])] {
            let text = assert_refused(&host, &run);
            let start = format!("paddock: the agent file {} is not usable: ", path.display());
            assert!(text.starts_with(&start) && text.contains(key), "{text}");
        }
        let run = host.run(&["doctor", "--profile", path.to_str().unwrap()]);
        assert_eq!(run.code(), Some(125), "{}", run.stdout);
    }
}

/// What built no layer is not what a later launch is compared with.
#[test]
fn a_launch_that_did_not_start_records_nothing() {
    let host = host();
    let path = host.script("bin/bwrap", "#!/bin/sh\necho bubblewrap 0.9.0\n");
    let mut command = host.agent_command("own", &[], &["echo ran"]);
    command.env("PADDOCK_BWRAP", &path);
    let run = finish(command);
    assert!(assert_refused(&host, &run).contains("the veil layer did not start"), "{}", run.stderr);
    assert!(!pin_file(&host, "own", "sealed").exists());
    assert_quiet(&launch(&host));
    assert!(pin_file(&host, "own", "sealed").exists(), "control");
}

#[test]
fn a_pin_file_that_is_not_one_is_refused_and_blocks_nobody() {
    let host = host();
    assert_quiet(&launch(&host));
    let path = pin_file(&host, "own", "sealed");
    let text = std::fs::read_to_string(&path).unwrap();
    let told = |reason: &str, run: &Finished| {
        let text = assert_refused(&host, run);
        let start = format!("paddock: what was recorded in {} is not usable: ", path.display());
        assert!(text.starts_with(&start) && text.contains(reason), "{text}");
        assert!(text.contains("; paddock pin --accept own records anew\n"), "{text}");
    };
    for (garbage, reason) in [
        ("", "EOF"),
        ("no", "expected ident"),
        ("{\"schema\":1}", "missing field"),
        (&text.replace("/usr", "/"), "does not have the hash beside it"),
        (&text.replace("\"agent\":\"own\"", "\"agent\":\"standin\""), "it is of standin (sealed)"),
    ] {
        std::fs::write(&path, garbage).unwrap();
        told(reason, &launch(&host));
        assert_eq!(host.run(&["pin", "own"]).code(), Some(125));
    }
    std::fs::write(&path, text.replace("\"schema\":1", "\"schema\":7")).unwrap();
    for run in [launch(&host), host.run(&["pin", "own", "--accept"])] {
        assert_eq!(
            assert_refused(&host, &run),
            format!(
                "paddock: the record {} has schema version 7; this paddock knows 1\n  \
                 next: use the paddock that wrote it, or remove the file\n",
                path.display()
            )
        );
    }

    let elsewhere = host.write("elsewhere", &text);
    std::fs::remove_file(&path).unwrap();
    symlink(&elsewhere, &path).unwrap();
    told("it is a symbolic link", &launch(&host));
    std::fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let started = Instant::now();
    told("it is not a plain file", &launch(&host));
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(pin(&host, &["--accept"]).1["state"], "accepted");
    assert_quiet(&launch(&host));
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), text);

    let directory = path.parent().unwrap();
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    edit(&host, ", \"/etc/alternatives\"", "");
    let run = launch(&host);
    assert!(assert_refused(&host, &run).contains("is not private"), "{}", run.stderr);
}

#[test]
fn a_link_or_a_pipe_in_the_place_of_an_agents_file_is_refused() {
    for name in ["agent.toml", "server.json", "client.json"] {
        let host = host();
        let path = host.home().join(".config/paddock/agents/own").join(name);
        let real = host.home().join("real");
        std::fs::rename(&path, &real).unwrap();
        symlink(&real, &path).unwrap();
        let run = launch(&host);
        let told = format!("agent file {} is not usable: it is a symbolic link\n", path.display());
        assert!(assert_refused(&host, &run).contains(&told), "{}", run.stderr);
        std::fs::remove_file(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let run = launch(&host);
        assert!(assert_refused(&host, &run).contains("it is not a plain file"), "{}", run.stderr);
    }
}
