use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// A workspace, and beside it what is not of it.
struct Ground {
    root: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["ws/.git/hooks", "ws/.git/objects", "ws/.git/refs", "own", "home"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let ground = Self { root };
        ground.write(".git/HEAD", "ref: refs/heads/main\n");
        ground.write(".git/config", "[core]\n\tbare = false\n\thooksPath = tools/hooks\n");
        ground.write(".git/hooks/pre-commit", "x");
        ground.write(".git/hooks/pre-push.sample", "x");
        ground.write("tools/hooks/post-merge", "x");
        ground
    }

    fn ws(&self, path: &str) -> PathBuf {
        self.root.path().join("ws").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.ws(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What is told after `meanwhile`: kind, path in the workspace, what.
    fn told(&self, meanwhile: impl FnOnce(&Self)) -> Vec<String> {
        let (told, gaps) = self.told_with_gaps(meanwhile);
        assert_eq!(gaps, serde_json::json!([]));
        told
    }

    fn told_with_gaps(&self, meanwhile: impl FnOnce(&Self)) -> (Vec<String>, serde_json::Value) {
        // Of a kernel whose times are coarse.
        std::thread::sleep(Duration::from_millis(20));
        let roots = vec![Root::Tree(self.ws(""))];
        let home = self.root.path().join("home");
        let began = Began::now(roots, &self.root.path().join("own"), &home).unwrap();
        meanwhile(self);
        let found = began.look().as_json();
        let told = told(&found).unwrap().into_iter().map(|told| {
            let path = Path::new(&told.path).strip_prefix(self.ws("")).unwrap().to_owned();
            let keys = if told.keys.is_empty() { "" } else { &format!(" {}", told.keys.join(",")) };
            format!("{} {} {}{keys}", told.kind.name(), path.display(), told.what)
        });
        (told.collect(), found["gaps"].clone())
    }
}

#[test]
fn nothing_is_told_of_what_nobody_obeys_or_changed() {
    let ground = Ground::new();
    ground.write("Makefile", "x");
    ground.write("src/package.json", "x");
    let told = ground.told(|ground| {
        ground.write("src/main.rs", "x");
        ground.write(".git/objects/ab/cd", "x");
        ground.write(".git/index", "x");
        ground.write(".git/hooks/other.sample", "x");
        ground.write("node_modules/x/package.json", "x");
    });
    assert_eq!(told, Vec::<String>::new());
}

#[test]
fn what_is_obeyed_is_told_by_who_obeys_it() {
    let ground = Ground::new();
    for path in ["Makefile", ".github/workflows/a.yml", ".vscode/x", ".envrc", "lefthook.yml"] {
        ground.write(path, "x");
    }
    let told = ground.told(|ground| {
        ground.write("Makefile", "y");
        ground.write("deep/er/package.json", "{}");
        ground.write(".github/workflows/b.yml", "x");
        ground.write(".mcp.json", "x");
        fs::remove_file(ground.ws(".vscode/x")).unwrap();
        fs::remove_file(ground.ws("lefthook.yml")).unwrap();
        // A time that is set does not hide it.
        let file = fs::File::options().write(true).open(ground.ws(".envrc")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        fs::set_permissions(ground.ws("Makefile"), fs::Permissions::from_mode(0o600)).unwrap();
    });
    assert_eq!(
        told,
        [
            "git lefthook.yml removed",
            "shell .envrc changed",
            "agent .mcp.json changed",
            "editor .vscode directory",
            "build Makefile changed",
            "build deep/er/package.json changed",
            "ci .github/workflows/b.yml changed",
        ]
    );
}

#[test]
fn a_repositorys_hooks_settings_and_ways_elsewhere_are_told() {
    let ground = Ground::new();
    let told = ground.told(|ground| {
        let config = "[core]\n\tbare = false\n\thooksPath = other\n[user]\n\tname = x\n";
        ground.write(".git/config", config);
        ground.write(".git/hooks/post-checkout", "x");
        fs::remove_file(ground.ws(".git/hooks/pre-commit")).unwrap();
        ground.write(".git/commondir", "../evil\n");
        ground.write(".git/info/attributes", "x");
        ground.write(".git/rebase-merge/git-rebase-todo", "exec x\n");
        ground.write(".git/remotes/origin", "URL: x\n");
        ground.write(".git/branches/b", "x\n");
        ground.write(".git/worktrees/a/commondir", "../..\n");
        ground.write(".git/worktrees/b/commondir", "/evil\n");
        for name in ["HEAD", "objects/x", "refs/x"] {
            ground.write(&format!(".git/modules/libs/m/{name}"), "x");
        }
        ground.write(".git/modules/libs/m/config", "[core]\neditor = x\n");
        ground.write("tools/hooks/post-merge", "y");
        ground.write("other/pre-commit", "x");
    });
    assert_eq!(
        told,
        [
            "git .git/branches/b changed",
            "git .git/commondir changed",
            "git .git/config changed core.hookspath,user.name",
            "git .git/hooks/post-checkout changed",
            "git .git/hooks/pre-commit removed",
            "git .git/info/attributes changed",
            "git .git/modules/libs/m/config changed core.editor",
            "git .git/rebase-merge/git-rebase-todo changed",
            "git .git/remotes/origin changed",
            "git .git/worktrees/a/commondir changed",
            "git .git/worktrees/b/commondir changed",
            "git other changed",
            "git other/pre-commit changed",
            "git tools/hooks/post-merge changed",
        ]
    );
}

#[test]
fn repositories_in_the_workspace_are_told_where_they_run_something() {
    let ground = Ground::new();
    ground.write("known/.git/config", "[core]\nbare = false\n");
    let told = ground.told(|ground| {
        ground.write("plain/.git/config", "[core]\nbare = false\n[remote \"o\"]\nurl = x\n");
        ground.write("plain/.git/hooks/a.sample", "x");
        ground.write("sub/.git", &format!("gitdir: ../.git/modules/{}\n", "m"));
        ground.write("away/.git", "gitdir: ../../elsewhere\n");
        for name in ["HEAD", "objects/x", "refs/x"] {
            ground.write(&format!("docs/{name}"), "x");
        }
        ground.write("docs/config", "[core]\nfsmonitor = x\n");
        ground.write("known/.git/config", "[core]\nbare = false\n[alias]\nx = !y\n");
    });
    assert_eq!(
        told,
        [
            "git away/.git changed",
            "git docs/config changed core.fsmonitor",
            "git known/.git/config changed alias.x",
            "git sub/.git changed",
        ]
    );
    // One where there was none is told in any case.
    fs::remove_dir_all(ground.ws(".git")).unwrap();
    let told = ground.told(|ground| ground.write(".git/config", "[core]\nbare = false\n"));
    assert_eq!(told, ["git .git changed"]);
}

#[test]
fn what_leads_to_a_repository_is_told_wherever_it_leads() {
    let ground = Ground::new();
    for name in ["HEAD", "objects/x", "refs/x"] {
        ground.write(&format!(".git/modules/m/{name}"), "x");
        ground.write(&format!(".git/modules/outer/inner/{name}"), "x");
    }
    for name in ["kept", "other", "swapped", "own"] {
        ground.write(&format!(".git/worktrees/{name}/commondir"), "../..\n");
        ground.write(&format!(".git/worktrees/{name}/gitdir"), "/wt/.git\n");
    }
    ground.write("wt/.git", "gitdir: ../.git/worktrees/kept\n");
    ground.write("prepared/commondir", "/evil\n");
    ground.write("prepared/config", "[core]\nbare = true\n");
    let told = ground.told(|ground| {
        // As git does, from day to day.
        ground.write(".git/worktrees/kept/gitdir", "/wt/.git\n");
        ground.write(".git/worktrees/other/gitdir", "/evil/.git\n");
        fs::remove_dir_all(ground.ws(".git/worktrees/swapped")).unwrap();
        fs::rename(ground.ws("prepared"), ground.ws(".git/worktrees/swapped")).unwrap();
        ground.write(".git/worktrees/swapped/x", "x");
        fs::remove_file(ground.ws(".git/worktrees/own/commondir")).unwrap();
        ground.write("wt/.git", "gitdir: ../.git/worktrees/own\n");
        ground.write("sub/.git", "gitdir: ../.git/modules/m\n");
        for name in ["HEAD", "objects/x", "refs/x"] {
            ground.write(&format!(".git/modules/new/{name}"), "x");
            // In the way of the one below it.
            ground.write(&format!(".git/modules/outer/{name}"), "x");
        }
        ground.write(".git/modules/new/config", "[core]\nbare = false\n");
        ground.write(".git/modules/outer/inner/config", "[core]\nfsmonitor = x\n");
        ground.write("src/HEAD", "ref: refs/heads/main\n");
        ground.write("src/commondir", "../evil\n");
    });
    assert_eq!(
        told,
        [
            "git .git/modules/new/config changed",
            "git .git/modules/outer/inner/config changed core.fsmonitor",
            "git .git/worktrees/other/gitdir changed",
            "git .git/worktrees/own/commondir removed",
            "git .git/worktrees/swapped/commondir moved",
            "git .git/worktrees/swapped/config moved",
            "git src/commondir changed",
            "git sub/.git changed",
            "git wt/.git changed",
        ]
    );
}

#[test]
fn settings_are_followed_through_files_that_files_include() {
    let ground = Ground::new();
    ground.write(".git/config", "[include]\npath = ../one\n");
    ground.write("one", "[include]\npath = two\n");
    ground.write("two", "[include]\npath = one\n");
    let told = ground.told(|ground| {
        ground.write("two", "[include]\npath = one\n[core]\nhooksPath = led/hooks\n");
        ground.write("led/hooks/pre-commit", "x");
    });
    assert_eq!(
        told,
        ["git led/hooks changed", "git led/hooks/pre-commit changed", "git two changed"]
    );
    let told = ground.told(|ground| ground.write("led/hooks/pre-commit", "y"));
    assert_eq!(told, ["git led/hooks/pre-commit changed"]);
}

#[test]
fn links_into_what_is_not_looked_into_are_told() {
    let ground = Ground::new();
    for path in ["node_modules/x/Makefile", "repository/.git/HEAD", "plain/x", "b"] {
        ground.write(path, "x");
    }
    symlink("node_modules/x", ground.ws("old")).unwrap();
    let told = ground.told(|ground| {
        for (name, to) in [
            ("skipped", "node_modules/x".into()),
            ("absolute", ground.ws("node_modules/x")),
            ("chain", "skipped".into()),
            ("repo", "repository".into()),
            ("target", "plain".into()),
            ("away", ground.root.path().to_owned()),
            ("quiet", "plain".into()),
            ("absolutely-quiet", ground.ws("plain")),
            ("file", "b".into()),
            ("nowhere", "c".into()),
        ] {
            let to: PathBuf = to;
            symlink(to, ground.ws(name)).unwrap();
        }
    });
    let listed = ["absolute", "away", "chain", "repo", "skipped"];
    assert_eq!(told, listed.map(|name| format!("git {name} changed")));
}

#[test]
fn links_and_what_was_moved_into_a_repository_are_told() {
    let ground = Ground::new();
    for name in ["HEAD", "objects/x", "refs/x", "hooks/pre-commit"] {
        ground.write(&format!(".git/modules/y/{name}"), "x");
        ground.write(&format!("evil/{name}"), "x");
        ground.write(&format!("deep/{name}"), "x");
    }
    ground.write(".git/worktrees/wt/commondir", "../..\n");
    ground.write("trees/wt/commondir", "../evil\n");
    let told = ground.told(|ground| {
        fs::remove_dir_all(ground.ws(".git/modules/y")).unwrap();
        symlink("../../evil", ground.ws(".git/modules/y")).unwrap();
        fs::create_dir(ground.ws(".git/modules/z")).unwrap();
        fs::rename(ground.ws("deep"), ground.ws(".git/modules/z/deep")).unwrap();
        fs::remove_dir_all(ground.ws(".git/worktrees")).unwrap();
        fs::rename(ground.ws("trees"), ground.ws(".git/worktrees")).unwrap();
        symlink("../../evil", ground.ws(".git/worktrees/link")).unwrap();
        symlink("../evil", ground.ws(".git/info")).unwrap();
    });
    assert_eq!(
        told,
        [
            "git .git/info changed",
            "git .git/modules/y changed",
            "git .git/modules/z/deep/hooks/pre-commit moved",
            "git .git/worktrees/link changed",
            "git .git/worktrees/wt/commondir moved",
        ]
    );
    let told = ground.told(|ground| {
        fs::rename(ground.ws(".git/worktrees"), ground.ws("trees")).unwrap();
        symlink("../trees", ground.ws(".git/worktrees")).unwrap();
    });
    // From there that link leads out of the workspace.
    assert_eq!(told, ["git .git/worktrees changed", "git trees/link moved"]);
}

#[test]
fn what_is_moved_into_place_is_told_though_its_files_are_old() {
    let ground = Ground::new();
    ground.write("plain/workflows/a.yml", "x");
    ground.write("plain/x", "x");
    ground.write("hooks/pre-commit", "x");
    ground.write("dot/Makefile", "x");
    let told = ground.told(|ground| {
        fs::rename(ground.ws("plain"), ground.ws(".github")).unwrap();
        fs::rename(ground.ws(".git/hooks"), ground.ws("old")).unwrap();
        fs::rename(ground.ws("hooks"), ground.ws(".git/hooks")).unwrap();
        fs::rename(ground.ws("dot"), ground.ws("tod")).unwrap();
    });
    assert_eq!(
        told,
        [
            "git .git/hooks/pre-commit moved",
            "build tod/Makefile moved",
            "ci .github/workflows/a.yml moved",
        ]
    );
}

#[test]
fn links_are_not_followed_out_of_the_workspace() {
    let ground = Ground::new();
    let outside = ground.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    ground.write("notes.md", "x");
    symlink("notes.md", ground.ws("AGENTS.md")).unwrap();
    symlink(outside.join("x"), ground.ws("CLAUDE.md")).unwrap();
    symlink(&outside, ground.ws("away")).unwrap();
    let told = ground.told(|ground| {
        ground.write("notes.md", "y");
        for name in ["x", "Makefile"] {
            fs::write(outside.join(name), "x").unwrap();
        }
        symlink(&outside, ground.ws(".vscode")).unwrap();
    });
    assert_eq!(told, ["agent AGENTS.md target", "editor .vscode changed"]);
}

#[test]
fn what_could_not_be_looked_at_is_said() {
    let ground = Ground::new();
    ground.write("closed/Makefile", "x");
    let (told, gaps) = ground.told_with_gaps(|ground| {
        ground.write("closed/Makefile", "y");
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(ground.ws("closed"), closed).unwrap();
    });
    fs::set_permissions(ground.ws("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        return;
    }
    assert_eq!(told, Vec::<String>::new());
    assert_eq!(gaps[0], "a directory could not be read");
}

#[test]
fn a_common_directory_is_looked_at_as_a_repository() {
    let ground = Ground::new();
    std::thread::sleep(Duration::from_millis(20));
    let home = ground.root.path().join("home");
    let roots = vec![Root::Repository(ground.ws(".git")), Root::Tree(ground.ws("tools"))];
    let began = Began::now(roots, &ground.root.path().join("own"), &home).unwrap();
    ground.write(".git/hooks/pre-commit", "y");
    let found = began.look().as_json();
    let told = told(&found).unwrap();
    assert_eq!(told.len(), 1, "{found}");
    assert!(told[0].path.ends_with(".git/hooks/pre-commit"));
}
