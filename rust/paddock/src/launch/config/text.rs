//! The text of a configuration, and in which line of it what is said.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml_edit::{Document, Item, TableLike};

use confine::escape::escape;

use super::keys::{check_names, known};

/// A text that is TOML and has no key that is not known.
pub(crate) struct Text(Document<String>);

impl Text {
    /// Reads it.
    ///
    /// # Errors
    /// In which line what is not right.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document =
            Document::parse(text.to_owned()).map_err(|e| located(text, e.span(), e.message()))?;
        let read = Self(document);
        check_names(read.0.as_table(), "", "")
            .map_err(|wrong| read.locate(wrong.at, &wrong.what))?;
        Ok(read)
    }

    /// As values.
    ///
    /// # Errors
    /// In which line what is not right.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        let text = self.0.raw();
        toml::from_str(text).map_err(|e| located(text, e.span(), e.message()))
    }

    /// What is set, and in which line, by its whole name.
    pub(crate) fn line(&self, name: &str) -> Option<usize> {
        self.find(name).map(|(span, _)| line_at(self.0.raw(), span.start))
    }

    /// What is set there.
    pub(crate) fn value(&self, name: &str) -> Option<&Item> {
        self.find(name).map(|(_, item)| item)
    }

    /// That reason, with the line of that key.
    pub(super) fn locate_key(&self, name: &str, reason: &str) -> String {
        self.locate(self.find(name).map(|(span, _)| span), reason)
    }

    /// The whole names of all that is set, each with its line, as they stand there.
    pub(crate) fn keys(&self) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        self.collect(self.0.as_table(), "", &mut found);
        found
    }

    fn collect(&self, table: &dyn TableLike, above: &str, found: &mut Vec<(String, usize)>) {
        for (name, item) in table.iter() {
            let whole = format!("{above}{name}");
            match item.as_table_like() {
                Some(inner) if known(&whole).is_none() => {
                    self.collect(inner, &format!("{whole}."), found);
                }
                _ => found.push((whole.clone(), self.line(&whole).unwrap_or(1))),
            }
        }
    }

    fn locate(&self, at: Option<Range<usize>>, what: &str) -> String {
        located(self.0.raw(), at, what)
    }

    fn find(&self, name: &str) -> Option<(Range<usize>, &Item)> {
        let mut table: &dyn TableLike = self.0.as_table();
        // An agent's name may have a dot.
        let of_agent = name.strip_prefix("agents.").and_then(|rest| rest.rsplit_once('.'));
        let steps: Vec<&str> = match of_agent {
            Some((agent, key)) => vec!["agents", agent, key],
            None => name.split('.').collect(),
        };
        let mut steps = steps.into_iter();
        let mut step = steps.next()?;
        loop {
            let (key, item) = table.get_key_value(step)?;
            let Some(next) = steps.next() else {
                return Some((key.span().or_else(|| item.span())?, item));
            };
            table = item.as_table_like()?;
            step = next;
        }
    }
}

/// One line for a person, from a text that may be anybody's.
fn located(text: &str, at: Option<Range<usize>>, what: &str) -> String {
    let what = escape(what.trim_end().as_bytes()).to_string();
    match at {
        Some(at) => format!("line {}: {what}", line_at(text, at.start)),
        None => what,
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
