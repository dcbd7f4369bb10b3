//! A resolved policy as plain facts: what nono makes of a profile, in a form
//! that can be compared and hashed.
//!
//! nono shows two views of a profile (0.81): the manifest has what the groups
//! and base profiles come to, the profile has settings that the manifest leaves
//! out. What neither shows (hooks, variables, ports to connect to) is taken from
//! the text itself. Names are the sources' own, joined by dots.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{Agent, AgentFile, Half, HomeOf};
use crate::files::sha256;
use crate::launch::program_tree;

/// Each kind of fact with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Facts(BTreeMap<String, BTreeSet<String>>);

/// In the profile, and better told by the manifest: with groups and base
/// profiles worked in. What excludes a group is told by those included.
const IN_MANIFEST: [&str; 5] = [
    "groups.exclude",
    "network.allow_domain",
    "network.block",
    "network.open_port",
    "network.listen_port",
];

/// Paths in the profile, which the manifest has as grants: what each means, and
/// whether it is of a file alone. In both, so that a path with a variable in it
/// is not taken for the one that it happens to stand for.
const PATHS: [(&str, &[&str], bool); 7] = [
    ("filesystem.allow", &["reads", "writes"], false),
    ("filesystem.allow_file", &["reads", "writes"], true),
    ("filesystem.deny", &["deny"], false),
    ("filesystem.read", &["reads"], false),
    ("filesystem.read_file", &["reads"], true),
    ("filesystem.write", &["writes"], false),
    ("filesystem.write_file", &["writes"], true),
];

/// Words for a reader.
const NO_FACT: [&str; 3] = ["$schema", "description", "name"];

/// So that one word with a space is not two.
fn words(argv: &[String]) -> String {
    serde_json::to_string(argv).unwrap_or_default()
}

/// What an agent may be started as, by the names that these have in its file.
fn halves(file: &AgentFile) -> impl Iterator<Item = (&'static str, &Half)> {
    let pair = file.pair.iter().flat_map(|p| [("server", &p.server), ("client", &p.client)]);
    pair.chain(file.solo.as_ref().map(|solo| ("solo", solo)))
}

/// nono shows its own directory in `/proc` where a policy says `/proc/self`. The
/// number of another process is what it is.
fn of_any_process(path: &str, nono: u32) -> String {
    match path.strip_prefix(&format!("/proc/{nono}")) {
        Some(below) if below.is_empty() || below.starts_with('/') => format!("/proc/self{below}"),
        _ => path.to_owned(),
    }
}

impl Facts {
    /// Of what nono shows of a profile, and the profile's own text. `nono` is the
    /// number of the process that showed the manifest.
    ///
    /// # Errors
    /// What is not of the expected form.
    pub(super) fn of_policy(
        manifest: &[u8],
        nono: u32,
        profile: &[u8],
        text: &str,
    ) -> Result<Self, String> {
        let read = |what: &str, bytes: &[u8]| -> Result<Value, String> {
            serde_json::from_slice(bytes)
                .ok()
                .filter(Value::is_object)
                .ok_or_else(|| format!("what it shows as {what} is not a JSON object"))
        };
        let mut facts = Self::default();
        facts.add_manifest(read("the manifest", manifest)?, nono)?;
        facts.add_profile(read("the profile", profile)?);
        facts.add_profile(read("its text", text.as_bytes())?);
        Ok(facts)
    }

    /// Of an agent file: what of it is policy, and what is granted with `program`.
    /// What a shipped one starts and sets is pinned with the file.
    pub(super) fn of_adapter(agent: &Agent, program: &Path) -> Self {
        let mut facts = Self::default();
        let file = &agent.file;
        for host in &file.hosts {
            facts.add("agent.hosts", host);
        }
        for host in file.login.iter().flat_map(|login| &login.hosts) {
            facts.add("agent.login.hosts", host);
        }
        for path in &file.read {
            facts.add("reads", path);
        }
        for (half, settings) in halves(file) {
            for name in &settings.pass {
                facts.add(&format!("agent.{half}.pass"), name);
            }
            for name in &settings.drop {
                facts.add("agent.drop", format!("{name} ({half})"));
            }
        }
        if let Some(tree) = program_tree(program) {
            facts.add("reads", tree.to_string_lossy());
        }
        if agent.source.is_some() {
            if let Some(pair) = &file.pair {
                facts.add("agent.link", pair.link.kind.name());
                if let Some(at) = &pair.link.at {
                    facts.add("agent.link.at", at);
                }
            }
            facts.add("agent.program.names", words(&file.program.names));
            facts.add("agent.program.native", words(&file.program.native));
            for directory in &file.sockets {
                facts.add("agent.sockets", directory);
            }
            for rule in &file.gate {
                facts.add("agent.gate", serde_json::to_string(rule).unwrap_or_default());
            }
            for (half, settings) in halves(file) {
                facts.add_half(half, settings);
            }
            if let Some(login) = &file.login {
                facts.add_arguments("login", &login.argv, &login.when);
                facts.add_set("login", &login.set);
            }
        }
        facts
    }

    fn add_half(&mut self, half: &str, settings: &Half) {
        self.add_arguments(half, &settings.argv, &settings.when);
        if let Some(argv) = &settings.resume {
            self.add(&format!("agent.{half}.resume"), words(argv));
        }
        self.add_set(half, &settings.set);
        for directory in &settings.directories {
            self.add(&format!("agent.{half}.directories"), directory.to_string_lossy());
        }
        for seed in &settings.seed {
            let seed = [seed.path.to_string_lossy().into_owned(), seed.text.clone()];
            self.add(&format!("agent.{half}.seed"), words(&seed));
        }
        if !settings.instead_for.is_empty() {
            self.add(&format!("agent.{half}.instead-for"), words(&settings.instead_for));
        }
        if let Some(HomeOf::Server) = settings.home {
            self.add(&format!("agent.{half}.home"), "server");
        }
        if let Some(name) = &settings.password_variable {
            self.add(&format!("agent.{half}.password-variable"), name);
        }
    }

    fn add_arguments(&mut self, part: &str, argv: &[String], when: &BTreeMap<String, Vec<String>>) {
        self.add(&format!("agent.{part}.argv"), words(argv));
        for (word, argv) in when {
            self.add(&format!("agent.{part}.when.{word}"), words(argv));
        }
    }

    fn add_set(&mut self, part: &str, set: &BTreeMap<String, String>) {
        for (name, value) in set {
            self.add(&format!("agent.{part}.set"), format!("{name}={value}"));
        }
    }

    /// The hash of all of them.
    pub(crate) fn hash(&self) -> String {
        // A map of sorted strings cannot fail to be written.
        sha256(&serde_json::to_vec(&self.0).unwrap_or_default())
    }

    /// All kinds that are in one or the other.
    pub(super) fn kinds<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        self.0.keys().chain(other.0.keys()).map(String::as_str).collect()
    }

    /// The values of one kind.
    pub(super) fn of(&self, kind: &str) -> impl Iterator<Item = &str> {
        self.0.get(kind).into_iter().flatten().map(String::as_str)
    }

    /// Whether that value of that kind is there.
    pub(super) fn has(&self, kind: &str, value: &str) -> bool {
        self.0.get(kind).is_some_and(|values| values.contains(value))
    }

    pub(super) fn add(&mut self, kind: &str, value: impl Into<String>) {
        self.0.entry(kind.to_owned()).or_default().insert(value.into());
    }

    fn add_manifest(&mut self, mut manifest: Value, nono: u32) -> Result<(), String> {
        let filesystem = manifest.get_mut("filesystem").map(Value::take).unwrap_or_default();
        let Value::Object(filesystem) = filesystem else {
            return Err("the manifest that it shows has no file system".into());
        };
        for (key, value) in filesystem {
            match (key.as_str(), &value) {
                ("grants", Value::Array(grants)) => {
                    for grant in grants {
                        self.add_grant(grant, nono);
                    }
                }
                ("deny", Value::Array(paths)) => {
                    for path in paths {
                        let plain = path.get("path").and_then(Value::as_str);
                        self.add("deny", plain.map_or_else(|| path.to_string(), str::to_owned));
                    }
                }
                _ => self.add_leaves(&format!("manifest.filesystem.{key}"), &value),
            }
        }
        if let Value::Object(rest) = manifest {
            for (key, value) in rest.iter().filter(|(key, _)| !NO_FACT.contains(&key.as_str())) {
                self.add_leaves(&format!("manifest.{key}"), value);
            }
        }
        Ok(())
    }

    fn add_grant(&mut self, grant: &Value, nono: u32) {
        let field = |name| grant.get(name).and_then(Value::as_str);
        let known = grant.as_object().is_some_and(|fields| fields.len() == 3);
        let path = match (field("path").map(|path| of_any_process(path, nono)), field("type")) {
            (Some(path), Some("directory")) => path,
            (Some(path), Some("file")) => format!("the file {path}"),
            _ => return self.add("manifest.filesystem.grants", grant.to_string()),
        };
        let kinds: &[&str] = match field("access") {
            Some("read") if known => &["reads"],
            Some("write") if known => &["writes"],
            Some("readwrite") if known => &["reads", "writes"],
            _ => return self.add("manifest.filesystem.grants", grant.to_string()),
        };
        for kind in kinds {
            self.add(kind, path.clone());
        }
    }

    fn add_profile(&mut self, profile: Value) {
        let Value::Object(fields) = profile else { return };
        for (key, value) in fields {
            if !NO_FACT.contains(&key.as_str()) && key != "meta" {
                self.add_leaves(&key, &value);
            }
        }
    }

    /// Every plain value below `value`, by its way there. What is in a list has
    /// no order.
    fn add_leaves(&mut self, kind: &str, value: &Value) {
        match value {
            _ if IN_MANIFEST.contains(&kind) => {}
            Value::Null => {}
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.add_leaves(&format!("{kind}.{key}"), value);
                }
            }
            // No list lets every variable through, an empty one none.
            Value::Array(items) if items.is_empty() && kind == "environment.allow_vars" => {
                self.add(kind, "none");
            }
            Value::Array(items) => {
                for item in items {
                    self.add_item(kind, item);
                }
            }
            plain => self.add_item(kind, plain),
        }
    }

    fn add_item(&mut self, kind: &str, item: &Value) {
        let text = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
        match PATHS.iter().find(|(name, ..)| *name == kind) {
            Some((_, kinds, is_file)) => {
                let text = if *is_file { format!("the file {text}") } else { text };
                for kind in *kinds {
                    self.add(kind, text.clone());
                }
            }
            None => self.add(kind, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"{ "$schema": "x", "version": "0.1.0",
        "filesystem": {
            "grants": [
                { "access": "read", "path": "/usr", "type": "directory" },
                { "access": "readwrite", "path": "/dev/null", "type": "file" },
                { "access": "execute", "path": "/x", "type": "directory" },
                { "access": "read", "path": "/x", "type": "directory", "unless": "late" }
            ],
            "deny": [{ "path": "~/.ssh" }], "new": 1
        },
        "network": { "mode": "blocked" } }"#;
    const PROFILE: &str = r#"{ "name": "n", "description": "d", "extends": null,
        "filesystem": { "read": ["/usr", "$WORKDIR/x"], "allow_file": ["/dev/null"], "unix_socket": [] },
        "network": { "block": true, "allow_domain": [] }, "linux": { "af_unix_mediation": "pathname" } }"#;

    fn all(facts: &Facts) -> Vec<(String, String)> {
        let pairs = facts.0.iter().flat_map(|(k, v)| v.iter().map(|v| (k.clone(), v.clone())));
        pairs.collect()
    }

    #[test]
    fn both_views_and_the_text_come_together() {
        let text = r#"{ "meta": { "name": "other" }, "filesystem": { "read": ["/usr", "$WORKDIR/x"] },
            "environment": { "set_vars": { "A": "b" } } }"#;
        let facts = Facts::of_policy(MANIFEST.as_bytes(), 7, PROFILE.as_bytes(), text).unwrap();
        let wanted = [
            ("deny", "~/.ssh"),
            ("environment.set_vars.A", "b"),
            ("linux.af_unix_mediation", "pathname"),
            (
                "manifest.filesystem.grants",
                r#"{"access":"execute","path":"/x","type":"directory"}"#,
            ),
            (
                "manifest.filesystem.grants",
                r#"{"access":"read","path":"/x","type":"directory","unless":"late"}"#,
            ),
            ("manifest.filesystem.new", "1"),
            ("manifest.network.mode", "blocked"),
            ("manifest.version", "0.1.0"),
            ("reads", "$WORKDIR/x"),
            ("reads", "/usr"),
            ("reads", "the file /dev/null"),
            ("writes", "the file /dev/null"),
        ];
        assert_eq!(all(&facts), wanted.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    #[test]
    fn words_for_readers_do_not_count() {
        let of = |text: &str| {
            Facts::of_policy(MANIFEST.as_bytes(), 7, PROFILE.as_bytes(), text).unwrap().hash()
        };
        assert_eq!(of("{}"), of(r#"{ "meta": { "name": "a", "description": "b" } }"#));
        assert_ne!(of("{}"), of(r#"{ "workdir": { "access": "read" } }"#));
    }

    #[test]
    fn an_empty_list_of_variables_is_not_none() {
        let of = |text: &str| Facts::of_policy(MANIFEST.as_bytes(), 7, b"{}", text).unwrap();
        let empty = of(r#"{ "environment": { "allow_vars": [] } }"#);
        assert_ne!(empty, of("{}"), "all pass without a list");
    }

    #[test]
    fn nonos_own_process_is_any_process_and_no_other_is() {
        for (path, wanted) in [
            ("/proc/1138", "/proc/self"),
            ("/proc/1138/fd", "/proc/self/fd"),
            ("/proc/11386", "/proc/11386"),
            ("/proc/1", "/proc/1"),
            ("/proc/1/root", "/proc/1/root"),
            ("/proc/self", "/proc/self"),
            ("/proc", "/proc"),
            ("/usr", "/usr"),
        ] {
            assert_eq!(of_any_process(path, 1138), wanted);
        }
    }

    #[test]
    fn what_is_not_of_the_form_is_refused() {
        for (manifest, profile) in
            [("", PROFILE), ("[]", PROFILE), ("{}", PROFILE), (MANIFEST, ""), (MANIFEST, "1")]
        {
            let made = Facts::of_policy(manifest.as_bytes(), 7, profile.as_bytes(), "{}");
            assert!(made.is_err(), "{manifest} {profile}");
        }
    }
}
