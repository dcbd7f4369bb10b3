//! What each layer of a launch is for and lets through, in words: from the plan, which
//! is the first line of its ledger.

use std::path::Path;

use confine::escape::escape;
use serde_json::Value;

use crate::output::shown;
use crate::state::{Item, LedgerReader};

/// The plan comes among the first lines.
const MOST_LINES: usize = 50;

/// The layers, outermost first. What a launch does not have is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) layers: Vec<Layer>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// `veil`, `pen`, `server` or `client`.
    pub(super) name: &'static str,
    /// Escaped.
    pub(super) words: Vec<String>,
}

impl Policy {
    /// That of the launch whose ledger is in `directory`; reads files.
    pub(super) fn of_ledger(directory: &Path, home: &Path) -> Option<Self> {
        let mut reader = LedgerReader::below(directory);
        for _ in 0..MOST_LINES {
            match reader.next().ok()?? {
                Item::Entry(entry) if entry.event() == "start" => {
                    return Some(Self::of_plan(&Value::Object(entry.details), home));
                }
                _ => {}
            }
        }
        None
    }

    /// That of a plan, as `paddock run --dry-run --json` prints it.
    pub(super) fn of_plan(plan: &Value, home: &Path) -> Self {
        let has = |layer: &str| !plan["layers"][layer].is_null();
        let mut layers = Vec::new();
        if has("veil") {
            layers.push(Layer { name: "veil", words: veil() });
        }
        if has("pen") {
            layers.push(Layer { name: "pen", words: pen(plan) });
        }
        if has("server") {
            layers.push(Layer { name: "server", words: server(plan, has("client"), home) });
        }
        if has("client") {
            layers.push(Layer { name: "client", words: client(plan, home) });
        }
        Self { layers }
    }
}

fn veil() -> Vec<String> {
    vec![
        "files: system files, read-only, and what is granted below; nothing else is there".into(),
        "processes and sockets of the host: none".into(),
    ]
}

fn pen(plan: &Value) -> Vec<String> {
    let network = match plan["tier"].as_str() {
        Some("ported") => "network: the host's; ports of the host's loopback that are named",
        _ => "network: its own, with nothing but loopback",
    };
    let mut words = vec![network.to_owned(), "ceiling for both sandboxes in it".into()];
    if let Some(guard) = plan["ports"]["guard"].as_u64() {
        words.push(format!("way out: the guard, at its port {guard}"));
    }
    words
}

fn server(plan: &Value, has_client: bool, home: &Path) -> Vec<String> {
    let mut words = vec![];
    if let Some(workspace) = plan["workspace"].as_str() {
        words.push(format!("workspace, read and written: {}", place(workspace.as_ref(), home)));
    }
    words.extend(grants(plan, "server", home));
    let hosts: Vec<&str> =
        plan["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    words.push(if hosts.is_empty() {
        "hosts: none".into()
    } else {
        format!("hosts, by the guard: {}", listed(&hosts))
    });
    if let Some(race) = plan["unixRace"].as_str() {
        words.push(format!("sockets: {}; {}", sockets(plan), listed(&[race])));
    }
    if !has_client {
        words.push("the terminal: it has no client".into());
    }
    words
}

/// Where the server makes and reaches sockets, as the words say with which it is started.
fn sockets(plan: &Value) -> String {
    let argv: Vec<&str> = plan["layers"]["server"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let granted = argv.windows(2).filter(|pair| pair[0] == "--allow-unix-socket-subtree-bind");
    let granted: Vec<&str> = granted.map(|pair| pair[1]).collect();
    let own = if argv.contains(&"--allow-unix-socket-bind") { ", the link" } else { "" };
    if granted.is_empty() {
        let only = if own.is_empty() { " alone" } else { "" };
        return format!("the gate{only}{own}");
    }
    format!("the gate{own}, its own below {}", listed(&granted))
}

fn client(plan: &Value, home: &Path) -> Vec<String> {
    let mut words = vec!["network: none but the link to the server; the terminal".to_owned()];
    words.extend(grants(plan, "client", home));
    words
}

/// Escaped, one after the other.
fn listed(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|w| escape(w.as_bytes()).to_string()).collect();
    words.join(", ")
}

/// A path for a person, the home directory as `~`; escaped.
pub(super) fn place(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(below) if home.is_absolute() => {
            shown(&Path::new("~").join(below)).trim_end_matches('/').to_owned()
        }
        _ => shown(path),
    }
}

/// What is granted to a layer beside its workspace.
fn grants(plan: &Value, layer: &str, home: &Path) -> Vec<String> {
    let of = |access: &str| -> Vec<String> {
        plan["grants"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|grant| grant["layer"] == layer && grant["access"] == access)
            .filter_map(|grant| grant["path"].as_str())
            .filter(|path| plan["workspace"] != *path)
            .map(|path| place(path.as_ref(), home))
            .collect()
    };
    let (reads, writes) = (of("read"), of("read-write"));
    let mut words = Vec::new();
    if !writes.is_empty() {
        words.push(format!("read and written: {}", writes.join(", ")));
    }
    if !reads.is_empty() {
        words.push(format!("read: {}", reads.join(", ")));
    }
    let shared = plan["shared"].as_array().into_iter().flatten();
    let shared = shared.filter(|shared| shared["layer"] == layer);
    let shared: Vec<String> = shared
        .filter_map(|shared| shared["path"].as_str())
        .map(|path| place(path.as_ref(), home))
        .collect();
    if !shared.is_empty() {
        words.push(format!("your own, shared, read and written: {}", shared.join(", ")));
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> Value {
        json!({
            "tier": "sealed", "workspace": "/home/me/app", "unixRace": "veil: none are there",
            "layers": { "veil": ["bwrap"], "pen": ["nono"], "server": ["nono"], "client": ["nono"] },
            "grants": [
                { "layer": "server", "access": "read-write", "path": "/home/me/app" },
                { "layer": "server", "access": "read-write", "path": "/data/home" },
                { "layer": "server", "access": "read", "path": "/opt/a\u{1b}[2J" },
            ],
            "shared": [{ "layer": "server", "path": "/home/me/.codex", "at": "/data/home/.codex" }],
            "ports": { "server": 4001, "guard": 4002 }, "hosts": ["a.test", "b.test"],
        })
    }

    #[test]
    fn every_layer_has_its_policy_in_words() {
        let policy = Policy::of_plan(&plan(), Path::new("/home/me"));
        let names: Vec<&str> = policy.layers.iter().map(|layer| layer.name).collect();
        assert_eq!(names, ["veil", "pen", "server", "client"]);
        assert_eq!(
            policy.layers[2].words,
            [
                "workspace, read and written: ~/app",
                "read and written: /data/home",
                "read: /opt/a\\u{1b}[2J",
                "your own, shared, read and written: ~/.codex",
                "hosts, by the guard: a.test, b.test",
                "sockets: the gate alone; veil: none are there",
            ]
        );
        let mut plan = plan();
        let [link, below] = ["--allow-unix-socket-bind", "--allow-unix-socket-subtree-bind"];
        for (argv, wanted) in [
            (json!(["nono", link, "/l"]), "sockets: the gate, the link; veil"),
            (json!(["nono", below, "/tmp"]), "sockets: the gate, its own below /tmp; veil"),
            (
                json!(["nono", link, "/l", below, "/tmp/a", below, "/tmp"]),
                "sockets: the gate, the link, its own below /tmp/a, /tmp; veil",
            ),
        ] {
            plan["layers"]["server"] = argv;
            let policy = Policy::of_plan(&plan, Path::new("/home/me"));
            let told = policy.layers[2].words.last().unwrap();
            assert!(told.starts_with(wanted), "{told}");
        }
    }

    #[test]
    fn only_what_is_below_home_is_told_from_there() {
        for (path, home, wanted) in [
            ("/home/me/a", "/home/me", "~/a"),
            ("/home/me", "/home/me", "~"),
            ("/home/mel", "/home/me", "/home/mel"),
            ("/data/home/me", "/home/me", "/data/home/me"),
            ("/a", "", "/a"),
        ] {
            assert_eq!(place(path.as_ref(), home.as_ref()), wanted);
        }
    }

    #[test]
    fn what_a_launch_does_not_have_is_not_told() {
        let mut plan = plan();
        plan["tier"] = "ported".into();
        plan["layers"]["veil"] = Value::Null;
        plan["layers"].as_object_mut().unwrap().remove("client");
        plan["hosts"] = json!([]);
        let policy = Policy::of_plan(&plan, Path::new(""));
        let names: Vec<&str> = policy.layers.iter().map(|layer| layer.name).collect();
        assert_eq!(names, ["pen", "server"]);
        assert!(policy.layers[0].words[0].starts_with("network: the host's"));
        let server = &policy.layers[1].words;
        assert!(server.contains(&"hosts: none".to_owned()), "{server:?}");
        assert!(server.contains(&"the terminal: it has no client".to_owned()), "{server:?}");
    }
}
