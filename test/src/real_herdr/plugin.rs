//! Paddock as the real herdr's plugin.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::RealHerdr;
use crate::host::{LIMIT, paddock, wait_for, warden};

const MARK: &str = "HERDR_SANDBOX_RESULT: ";

/// What an action came to, by herdr's log of it.
#[derive(Debug)]
pub struct Acted {
    /// The line for scripts.
    pub result: Value,
    /// All that herdr keeps of it.
    pub log: Value,
}

impl RealHerdr<'_> {
    /// Links the plugin: its files as they are in the repository, with the programs
    /// that are tested.
    ///
    /// # Panics
    /// When herdr does not take it.
    pub fn link_plugin(&self) -> PathBuf {
        let root = self.host.home().join("plugin root");
        let write = |file: &str, text: &str| {
            std::fs::create_dir_all(root.join(file).parent().expect("a parent")).expect("it");
            std::fs::write(root.join(file), text).expect("a file");
        };
        write("herdr-plugin.toml", include_str!("../../../herdr-plugin.toml"));
        write("scripts/paddock.sh", include_str!("../../../scripts/paddock.sh"));
        std::fs::create_dir(root.join("bin")).expect("a directory");
        for program in [paddock(), warden()] {
            let name = program.file_name().expect("a name");
            symlink(&program, root.join("bin").join(name)).expect("a link");
        }
        let linked = self.cli(&["plugin", "link", root.to_str().expect("text")]);
        assert_eq!(linked.code(), Some(0), "{linked:?}");
        let told: Value = serde_json::from_str(&linked.stdout).expect("JSON");
        let warnings = &told["result"]["plugin"]["warnings"];
        assert!(warnings.as_array().is_none_or(Vec::is_empty), "{told}");
        root
    }

    /// Invokes an action and waits for its end.
    ///
    /// # Panics
    /// When herdr does not start it, or it does not come to its end or to a result.
    pub fn act(&self, action: &str) -> Acted {
        let invoked = self.cli(&["plugin", "action", "invoke", action, "--plugin", "paddock"]);
        let told: Value = serde_json::from_str(&invoked.stdout)
            .unwrap_or_else(|_| panic!("{action}: {invoked:?}"));
        let id = &told["result"]["log"]["log_id"];
        let ended = || self.logs().into_iter().find(|log| log["log_id"] == *id && is_over(log));
        let log = wait_for(LIMIT, ended).unwrap_or_else(|| panic!("{action}: {:#?}", self.logs()));
        let first = log["stdout"].as_str().and_then(|text| text.lines().next());
        let result = first.and_then(|line| serde_json::from_str(line.strip_prefix(MARK)?).ok());
        Acted { result: result.unwrap_or_else(|| panic!("{action}: no result: {log:#}")), log }
    }

    /// What herdr keeps of the plugin's commands.
    pub fn logs(&self) -> Vec<Value> {
        let logs = self.ask("plugin.log.list", &json!({ "plugin_id": "paddock", "limit": 200 }));
        logs["logs"].as_array().cloned().unwrap_or_default()
    }

    /// The ids of all panes.
    pub fn panes(&self) -> Vec<String> {
        let list = self.ask("pane.list", &json!({}));
        let panes = list["panes"].as_array().into_iter().flatten();
        panes.filter_map(|pane| pane["pane_id"].as_str().map(str::to_owned)).collect()
    }
}

fn is_over(log: &Value) -> bool {
    log["status"] != "running"
}
