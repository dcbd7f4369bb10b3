//! Every key of the configuration, once: what is refused, shown and documented is
//! taken from here.

use std::collections::BTreeSet;
use std::ops::Range;

use toml_edit::{Item, TableLike};

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// From the top, with dots. `NAME` is the name of an agent.
    pub(crate) name: &'static str,
    /// What holds when nobody sets it, as it would be written; empty where that is
    /// nothing.
    pub(crate) default: &'static str,
    /// The only words that it can be, if so.
    pub(crate) words: &'static [&'static str],
    /// What the project file may do with it.
    pub(crate) project: Project,
}

/// What the project file may do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Project {
    /// Set it to what is tighter, in words.
    Tighter(&'static str),
    /// Not set it, and why.
    Refused(&'static str),
}

use Project::{Refused, Tighter};

const CHOICE: &str = "it is your choice, not the project's";
const WIDENS: &str = "it would let agents do more";
const RUNS: &str = "it would choose what is run on this host";
const ARGUMENTS: &str = "an agent's arguments can loosen it";

const fn key(name: &'static str, default: &'static str, project: Project) -> Key {
    Key { name, default, words: &[], project }
}

const fn words(
    name: &'static str,
    default: &'static str,
    words: &'static [&'static str],
    project: Project,
) -> Key {
    Key { name, default, words, project }
}

/// All of them, in the order in which they are shown.
pub(crate) const KEYS: &[Key] = &[
    key("agent", "\"standin\"", Refused(CHOICE)),
    words(
        "tier",
        "\"sealed\"",
        &["sealed", "isolated", "ported"],
        Tighter("a stricter one: sealed before isolated before ported"),
    ),
    words("on-violation", "\"stop\"", &["stop", "warn"], Tighter("\"stop\"")),
    words("unix", "\"mediated\"", &["mediated", "strict"], Tighter("\"strict\"")),
    key("shell", "", Refused(RUNS)),
    key("verify.every", "\"250ms\"", Tighter("a shorter time")),
    key("verify.descriptors-every", "\"2s\"", Tighter("a shorter time")),
    words("pins.on-program-change", "\"notice\"", &["notice", "refuse"], Tighter("\"refuse\"")),
    key("programs.nono", "", Refused(RUNS)),
    key("programs.bwrap", "", Refused(RUNS)),
    key("grants.read", "[]", Refused(WIDENS)),
    key("grants.write", "[]", Refused(WIDENS)),
    words(
        "egress.profile",
        "\"agent\"",
        &["agent", "listed", "none"],
        Tighter("a narrower one: none before listed before agent"),
    ),
    key("egress.hosts", "[]", Tighter("of the allowed hosts those that remain")),
    key("egress.exceptions", "{}", Refused(WIDENS)),
    key("egress.ssh", "false", Tighter("false")),
    words("git.settings", "\"read-only\"", &["read-only", "writable"], Tighter("\"read-only\"")),
    words("herdr.open-in", "\"split\"", &["split", "tab"], Refused(CHOICE)),
    words("herdr.direction", "\"right\"", &["right", "down"], Refused(CHOICE)),
    key("herdr.ratio", "0.5", Refused(CHOICE)),
    key("agents.NAME.program", "", Refused(RUNS)),
    key("agents.NAME.version", "", Refused(CHOICE)),
    words("agents.NAME.unix", "", &["mediated", "strict"], Tighter("\"strict\"")),
    key("agents.NAME.hosts", "[]", Tighter("of the allowed hosts those that remain")),
    key("agents.NAME.read", "[]", Refused(WIDENS)),
    key("agents.NAME.write", "[]", Refused(WIDENS)),
    key("agents.NAME.arguments", "[]", Refused(ARGUMENTS)),
    words("agents.NAME.state", "\"private\"", &["private", "shared"], Tighter("\"private\"")),
];

/// What is not right in a text, and where.
pub(super) struct Wrong {
    pub(super) at: Option<Range<usize>>,
    pub(super) what: String,
}

/// The key of that whole name.
pub(crate) fn known(name: &str) -> Option<&'static Key> {
    // An agent's name may have a dot.
    let of_agent = name.strip_prefix("agents.").and_then(|rest| rest.rsplit_once('.'));
    let general = of_agent.map(|(_, key)| format!("agents.NAME.{key}"));
    KEYS.iter().find(|key| key.name == general.as_deref().unwrap_or(name))
}

/// Refuses every key in `table` that is not known, and every word that a key cannot
/// be; `above` is the name of the table with its last dot, and `place` as it is written.
pub(super) fn check_names(table: &dyn TableLike, above: &str, place: &str) -> Result<(), Wrong> {
    for (name, item) in table.iter() {
        let at = || table.get_key_value(name).and_then(|(key, _)| key.span());
        // An agent's name is anything; with a dot in it, it would be two steps here.
        let step = if above == "agents." { "NAME" } else { name };
        let whole = format!("{above}{step}");
        if let Some(key) = KEYS.iter().find(|key| key.name == whole) {
            check_word(key, item).map_err(|what| Wrong { at: at(), what })?;
            continue;
        }
        let below = format!("{whole}.");
        if !KEYS.iter().any(|key| key.name.starts_with(&below)) {
            return Err(Wrong { at: at(), what: unknown(name, above, place) });
        }
        let Some(inner) = item.as_table_like() else {
            let what = format!("`{name}` is a table: [{place}{name}]");
            return Err(Wrong { at: at(), what });
        };
        check_names(inner, &below, &format!("{place}{name}."))?;
    }
    Ok(())
}

fn check_word(key: &Key, item: &Item) -> Result<(), String> {
    let Some(word) = item.as_str() else { return Ok(()) };
    if key.words.is_empty() || key.words.contains(&word) {
        return Ok(());
    }
    let known: Vec<String> = key.words.iter().map(|word| format!("{word:?}")).collect();
    let known = known.join(", ");
    let meant = nearest(word, key.words.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!(": did you mean {meant:?}?"));
    Err(format!("unknown value {word:?} of `{}`, which is one of {known}{meant}", key.name))
}

/// What is said of a key that is not known.
fn unknown(name: &str, above: &str, place: &str) -> String {
    let here: BTreeSet<&str> =
        KEYS.iter().filter_map(|key| key.name.strip_prefix(above)?.split('.').next()).collect();
    let place = match place.trim_end_matches('.') {
        "" => String::new(),
        table => format!(" in [{table}]"),
    };
    let meant = nearest(name, here.iter().copied()).map(str::to_owned);
    // Written in the wrong table, or without one.
    let elsewhere = || {
        let last = |key: &Key| key.name.rsplit('.').next().unwrap_or_default();
        let whole = |key: &&Key| same(last(key), name) || same(&key.name.replace('.', "-"), name);
        KEYS.iter().find(whole).map(|key| key.name.to_owned())
    };
    if let Some(meant) = meant.or_else(elsewhere) {
        return format!("unknown key `{name}`{place}: did you mean `{meant}`?");
    }
    let here: Vec<&str> = here.into_iter().collect();
    format!("unknown key `{name}`{place}; known there: {}", here.join(", "))
}

/// The same word in another notation.
fn same(known: &str, name: &str) -> bool {
    known == name.to_lowercase().replace('_', "-")
}

/// The known word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('_', "-");
    let far = word.chars().count().max(3) / 3;
    known
        .map(|known| (strsim::damerau_levenshtein(&word, known), known))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}
