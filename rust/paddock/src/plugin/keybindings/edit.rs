//! The text of herdr's configuration with the chords in it. What was there is not
//! written anew but left where it is: comments, order, line ends and byte order mark.

use toml_edit::{Array, Document, InlineTable, Item, TableLike, Value};

use super::chord::Keys;

/// One chord and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chord {
    pub(crate) key: &'static str,
    /// The plugin's action, as herdr calls it.
    pub(crate) action: &'static str,
    /// Shown in herdr's help.
    pub(crate) description: &'static str,
}

/// Every chord. herdr's own defaults have none of them.
pub(crate) const CHORDS: [Chord; 4] = [
    Chord {
        key: "prefix+shift+a",
        action: "paddock.start-agent",
        description: "Paddock: start an agent in its sandbox",
    },
    Chord {
        key: "prefix+shift+b",
        action: "paddock.reconnect",
        description: "Paddock: go on with the agent in fresh sandboxes",
    },
    Chord {
        key: "prefix+shift+s",
        action: "paddock.open-shell",
        description: "Paddock: open a shell beside the agent",
    },
    Chord {
        key: "prefix+shift+o",
        action: "paddock.sandboxes",
        description: "Paddock: show the sandboxes",
    },
];

/// What a chord came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was added.
    Added,
    /// The action has a chord already, this one or another that somebody chose.
    Present { key: String },
    /// The keys do something else, which stays: the setting, or the command.
    Taken { by: String },
}

/// A text with the chords.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) chords: Vec<(Chord, State)>,
    /// `None` where there is nothing to add.
    pub(super) text: Option<String>,
}

/// Written at the start of some files.
const MARK: char = '\u{feff}';

/// Adds the chords that are neither there nor taken.
///
/// # Errors
/// Why that text cannot have them.
pub(super) fn add(text: &str) -> Result<Edited, String> {
    let body = text.strip_prefix(MARK).unwrap_or(text);
    let document = Document::parse(body.to_owned()).map_err(|e| {
        let line = e.span().map_or(1, |at| line_at(body, at.start));
        format!("line {line}: {}", escaped(e.message().trim_end()))
    })?;
    let bound = Bound::read(document.as_table())?;
    let chords: Vec<(Chord, State)> =
        CHORDS.into_iter().map(|chord| (chord, bound.state(chord))).collect();
    let added: Vec<Chord> = chords
        .iter()
        .filter_map(|(chord, state)| (*state == State::Added).then_some(*chord))
        .collect();
    if added.is_empty() {
        return Ok(Edited { chords, text: None });
    }
    let new = with_tables(body, document.as_table(), &added)?;
    check(body, &new, &added)?;
    let mark = &text[..text.len() - body.len()];
    Ok(Edited { chords, text: Some(format!("{mark}{new}")) })
}

/// What keys do already.
struct Bound {
    prefix: Option<Keys>,
    /// Settings of herdr's own, and commands.
    taken: Vec<(Keys, String)>,
    /// The plugin's actions, with the keys as they are written.
    actions: Vec<(String, String)>,
}

impl Bound {
    fn read(root: &dyn TableLike) -> Result<Self, String> {
        let mut bound = Self { prefix: None, taken: Vec::new(), actions: Vec::new() };
        let Some(keys) = root.get("keys") else { return Ok(bound) };
        let keys = keys.as_table_like().ok_or("keys is no table")?;
        for (name, item) in keys.iter() {
            match name {
                "command" => {}
                "prefix" => bound.prefix = item.as_str().and_then(Keys::parse),
                _ => {
                    let chords = texts(item).into_iter().filter_map(Keys::parse);
                    bound.taken.extend(chords.map(|chord| (chord, format!("keys.{name}"))));
                }
            }
        }
        match keys.get("command") {
            None => {}
            Some(Item::ArrayOfTables(tables)) => {
                tables.iter().for_each(|table| bound.command(table));
            }
            Some(item) => {
                let list = item.as_array().ok_or("keys.command is no list of tables")?;
                for value in list {
                    let table = value.as_inline_table().ok_or("keys.command has no tables")?;
                    bound.command(table);
                }
            }
        }
        Ok(bound)
    }

    fn command(&mut self, table: &dyn TableLike) {
        let text = |name: &str| table.get(name).and_then(Item::as_str).unwrap_or_default();
        let command = text("command").trim().to_owned();
        // herdr passes over one that does nothing.
        if command.is_empty() {
            return;
        }
        let is_action = text("type") == "plugin_action";
        for key in table.get("key").map(texts).unwrap_or_default() {
            let Some(keys) = Keys::parse(key) else { continue };
            if is_action {
                self.actions.push((command.clone(), key.trim().to_owned()));
            }
            self.taken.push((keys, format!("the command {}", escaped(&command))));
        }
    }

    fn state(&self, chord: Chord) -> State {
        // herdr takes an action's name without its plugin's, where only one has it.
        let short = chord.action.strip_prefix("paddock.").unwrap_or(chord.action);
        let is_it = |(action, _): &&(String, String)| action == chord.action || action == short;
        if let Some((_, key)) = self.actions.iter().find(is_it) {
            return State::Present { key: escaped(key) };
        }
        let Some(keys) = Keys::parse(chord.key) else {
            return State::Taken { by: "nothing that could be pressed".into() };
        };
        if self.prefix.as_ref().is_some_and(|prefix| keys.is_prefix_key(prefix)) {
            return State::Taken { by: "keys.prefix".into() };
        }
        match self.taken.iter().find(|(taken, _)| *taken == keys) {
            Some((_, by)) => State::Taken { by: by.clone() },
            None => State::Added,
        }
    }
}

/// A text, or a list of them.
fn texts(item: &Item) -> Vec<&str> {
    match item.as_array() {
        Some(list) => list.iter().filter_map(Value::as_str).collect(),
        None => item.as_str().into_iter().collect(),
    }
}

/// Puts the tables where TOML lets them stand: at the end, or into a list or table
/// that is written in braces and cannot be added to elsewhere.
fn with_tables(body: &str, root: &dyn TableLike, added: &[Chord]) -> Result<String, String> {
    let inline: Vec<String> = added.iter().map(as_inline).collect();
    let inline = inline.join(", ");
    let keys = root.get("keys");
    let command = keys.and_then(Item::as_table_like).and_then(|keys| keys.get("command"));
    if let Some(list) = command.and_then(Item::as_array) {
        let at = inside_of_list(list).ok_or("keys.command is written in an unknown way")?;
        return Ok(put(body, at, &inline));
    }
    if let Some(table) = keys.and_then(Item::as_inline_table) {
        let at = inside_of_table(table).ok_or("keys is written in an unknown way")?;
        return Ok(put(body, at, &format!("command = [{inline}]")));
    }
    let end = if body.split_once('\n').is_some_and(|(line, _)| line.ends_with('\r')) {
        "\r\n"
    } else {
        "\n"
    };
    let mut new = body.to_owned();
    if !new.is_empty() && !new.ends_with('\n') {
        new.push_str(end);
    }
    for chord in added {
        if !new.is_empty() {
            new.push_str(end);
        }
        for line in as_table(chord) {
            new.push_str(&line);
            new.push_str(end);
        }
    }
    Ok(new)
}

/// Where something can be put in: whether behind something else, and at which byte.
type Inside = (bool, usize);

fn inside_of_list(list: &Array) -> Option<Inside> {
    match list.iter().last() {
        Some(value) => Some((true, value.span()?.end)),
        None => Some((false, list.span()?.start + 1)),
    }
}

fn inside_of_table(table: &InlineTable) -> Option<Inside> {
    // What is nested by dots in its keys has no place of its own.
    fn end(table: &dyn TableLike) -> Option<usize> {
        let ends = table.iter().map(|(_, item)| match item.as_inline_table() {
            Some(inner) if inner.is_dotted() => end(inner),
            _ => item.span().map(|span| span.end),
        });
        ends.collect::<Option<Vec<usize>>>()?.into_iter().max()
    }
    if table.is_empty() {
        return Some((false, table.span()?.start + 1));
    }
    Some((true, end(table)?))
}

fn put(body: &str, (is_behind, at): Inside, text: &str) -> String {
    let comma = if is_behind { ", " } else { "" };
    format!("{}{comma}{text}{}", &body[..at], &body[at..])
}

fn as_table(chord: &Chord) -> [String; 5] {
    [
        "[[keys.command]]".into(),
        format!("key = \"{}\"", chord.key),
        "type = \"plugin_action\"".into(),
        format!("command = \"{}\"", chord.action),
        format!("description = \"{}\"", chord.description),
    ]
}

fn as_inline(chord: &Chord) -> String {
    let [_, lines @ ..] = as_table(chord);
    format!("{{ {} }}", lines.join(", "))
}

/// What was there must be there still, and beside it the chords and nothing else.
fn check(old: &str, new: &str, added: &[Chord]) -> Result<(), String> {
    let wrong = "the chords cannot be put into it without changing something else";
    let mut expected: toml::Table = toml::from_str(old).map_err(|e| e.message().to_owned())?;
    let found: toml::Table = toml::from_str(new).map_err(|_| wrong.to_owned())?;
    let keys = expected.entry("keys").or_insert_with(|| toml::Table::new().into());
    let keys = keys.as_table_mut().ok_or(wrong)?;
    let list = keys.entry("command").or_insert_with(|| toml::Value::Array(Vec::new()));
    let list = list.as_array_mut().ok_or(wrong)?;
    for chord in added {
        let table: toml::Table = as_table(chord)[1..]
            .join("\n")
            .parse()
            .map_err(|e: toml::de::Error| e.message().to_owned())?;
        list.push(table.into());
    }
    // Written out, since no number equals itself that is none.
    if found.to_string() == expected.to_string() { Ok(()) } else { Err(wrong.into()) }
}

fn escaped(text: &str) -> String {
    confine::escape::escape(text.as_bytes()).to_string()
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
