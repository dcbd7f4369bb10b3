//! The reference documents say what the code does: checked against it.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Parser;
use confine::{Layer, Reason};

use crate::agent::{AGENT_KEYS, AgentFile, TEMPLATE_NAMES};
use crate::cli::{Action, Cli, Command, Entry};
use crate::doctor::{Feature, HostReport, State, feature_names, needs};
use crate::error::status;
use crate::keeper::PruneOutcome;
use crate::launch::{Config, Form, KEYS, Project, Tier};
use crate::plugin::{ErrorKind, HINT, MARK, ORDER};

const VERIFY: &str = include_str!("../../../docs/reference/verify.md");
const CONFIGURATION: &str = include_str!("../../../docs/reference/configuration.md");
const AGENTS: &str = include_str!("../../../docs/reference/agents.md");
const EXIT_STATUS: &str = include_str!("../../../docs/reference/exit-status.md");
const DOCTOR: &str = include_str!("../../../docs/reference/doctor.md");
const DOCTOR_GUIDE: &str = include_str!("../../../docs/guide/doctor.md");
const RECORDS: &str = include_str!("../../../docs/reference/records.md");
const GIT_GUIDE: &str = include_str!("../../../docs/guide/git.md");
const LOG: &str = include_str!("../../../docs/reference/log.md");
/// What `paddock log` says of each event.
const WORDS: &str = include_str!("commands/log/words.rs");
const HERDR: &str = include_str!("../../../docs/reference/herdr.md");
const MANIFEST: &str = include_str!("../../../herdr-plugin.toml");
const STATUS: &str = include_str!("../../../docs/reference/status.md");
const GATE: &str = include_str!("../../../docs/reference/gate.md");

/// The first fenced block in that language.
fn block<'a>(document: &'a str, language: &str) -> &'a str {
    let start = document.split_once(&format!("```{language}\n")).expect("a block").1;
    start.split_once("```").expect("its end").0
}

#[test]
fn every_reason_and_verdict_is_documented() {
    let layer = Layer::Pen;
    for code in [
        Reason::NoPlace.code(),
        Reason::NotInDomain(layer).code(),
        Reason::NewPrivileges.code(),
        Reason::NoSeccomp.code(),
        Reason::FewerFilters { has: 0, wants: 1 }.code(),
        Reason::OtherUser(0).code(),
        Reason::Capabilities(1).code(),
        Reason::HostNamespace("pid").code(),
        Reason::Traced(1).code(),
        Reason::OtherProgram.code(),
        Reason::Stopped.code(),
        Reason::NoTestimony(layer).code(),
        Reason::UnclearTestimony(layer).code(),
        Reason::FiltersNotCounted.code(),
        Reason::NamespacesUnreadable.code(),
        Reason::ProgramUnreadable.code(),
        Reason::Holds(String::new()).code(),
        Reason::DescriptorsUnreadable.code(),
        "confined",
        "builder",
        "unconfined",
        "unknown",
    ] {
        assert!(VERIFY.contains(&format!("`{code}`")), "{code}");
    }
    serde_json::from_str::<serde_json::Value>(block(VERIFY, "json")).unwrap();
}

#[test]
fn the_example_configuration_and_agent_file_parse() {
    let config: Config = toml::from_str(block(CONFIGURATION, "toml")).unwrap();
    assert_eq!(config.agent.as_deref(), Some("codex"));
    // In every table of the example every key is shown.
    for key in KEYS {
        let name = key.name.replace("NAME", "codex");
        assert!(config.value(&name).is_some(), "{name}");
        let last = name.rsplit('.').next().unwrap();
        assert!(block(CONFIGURATION, "toml").contains(&format!("\n{last} = ")) || last == "agent");
    }
    let agent: AgentFile = toml::from_str(block(AGENTS, "toml")).unwrap();
    assert_eq!(agent.pair.unwrap().client.when.len(), 1);
    assert!(agent.solo.is_some());
}

#[test]
fn every_key_is_documented_and_every_documented_key_is_one() {
    let table = CONFIGURATION.split_once("\n## Keys\n").unwrap().1;
    let table = table.split_once("\n## ").unwrap().0;
    let rows: Vec<[&str; 4]> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"))
        .map(|row| {
            let cells: Vec<&str> = row.split(" | ").collect();
            cells.try_into().unwrap_or_else(|cells| panic!("{cells:?}"))
        })
        .collect();
    let documented: Vec<&str> = rows.iter().map(|[name, ..]| name.trim_matches('`')).collect();
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(documented, known);
    for (key, [name, default, meaning, project]) in KEYS.iter().zip(rows) {
        let wanted = match key.default {
            "" => "none".to_owned(),
            default => format!("`{default}`"),
        };
        assert_eq!(default, wanted, "{name}");
        let wanted = match key.project {
            Project::Tighter(how) => how.to_owned(),
            Project::Refused(why) => format!("no: {why}"),
        };
        assert_eq!(project, wanted, "{name}");
        for word in key.words {
            assert!(meaning.contains(&format!("`{word}`")), "{name}: {word}");
        }
    }
}

#[test]
fn every_key_of_an_agent_file_is_documented_and_every_documented_one_is_one() {
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    let keys = AGENTS.split_once("\n## Keys of an agent file\n").unwrap().1;
    let documented = first_cells(keys, "| key |");
    assert_eq!(documented, names(AGENT_KEYS));
    let braced = TEMPLATE_NAMES.map(|name| format!("{{{name}}}"));
    assert_eq!(first_cells(AGENTS, "| template |"), braced.into_iter().collect());
    let shown = AGENTS.split_once("\n## `paddock agents`\n").unwrap().1;
    let source = include_str!("commands/agents.rs");
    for key in first_cells(shown, "| key |") {
        assert!(source.contains(&format!("\"{key}\": ")), "{key}");
    }
}

#[test]
fn the_shown_configuration_is_documented() {
    let example: serde_json::Value = serde_json::from_str(block(CONFIGURATION, "json")).unwrap();
    let source = include_str!("commands/config.rs");
    for object in [&example, &example["keys"][0], &example["hosts"][0]] {
        for key in object.as_object().unwrap().keys() {
            let is_there = source.contains(&format!("\"{key}\": "))
                || source.contains(&format!("value[\"{key}\"]"));
            assert!(is_there, "{key}");
        }
    }
    // The second example is a project's file, which only tightens what is the default.
    let project = CONFIGURATION.split_once("\n## Project file\n").unwrap().1;
    let project: Config = toml::from_str(block(project, "toml")).unwrap();
    assert_eq!(project.tier, Some(Tier::Sealed));
}

#[test]
fn the_exit_statuses_and_the_gates_version_are_the_codes() {
    for status in [status::FAILED, status::UNCONFINED, status::NOT_FOUND] {
        assert!(EXIT_STATUS.contains(&format!("| {status} |")), "{status}");
    }
    let doctor = format!("{} it cannot", status::DOCTOR_FOUND);
    assert!(EXIT_STATUS.contains(&doctor), "{doctor}");
    assert!(GATE.contains(&format!("Version {}.", warden::PROTOCOL_VERSION)));
}

#[test]
fn every_feature_is_documented_with_the_tiers_that_need_it() {
    let names = feature_names();
    assert!(names.len() > 30, "{names:?}");
    for name in &names {
        let tiers: Vec<&str> = [Tier::Ported, Tier::Isolated, Tier::Sealed]
            .into_iter()
            .filter(|tier| needs(*tier).any(|needed| needed == name))
            .map(Tier::name)
            .collect();
        let needed_by = match tiers.len() {
            0 => "-".to_owned(),
            3 => "every tier".to_owned(),
            _ => tiers.join(", "),
        };
        let name = if name.starts_with("agent-") { "agent-NAME" } else { name };
        assert!(DOCTOR.contains(&format!("| `{name}` | {needed_by} |")), "{name}: {needed_by}");
    }
    for needed in needs(Tier::Sealed) {
        assert!(names.iter().any(|name| name == needed), "{needed} is looked at");
    }
}

#[test]
fn the_report_of_the_doctor_is_documented() {
    for state in [State::Enforced, State::Partial, State::Missing, State::Unknown] {
        assert!(DOCTOR.contains(&format!("| `{state}` |")), "{state}");
    }
    let example: serde_json::Value = serde_json::from_str(block(DOCTOR, "json")).unwrap();
    assert!(example["schema"].is_u64() && example["ok"].is_boolean(), "{example}");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let report = HostReport {
        features: vec![Feature::missing("x", "y").advise("z")],
        tier: Some(Tier::Isolated),
    };
    let report = serde_json::to_value(report).unwrap();
    assert_eq!(keys(&example["host"]), keys(&report));
    assert_eq!(keys(&example["host"]["features"][0]), keys(&report["features"][0]));
    assert_eq!(example["host"]["tier"], report["tier"]);
    for name in feature_names() {
        assert!(DOCTOR_GUIDE.contains(&format!("\n{name} ")), "{name} is in the shown output");
    }
}

#[test]
fn every_event_of_the_ledger_is_documented() {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("set for tests");
    let own = Path::new(&package).join("src");
    let mut sources = vec![own.join("state/ledger.rs")];
    let mut directories = vec![own.join("keeper")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { directories.push(path) } else { sources.push(path) }
        }
    }
    let mut found = BTreeSet::new();
    for source in sources {
        let source = std::fs::read_to_string(source).unwrap();
        let squeezed: String = source.split_whitespace().collect::<Vec<_>>().join(" ");
        for call in [".add(", ".add_from_outside(", "inner.write("] {
            for rest in squeezed.split(call).skip(1) {
                if let Some(event) = rest.trim_start().strip_prefix('"') {
                    let event = event.split('"').next().unwrap_or_default();
                    assert!(WORDS.contains(&format!("\"{event}\"")), "{event} has words");
                    found.insert(event.to_owned());
                }
            }
        }
    }
    // The first column of the table that begins with the first event.
    let table = RECORDS.split_once("| `start` |").unwrap().1;
    let table = table.split_once("\n\n").unwrap().0;
    let cells = table.lines().skip(1).map(|row| row.split('|').nth(1).unwrap());
    let documented = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).chain(["start"]);
    assert_eq!(found, documented.map(str::to_owned).collect());
}

#[test]
fn what_is_obeyed_outside_is_documented() {
    use crate::obeyed::{Found, Kind, LIMIT, MOST, NOT_LOOKED_INTO, What, told};
    for kind in Kind::ALL {
        assert!(LOG.contains(&format!("`{}`", kind.name())), "{kind:?}");
    }
    for what in What::ALL {
        assert!(LOG.contains(&format!("`{}`", what.name())), "{what:?}");
    }
    for name in NOT_LOOKED_INTO {
        assert!(GIT_GUIDE.contains(&format!("`{name}`")), "{name}");
    }
    assert_eq!((LIMIT.as_secs(), MOST), (2, 300_000));
    assert!(GIT_GUIDE.contains("two seconds and 300,000 names"));
    let example = LOG.rsplit_once("```json\n").unwrap().1.split_once("```").unwrap().0;
    let example: serde_json::Value = serde_json::from_str(example).unwrap();
    assert_eq!(told(&example["obeyed"]).unwrap().len(), 1);
    let found = Found::default().as_json();
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&example["obeyed"]), keys(&found));
}

#[test]
fn every_outcome_of_a_pruning_is_documented() {
    for outcome in [
        PruneOutcome::Removed,
        PruneOutcome::TooYoung,
        PruneOutcome::Running,
        PruneOutcome::ProcessesLeft(1),
        PruneOutcome::Failed(std::io::Error::other("")),
    ] {
        assert!(RECORDS.contains(&format!("| `{}` |", outcome.name())), "{outcome:?}");
    }
}

#[test]
fn the_sums_of_hosts_are_documented() {
    let example: serde_json::Value = serde_json::from_str(block(LOG, "json")).unwrap();
    assert_eq!(example["schema"], 1);
    let source = include_str!("commands/log/hosts.rs");
    for object in [&example, &example["hosts"][0]] {
        for key in object.as_object().unwrap().keys() {
            assert!(source.contains(&format!("\"{key}\": ")), "{key}");
        }
    }
}

#[test]
fn the_plugins_actions_panes_and_events_are_in_its_manifest_and_documented() {
    let manifest: toml::Table = toml::from_str(MANIFEST).unwrap();
    let ids = |table: &str, key: &str| -> Vec<String> {
        let entries = manifest[table].as_array().unwrap().iter();
        entries.map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let actions = set(&Action::ALL.map(Action::id));
    assert_eq!(ids("actions", "id").into_iter().collect::<BTreeSet<_>>(), actions);
    assert_eq!(first_cells(HERDR, "| action |"), actions);
    for action in Action::ALL {
        let typed = Cli::try_parse_from(["paddock", "herdr", action.id()]).unwrap();
        let is_it = |command: &Command| matches!(command, Command::Herdr(herdr) if herdr.entry == Entry::Action(action));
        assert!(is_it(&typed.command), "{action:?} is typed as it is called");
    }
    let events: BTreeSet<String> = ids("events", "on").into_iter().collect();
    assert_eq!(first_cells(HERDR, "| event |"), events);
    for pane in ids("panes", "id") {
        assert!(HERDR.contains(&format!("`{pane}`")), "{pane}");
        assert!(Cli::try_parse_from(["paddock", "herdr", "pane", &pane]).is_ok(), "{pane}");
    }
    // Each entry of the manifest is one of the command line's.
    for table in ["startup", "actions", "events", "panes"] {
        for entry in manifest[table].as_array().unwrap() {
            let command = entry["command"].as_array().unwrap();
            let script = command[2].as_str().unwrap();
            let words = script.rsplit("paddock.sh\" ").next().unwrap().split(' ');
            let words = ["paddock", "herdr"].into_iter().chain(words);
            assert!(Cli::try_parse_from(words).is_ok(), "{script}");
        }
    }
    let kinds = ErrorKind::ALL.map(|kind| serde_json::to_value(kind).unwrap());
    let kinds = kinds.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    assert_eq!(first_cells(HERDR, "| `errorKind` |"), kinds);
    let least = manifest["min_herdr_version"].as_str().unwrap();
    assert!(HERDR.contains(&format!("herdr {least} or newer")), "{least}");
    for line in block(HERDR, "text").lines() {
        let example = serde_json::from_str::<serde_json::Value>(line.strip_prefix(MARK).unwrap());
        assert_eq!(example.unwrap()["schemaVersion"], 1);
    }
    assert!(HERDR.contains(&format!("`{ORDER}`")) && HERDR.contains(&format!("`{HINT}`")));
}

#[test]
fn every_key_of_an_actions_result_is_documented_and_every_documented_one_is_printed() {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("set for tests");
    let mut printed = BTreeSet::new();
    for entry in std::fs::read_dir(Path::new(&package).join("src/plugin")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap();
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
        for call in [".with(", "object.insert("] {
            for rest in source.split(call).skip(1) {
                if let Some(key) = rest.trim_start().strip_prefix('"') {
                    printed.insert(key.split('"').next().unwrap_or_default().to_owned());
                }
            }
        }
    }
    // `info` prints all that describes a launch.
    let described = include_str!("plugin/target.rs").split_once("fn described(").unwrap().1;
    let described = described.split_once("})").unwrap().0;
    let keys = described.split('"').skip(1).step_by(2);
    printed.extend(keys.map(str::to_owned));
    assert_eq!(first_cells(HERDR, "| key |"), printed);
}

/// The names in the first column of the table with that heading.
fn first_cells(document: &str, heading: &str) -> BTreeSet<String> {
    let table = document.split_once(heading).expect("the table").1;
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap_or_default());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_request_to_herdr_is_documented() {
    let source = include_str!("plugin/api.rs");
    let mut found = 0;
    for text in source.split('"').skip(1).step_by(2) {
        let is_method = text.split_once('.').is_some_and(|(area, name)| {
            ["layout", "notification", "pane", "plugin", "server"].contains(&area)
                && name.bytes().all(|b| b.is_ascii_lowercase() || b"_.".contains(&b))
        });
        if is_method {
            assert!(HERDR.contains(&format!("`{text}`")), "{text}");
            found += 1;
        }
    }
    assert!(found >= 9, "the search for requests finds them: {found}");
}

#[test]
fn the_status_is_documented_with_every_key() {
    use crate::commands::status_of;
    use crate::keeper::{Asked, BlockedCounts, Failure, Reason, Status, Task, Wanted};
    use crate::standing::{Held, Standing};
    let reasons = vec![Reason::default()];
    let task = Task { reasons, layer: Some(Layer::Server), ..Task::default() };
    let failure = Failure { task: Some(task), ..Failure::default() };
    let told = Status {
        blocked: BlockedCounts::default(),
        questions: vec![Asked { number: 1, wanted: Wanted::Host("a.test".into()) }],
        last_violation: Some(failure),
        ..Status::default()
    };
    let standing = Standing {
        launch: String::new(),
        agent: String::new(),
        form: Form::Pair,
        tier: "sealed",
        workspace: "/w".into(),
        pane: None,
        directory: "/d".into(),
        state: "running",
        held: Held::Confined,
        what: None,
        started: 0,
        ended: None,
        told: Some(told),
    };
    let example: serde_json::Value = serde_json::from_str(block(STATUS, "json")).unwrap();
    let (shown, printed) = (&example["launches"][0], status_of(&standing));
    for pointer in [
        "",
        "/blocked",
        "/questions/0",
        "/questions/0/wanted",
        "/lastViolation",
        "/lastViolation/task",
        "/lastViolation/task/reasons/0",
    ] {
        let keys = |value: &serde_json::Value| -> Vec<String> {
            let object = value.pointer(pointer).and_then(|v| v.as_object()).expect(pointer);
            let mut keys: Vec<String> = object.keys().cloned().collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(shown), keys(&printed), "{pointer}");
    }
    for held in [Held::Confined, Held::Unconfined, Held::Unknown, Held::Ended] {
        assert!(STATUS.contains(&format!("`{}`", held.name())), "{held:?}");
    }
    for state in ["starting", "running", "suspended", "stale", "ended"] {
        assert!(STATUS.contains(&format!("`{state}`")), "{state}");
    }
}
