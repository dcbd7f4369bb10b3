//! The real herdr, whose program `HERDR_BIN` names.

mod plugin;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::herdr::read_line;
use crate::host::{Finished, Host, LIMIT, finish, wait_for};
use crate::terminal::Terminal;

pub use plugin::Acted;

/// A herdr without a terminal, with a state of its own in the home of a
/// host. Ended when dropped.
pub struct RealHerdr<'a> {
    host: &'a Host,
    program: PathBuf,
    server: Option<Child>,
}

impl<'a> RealHerdr<'a> {
    /// The one that `HERDR_BIN` names. No registry has it, so without one the test is
    /// skipped, also where nothing else may be.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(host: &'a Host) -> Option<Self> {
        let Some(program) = std::env::var_os("HERDR_BIN").map(PathBuf::from) else {
            println!("SKIPPED: HERDR_BIN does not name a herdr");
            return None;
        };
        host.write("herdr/config.toml", "onboarding = false\n[update]\nmanifest_check = false\n");
        let mut herdr = Self { host, program, server: None };
        herdr.serve();
        Some(herdr)
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.host.home().join("herdr/herdr.sock")
    }

    /// The program with this state; panes inherit the rest of the environment.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        self.host.dress(&mut command);
        self.dress(&mut command);
        command
    }

    fn dress(&self, command: &mut Command) {
        let directory = self.host.home().join("herdr");
        command
            .env("SHELL", "/bin/bash")
            .env("HERDR_DISABLE_SOUND", "1")
            .env("HERDR_CONFIG_PATH", directory.join("config.toml"))
            .env("HERDR_SOCKET_PATH", self.socket());
    }

    /// A person's screen on this herdr, on a terminal.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn attach(&self, terminal: &Terminal) -> Screen {
        let mut command = terminal.program(self.host, &self.program);
        self.dress(&mut command);
        Screen(command.spawn().expect("herdr starts"))
    }

    fn serve(&mut self) {
        let mut command = self.command();
        command.arg("server").stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(command.spawn().expect("herdr starts"));
        let is_ready = || self.try_ask("ping", &json!({}));
        assert!(wait_for(LIMIT, is_ready).is_some(), "herdr does not answer");
    }

    /// Stops the server and starts it again.
    ///
    /// # Panics
    /// When it does not end, or does not come up.
    pub fn restart(&mut self) {
        self.stop();
        self.serve();
    }

    fn stop(&mut self) {
        self.try_ask("server.stop", &json!({}));
        let Some(mut server) = self.server.take() else { return };
        if wait_for(LIMIT, || server.try_wait().ok().flatten()).is_none() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    fn try_ask(&self, method: &str, params: &Value) -> Option<Value> {
        let mut stream = UnixStream::connect(self.socket()).ok()?;
        let request = json!({ "id": "test", "method": method, "params": params });
        writeln!(stream, "{request}").ok()?;
        read_line(&stream)
    }

    /// What it answers to a caller outside.
    ///
    /// # Panics
    /// When that is an error.
    pub fn ask(&self, method: &str, params: &Value) -> Value {
        let reply = self.try_ask(method, params).expect("herdr answers");
        assert!(reply["error"].is_null(), "{method}: {reply}");
        reply["result"].clone()
    }

    /// `herdr ARGUMENTS`.
    pub fn cli(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command();
        command.args(arguments);
        finish(command)
    }

    /// A new pane with a shell in it.
    ///
    /// # Panics
    /// When herdr makes none.
    pub fn shell_pane(&self) -> String {
        let cwd = self.host.workspace();
        let made = self.ask("workspace.create", &json!({ "cwd": cwd, "label": "shell" }));
        made["root_pane"]["pane_id"].as_str().expect("a pane").to_owned()
    }

    /// Types into a pane's shell, as a person would, what runs `command` there, with
    /// the pane's environment.
    ///
    /// # Panics
    /// When herdr does not take it.
    pub fn type_into(&self, pane: &str, command: &Command) {
        let quoted = |word: &std::ffi::OsStr| {
            format!("'{}'", word.to_str().expect("text").replace('\'', "'\\''"))
        };
        let words: Vec<String> =
            std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
        let script = format!("#!/bin/sh\nexec {}\n", words.join(" "));
        let script = self.host.script("herdr/typed", &script);
        let run = self.cli(&["pane", "run", pane, script.to_str().expect("text")]);
        assert_eq!(run.code(), Some(0), "{run:?}");
    }

    /// What a pane shows.
    pub fn screen(&self, pane: &str) -> String {
        self.cli(&["pane", "read", pane, "--source", "visible"]).stdout
    }

    /// What `herdr pane get` tells of a pane.
    ///
    /// # Panics
    /// When it tells nothing.
    pub fn look(&self, pane: &str) -> Value {
        let got = self.cli(&["pane", "get", pane]);
        let reply: Value = serde_json::from_str(&got.stdout)
            .unwrap_or_else(|_| panic!("herdr pane get {pane}: {got:?}"));
        reply["result"]["pane"].clone()
    }
}

/// The program that draws it; ended when dropped.
pub struct Screen(Child);

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for RealHerdr<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
