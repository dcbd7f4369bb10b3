//! `paddock shell` with each shell that it knows: under the policy of the agent's server,
//! with a prompt that says so, and without a file of the person's or of the agent's.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use paddock_test::files::{changes, listing};
use paddock_test::host::{Host, LIMIT, Launch, skip, wait_for};
use paddock_test::terminal::Terminal;

const PROMPT: &str = "[paddock standin] ";

/// `paddock shell standin` on the terminal, once it is up.
fn start<'a>(host: &'a Host, terminal: &Terminal) -> Launch<'a> {
    let mut command = terminal.paddock(host);
    command.args(["shell", "standin", "--tier", "sealed"]);
    let launch = host.start_as_it_is(command);
    terminal.wait_for(PROMPT);
    launch
}

/// Each file says that it was read, by a file in the workspace.
fn plant_start_up_files(home: &Path, workspace: &Path) {
    for name in [
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".profile",
        ".bash_logout",
        ".zshenv",
        ".zshrc",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".config/fish/config.fish",
    ] {
        let path = home.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mark = workspace.join(format!("read{}", name.replace('/', "-")));
        std::fs::write(path, format!("touch '{}'\n", mark.display())).unwrap();
    }
    // A key that types a command.
    std::fs::write(home.join(".inputrc"), "\"\\C-t\": \"touch read-inputrc\\n\"\n").unwrap();
}

fn marks(workspace: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(workspace).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut marks: Vec<String> = names.filter(|name| name.starts_with("read")).collect();
    marks.sort();
    marks
}

/// A shell under the server's policy, and how the same is had to read its start-up files.
struct Known {
    path: &'static str,
    /// Typed into it, and what is read then.
    control: (&'static str, &'static [&'static str]),
}

impl Known {
    /// Types into it what its policy allows and refuses; its start-up files are neither
    /// read nor written, and its prompt says where it is.
    fn try_it(&self) {
        let Self { path: shell, control: (typed, wanted) } = *self;
        if !Path::new(shell).exists() {
            skip(&format!("{shell} is not installed"));
            return;
        }
        let mut host = Host::new();
        host.set("SHELL", shell);
        let first = host.run(&["shell", "standin", "--", "-c", "true"]);
        assert_eq!(first.code(), Some(0), "its home is there now");
        let home = host.agent_home("standin", "server");
        plant_start_up_files(&home, &host.workspace());
        plant_start_up_files(&host.home(), &host.workspace());
        let (own, persons) = (listing(&home), listing(&host.home().join(".config")));
        let secret = host.write("notes", "the person's notes\n");
        let outside =
            Command::new(shell).arg("-c").arg(format!("cat {}", secret.display())).output();
        assert_eq!(outside.unwrap().stdout, b"the person's notes\n", "control");

        let terminal = Terminal::open();
        let launch = start(&host, &terminal);
        terminal.send("clear; echo shell is $SHELL; echo home is $HOME\r");
        terminal.wait_for(&format!("shell is {shell}"));
        terminal.wait_for(&format!("home is {}", home.display()));
        terminal.send(&format!("cat {}; echo made >made; cat made\r", secret.display()));
        terminal.wait_for("No such file");
        terminal.wait_for("\nmade");
        assert!(!terminal.text().contains("the person's notes"), "{}", terminal.text());
        terminal.send("\x14\r");
        terminal.send("echo typed $(math 1 + 1 2>/dev/null || echo 2)\r");
        terminal.wait_for("typed 2");
        terminal.send("exit 0\r");
        assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
        assert_eq!(marks(&host.workspace()), Vec::<String>::new(), "{shell}");
        println!("{shell} read no start-up file");
        assert_eq!(changes(&own, &listing(&home)), Vec::<PathBuf>::new(), "{shell}");
        assert_eq!(
            changes(&persons, &listing(&host.home().join(".config"))),
            Vec::<PathBuf>::new()
        );

        // The control: the same shell in the same place without what keeps it from it.
        let terminal = Terminal::open();
        let launch = start(&host, &terminal);
        terminal.send(&format!("clear; {typed}\r"));
        let read = wait_for(LIMIT, || (marks(&host.workspace()) == wanted).then_some(()));
        assert!(read.is_some(), "control: {shell}: {:?}", marks(&host.workspace()));
        if shell == "/bin/bash" {
            terminal.send("\x14");
            let typed = || host.workspace().join("read-inputrc").exists().then_some(());
            wait_for(LIMIT, typed).expect("control: .inputrc is read");
        }
        terminal.send("exit 0\r");
        assert_eq!(launch.end().code(), Some(0), "{}", terminal.text());
        if shell == "/bin/bash" {
            assert_eq!(changes(&own, &listing(&home)), [home.join(".bash_history")], "control");
        }
    }
}

#[test]
fn bash_reads_no_start_up_file_and_writes_no_history() {
    let control: (_, &[_]) = ("unset HISTFILE INPUTRC; exec bash -i", &["read.bashrc"]);
    Known { path: "/bin/bash", control }.try_it();
}

#[test]
fn sh_reads_no_start_up_file_and_writes_no_history() {
    let control: (_, &[_]) = ("ENV=$HOME/.profile exec sh -i", &["read.profile"]);
    Known { path: "/bin/sh", control }.try_it();
}

#[test]
fn zsh_reads_no_start_up_file_and_writes_no_history() {
    let control: (_, &[_]) = ("exec zsh -i", &["read.zshenv", "read.zshrc"]);
    Known { path: "/usr/bin/zsh", control }.try_it();
}

#[test]
fn fish_reads_no_start_up_file_and_writes_no_history() {
    let control: (_, &[_]) = ("set -e fish_history; exec fish", &["read.config-fish-config.fish"]);
    Known { path: "/usr/bin/fish", control }.try_it();
}
