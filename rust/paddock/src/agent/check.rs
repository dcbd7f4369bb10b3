//! All that is wrong with the text of an agent file, not only the first of it.

use std::ops::Range;

use toml_edit::{Document, Item, Key, Table, TableLike};

use super::file::Written;
use super::keys::unknown;

/// More than these nobody reads.
const MOST: usize = 100;

/// What is wrong, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) line: Option<usize>,
    /// Not escaped.
    pub(crate) what: String,
}

/// What is wrong with the form of `text`: with a part of an agent file, if it extends
/// another.
pub(crate) fn check_text(text: &str) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(e) => {
            wrong.push(at(text, e.span(), e.message()));
            return wrong;
        }
    };
    let mut found = Vec::new();
    unknown(document.as_table(), "", "", &mut found);
    wrong.extend(found.iter().map(|unknown| at(text, unknown.at.clone(), &unknown.what)));
    let is_part = document.get("extends").is_some();

    // What was told is blanked out, and the rest is read again.
    let mut rest = text.to_owned();
    for range in found.into_iter().filter_map(|unknown| unknown.at) {
        blank(&mut rest, &range);
    }
    while wrong.len() < MOST && Document::parse(rest.as_str()).is_ok() {
        let Some(error) = toml::from_str::<Written>(&rest).err() else { break };
        let is_missing = error.message().starts_with("missing field");
        // It may be one that was told, or stand in what is extended.
        if !is_missing || wrong.is_empty() && !is_part {
            wrong.push(at(text, error.span(), error.message()));
        }
        let before = rest.clone();
        match error.span() {
            Some(span) if is_missing => blank_section(&mut rest, &span),
            Some(span) => blank(&mut rest, &span),
            None => {}
        }
        if rest == before {
            break;
        }
    }
    wrong.sort_by_key(|wrong| wrong.line);
    wrong.dedup();
    wrong
}

/// Takes the key at `range`, or the one whose value is there, out of a text; every line
/// stays where it is.
fn blank(text: &mut String, range: &Range<usize>) {
    let document = Document::parse(text.clone());
    let whole = document.ok().and_then(|document| enclosing(document.as_table(), range));
    overwrite(text, whole);
}

/// Takes out what is in the same section as `range`.
fn blank_section(text: &mut String, range: &Range<usize>) {
    let Ok(document) = Document::parse(text.clone()) else { return };
    let mut sections: Vec<Vec<Range<usize>>> = Vec::new();
    for (name, item) in document.as_table() {
        let key = document.as_table().key(name).and_then(Key::span);
        match item {
            Item::ArrayOfTables(tables) => sections.extend(tables.iter().map(ranges)),
            Item::Table(table) => sections.push(ranges(table).into_iter().chain(key).collect()),
            item => sections
                .push(key.zip(item.span()).map(|(k, v)| k.start..v.end).into_iter().collect()),
        }
    }
    let section = sections.into_iter().find(|section| section.iter().any(|r| holds(r, range)));
    overwrite(text, section.into_iter().flatten());
}

fn overwrite(text: &mut String, ranges: impl IntoIterator<Item = Range<usize>>) {
    for range in ranges {
        // The first words of a dotted key go with it.
        let is_key = |c: char| c.is_alphanumeric() || "-_.\"' \t".contains(c);
        let before = text[..range.start].trim_end_matches(is_key);
        let start =
            if before.is_empty() || before.ends_with('\n') { before.len() } else { range.start };
        let blanked: String = text[start..range.end].chars().flat_map(blanked).collect();
        text.replace_range(start..range.end, &blanked);
    }
}

/// As many bytes of nothing.
fn blanked(c: char) -> impl Iterator<Item = char> {
    let nothing = if c == '\n' { '\n' } else { ' ' };
    std::iter::repeat_n(nothing, c.len_utf8())
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// The headings in a table, and each key with its value.
fn ranges(table: &Table) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = table.span().into_iter().collect();
    for (name, item) in table {
        match item {
            Item::Table(table) => found.extend(ranges(table)),
            Item::ArrayOfTables(tables) => found.extend(tables.iter().flat_map(ranges)),
            item => {
                let key = table.key(name).and_then(Key::span);
                found.extend(key.zip(item.span()).map(|(key, value)| key.start..value.end));
            }
        }
    }
    found
}

/// From the start of the innermost key to the end of its value.
fn enclosing(table: &Table, range: &Range<usize>) -> Option<Range<usize>> {
    table.iter().find_map(|(name, item)| {
        let inner = match item {
            Item::ArrayOfTables(tables) => tables.iter().find_map(|table| enclosing(table, range)),
            Item::Table(table) => enclosing(table, range),
            _ => None,
        };
        inner.or_else(|| {
            let (key, value) = (table.key(name)?.span()?, item.span()?);
            let is_it = holds(&key, range) || holds(&value, range);
            (is_it && key.end <= value.start).then_some(key.start..value.end)
        })
    })
}

/// The line of the key that these steps lead to, or of the last of them that is there.
pub(crate) fn line_of(text: &str, steps: &[&str]) -> Option<usize> {
    let document = Document::parse(text).ok()?;
    let mut table: &dyn TableLike = document.as_table();
    let mut found = None;
    for step in steps {
        let Some((key, item)) = table.get_key_value(step) else { break };
        found = key.span().or_else(|| item.span()).or(found);
        match item.as_table_like() {
            Some(below) => table = below,
            None => break,
        }
    }
    found.map(|span| line_at(text, span.start))
}

fn at(text: &str, span: Option<Range<usize>>, what: &str) -> Wrong {
    let line = span.map(|span| line_at(text, span.start));
    Wrong { line, what: what.trim_end().to_owned() }
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(Option<usize>, String)> {
        check_text(text).into_iter().map(|wrong| (wrong.line, wrong.what)).collect()
    }

    #[test]
    fn all_that_is_wrong_is_told_with_its_line() {
        let good = include_str!("../../../../profiles/codex/agent.toml");
        assert_eq!(lines(good), []);
        let text = "name = 1\ntitel = \"x\"\nhosts = [\n  \"a.test\",\n  2,\n]\n\
            [program]\nnames = \"x\"\n[link]\nkind = \"udp\"\npatience = -1\n\
            [server]\nargv = []\nset = { A = 1, B = \"b\" }\n[[gate]]\nrequests = [\"fly\"]\n";
        let found = lines(text);
        let found: Vec<usize> = found.iter().map(|(line, _)| line.unwrap()).collect();
        assert_eq!(found, [1, 2, 5, 8, 10, 11, 14, 16]);
        assert_eq!(lines("a = \n")[0].0, Some(1));
        // Of a whole file something is missing, of one that extends another nothing is.
        assert!(lines("name = \"x\"\n")[0].1.contains("missing field"));
        assert_eq!(lines("extends = \"codex\"\n"), []);
    }

    #[test]
    fn the_line_of_a_key_is_found() {
        let text =
            "name = \"x\"\n[server]\nargv = []\nset = { A = \"a\" }\n[[server.seed]]\npath = 1\n";
        for (steps, wanted) in [
            (&["server", "set", "A"][..], Some(4)),
            (&["server", "set", "B"], Some(4)),
            (&["server", "drop"], Some(2)),
            (&["name"], Some(1)),
            (&["solo"], None),
        ] {
            assert_eq!(line_of(text, steps), wanted, "{steps:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_text_is_checking_it_ends(
            text: String,
            keys in "(name|server|argv|seed|\\[\\[gate\\]\\]|\\[x\\]|[a-z.=\\[\\]{}\", 1\n]{1,3}){0,20}",
        ) {
            for text in [text, keys] {
                let _ = (check_text(&text), line_of(&text, &["server", "argv"]));
            }
        }
    }
}
