//! How the plugin's programs get to their place: whole, verified, or not at all.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use paddock_test::faults::place;
use paddock_test::host::{Finished, Host, finish, paddock, warden};
use sha2::{Digest, Sha256};

const SCRIPT: &str = include_str!("../../scripts/install-binary.sh");

/// A plugin's directory with the script, and built programs beside it.
struct Plugin {
    host: Host,
    root: PathBuf,
    built: PathBuf,
}

impl Plugin {
    fn new() -> Self {
        let host = Host::new();
        host.script("a plugin/scripts/install-binary.sh", SCRIPT);
        let built = host.home().join("built");
        for program in [paddock(), warden()] {
            let to = built.join(program.file_name().unwrap());
            place(&program, &to);
            publish(&to, &digest(&to));
        }
        let root = host.home().join("a plugin");
        Self { host, root, built }
    }

    fn install(&self) -> Command {
        let mut command = Command::new("sh");
        command.arg(self.root.join("scripts/install-binary.sh"));
        self.host.dress(&mut command);
        command.current_dir("/").env("PADDOCK_BINARY", self.built.join("paddock"));
        command
    }

    /// What is in `bin`.
    fn installed(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join("bin")).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn digest(path: &Path) -> String {
    let digest = Sha256::digest(std::fs::read(path).unwrap());
    digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn publish(path: &Path, digest: &str) {
    let name = path.file_name().unwrap().to_str().unwrap();
    std::fs::write(path.with_file_name(format!("{name}.sha256")), format!("{digest}  {name}\n"))
        .unwrap();
}

fn failed(run: &Finished, words: &str) {
    assert_eq!(run.code(), Some(1), "{run:?}");
    assert!(run.stderr.contains(words), "{words}: {run:?}");
    assert!(run.stderr.contains("type: "), "it says what to do: {run:?}");
}

#[test]
fn programs_that_match_what_was_published_are_installed_and_again_when_one_is_missing() {
    let plugin = Plugin::new();
    for _ in 0..2 {
        let run = finish(plugin.install());
        assert_eq!(run.code(), Some(0), "{run:?}");
        assert_eq!(plugin.installed(), ["paddock", "paddock-warden"]);
        let mut installed = Command::new(plugin.root.join("bin/paddock"));
        plugin.host.dress(&mut installed);
        installed.arg("--version");
        assert_eq!(finish(installed).code(), Some(0));
        let mode = std::fs::metadata(plugin.root.join("bin/paddock-warden")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
        std::fs::remove_file(plugin.root.join("bin/paddock-warden")).unwrap();
    }
}

#[test]
fn a_digest_can_be_given_and_one_that_is_wrong_or_missing_changes_nothing() {
    let plugin = Plugin::new();
    let old = plugin.root.join("bin/paddock");
    std::fs::create_dir_all(old.parent().unwrap()).unwrap();
    std::fs::write(&old, "the old one").unwrap();
    let is_as_before = || {
        assert_eq!(std::fs::read(&old).unwrap(), b"the old one");
        assert_eq!(plugin.installed(), ["paddock"], "nothing half-written is left");
    };

    publish(&plugin.built.join("paddock-warden"), &"0".repeat(64));
    failed(&finish(plugin.install()), "paddock-warden is not what was published");
    is_as_before();
    let mut given = plugin.install();
    given.env("PADDOCK_BINARY_SHA256", "1".repeat(64));
    failed(&finish(given), "paddock is not what was published");
    is_as_before();
    std::fs::remove_file(plugin.built.join("paddock-warden.sha256")).unwrap();
    failed(&finish(plugin.install()), "no sha256 is published");
    is_as_before();
    std::fs::remove_file(plugin.built.join("paddock-warden")).unwrap();
    failed(&finish(plugin.install()), "paddock-warden is missing");
    is_as_before();

    place(&warden(), &plugin.built.join("paddock-warden"));
    let mut given = plugin.install();
    given.env("PADDOCK_WARDEN_SHA256", digest(&warden()).to_uppercase());
    let run = finish(given);
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert_eq!(plugin.installed(), ["paddock", "paddock-warden"]);
}

#[test]
fn a_program_that_does_not_run_here_replaces_nothing() {
    let plugin = Plugin::new();
    let built = plugin.built.join("paddock");
    std::fs::remove_file(&built).unwrap();
    std::fs::write(&built, "#!/bin/sh\nexit 1\n").unwrap();
    publish(&built, &digest(&built));
    failed(&finish(plugin.install()), "does not run on this host");
    assert_eq!(plugin.installed(), [] as [String; 0]);
}

#[test]
fn without_a_built_program_it_builds_and_says_when_that_cannot_be() {
    let plugin = Plugin::new();
    // A cargo that builds what it is told to, where it is told to.
    let cargo = format!(
        "#!/bin/sh\n[ \"$1\" != --version ] || {{ echo 'cargo 1'; exit; }}\necho \"$*\" >>\"$HOME/ran\"\n\
         mkdir -p \"$CARGO_TARGET_DIR/release\"\ncp '{}' '{}' \"$CARGO_TARGET_DIR/release/\"\n",
        paddock().display(),
        warden().display()
    );
    plugin.host.script("bin/cargo", &cargo);
    let build = |path: &str| {
        let mut command = plugin.install();
        command.env_remove("PADDOCK_BINARY").env("PATH", path);
        command.env("CARGO_HOME", "/nonexistent");
        finish(command)
    };
    let run = build(&format!("{}:/usr/bin:/bin", plugin.host.home().join("bin").display()));
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert!(run.stdout.contains("this takes some minutes"), "{run:?}");
    assert_eq!(plugin.installed(), ["paddock", "paddock-warden"]);
    let ran = std::fs::read_to_string(plugin.host.home().join("ran")).unwrap();
    assert!(ran.starts_with("build --release"), "{ran}");

    let bin = plugin.host.home().join("tools");
    std::fs::create_dir(&bin).unwrap();
    for tool in ["sh", "dirname", "mktemp", "mkdir", "rm", "cat", "tr", "cut", "cp"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{tool}"), bin.join(tool)).unwrap();
    }
    failed(&build(bin.to_str().unwrap()), "cargo was not found");
    assert_eq!(plugin.installed(), ["paddock", "paddock-warden"], "what is there stays");
}
