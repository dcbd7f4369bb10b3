//! A host of a test's own: a home, a workspace, a runtime directory, and the
//! real program run in them as the real user.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The longest that any one run may take before the test fails.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Every tier, strongest first.
pub const TIERS: [&str; 3] = ["sealed", "isolated", "ported"];

/// Directories of a test's own; gone with it.
pub struct Host {
    root: TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl Host {
    /// A new one, with an empty workspace.
    ///
    /// # Panics
    /// As root: root may do what a sandbox must refuse, so its results say
    /// nothing. `scripts/test.sh` runs the tests as a plain user.
    pub fn new() -> Self {
        assert!(!rustix::process::geteuid().is_root(), "run the tests with scripts/test.sh");
        // Below the user's home, as real ones are, and not below /tmp, which
        // the veil replaces.
        let base = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
        let root = tempfile::Builder::new().prefix("pt-").tempdir_in(base).expect("a home");
        for directory in ["home", "ws", "r"] {
            std::fs::create_dir(root.path().join(directory)).expect("a directory");
        }
        Self { root, variables: Vec::new() }
    }

    /// The person's home.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The workspace.
    pub fn workspace(&self) -> PathBuf {
        self.root.path().join("ws")
    }

    /// Where sockets of launches go.
    pub fn runtime(&self) -> PathBuf {
        self.root.path().join("r")
    }

    /// Where records and ledgers of launches go.
    pub fn launches(&self) -> PathBuf {
        self.home().join(".local/state/paddock/launches")
    }

    /// An agent's private home.
    pub fn agent_home(&self, agent: &str, half: &str) -> PathBuf {
        self.home().join(".local/share/paddock/homes").join(agent).join(half)
    }

    /// Writes the configuration.
    pub fn configure(&self, text: &str) -> &Self {
        self.write(".config/paddock/config.toml", text);
        self
    }

    /// Writes a file below home.
    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.home().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Writes an executable script below home.
    pub fn script(&self, path: &str, text: &str) -> PathBuf {
        let path = self.write(path, text);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a mode");
        path
    }

    /// Sets a variable for every program run here.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Self {
        self.variables.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// The program, ready to be given arguments, in an environment of nothing
    /// but this host.
    pub fn paddock(&self) -> Command {
        let mut command = Command::new(paddock());
        self.dress(&mut command);
        command
    }

    /// Gives `command` this host's environment.
    pub fn dress(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", self.home())
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TERM", "xterm-256color")
            .env("USER", "tester")
            .env("PADDOCK_NONO", nono())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.workspace())
            .stdin(Stdio::null());
    }

    /// `paddock ARGUMENTS`, to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Finished {
        let mut command = self.paddock();
        command.args(arguments);
        finish(command)
    }

    /// `paddock run standin` with shell commands for its server.
    pub fn standin(&self, commands: &[&str]) -> Finished {
        let mut command = self.standin_command(commands);
        command.stdin(Stdio::null());
        finish(command)
    }

    /// The same, not started yet.
    pub fn standin_command(&self, commands: &[&str]) -> Command {
        self.agent_command("standin", &[], commands)
    }

    /// The same in another tier, to its end.
    pub fn standin_in(&self, tier: &str, commands: &[&str]) -> Finished {
        finish(self.agent_command("standin", &["--tier", tier], commands))
    }

    /// `paddock run AGENT OPTIONS` with shell commands for a server that is
    /// like the stand-in's; not started yet.
    pub fn agent_command(&self, agent: &str, options: &[&str], commands: &[&str]) -> Command {
        let mut command = self.paddock();
        command.args(["run", agent, "--workspace"]).arg(self.workspace());
        command.args(options).arg("--");
        for one in commands {
            command.args(["-c", one]);
        }
        command
    }

    /// Runs `command` as on a host without user namespaces: in one in which none
    /// can be made. `None` where that is not to be had.
    pub fn run_without_user_namespaces(&self, command: &Command) -> Option<Finished> {
        let within = |command: &Command| {
            let mut outer = Command::new("bwrap");
            outer.args(["--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]);
            outer.arg(command.get_program()).args(command.get_args());
            outer
        };
        if !within(&Command::new("true")).status().is_ok_and(|status| status.success()) {
            skip("bubblewrap cannot switch user namespaces off here");
            return None;
        }
        let mut command = within(command);
        self.dress(&mut command);
        Some(finish(command))
    }

    /// Makes an agent of the person's own, with the stand-in's policies.
    pub fn add_agent(&self, name: &str, agent_file: &str) -> &Self {
        let directory = format!(".config/paddock/agents/{name}");
        for (file, text) in [
            ("agent.toml", agent_file),
            ("server.json", include_str!("../../profiles/standin/server.json")),
            ("client.json", include_str!("../../profiles/standin/client.json")),
        ] {
            self.write(&format!("{directory}/{file}"), text);
        }
        self
    }

    /// Makes an agent of one process, with the stand-in's server's policy.
    pub fn add_solo_agent(&self, name: &str, argv: &str) -> &Self {
        let text = format!(
            "name = \"{name}\"\ntitle = \"an agent of one process\"\n\
             program.names = [\"{{paddock}}\"]\n[solo]\nargv = [{argv}]\n"
        );
        let directory = format!(".config/paddock/agents/{name}");
        self.write(&format!("{directory}/agent.toml"), &text);
        let policy = include_str!("../../profiles/standin/server.json");
        self.write(&format!("{directory}/server.json"), policy);
        self
    }

    /// Starts `command` and waits until its launch is running.
    pub fn start(&self, mut command: Command) -> Launch<'_> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.start_as_it_is(command)
    }

    /// The same, with the standard descriptors that `command` has: those of a
    /// terminal, say.
    ///
    /// # Panics
    /// When the launch ends before, or does not come up.
    pub fn start_as_it_is(&self, mut command: Command) -> Launch<'_> {
        let before = self.records().len();
        let child = command.spawn().expect("paddock starts");
        let mut launch = Launch { host: self, child: Some(child), id: String::new() };
        let found = wait_for(LIMIT, || {
            let has_ended = launch.has_ended();
            let records = self.records();
            let mut new = records.iter().skip(before);
            let running = new.find(|record| record["phase"] == "running").cloned();
            (running.is_some() || has_ended).then_some(running)
        });
        match found.flatten() {
            Some(record) => {
                record["launch"].as_str().unwrap_or_default().clone_into(&mut launch.id);
            }
            None => panic!(
                "the launch did not come up: {:?}\n{:#?}",
                launch.end(),
                self.records().get(before..)
            ),
        }
        launch
    }

    /// `paddock verify --json` of one launch: exit status and report.
    pub fn verify(&self, id: &str) -> (Option<i32>, Value) {
        let finished = self.run(&["verify", "--json", id]);
        let value: Value = serde_json::from_str(&finished.stdout).unwrap_or_default();
        (finished.code(), value["launches"][0].clone())
    }

    /// All records, oldest first.
    pub fn records(&self) -> Vec<Value> {
        let mut records: Vec<Value> = std::fs::read_dir(self.launches())
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| std::fs::read(entry.path().join("record.json")).ok())
            .filter_map(|text| serde_json::from_slice(&text).ok())
            .collect();
        records.sort_by_key(|record: &Value| record["started"].as_u64());
        records
    }

    /// The ledger of the newest launch.
    pub fn ledger(&self) -> Vec<Value> {
        let records = self.records();
        let Some(id) = records.last().and_then(|record| record["launch"].as_str()) else {
            return Vec::new();
        };
        let text = std::fs::read_to_string(self.launches().join(id).join("ledger.jsonl"));
        text.unwrap_or_default()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Fails unless nothing of any launch is left: no process that has a path
    /// of this host in its arguments or environment, no socket, no temporary
    /// file, no copy of nono.
    ///
    /// # Panics
    /// With what is left.
    pub fn assert_nothing_left(&self) {
        let left = wait_for(Duration::from_secs(5), || self.processes().is_empty().then_some(()));
        assert!(left.is_some(), "processes left: {:?}", self.processes());
        let sockets: Vec<_> = list(&self.runtime().join("paddock"));
        assert!(sockets.is_empty(), "left in the runtime directory: {sockets:?}");
        for record in self.records() {
            let id = record["launch"].as_str().unwrap_or_default().to_owned();
            let mut names = list(&self.launches().join(id));
            let kept = [
                "layers.log",
                "ledger.jsonl",
                "ledger-more.jsonl",
                "ledger-more.1.jsonl",
                "lock",
                "record.json",
            ];
            names.retain(|name| !kept.contains(&name.as_str()));
            assert!(names.is_empty(), "left in the launch's state: {names:?}");
        }
    }

    /// Living processes that belong to this host: they name its directories in
    /// their arguments or (where readable) their environment.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let marks = [self.root.path().to_owned()];
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
                continue;
            };
            if pid == std::process::id().cast_signed() {
                continue;
            }
            let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            let (arguments, environment) = (read("cmdline"), read("environ"));
            let names_us = |bytes: &[u8]| {
                marks.iter().any(|mark| {
                    let mark = mark.as_os_str().as_encoded_bytes();
                    bytes.windows(mark.len()).any(|window| window == mark)
                })
            };
            if names_us(&arguments) || names_us(&environment) {
                found.push((pid, String::from_utf8_lossy(&arguments).replace('\0', " ")));
            }
        }
        found
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

/// A launch under way; ended when dropped.
pub struct Launch<'a> {
    host: &'a Host,
    child: Option<Child>,
    /// Its id.
    pub id: String,
}

impl Launch<'_> {
    /// The keeper's process id.
    ///
    /// # Panics
    /// When it has been waited for.
    pub fn keeper(&self) -> i32 {
        self.child.as_ref().expect("a keeper").id().cast_signed()
    }

    /// `paddock verify --json` of this launch: exit status and report.
    pub fn verify(&self) -> (Option<i32>, Value) {
        self.host.verify(&self.id)
    }

    /// The process that plays a part, as `verify` tells; waited for.
    ///
    /// # Panics
    /// When there is none.
    pub fn process(&self, role: &str, layer: Option<&str>) -> i32 {
        let mut report = Value::Null;
        let found = wait_for(LIMIT, || {
            report = self.verify().1;
            let task = report["tasks"].as_array()?.iter().find(|task| {
                task["role"] == role && layer.is_none_or(|layer| task["layer"] == layer)
            })?;
            i32::try_from(task["pid"].as_i64()?).ok()
        });
        found.unwrap_or_else(|| panic!("no {role} in layer {layer:?}: {report:#}"))
    }

    /// The first process of the agent's client.
    pub fn client(&self) -> i32 {
        self.process("agent", Some("client"))
    }

    /// Whether the keeper has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| matches!(child.try_wait(), Ok(Some(_))))
    }

    /// Waits for its end.
    pub fn end(mut self) -> Finished {
        collect(self.child.take().expect("a child"))
    }

    /// Ends it by SIGTERM to the keeper, and waits.
    pub fn terminate(mut self) -> Finished {
        let child = self.child.take().expect("a child");
        send(child.id().cast_signed(), rustix::process::Signal::TERM);
        collect(child)
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            send(child.id().cast_signed(), rustix::process::Signal::TERM);
            drop(collect(child));
        }
    }
}

/// Signals one process that the test itself started, or that `verify` named.
pub fn send(pid: i32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// A program that ran to its end.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output, as text.
    pub stdout: String,
    /// Its standard error, as text.
    pub stderr: String,
}

impl Finished {
    /// Its exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs `command` to its end, within [`LIMIT`].
///
/// # Panics
/// When it takes longer.
pub fn finish(mut command: Command) -> Finished {
    collect(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
}

fn collect(mut child: Child) -> Finished {
    // Both pipes are read at once: either may fill.
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.read_to_end(&mut text);
            }
            text
        })
    };
    let stdout = reader(child.stdout.take().map(|s| Box::new(s) as _));
    let stderr = reader(child.stderr.take().map(|s| Box::new(s) as _));
    let status = wait_for(LIMIT, || child.try_wait().ok().flatten());
    let Some(status) = status else {
        let _ = child.kill();
        let _ = child.wait();
        panic!("it took longer than {LIMIT:?}");
    };
    // A process that it left behind may hold them open for as long as it likes.
    let read = wait_for(LIMIT, || (stdout.is_finished() && stderr.is_finished()).then_some(()));
    assert!(read.is_some(), "it ended ({status}), but something still has its output open");
    let stdout = stdout.join().unwrap_or_default();
    let stderr = stderr.join().unwrap_or_default();
    Output { status, stdout, stderr }.into()
}

/// Polls until `look` finds something, at most for `limit`.
pub fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program under test.
///
/// # Panics
/// When it has not been built.
pub fn paddock() -> PathBuf {
    let path = std::env::var_os("PADDOCK_TEST_BIN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/paddock"),
        PathBuf::from,
    );
    path.canonicalize().expect("paddock is built; scripts/test.sh builds it")
}

/// The stand-in's agent file, of an agent of one's own.
#[must_use]
pub fn standin_file(name: &str) -> String {
    let shipped = include_str!("../../profiles/standin/agent.toml");
    shipped.replace("name = \"standin\"", &format!("name = \"{name}\""))
}

/// The same, meeting at a port instead of a socket.
#[must_use]
pub fn standin_over_a_port(name: &str) -> String {
    standin_file(name)
        .replace("kind = \"unix\"", "kind = \"tcp\"")
        .replace("unix:{link}", "tcp:127.0.0.1:{port}")
}

/// What it runs inside each sandbox.
#[must_use]
pub fn warden() -> PathBuf {
    paddock().with_file_name("paddock-warden")
}

/// The program that tries what a sandbox has to refuse.
///
/// # Panics
/// When it has not been built.
pub fn probe() -> PathBuf {
    let path = paddock().with_file_name("paddock-probe");
    assert!(path.is_file(), "paddock-probe is built; scripts/test.sh builds it");
    path
}

/// The real nono.
///
/// # Panics
/// When set-up has not installed it.
pub fn nono() -> PathBuf {
    let named = std::env::var_os("PADDOCK_NONO").map(PathBuf::from);
    let cached = || {
        let home = PathBuf::from(std::env::var_os("HOME")?);
        Some(home.join(".cache/paddock/nono-0.81.0/bin/nono"))
    };
    named.or_else(cached).filter(|path| path.is_file()).expect("nono; scripts/setup.sh installs it")
}

/// Says why a test cannot run here. Where everything has to run
/// (`PADDOCK_TEST_STRICT`) that is a failure.
///
/// # Panics
/// When skips are failures.
pub fn skip(reason: &str) {
    assert!(
        std::env::var_os("PADDOCK_TEST_STRICT").is_none(),
        "this must not be skipped: {reason}"
    );
    println!("SKIPPED: {reason}");
}

fn list(directory: &Path) -> Vec<String> {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
