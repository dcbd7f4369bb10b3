//! Every key of an agent file, once: what is checked and documented is taken from here.

use std::ops::Range;

use toml_edit::{Item, TableLike};

use crate::launch::nearest;

/// All of them, in the order in which they are documented. `HALF` is `server`, `client`
/// or `solo`; the last word of `when` and `set` is anything, and so is a requirement.
pub(crate) const KEYS: &[&str] = &[
    "extends",
    "name",
    "title",
    "sockets",
    "hosts",
    "read",
    "processes",
    "state",
    "herdr",
    "program.names",
    "program.native",
    "program.versions",
    "link.kind",
    "link.ready",
    "link.at",
    "link.patience",
    "HALF.argv",
    "HALF.when.WORD",
    "HALF.without-git",
    "HALF.resume",
    "HALF.instead-for",
    "HALF.home",
    "HALF.password-variable",
    "HALF.directories",
    "HALF.seed.path",
    "HALF.seed.text",
    "HALF.set.VARIABLE",
    "HALF.pass",
    "HALF.drop",
    "login.argv",
    "login.when.WORD",
    "login.hosts",
    "login.set.VARIABLE",
    "import.files.from",
    "import.files.to",
    "import.files.homes",
    "import.files.runs",
    "import.never.path",
    "import.never.reason",
    "gate.requests",
    "gate.sandbox",
    "gate.program",
    "gate.from-agent",
    "versions.REQUIREMENT",
];

/// A key that is not known, and where.
pub(super) struct Unknown {
    pub(super) at: Option<Range<usize>>,
    pub(super) what: String,
}

/// Every key in `table` that is not known; `above` is the name of the table with its
/// last dot, and `place` as it is written.
pub(super) fn unknown(table: &dyn TableLike, above: &str, place: &str, found: &mut Vec<Unknown>) {
    for (name, item) in table.iter() {
        let is_half = above.is_empty() && matches!(name, "server" | "client" | "solo");
        let whole = format!("{above}{}", if is_half { "HALF" } else { name });
        let place_below = format!("{place}{name}.");
        if whole == "versions" {
            for (requirement, item) in item.as_table_like().iter().flat_map(|t| t.iter()) {
                let place = format!("{place_below}{requirement:?}.");
                each_table(item, &mut |table| unknown(table, "", &place, found));
            }
            continue;
        }
        let below = format!("{whole}.");
        let is_free = |key: &str| {
            key.strip_prefix(&below).is_some_and(|last| matches!(last, "WORD" | "VARIABLE"))
        };
        if KEYS.contains(&whole.as_str()) || KEYS.iter().any(|key| is_free(key)) {
            continue;
        }
        if KEYS.iter().any(|key| key.starts_with(&below)) {
            each_table(item, &mut |table| unknown(table, &below, &place_below, found));
            continue;
        }
        let at = table.get_key_value(name).and_then(|(key, _)| key.span());
        found.push(Unknown { at, what: told(name, above, place) });
    }
}

/// Does `act` with the table that `item` is, or with each that is in it. What is of
/// another form is told by who reads it.
fn each_table(item: &Item, act: &mut dyn FnMut(&dyn TableLike)) {
    if let Some(table) = item.as_table_like() {
        act(table);
    } else if let Some(tables) = item.as_array_of_tables() {
        tables.iter().for_each(|table| act(table));
    } else if let Some(values) = item.as_array() {
        for table in values.iter().filter_map(|value| value.as_inline_table()) {
            act(table);
        }
    }
}

/// What is said of a key that is not known.
fn told(name: &str, above: &str, place: &str) -> String {
    let mut here: Vec<&str> = Vec::new();
    for key in KEYS.iter().filter_map(|key| key.strip_prefix(above)) {
        let step = key.split('.').next().unwrap_or_default();
        let steps: &[&str] = if step == "HALF" { &["server", "client", "solo"] } else { &[step] };
        here.extend(steps.iter().filter(|step| !here.contains(step)).copied().collect::<Vec<_>>());
    }
    let table = match place.trim_end_matches('.') {
        "" => String::new(),
        table => format!(" in [{table}]"),
    };
    match nearest(name, here.iter().copied()).or_else(|| elsewhere(name)) {
        Some(meant) => format!("unknown key `{name}`{table}: did you mean `{meant}`?"),
        None => format!("unknown key `{name}`{table}; known there: {}", here.join(", ")),
    }
}

/// The whole name of a key that stands in the wrong table.
fn elsewhere(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase().replace('_', "-");
    KEYS.iter().copied().find(|key| key.rsplit('.').next() == Some(&name))
}

#[cfg(test)]
mod tests {
    use super::super::AgentFile;
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let document = toml_edit::Document::parse(text).unwrap();
        let mut found = Vec::new();
        unknown(document.as_table(), "", "", &mut found);
        found.into_iter().map(|unknown| unknown.what).collect()
    }

    #[test]
    fn every_unknown_key_is_found_and_what_was_meant() {
        let shipped = include_str!("../../../../profiles/codex/agent.toml");
        assert_eq!(of(shipped), Vec::<String>::new());
        let text = "tilte = 1\nreadonly = true\n[program]\nname = []\n[server]\nArgv = []\n\
            set = { any_thing = 1 }\nwhen = { exec = [] }\nseed = [{ path = 1, txt = 2 }]\n\
            [[gate]]\nrequest = []\n[versions.\">=2\".client]\ndirectory = []\n[solo]\npatience = 1\n";
        let found = of(text);
        let meant = |n: usize| found[n].split("mean ").nth(1).unwrap_or("-").to_owned();
        let wanted = [
            "`title`?",
            "-",
            "`names`?",
            "`argv`?",
            "`text`?",
            "`requests`?",
            "`directories`?",
            "`link.patience`?",
        ];
        assert_eq!(wanted.len(), found.len(), "{found:?}");
        for (n, wanted) in wanted.iter().enumerate() {
            assert_eq!(meant(n), *wanted, "{found:?}");
        }
        assert!(found[6].contains("in [versions.\">=2\".client]"), "{}", found[6]);
    }

    #[test]
    fn every_field_is_a_key_and_every_key_a_field() {
        // What serde says of a field that it does not know are those that it does.
        let mut fields = std::collections::BTreeSet::new();
        for (text, above) in [
            ("", ""),
            ("[program]\n", "program."),
            ("[link]\n", "link."),
            ("[server]\n", "HALF."),
            ("[client]\n", "HALF."),
            ("[solo]\n", "HALF."),
            ("[[server.seed]]\n", "HALF.seed."),
            ("[login]\n", "login."),
            ("[import]\n", "import."),
            ("[[import.files]]\n", "import.files."),
            ("[[import.never]]\n", "import.never."),
            ("[[gate]]\n", "gate."),
        ] {
            let error = toml::from_str::<AgentFile>(&format!("{text}zzz = 1")).unwrap_err();
            let expected = error.message().split_once("expected").unwrap().1;
            for field in expected.split('`').skip(1).step_by(2) {
                fields.insert(format!("{above}{field}"));
            }
        }
        for field in &fields {
            let half = field.replace("server", "HALF").replace("client", "HALF");
            let half = half.replace("solo", "HALF");
            let is_known =
                KEYS.iter().any(|key| *key == half || key.starts_with(&format!("{half}.")));
            assert!(is_known, "{field}");
        }
        for key in KEYS {
            let plain = ["WORD", "VARIABLE", "REQUIREMENT"]
                .iter()
                .find_map(|last| key.strip_suffix(last)?.strip_suffix('.'));
            assert!(fields.contains(plain.unwrap_or(key)), "{key}");
        }
    }
}
