//! The list in words.

use std::path::Path;

use confine::escape::{escape, escape_short};
use serde_json::Value;

use super::TIMED_ELSEWHERE;
use super::table::Kind;
use super::walk::ANOTHER_FILE_SYSTEM;

/// Of one kind so many are named in the pane, each by so many characters.
const NAMED: usize = 3;
const LONGEST: usize = 60;

/// One thing on the list, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) kind: Kind,
    /// Not escaped.
    pub(crate) path: String,
    pub(crate) what: String,
    pub(crate) keys: Vec<String>,
}

impl Told {
    /// Its path in the workspace, and what there is to say of it; escaped.
    fn shown(&self, workspace: &Path, most: usize) -> String {
        let path = Path::new(&self.path);
        let below = path.strip_prefix(workspace).ok().and_then(Path::to_str);
        let below = below.filter(|below| !below.is_empty()).unwrap_or(&self.path);
        // Its end says more than its beginning.
        let long = below.chars().count().saturating_sub(most);
        let cut = below.char_indices().nth(long).map_or("", |(at, _)| &below[at..]);
        let mut shown = format!("{}{}", if long > 0 { "..." } else { "" }, escape(cut.as_bytes()));
        let note = match self.what.as_str() {
            "changed" if self.keys.is_empty() => return shown,
            // Escaped when they were read; a record is not to be trusted either.
            "changed" => escape_short(self.keys.join(", ").as_bytes(), 4 * most).to_string(),
            "directory" => "the directory".into(),
            "target" => "what it leads to".into(),
            other => escape_short(other.as_bytes(), most).to_string(),
        };
        shown.push_str(" (");
        shown.push_str(&note);
        shown.push(')');
        shown
    }
}

/// What a record of it says, in the order in which it is shown; `None` where it is none.
pub(crate) fn told(record: &Value) -> Option<Vec<Told>> {
    let entry = |value: &Value| {
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        let keys = value.get("keys")?.as_array()?;
        let keys = keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect();
        Some(Told {
            kind: Kind::named(value.get("kind")?.as_str()?)?,
            path: text("path")?,
            what: text("what")?,
            keys,
        })
    };
    let mut told: Vec<Told> =
        record.get("changed")?.as_array()?.iter().map(entry).collect::<Option<_>>()?;
    told.sort_by_key(|told| told.kind);
    Some(told)
}

/// For the pane: a line for each kind, and none where there is nothing to say.
pub(crate) fn short_lines(record: &Value, workspace: &Path, launch: &str) -> Vec<String> {
    let told = told(record).unwrap_or_default();
    let more = more(record);
    let mut lines = Vec::new();
    let mut is_cut = more > 0;
    for kind in Kind::ALL {
        let of_kind: Vec<&Told> = told.iter().filter(|told| told.kind == kind).collect();
        let named: Vec<String> =
            of_kind.iter().take(NAMED).map(|told| told.shown(workspace, LONGEST)).collect();
        let Some(left) = of_kind.len().checked_sub(named.len()).filter(|_| !named.is_empty())
        else {
            continue;
        };
        let left = if left > 0 { format!(" and {left} more") } else { String::new() };
        is_cut |= !left.is_empty();
        lines.push(format!("  {}: {}{left}", kind.who(), named.join(", ")));
    }
    let mut gaps = gaps(record);
    if lines.is_empty() && more == 0 {
        // What is so at the end of every launch there is told where it is asked for.
        gaps.retain(|gap| ![ANOTHER_FILE_SYSTEM, TIMED_ELSEWHERE].contains(&&**gap));
    }
    if !gaps.is_empty() {
        lines.push(format!("  not everything was looked at: {}", gaps.join("; ")));
    }
    if lines.is_empty() {
        return lines;
    }
    let all = if is_cut { format!("; all: paddock log {launch} --obeyed") } else { String::new() };
    let title = if told.is_empty() && more == 0 {
        "looked for what changed and is obeyed outside of the sandbox".to_owned()
    } else {
        let total = told.len() as u64 + more;
        let what = if total == 1 { "1 thing" } else { &format!("{total} things") };
        format!("{what} changed that are obeyed outside of the sandbox{all}")
    };
    lines.insert(0, title);
    lines
}

/// All of it, a line each.
pub(crate) fn lines(record: &Value, workspace: &Path) -> Option<Vec<String>> {
    let told = told(record)?;
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        let of_kind = told.iter().filter(|told| told.kind == kind);
        let of_kind: Vec<String> =
            of_kind.map(|told| format!("  {}", told.shown(workspace, 4096))).collect();
        if !of_kind.is_empty() {
            lines.push(kind.who().to_owned());
            lines.extend(of_kind);
        }
    }
    if more(record) > 0 {
        lines.push(format!("and {} more, which are not recorded", more(record)));
    }
    if lines.is_empty() {
        lines.push("nothing changed that is obeyed outside of the sandbox".into());
    }
    let gaps = gaps(record);
    if !gaps.is_empty() {
        lines.push(format!("not everything was looked at: {}", gaps.join("; ")));
    }
    Some(lines)
}

fn more(record: &Value) -> u64 {
    record.get("more").and_then(Value::as_u64).unwrap_or(0)
}

fn gaps(record: &Value) -> Vec<String> {
    let gaps = record.get("gaps").and_then(Value::as_array).into_iter().flatten();
    gaps.filter_map(Value::as_str)
        .map(|gap| escape_short(gap.as_bytes(), 200).to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record() -> Value {
        let one = |kind: &str, path: &str, what: &str, keys: &[&str]| json!({ "kind": kind, "path": path, "what": what, "keys": keys });
        let mut changed = vec![
            one("ci", "/w/.github/workflows", "directory", &[]),
            one("git", "/w/.git/config", "changed", &["core.fsmonitor", "alias.x"]),
            one("git", "/w/.git/hooks/\u{1b}[2J", "changed", &[]),
        ];
        changed.extend((0..9).map(|n| one("build", &format!("/w/{n}/Makefile"), "changed", &[])));
        json!({ "changed": changed, "more": 0, "complete": true, "gaps": [] })
    }

    #[test]
    fn it_is_short_in_the_pane_and_whole_when_asked_for() {
        let shown = short_lines(&record(), Path::new("/w"), "bcdf");
        assert_eq!(
            shown,
            [
                "12 things changed that are obeyed outside of the sandbox; all: paddock log bcdf --obeyed",
                "  git, at its next command: .git/config (core.fsmonitor, alias.x), .git/hooks/\\u{1b}[2J",
                "  builds, tests and package managers: 0/Makefile, 1/Makefile, 2/Makefile and 6 more",
                "  CI, once it is pushed: .github/workflows (the directory)",
            ]
        );
        let all = lines(&record(), Path::new("/w")).unwrap();
        assert_eq!(all.len(), 12 + 3);
        assert_eq!(all[0], "git, at its next command");
        assert!(all.iter().flat_map(|line| line.chars()).all(confine::escape::is_safe));
    }

    #[test]
    fn nothing_is_said_of_nothing_and_what_is_missing_is_said() {
        let nothing = json!({ "changed": [], "more": 0, "complete": true, "gaps": [] });
        assert!(short_lines(&nothing, Path::new("/w"), "bcdf").is_empty());
        assert_eq!(lines(&nothing, Path::new("/w")).unwrap().len(), 1);
        let gaps = json!({ "changed": [], "more": 0, "complete": false, "gaps": ["a", "b"] });
        assert_eq!(
            short_lines(&gaps, Path::new("/w"), "bcdf")[1..],
            ["  not everything was looked at: a; b"]
        );
        assert_eq!(told(&json!({ "changed": [{ "kind": "other" }] })), None);
        assert_eq!(lines(&json!({}), Path::new("/w")), None);
    }
}
