//! What a launch left in its workspace that the host runs or obeys later.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use paddock_test::host::{Host, LIMIT, TIERS, finish, wait_for};
use serde_json::{Value, json};

/// What `paddock log --obeyed --json` has, as `kind path what`.
fn obeyed(host: &Host) -> Vec<String> {
    let run = host.run(&["log", "--obeyed", "--json"]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let value: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(value["obeyed"]["complete"], true, "{value}");
    let changed = value["obeyed"]["changed"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let told = changed.iter().map(|change| {
        let path = text(&change["path"]);
        let path = Path::new(&path).strip_prefix(host.workspace()).unwrap();
        format!("{} {} {}", text(&change["kind"]), path.display(), text(&change["what"]))
    });
    told.collect()
}

/// How often the ledger of the newest launch has an event.
fn count(host: &Host, event: &str) -> usize {
    host.ledger().iter().filter(|line| line["event"] == event).count()
}

fn write(host: &Host, path: &str, text: &str) {
    let path = host.workspace().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Each leaves something for the host, and one of them does not.
const PLANT: &str = "echo x >>Makefile; mkdir -p .vscode .git/hooks; echo x >.vscode/tasks.json; \
    echo x >.git/hooks/pre-commit; touch -d 2001-01-01 .git/hooks/pre-commit; \
    printf 'all:' >$(printf 'a\\033b.mk'); echo x >src.txt; rm .envrc";

const PLANTED: [&str; 6] = [
    "git .git changed",
    "git .git/hooks/pre-commit changed",
    "shell .envrc removed",
    "editor .vscode/tasks.json changed",
    "build Makefile changed",
    "build a\u{1b}b.mk changed",
];

fn ground(host: &Host) {
    for (path, text) in [("Makefile", "all:\n"), (".envrc", "x\n"), ("deep/Makefile", "all:\n")] {
        write(host, path, text);
    }
}

#[test]
fn what_the_host_obeys_is_told_in_every_tier_and_nothing_else_is() {
    for tier in TIERS {
        let host = Host::new();
        ground(&host);
        let quiet = host.standin_in(tier, &["echo x >new.txt; cat Makefile; ls -a"]);
        assert_eq!(quiet.code(), Some(0), "{tier}: {}", quiet.stderr);
        assert!(!quiet.stderr.contains("obeyed"), "{tier}: {}", quiet.stderr);
        assert_eq!(obeyed(&host), Vec::<String>::new(), "{tier}: control");
        assert_eq!(count(&host, "obeyed"), 1);

        let run = host.standin_in(tier, &[PLANT]);
        assert_eq!(run.code(), Some(0), "{tier}: {}", run.stderr);
        assert_eq!(obeyed(&host), PLANTED, "{tier}");
        let id = host.records().last().unwrap()["launch"].as_str().unwrap().to_owned();
        for line in [
            "6 things changed that are obeyed outside of the sandbox\n".to_owned(),
            "  git, at its next command: .git, .git/hooks/pre-commit\n".to_owned(),
            "  builds, tests and package managers: Makefile, a\\u{1b}b.mk\n".to_owned(),
        ] {
            assert!(run.stderr.contains(&line), "{tier}: {line:?} in {}", run.stderr);
        }
        let shown = host.run(&["log", &id, "--obeyed"]).stdout;
        assert!(shown.contains("\n  a\\u{1b}b.mk\n") && !shown.contains('\u{1b}'), "{shown}");
        let info: Value = serde_json::from_str(&host.run(&["info", &id, "--json"]).stdout).unwrap();
        assert_eq!(info["obeyed"]["changed"].as_array().unwrap().len(), 6, "{info}");
        let log = host.run(&["log", &id]).stdout;
        assert!(log.contains("6 things changed that are obeyed"), "{log}");
        host.assert_nothing_left();
    }
}

#[test]
fn it_is_told_however_a_launch_ends() {
    let host = Host::new();
    ground(&host);
    let planted = |host: &Host| host.workspace().join("planted").exists();
    let plant = format!("{PLANT}; touch planted; sleep 60");
    let wait = |host: &Host| {
        let found = wait_for(LIMIT, || planted(host).then_some(()));
        assert!(found.is_some(), "it was planted");
    };
    let again = |host: &Host| {
        std::fs::remove_dir_all(host.workspace()).unwrap();
        std::fs::create_dir(host.workspace()).unwrap();
        ground(host);
    };

    // By `paddock stop`.
    let launch = host.start(host.standin_command(&[&plant]));
    wait(&host);
    assert_eq!(host.run(&["stop", &launch.id]).code(), Some(0));
    assert_eq!(launch.end().code(), Some(143));
    assert_eq!(obeyed(&host), PLANTED);
    again(&host);

    // By a signal to the keeper.
    let launch = host.start(host.standin_command(&[&plant]));
    wait(&host);
    launch.terminate();
    assert_eq!(obeyed(&host), PLANTED);
    again(&host);

    // As not confined: a warden that is stopped does not answer.
    let launch = host.start(host.standin_command(&[&plant]));
    wait(&host);
    let warden = launch.process("warden", Some("server"));
    paddock_test::host::send(warden, rustix::process::Signal::KILL);
    assert_eq!(launch.end().code(), Some(126));
    assert_eq!(obeyed(&host), PLANTED);
    host.assert_nothing_left();
}

#[test]
fn a_shell_is_told_of_and_a_launch_that_began_nothing_is_not() {
    let host = Host::new();
    ground(&host);
    let mut command = host.paddock();
    command.args(["shell", "standin", "--workspace"]).arg(host.workspace());
    command.args(["--", "-c", PLANT]);
    let run = finish(command);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert_eq!(obeyed(&host), PLANTED);

    // Nothing of an agent ran, so nothing can have changed by it.
    let mut other = Host::new();
    other.set("PADDOCK_NONO", "/bin/false");
    ground(&other);
    let run = other.standin(&["true"]);
    assert_eq!(run.code(), Some(125), "{}", run.stderr);
    assert_eq!(count(&other, "obeyed"), 0);
    let records = other.records();
    if !records.is_empty() {
        let shown = other.run(&["log", "--obeyed"]).stdout;
        assert!(shown.starts_with("nothing is recorded"), "{shown}");
    }
}

#[test]
fn for_scripts_it_comes_before_the_end() {
    let host = Host::new();
    ground(&host);
    let mut command = host.paddock();
    command.args(["run", "--json", "--workspace"]).arg(host.workspace());
    command.args(["--", "-c", &format!("{PLANT}; exit 3")]);
    let run = finish(command);
    assert_eq!(run.code(), Some(3), "the status is the agent's: {}", run.stderr);
    let lines: Vec<Value> =
        run.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [.., obeyed, ended] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&obeyed["event"], &ended["event"]), (&json!("obeyed"), &json!("ended")));
    assert_eq!(obeyed["changed"].as_array().unwrap().len(), PLANTED.len());
}

#[test]
fn links_that_lead_out_are_not_followed_and_nothing_is_written() {
    let host = Host::new();
    let outside = host.home().join("outside");
    std::fs::create_dir_all(outside.join("hooks")).unwrap();
    std::fs::write(outside.join("hooks/pre-commit"), "x").unwrap();
    std::fs::write(outside.join("config"), "[core]\neditor = x\n").unwrap();
    write(&host, ".git/config", "[core]\nbare = false\n");
    let plant =
        format!("ln -s {0} .vscode; ln -s {0} .git/hooks; ln -s {0} sub", outside.display());
    let before = paddock_test::files::listing(&outside);
    let run = host.standin(&[&plant]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert_eq!(
        obeyed(&host),
        ["git .git/hooks changed", "git sub changed", "editor .vscode changed"]
    );
    assert!(
        paddock_test::files::changes(&before, &paddock_test::files::listing(&outside)).is_empty()
    );
}
