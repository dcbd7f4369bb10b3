//! `paddock import`: a person's own configuration, copied into an agent's private home.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use paddock_test::agent::program;
use paddock_test::files::{changes, containing, listing};
use paddock_test::host::Host;
use paddock_test::terminal::Terminal;
use serde_json::{Value, json};

const SECRET: &str = "a-refresh-token-of-nobody";

/// A person's Codex, set up as people have it.
fn host() -> Host {
    let host = Host::new();
    host.write(
        ".codex/config.toml",
        "model = \"m\"\nnotify = [\"notify-send\", \"Codex\"]\n[mcp_servers.docs]\ncommand = \"npx\"\n",
    );
    host.write(".codex/AGENTS.md", "Be brief.\n");
    host.write(".codex/skills/tests/SKILL.md", "Run them.\n");
    host.script(".codex/skills/tests/run.sh", "#!/bin/sh\n");
    host.write(".codex/auth.json", SECRET);
    host.write(".codex/history.jsonl", "what was said\n");
    host.write(".codex/sessions/2026/one.jsonl", "what was said\n");
    host
}

fn imported(host: &Host, path: &str) -> PathBuf {
    host.agent_home("codex", "server").join(path)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_is_copied_and_what_not_is_shown_before_and_nothing_is_done_unasked() {
    let host = host();
    let before = listing(&host.home());
    let run = host.run(&["import", "codex"]);
    assert_eq!(run.code(), Some(125), "{run:?}");
    assert!(run.stderr.contains("nothing was copied"), "{}", run.stderr);
    assert!(run.stderr.contains("next: paddock import codex --yes"), "{}", run.stderr);
    for told in [
        "~/.codex/config.toml  to the server's .codex/config.toml (",
        "~/.codex/config.toml  to the client's .codex/config.toml (",
        "~/.codex/skills/tests/SKILL.md  to the server's .codex/skills/tests/SKILL.md (10 B)",
        "~/.codex/auth.json  its refresh token is good once",
        "~/.codex/sessions  conversations stay",
        "~/.codex/config.toml  mcp_servers.docs.command: npx",
        "~/.codex/config.toml  notify: notify-send Codex",
    ] {
        assert!(run.stdout.contains(told), "no {told:?} in\n{}", run.stdout);
    }
    assert_eq!(host.run(&["import", "codex", "--dry-run"]).code(), Some(0));
    let run = host.run(&["import", "codex", "--json"]);
    assert_eq!((run.code(), &value(&run.stdout)["done"]), (Some(125), &json!(false)));
    assert_eq!(changes(&before, &listing(&host.home())), Vec::<PathBuf>::new());
}

#[test]
fn what_was_shown_is_copied_for_its_owner_alone_and_no_token_is() {
    let host = host();
    let run = host.run(&["import", "codex", "--yes", "--json"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    let told = value(&run.stdout);
    assert_eq!(told["done"], true);
    let outcomes = told["files"].as_array().unwrap();
    assert!(outcomes.iter().all(|file| file["outcome"] == "copied"), "{told:#}");
    let places: Vec<(&str, &str)> = outcomes
        .iter()
        .map(|file| (file["home"].as_str().unwrap(), file["to"].as_str().unwrap()))
        .collect();
    let wanted = [
        ("server", ".codex/config.toml"),
        ("client", ".codex/config.toml"),
        ("server", ".codex/AGENTS.md"),
        ("server", ".codex/skills/tests/SKILL.md"),
        ("server", ".codex/skills/tests/run.sh"),
    ];
    assert_eq!(places, wanted);
    for (home, place) in wanted {
        let path = host.agent_home("codex", home).join(place);
        let own = host.home().join(place);
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(own).unwrap());
        let is_program = place.ends_with("run.sh");
        assert_eq!(mode(&path), if is_program { 0o700 } else { 0o600 }, "{place}");
        assert_eq!(mode(path.parent().unwrap()), 0o700, "{place}");
    }
    let own = host.home().join(".codex/auth.json");
    assert_eq!(containing(&host.home(), SECRET.as_bytes()), [own]);
    assert!(!imported(&host, ".codex/sessions").exists());
    // Again there is nothing to do.
    let run = host.run(&["import", "codex"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert!(run.stdout.contains("there is nothing to copy"), "{}", run.stdout);
}

#[test]
fn what_is_there_stays_or_gets_another_name_and_no_link_is_written_through() {
    let host = host();
    let outside = host.write("outside", "kept\n");
    let directory = imported(&host, ".codex");
    std::fs::create_dir_all(&directory).unwrap();
    for part in ["", "homes", "homes/codex", "homes/codex/server", "homes/codex/server/.codex"] {
        let path = host.home().join(".local/share/paddock").join(part);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
    }
    // As an agent could have left it.
    std::fs::write(directory.join("config.toml"), "mine = true\n").unwrap();
    symlink(&outside, directory.join("AGENTS.md")).unwrap();
    symlink(host.home(), directory.join("skills")).unwrap();
    let before = listing(&host.home());
    let run = host.run(&["import", "codex", "--yes"]);
    assert_eq!(run.code(), Some(125), "{run:?}");
    assert!(run.stderr.contains("skills is a link or no directory"), "{}", run.stderr);
    assert_eq!(std::fs::read(directory.join("config.toml")).unwrap(), b"mine = true\n");
    assert_eq!(std::fs::read(&outside).unwrap(), b"kept\n");
    let changed = changes(&before, &listing(&host.home()));
    let client = host.agent_home("codex", "client");
    let in_client = |path: &PathBuf| path.starts_with(&client);
    assert!(changed.iter().all(in_client), "{changed:?}");

    std::fs::remove_file(directory.join("skills")).unwrap();
    let run = host.run(&["import", "codex", "--yes", "--replace"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert!(run.stdout.contains("config.toml.before-import-1"), "{}", run.stdout);
    let aside = directory.join("config.toml.before-import-1");
    assert_eq!(std::fs::read(aside).unwrap(), b"mine = true\n");
    assert_eq!(std::fs::read(&outside).unwrap(), b"kept\n");
    assert_eq!(std::fs::read(directory.join("AGENTS.md")).unwrap(), b"Be brief.\n");
}

#[test]
fn dotfiles_that_are_linked_are_copied_when_the_person_says_so() {
    let host = host();
    let own = host.home().join(".codex/config.toml");
    let target = host.write("dotfiles/codex.toml", "model = \"linked\"\n");
    std::fs::remove_file(&own).unwrap();
    symlink(&target, &own).unwrap();
    // One that leads to what is never copied.
    symlink(host.home().join(".codex/auth.json"), host.home().join(".codex/skills/a")).unwrap();
    let run = host.run(&["import", "codex", "--yes"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    let told = format!("~/.codex/config.toml  it leads to {}; --follow-links", target.display());
    assert!(run.stdout.contains(&told), "no {told:?} in\n{}", run.stdout);
    assert!(!imported(&host, ".codex/config.toml").exists());
    assert!(imported(&host, ".codex/AGENTS.md").exists(), "control");
    let run = host.run(&["import", "codex", "--yes", "--follow-links"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    let copied = imported(&host, ".codex/config.toml");
    assert!(copied.symlink_metadata().unwrap().is_file());
    assert_eq!(std::fs::read(copied).unwrap(), b"model = \"linked\"\n");
    let codex = host.home().join(".codex");
    let own = [codex.join("auth.json"), codex.join("skills/a")];
    assert_eq!(containing(&host.home(), SECRET.as_bytes()), own);
}

/// Directories that lead to each other by links are copied once.
#[test]
fn a_directory_that_leads_to_itself_is_copied_once() {
    let host = host();
    for n in 0..6 {
        symlink(".", host.home().join(format!(".codex/skills/l{n}"))).unwrap();
    }
    let run = host.run(&["import", "codex", "--yes", "--follow-links"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert!(imported(&host, ".codex/skills/tests/SKILL.md").exists());
    assert!(!imported(&host, ".codex/skills/l0").exists());
    assert!(
        run.stdout.contains("skills/l5  it leads to a directory that is copied already"),
        "{run:?}"
    );
}

#[test]
fn a_person_is_asked_and_no_is_the_default() {
    let host = host();
    let ask = |answer: &str| {
        let terminal = Terminal::open();
        let mut command = terminal.paddock(&host);
        let mut child = command.args(["import", "codex"]).spawn().unwrap();
        terminal.wait_for("[y/N]");
        terminal.send(answer);
        child.wait().unwrap().code()
    };
    assert_eq!(ask("\r"), Some(125));
    assert!(!imported(&host, ".codex").exists());
    assert_eq!(ask("y\r"), Some(0));
    assert!(imported(&host, ".codex/config.toml").exists());
}

#[test]
fn it_comes_from_another_home_when_that_is_named_and_errors_say_what_to_do() {
    let host = host();
    let other = host.write("other/.codex/AGENTS.md", "Other.\n");
    let home = other.parent().unwrap().parent().unwrap();
    let run = host.run(&["import", "codex", "--yes", "--from", home.to_str().unwrap()]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert_eq!(std::fs::read(imported(&host, ".codex/AGENTS.md")).unwrap(), b"Other.\n");
    assert!(!imported(&host, ".codex/config.toml").exists());
    for (arguments, told) in [
        (&["import", "codex", "--from", "/nonexistent"][..], "/nonexistent"),
        (&["import", "standin"], "its agent file does not say what: [import]"),
        (&["import", "nobody"], "nobody"),
    ] {
        let run = host.run(arguments);
        assert_eq!(run.code(), Some(125), "{run:?}");
        assert!(run.stderr.contains(told) && run.stderr.contains("next: "), "{}", run.stderr);
    }
    // An agent that works in the person's own state has it all.
    host.configure("[agents.codex]\nstate = \"shared\"\n");
    let run = host.run(&["import", "codex", "--yes"]);
    assert_eq!(run.code(), Some(125));
    assert!(run.stderr.contains("your own state"), "{}", run.stderr);
}

#[test]
fn the_real_codex_reads_what_was_copied() {
    let Some(program) = program("codex") else { return };
    let host = Host::new();
    host.configure(&format!("[agents.codex]\nprogram = \"{}\"\n", program.display()));
    host.write(".codex/config.toml", "cli_auth_credentials_store = \"nonsense\"\n");
    let status = || host.run(&["login", "codex", "--", "status"]);
    let before = status();
    assert!(before.stderr.contains("Not logged in"), "control: {before:?}");
    assert_eq!(host.run(&["import", "codex", "--yes"]).code(), Some(0));
    let after = status();
    assert!(after.stderr.contains("nonsense"), "{after:?}");
}
