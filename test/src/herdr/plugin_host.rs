//! A herdr that is made up and has Paddock as its plugin: it opens panes by the
//! manifest and runs what is in them, starts actions, tells of events, and forgets
//! what ran when it is started again. Nothing of herdr is in it but its shapes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::pane::{Pane, Program};
use super::schema::Schema;
use super::{read_line, serve_at};
use crate::host::{Finished, Host, LIMIT, finish, paddock, wait_for, warden};

const MANIFEST: &str = include_str!("../../../herdr-plugin.toml");
const LAUNCHER: &str = include_str!("../../../scripts/paddock.sh");

/// What it does with requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Answers them.
    #[default]
    Answer,
    /// Takes them and says nothing.
    Hang,
    /// Says something that is no answer.
    Garble,
}

/// The stand-in.
pub struct PluginHost {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) socket: PathBuf,
    root: PathBuf,
    state_directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
    pub(super) manifest: toml::Table,
    pub(super) schema: Schema,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) received: Vec<Value>,
    /// What was wrong with requests, or with its own replies.
    pub(super) faults: Vec<String>,
    pub(super) panes: BTreeMap<String, Arc<Pane>>,
    pub(super) titles: BTreeMap<String, String>,
    pub(super) numbers: u32,
    pub(super) focused: Option<String>,
    /// The one popup, which is no pane.
    pub(super) popup: Option<Arc<Pane>>,
    pub(super) shows_notifications: bool,
    pub(super) cuts_panes_short: bool,
    pub(super) manner: Manner,
    /// How often a method of a pane is refused yet.
    pub(super) refusals: BTreeMap<(String, String), u32>,
    /// Ids that panes had before they were moved.
    pub(super) aliases: BTreeMap<String, String>,
    pub(super) worktree: Option<Value>,
    handled: Vec<(String, Finished)>,
}

impl PluginHost {
    /// Starts one in the home of `host`, with the plugin in a directory of its own.
    pub fn start(host: &Host) -> Self {
        let root = host.home().join("plugin root");
        std::fs::create_dir_all(root.join("bin")).expect("directories");
        std::fs::create_dir_all(root.join("scripts")).expect("directories");
        std::fs::write(root.join("herdr-plugin.toml"), MANIFEST).expect("a manifest");
        host.script("plugin root/scripts/paddock.sh", LAUNCHER);
        for program in [paddock(), warden()] {
            let name = program.file_name().expect("a name");
            symlink(&program, root.join("bin").join(name)).expect("a link");
        }
        host.script("herdr", "#!/bin/sh\necho 'config: ok'\n");
        let state_directory = host.home().join("plugin state");
        std::fs::create_dir(&state_directory).expect("a directory");
        let mut dressed = Command::new("true");
        host.dress(&mut dressed);
        let pairs = dressed.get_envs();
        let environment =
            pairs.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let shared = Arc::new(Shared {
            socket: host.home().join("h.sock"),
            root,
            state_directory,
            environment: environment.collect(),
            manifest: toml::from_str(MANIFEST).expect("TOML"),
            schema: Schema::load(),
            state: Mutex::new(State { shows_notifications: true, ..State::default() }),
        });
        let serving = shared.clone();
        serve_at(&shared.socket, move |stream| {
            let shared = serving.clone();
            std::thread::spawn(move || {
                let Some(request) = read_line(&stream) else { return };
                let manner = shared.lock().manner;
                match manner {
                    Manner::Answer => {}
                    Manner::Hang => {
                        // Until the caller gives up.
                        let _ = read_line(&stream);
                        return;
                    }
                    Manner::Garble => {
                        let _ = writeln!(&stream, "{{\"result\": 7}}");
                        return;
                    }
                }
                let reply = shared.answer(&request);
                let _ = writeln!(&stream, "{reply}");
            });
        });
        Self { shared }
    }

    /// What it does with requests from here on.
    pub fn set_manner(&self, manner: Manner) {
        self.shared.lock().manner = manner;
    }

    /// Refuses a method of that pane so often.
    pub fn refuse(&self, method: &str, pane: &str, times: u32) {
        self.shared.lock().refusals.insert((method.to_owned(), pane.to_owned()), times);
    }

    /// Whether it shows notifications. As it comes, herdr does not.
    pub fn show_notifications(&self, shows: bool) {
        self.shared.lock().shows_notifications = shows;
    }

    /// Whether the panes of the plugin end before they come to anything.
    pub fn cut_panes_short(&self, cuts: bool) {
        self.shared.lock().cuts_panes_short = cuts;
    }

    /// The focused workspace is in a group of worktrees, and has that checkout.
    pub fn set_worktree(&self, checkout: &Path) {
        self.shared.lock().worktree = Some(json!({
            "repo_key": "/k", "repo_name": "r", "repo_root": "/r", "checkout_path": checkout,
            "is_linked_worktree": true,
        }));
    }

    /// A pane with a shell, which has the focus then.
    pub fn shell_pane(&self, cwd: &Path) -> String {
        let id = self.shared.new_pane_id("w1");
        self.shared.open_shell(&id, cwd);
        self.shared.lock().focused = Some(id.clone());
        id
    }

    /// Moves the focus.
    pub fn focus(&self, pane: Option<&str>) {
        self.shared.lock().focused = pane.map(str::to_owned);
    }

    /// Moves a pane to another workspace: it gets another id, and the old one stays
    /// good.
    pub fn move_away(&self, pane: &str) -> String {
        let new = self.shared.new_pane_id("w2");
        let mut state = self.shared.lock();
        let moved = state.panes.remove(pane).expect("a pane");
        state.panes.insert(new.clone(), moved);
        state.aliases.insert(pane.to_owned(), new.clone());
        new
    }

    /// The ids of its panes.
    pub fn panes(&self) -> Vec<String> {
        self.shared.lock().panes.keys().cloned().collect()
    }

    /// A pane.
    pub fn pane(&self, id: &str) -> Option<Arc<Pane>> {
        self.shared.lock().panes.get(id).cloned()
    }

    /// What a pane's border says.
    pub fn title(&self, id: &str) -> Option<String> {
        self.shared.lock().titles.get(id).cloned()
    }

    /// The popup.
    pub fn popup(&self) -> Option<Arc<Pane>> {
        self.shared.lock().popup.clone()
    }

    /// What it got so far of that method.
    pub fn received(&self, method: &str) -> Vec<Value> {
        let state = self.shared.lock();
        state.received.iter().filter(|request| request["method"] == method).cloned().collect()
    }

    /// Closes a pane, as a person does, and tells of it.
    pub fn close(&self, id: &str) {
        let pane = self.shared.lock().panes.remove(id);
        if let Some(pane) = pane {
            pane.close();
            self.shared.tell("pane.closed", &json!({ "pane_id": id, "workspace_id": "w1" }));
        }
    }

    /// Tells of an event.
    pub fn tell(&self, event: &str, data: &Value) {
        self.shared.tell(event, data);
    }

    /// What came of events so far.
    pub fn handled(&self, event: &str) -> Vec<String> {
        let state = self.shared.lock();
        let of_event = state.handled.iter().filter(|(name, _)| name == event);
        of_event.map(|(_, finished)| format!("{finished:?}")).collect()
    }

    /// Ends everything that runs in it and starts again: panes come back as shells.
    /// Returns what came of the plugin's start.
    pub fn restart(&self) -> Finished {
        let panes = std::mem::take(&mut self.shared.lock().panes);
        for pane in panes.values() {
            pane.close();
        }
        for (id, pane) in &panes {
            self.shared.open_shell(id, &pane.cwd);
        }
        self.shared.lock().titles.clear();
        self.start_again()
    }

    /// Starts the plugin's hook as a new server does that was handed the panes as they
    /// are.
    pub fn start_again(&self) -> Finished {
        let command = self.shared.manifest["startup"][0]["command"].clone();
        let mut command = self.shared.command(&command, "startup");
        command.env("HERDR_PLUGIN_EVENT", "startup");
        finish(command)
    }

    /// Starts an action of the manifest and waits for its end.
    pub fn act(&self, action: &str) -> Acted {
        finish(self.action(action)).into()
    }

    /// The same, not started yet.
    ///
    /// # Panics
    /// When the manifest has none of that id.
    pub fn action(&self, action: &str) -> Command {
        let actions = self.shared.manifest["actions"].as_array().expect("actions");
        let found = actions.iter().find(|one| one["id"].as_str() == Some(action));
        let found = found.unwrap_or_else(|| panic!("no action {action}"));
        let mut command = self.shared.command(&found["command"], "keybinding");
        command.env("HERDR_PLUGIN_ACTION_ID", action);
        command
    }

    /// Ends every pane. Events that are under way come to their end.
    ///
    /// # Panics
    /// When a request was not one of herdr's.
    pub fn end(&self) {
        let (panes, popup) = {
            let mut state = self.shared.lock();
            (std::mem::take(&mut state.panes), state.popup.take())
        };
        panes.values().chain(&popup).for_each(|pane| pane.close());
        let faults = self.shared.lock().faults.clone();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

impl Drop for PluginHost {
    fn drop(&mut self) {
        let (panes, popup) = {
            let mut state = self.shared.lock();
            (std::mem::take(&mut state.panes), state.popup.take())
        };
        panes.values().chain(&popup).for_each(|pane| pane.close());
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new_pane_id(&self, workspace: &str) -> String {
        let mut state = self.lock();
        state.numbers += 1;
        // herdr counts with letters, too.
        format!("{workspace}:pA{}", state.numbers)
    }

    /// What was focused when something was started.
    fn context(&self, source: &str) -> Value {
        let state = self.lock();
        let mut context = json!({
            "workspace_id": "w1", "workspace_label": "api", "tab_id": "w1:t1", "tab_label": "1",
            "invocation_source": source, "correlation_id": source,
        });
        if let Some(focused) = &state.focused {
            context["focused_pane_id"] = focused.as_str().into();
            if let Some(pane) = state.panes.get(focused) {
                context["focused_pane_cwd"] = json!(pane.cwd);
                context["workspace_cwd"] = json!(pane.cwd);
            }
        }
        if let Some(worktree) = &state.worktree {
            context["worktree"] = worktree.clone();
        }
        context
    }

    fn plugin_environment(&self, source: &str) -> Vec<(OsString, OsString)> {
        let pairs: [(&str, OsString); 7] = [
            ("HERDR_SOCKET_PATH", self.socket.clone().into()),
            // As the kernel calls a program that was replaced since.
            ("HERDR_BIN_PATH", self.root.with_file_name("herdr (deleted)").into()),
            ("HERDR_ENV", "1".into()),
            ("HERDR_PLUGIN_ID", "paddock".into()),
            ("HERDR_PLUGIN_ROOT", self.root.clone().into()),
            ("HERDR_PLUGIN_STATE_DIR", self.state_directory.clone().into()),
            ("HERDR_PLUGIN_CONTEXT_JSON", self.context(source).to_string().into()),
        ];
        let own = pairs.into_iter().map(|(name, value)| (name.into(), value));
        self.environment.iter().cloned().chain(own).collect()
    }

    /// A command of the manifest: herdr before 0.8.0 starts them in whatever directory
    /// its server was started in.
    fn command(&self, command: &toml::Value, source: &str) -> Command {
        let words = words(command);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().envs(self.plugin_environment(source));
        if let Some(focused) = &self.lock().focused {
            command.env("HERDR_PANE_ID", focused);
        }
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    pub(super) fn open_shell(self: &Arc<Self>, id: &str, cwd: &Path) {
        let program = Program {
            command: vec!["sh".into()],
            cwd: cwd.to_owned(),
            environment: self.pane_environment(id),
        };
        self.start_pane(id, &program).expect("a shell");
    }

    pub(super) fn plugin_root(&self) -> PathBuf {
        self.root.clone()
    }

    fn pane_environment(&self, id: &str) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment.clone();
        environment.extend([
            ("HERDR_ENV".into(), "1".into()),
            ("HERDR_SOCKET_PATH".into(), self.socket.clone().into()),
            ("HERDR_PANE_ID".into(), id.into()),
        ]);
        environment
    }

    /// The environment of a plugin's pane: what herdr says of itself comes last.
    pub(super) fn plugin_pane_environment(
        &self,
        id: Option<&str>,
        given: &Value,
    ) -> Vec<(OsString, OsString)> {
        let given = given.as_object().into_iter().flatten();
        let given = given.map(|(name, value)| {
            (OsString::from(name), OsString::from(value.as_str().unwrap_or_default()))
        });
        let mut environment: Vec<_> = self.environment.iter().cloned().chain(given).collect();
        environment.extend(self.plugin_environment("api"));
        environment.extend(id.map(|id| ("HERDR_PANE_ID".into(), id.into())));
        environment
    }

    /// Starts the program of a pane; when it ends the pane is gone.
    pub(super) fn start_pane(
        self: &Arc<Self>,
        id: &str,
        program: &Program,
    ) -> std::io::Result<Arc<Pane>> {
        let pane = Arc::new(Pane::start(program)?);
        self.lock().panes.insert(id.to_owned(), pane.clone());
        let (shared, watched) = (self.clone(), pane.clone());
        std::thread::spawn(move || {
            while watched.has_ended().is_none() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let mut state = shared.lock();
            let at = state.panes.iter().find(|(_, pane)| Arc::ptr_eq(pane, &watched));
            let Some(id) = at.map(|(id, _)| id.clone()) else { return };
            state.panes.remove(&id);
            drop(state);
            shared.tell("pane.exited", &json!({ "pane_id": id, "workspace_id": "w1" }));
        });
        Ok(pane)
    }

    /// Starts the plugin's hooks of an event, and waits for their end.
    fn tell(&self, event: &str, data: &Value) {
        let name = event.replace('.', "_");
        let mut data = data.clone();
        data["type"] = name.as_str().into();
        let hooks = self.manifest["events"].as_array().into_iter().flatten();
        for hook in hooks.filter(|hook| hook["on"].as_str() == Some(event)) {
            let mut command = self.command(&hook["command"], "api");
            command.env("HERDR_PLUGIN_EVENT", event);
            command
                .env("HERDR_PLUGIN_EVENT_JSON", json!({ "event": name, "data": data }).to_string());
            let finished = finish(command);
            self.lock().handled.push((event.to_owned(), finished));
        }
    }
}

pub(super) fn words(command: &toml::Value) -> Vec<String> {
    let words = command.as_array().expect("a command").iter();
    words.map(|word| word.as_str().expect("a word").to_owned()).collect()
}

/// What an action printed.
#[derive(Debug)]
pub struct Acted {
    /// The JSON of its first line.
    pub result: Value,
    /// All of it.
    pub run: Finished,
}

impl From<Finished> for Acted {
    fn from(run: Finished) -> Self {
        let first = run.stdout.lines().next().unwrap_or_default();
        let json = first.strip_prefix("HERDR_SANDBOX_RESULT: ").unwrap_or_default();
        let result = serde_json::from_str(json).unwrap_or(Value::Null);
        Self { result, run }
    }
}

impl Acted {
    /// A text in the result.
    pub fn text(&self, key: &str) -> &str {
        self.result[key].as_str().unwrap_or_default()
    }

    /// Fails unless it was done.
    ///
    /// # Panics
    /// With what it printed.
    pub fn assert_done(&self) -> &Self {
        assert!(self.result["ok"] == true && self.run.code() == Some(0), "{self:#?}");
        self
    }

    /// Fails unless it failed for that reason, in words and with what to do.
    ///
    /// # Panics
    /// With what it printed.
    pub fn assert_failed(&self, kind: &str) -> &Self {
        let is_so = self.result["ok"] == false && self.result["errorKind"] == kind;
        assert!(is_so && self.run.code() == Some(125), "not {kind}: {self:#?}");
        assert!(!self.text("message").is_empty() && !self.text("next").is_empty(), "{self:#?}");
        self
    }
}

/// Waits for something, at most the limit.
///
/// # Panics
/// When it does not come.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    assert!(wait_for(LIMIT, || is_so().then_some(())).is_some(), "{what}");
}
