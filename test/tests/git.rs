//! Git worktrees as workspaces, with the real git.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use paddock_test::files::{changes, listing};
use paddock_test::host::{Finished, Host, TIERS, finish, skip};

/// Whether there is a git; without one a test says so and ends.
fn has_git() -> bool {
    let there = Command::new("git").arg("--version").output().is_ok();
    if !there {
        skip("git is not installed");
    }
    there
}

/// git in `directory`, with no configuration but the repository's.
fn git(host: &Host, directory: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new("git");
    host.dress(&mut command);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .current_dir(directory)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
        .args(arguments);
    finish(command)
}

fn must(run: &Finished) -> &str {
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    &run.stdout
}

/// A repository beside the workspace, with one commit.
fn repository(host: &Host) -> PathBuf {
    let repository = host.home().join("repository");
    std::fs::create_dir(&repository).unwrap();
    must(&git(host, &repository, &["init", "--quiet", "--initial-branch=main"]));
    std::fs::write(repository.join("file"), "one\n").unwrap();
    must(&git(host, &repository, &["add", "file"]));
    must(&git(host, &repository, &["commit", "--quiet", "--message=first"]));
    repository
}

/// Each tries to leave something for git on the host to run, and says when it
/// could. `COMMON` is the common directory.
const PLANT: [&str; 5] = [
    "echo x 2>/dev/null >$COMMON/hooks/pre-commit && echo hook",
    "git config core.hooksPath /tmp 2>/dev/null && echo config",
    "echo '[core]' 2>/dev/null >>$COMMON/config && echo config-file",
    "echo x 2>/dev/null >$COMMON/info/attributes && echo attributes",
    "mv $COMMON/hooks $COMMON/hooks2 2>/dev/null && mkdir $COMMON/hooks && echo directory",
];

#[test]
fn commits_work_in_a_linked_worktree_and_hooks_and_configuration_stay() {
    if !has_git() {
        return;
    }
    for tier in TIERS {
        let host = Host::new();
        let repository = repository(&host);
        let tree = host.home().join("tree");
        let add = ["worktree", "add", "--quiet", "-b", "side", tree.to_str().unwrap()];
        must(&git(&host, &repository, &add));
        let common = repository.join(".git");
        let plant = PLANT.join("; ").replace("$COMMON", common.to_str().unwrap());

        let commit = "echo two >file && git -c user.name=A -c user.email=a@example.org \
            commit --quiet --all --message=second && git log --format=%s && git status --short";
        let before = listing(&common);
        let mut command = host.paddock();
        command.current_dir(&tree).args(["run", "standin", "--tier", tier, "--"]);
        command.args(["-c", commit, "-c", &format!("{plant}; true")]);
        let run = finish(command);
        assert_eq!(
            (run.code(), run.stdout.as_str()),
            (Some(0), "second\nfirst\n"),
            "{tier}: {}",
            run.stderr
        );
        let log = git(&host, &repository, &["log", "--format=%s", "side"]);
        assert_eq!(must(&log), "second\nfirst\n", "the host sees the commit");
        must(&git(&host, &repository, &["fsck", "--strict"]));
        let may_change = ["objects", "refs", "logs", "worktrees/tree"].map(|d| common.join(d));
        let changed = changes(&before, &listing(&common));
        let elsewhere: Vec<_> =
            changed.iter().filter(|p| !may_change.iter().any(|d| p.starts_with(d))).collect();
        assert!(elsewhere.is_empty(), "{tier}: {elsewhere:?}");

        // The control: whoever is not confined can plant every one.
        let mut plain = Command::new("sh");
        host.dress(&mut plain);
        plain.current_dir(&tree).args(["-c", &plant]);
        let planted = finish(plain).stdout;
        assert_eq!(planted, "hook\nconfig\nconfig-file\nattributes\ndirectory\n", "control");
        host.assert_nothing_left();
    }
}

#[test]
fn a_worktree_that_its_repository_does_not_know_gets_nothing_of_it() {
    if !has_git() {
        return;
    }
    let host = Host::new();
    let repository = repository(&host);
    let tree = host.home().join("tree");
    must(&git(&host, &repository, &["worktree", "add", "--quiet", tree.to_str().unwrap()]));
    // What an agent could have written into its workspace before.
    std::fs::copy(tree.join(".git"), host.workspace().join(".git")).unwrap();
    let grants = |workspace: &Path| {
        let mut command = host.paddock();
        command.args(["run", "--dry-run", "--json", "--workspace"]).arg(workspace);
        let plan: serde_json::Value = serde_json::from_str(must(&finish(command))).unwrap();
        let of_repository = |grant: &&serde_json::Value| {
            Path::new(grant["path"].as_str().unwrap()).starts_with(&repository)
        };
        plan["grants"].as_array().unwrap().iter().filter(of_repository).count()
    };
    assert!(grants(&tree) > 0, "control: a real one gets what a commit needs");
    assert_eq!(grants(&host.workspace()), 0);
}

#[test]
fn finding_the_worktree_runs_nothing_that_its_configuration_names() {
    if !has_git() {
        return;
    }
    let host = Host::new();
    let repository = repository(&host);
    let marker = host.home().join("marker");
    let script = host.script("monitor", &format!("#!/bin/sh\ntouch {}\n", marker.display()));
    for key in ["core.fsmonitor", "core.pager", "core.editor", "core.sshCommand"] {
        must(&git(&host, &repository, &["config", key, script.to_str().unwrap()]));
    }
    must(&git(&host, &repository, &["status"]));
    assert!(marker.exists(), "control: git itself runs it");
    std::fs::remove_file(&marker).unwrap();

    let deep = repository.join("some/where");
    std::fs::create_dir_all(&deep).unwrap();
    let mut command = host.paddock();
    command.current_dir(&deep).args(["run", "--", "-c", "pwd"]);
    let run = finish(command);
    assert_eq!(must(&run), format!("{}\n", repository.display()), "it is the worktree around");
    assert!(!marker.exists());
}
