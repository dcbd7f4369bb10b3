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

/// Each works in a launch as it does without one; the last word of each is `ok`.
const WORKS: [&str; 13] = [
    "echo 2 >file && git commit -qam two",
    "echo 3 >file && git stash -q && git stash pop -q && git commit -qam three",
    "git branch one && git tag t && git tag -d t",
    "git checkout -qb topic HEAD~1 && echo g >g && git add g && git commit -qm g",
    "git rebase -q main && git checkout -q main && git merge -q --no-ff -m merged topic",
    "git worktree add -q -b inner inner && git -C inner commit -q --allow-empty -m in",
    "git worktree remove inner && git branch -qD inner 2>/dev/null",
    "git fetch -q origin && git push -q origin main",
    "git gc -q && git pack-refs --all && git fsck",
    "git checkout -qb clash HEAD~2 && echo c >file && git commit -qam clash",
    "! git rebase main >/dev/null 2>&1 && echo r >file && git add file && git rebase --continue >/dev/null",
    "test ! -e .git/CHERRY_PICK_HEAD && git status --porcelain",
    "git checkout -q main && git reset -q --hard && git clean -fdxq && git reflog >/dev/null",
];

/// Each changes what has git run a program, and says when it could.
const CHANGE: [&str; 10] = [
    "git config core.fsmonitor /tmp/x 2>/dev/null && echo config",
    "echo '[core]' 2>/dev/null >>.git/config && echo config-file",
    "git remote add other x 2>/dev/null && echo remote",
    "echo x 2>/dev/null >.git/hooks/pre-commit && echo hook",
    "rm -rf .git/hooks 2>/dev/null; mv .git/hooks .git/h 2>/dev/null && echo hooks-moved; \
     mkdir -p .git/hooks 2>/dev/null; echo x 2>/dev/null >.git/hooks/post-merge && echo hooks-again",
    "mv .git/config .git/c 2>/dev/null && echo config-moved",
    "echo x 2>/dev/null >.git/info/attributes && echo attributes; \
     mv .git/info .git/i 2>/dev/null && echo info-moved",
    "ln -sf /tmp/x .git/config 2>/dev/null && echo config-linked",
    "echo '[core]' 2>/dev/null >>.git/modules/m/config && echo module; \
     mv .git/modules/m .git/modules/n 2>/dev/null && echo module-moved",
    "mv .git .g 2>/dev/null && echo moved",
];

/// What the control says to all of them.
const CHANGED: &str = "config\nconfig-file\nremote\nhook\nhooks-again\nconfig-moved\nattributes\n\
    info-moved\nconfig-linked\nmodule\nmodule-moved\nmoved\n";

/// A repository that is the workspace, with a remote and what looks like a submodule's.
fn own_repository(host: &Host) -> PathBuf {
    let workspace = host.workspace();
    must(&git(host, &workspace, &["init", "--quiet", "--initial-branch=main"]));
    std::fs::write(workspace.join("file"), "one\n").unwrap();
    must(&git(host, &workspace, &["add", "file"]));
    must(&git(host, &workspace, &["commit", "--quiet", "--message=first"]));
    // In the workspace, so that it can be pushed to.
    must(&git(host, &workspace, &["clone", "--quiet", "--bare", ".", ".git/remote.git"]));
    must(&git(host, &workspace, &["remote", "add", "origin", ".git/remote.git"]));
    let module = workspace.join(".git/modules/m");
    std::fs::create_dir_all(workspace.join(".git/modules")).unwrap();
    must(&git(host, &workspace, &["init", "--quiet", "--bare", module.to_str().unwrap()]));
    std::fs::create_dir_all(workspace.join(".git/info")).unwrap();
    std::fs::write(workspace.join(".git/info/attributes"), "").unwrap();
    workspace
}

/// Who commits, in a launch: no configuration but the repository's.
const AUTHOR: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_EDITOR=true GIT_AUTHOR_NAME=A \
    GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org; ";

fn changed_settings(host: &Host, tier: &str) -> Finished {
    let command = CHANGE.map(|change| format!("{{ {change}; }}")).join("; ");
    host.standin_in(tier, &[&format!("{AUTHOR}{command}; true")])
}

#[test]
fn in_the_workspaces_own_repository_git_works_and_hooks_and_settings_stay() {
    if !has_git() {
        return;
    }
    let host = Host::new();
    let workspace = own_repository(&host);
    let before = listing(&workspace.join(".git"));
    let works = WORKS.map(|one| format!("{{ {one}; }} && echo ok")).join(" && ");
    let run = host.standin(&[&format!("{AUTHOR}set -e; {works}")]);
    let oks = run.stdout.lines().filter(|line| *line == "ok").count();
    assert_eq!((run.code(), oks), (Some(0), WORKS.len()), "{}\n{}", run.stdout, run.stderr);
    must(&git(&host, &workspace, &["fsck", "--strict"]));
    assert!(!run.stderr.contains("obeyed"), "ordinary work is no news: {}", run.stderr);

    let run = changed_settings(&host, "sealed");
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
    let kept = ["config", "hooks", "info/attributes", "modules/m/config", "modules/m/hooks"];
    let kept = kept.map(|name| workspace.join(".git").join(name));
    let changed = changes(&before, &listing(&workspace.join(".git")));
    let changed: Vec<_> =
        changed.iter().filter(|p| kept.iter().any(|k| p.starts_with(k))).collect();
    assert!(changed.is_empty(), "{changed:?}");
    // What git says when it is to change them.
    let run = host.standin(&["git config a.b c; echo $?"]);
    assert!(run.stdout.ends_with("4\n"), "{}", run.stdout);
    assert!(run.stderr.contains("could not write config file"), "{}", run.stderr);
    host.assert_nothing_left();

    // The control: with the person's leave, in lesser tiers, all can be changed; and is told.
    for (tier, rules) in [("sealed", "[git]\nsettings = \"writable\"\n"), ("isolated", "")] {
        let host = Host::new();
        own_repository(&host);
        host.configure(rules);
        let run = changed_settings(&host, tier);
        assert_eq!(run.stdout, CHANGED, "{tier}: {}", run.stderr);
        assert!(run.stderr.contains("git, at its next command: "), "{tier}: {}", run.stderr);
    }
}

#[test]
fn what_of_a_repository_is_a_link_is_said_and_nothing_is_followed() {
    if !has_git() {
        return;
    }
    let host = Host::new();
    let workspace = own_repository(&host);
    let outside = host.home().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret\n").unwrap();
    let hooks = workspace.join(".git/hooks");
    std::fs::remove_dir_all(&hooks).unwrap();
    std::os::unix::fs::symlink(&outside, &hooks).unwrap();
    let run = host.standin(&["cat .git/hooks/secret; git config a.b c; true"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
    let told = "hooks is not kept read-only in this launch: it is a symbolic link";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert!(run.stderr.contains("could not write config file"), "{}", run.stderr);
}

#[test]
fn the_plan_says_what_is_kept_and_a_project_may_only_tighten() {
    if !has_git() {
        return;
    }
    let host = Host::new();
    let workspace = own_repository(&host);
    let plan = |tier: &str| {
        let mut command = host.paddock();
        command.args(["run", "--dry-run", "--json", "--tier", tier, "--workspace"]).arg(&workspace);
        let plan: serde_json::Value = serde_json::from_str(must(&finish(command))).unwrap();
        plan["git"].clone()
    };
    let kept = plan("sealed");
    assert_eq!(kept["settings"], "read-only");
    let hooks = workspace.join(".git/hooks");
    assert!(kept["readOnly"].as_array().unwrap().iter().any(|p| p == hooks.to_str().unwrap()));
    assert_eq!(plan("isolated")["readOnly"], serde_json::json!([]));
    host.configure("git.settings = \"writable\"\n");
    assert_eq!(plan("sealed")["readOnly"], serde_json::json!([]));
    std::fs::write(workspace.join(".paddock.toml"), "git.settings = \"read-only\"\n").unwrap();
    assert_eq!(plan("sealed"), kept, "the project's file is the stricter one");
    host.configure("");
    std::fs::write(workspace.join(".paddock.toml"), "git.settings = \"writable\"\n").unwrap();
    let mut command = host.paddock();
    command.args(["run", "--dry-run", "--workspace"]).arg(&workspace);
    let refused = finish(command);
    assert_eq!(refused.code(), Some(125));
    assert!(refused.stderr.contains("would allow more than read-only"), "{}", refused.stderr);
}

#[test]
fn a_workspace_in_a_larger_repository_gets_nothing_of_it_and_a_planted_one_is_told() {
    if !has_git() {
        return;
    }
    let host = Host::new();
    let repository = repository(&host);
    let part = repository.join("part");
    std::fs::create_dir(&part).unwrap();
    let mut command = host.paddock();
    command.args(["run", "--workspace"]).arg(&part);
    command.args(["--", "-c", "git status 2>&1 | head -1; git init -q; git config core.editor x"]);
    let run = finish(command);
    assert!(must(&run).starts_with("fatal: not a git repository"), "{run:?}");
    assert!(run.stderr.contains(": .git, .git/config (core.editor)"), "{}", run.stderr);
}

#[test]
fn in_a_linked_worktree_rebases_work_and_its_pointers_and_other_worktrees_stay() {
    if !has_git() {
        return;
    }
    for tier in TIERS {
        let host = Host::new();
        let repository = repository(&host);
        let [tree, other] = ["tree", "other"].map(|name| host.home().join(name));
        for (branch, place) in [("side", &tree), ("elsewhere", &other)] {
            let add = ["worktree", "add", "--quiet", "-b", branch, place.to_str().unwrap()];
            must(&git(&host, &repository, &add));
        }
        std::fs::write(repository.join("file"), "main\n").unwrap();
        must(&git(&host, &repository, &["commit", "--quiet", "--all", "--message=second"]));
        let common = repository.join(".git");
        let run_in_tree = |commands: &str| {
            let mut command = host.paddock();
            command.current_dir(&tree).args(["run", "standin", "--tier", tier, "--"]);
            command.args(["-c", &format!("{AUTHOR}{commands}")]);
            finish(command)
        };
        let work = "echo side >new && git add new && git commit -qm side && git rebase -q main && \
            git log --format=%s && git worktree list | wc -l";
        let run = run_in_tree(work);
        assert_eq!(
            (run.code(), run.stdout.as_str()),
            (Some(0), "side\nsecond\nfirst\n3\n"),
            "{tier}: {}",
            run.stderr
        );
        must(&git(&host, &repository, &["fsck", "--strict"]));

        // Where the person's git would be led, and what another worktree has checked out.
        let private = common.join("worktrees/tree");
        let lead = format!(
            "echo /tmp/x 2>/dev/null >{0}/commondir && echo commondir; \
             echo x 2>/dev/null >{0}/gitdir && echo gitdir; \
             echo 'gitdir: /tmp/x' 2>/dev/null >.git && echo pointer; \
             mv .git .g 2>/dev/null && echo pointer-moved; true",
            private.display()
        );
        let others = format!(
            "echo x 2>/dev/null >{0}/worktrees/other/HEAD && echo other; \
             echo x 2>/dev/null >{0}/HEAD && echo main; echo x 2>/dev/null >{0}/logs/HEAD && echo log; true",
            common.display()
        );
        let run = run_in_tree(&others);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(0), ""), "{tier}: {}", run.stderr);
        let run = run_in_tree(&lead);
        // The veil keeps them; without one the end of the launch tells.
        let all = "commondir\ngitdir\npointer\npointer-moved\n";
        if tier == "sealed" {
            assert_eq!(run.stdout, "", "{}", run.stderr);
            must(&git(&host, &tree, &["status"]));
        } else {
            assert_eq!(run.stdout, all, "{tier}: {}", run.stderr);
            assert!(run.stderr.contains("worktrees/tree/commondir"), "{tier}: {}", run.stderr);
        }
        // The control: whoever is not confined can write each of them.
        let mut plain = Command::new("sh");
        host.dress(&mut plain);
        plain.current_dir(&tree).args(["-c", &format!("{others}; {lead}")]);
        if tier == "sealed" {
            assert_eq!(finish(plain).stdout, format!("other\nmain\nlog\n{all}"), "control");
        }
        host.assert_nothing_left();
    }
}

#[test]
fn with_the_persons_leave_a_linked_worktree_has_all_of_its_repository() {
    if !has_git() {
        return;
    }
    let host = Host::new();
    let repository = repository(&host);
    let tree = host.home().join("tree");
    must(&git(
        &host,
        &repository,
        &["worktree", "add", "-q", "-b", "side", tree.to_str().unwrap()],
    ));
    let commands =
        format!("{AUTHOR}git branch x && git branch -qd x && git config a.b c && echo all");
    let run = |host: &Host| {
        let mut command = host.paddock();
        command.current_dir(&tree).args(["run", "--", "-c", &commands]);
        finish(command)
    };
    let refused = run(&host);
    assert_eq!(refused.stdout, "", "it is refused without: {}", refused.stderr);
    assert!(refused.stderr.contains("packed-refs.lock"), "{}", refused.stderr);
    must(&git(&host, &repository, &["branch", "-q", "-D", "x"]));
    host.configure("[git]\nsettings = \"writable\"\n");
    assert_eq!(run(&host).stdout, "all\n");
}
