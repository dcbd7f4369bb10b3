//! Additions to a person's configuration: comments and order stay as they are.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::FlockOperation;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::config::read_text;
use super::{Config, LaunchId};
use crate::error::Error;
use crate::files::replace_with_mode;

/// Adds `entry` to the list `key` of the agent `name`; a list that has it stays.
///
/// # Errors
/// When the file does not parse, before or after, or cannot be written.
pub(crate) fn add_for_agent(file: &Path, name: &str, key: &str, entry: &str) -> Result<(), Error> {
    let unusable = |reason: String| Error::Configuration { path: file.to_owned(), reason };
    // One that is kept elsewhere and linked stays where it is.
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let _lock = lock(&real).map_err(|e| unusable(e.to_string()))?;
    let text = read_text(file)?.unwrap_or_default();
    let mut document: DocumentMut = text.parse().map_err(|e| unusable(format!("{e}")))?;
    // Where there are only comments they stay before what is added.
    let mut lead = String::new();
    if document.is_empty() {
        document.set_trailing("");
        lead = text;
        if !lead.is_empty() && !lead.ends_with('\n') {
            lead.push('\n');
        }
    }
    let agents = document.entry("agents").or_insert_with(implicit_table);
    let agents = agents.as_table_like_mut().ok_or_else(|| unusable("agents is no table".into()))?;
    let agent = agents.entry(name).or_insert_with(|| Item::Table(Table::new()));
    let agent =
        agent.as_table_like_mut().ok_or_else(|| unusable(format!("agents.{name} is no table")))?;
    let list = agent.entry(key).or_insert_with(|| value(Array::new()));
    let list = list.as_array_mut().ok_or_else(|| unusable(format!("{key} is no list")))?;
    if list.iter().any(|known| known.as_str() == Some(entry)) {
        return Ok(());
    }
    list.push(entry);
    let text = lead + &document.to_string();
    Config::parse(&text).map_err(unusable)?;
    let written = (|| {
        let new = real.with_file_name(format!("config-{}.new", LaunchId::random()?));
        let mode = match std::fs::metadata(&real) {
            Ok(metadata) => metadata.permissions().mode() & 0o7777,
            Err(_) => 0o600,
        };
        replace_with_mode(&real, &new, text.as_bytes(), mode)
    })();
    written.map_err(|e: std::io::Error| unusable(e.to_string()))
}

/// Until this is dropped nobody else changes the file: of two additions at once one
/// would be lost. It is of the directory (`flock(2)`), since the file is replaced.
pub(crate) fn lock(file: &Path) -> std::io::Result<File> {
    let directory = file.parent().ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(directory)?;
    let directory = File::open(directory)?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

/// Not printed itself, only what is in it.
fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_added_once_and_the_rest_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("below/config.toml");
        add_for_agent(&file, "codex", "hosts", "a.test").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, "[agents.codex]\nhosts = [\"a.test\"]\n");
        let mine = "# mine\ntier = \"sealed\" # so\n\n[agents.codex]\nhosts = [\"a.test\"]\n";
        std::fs::write(&file, mine).unwrap();
        add_for_agent(&file, "codex", "hosts", "a.test").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), mine);
        add_for_agent(&file, "codex", "hosts", "b.test:1").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, mine.replace("[\"a.test\"]", "[\"a.test\", \"b.test:1\"]"));
        std::fs::write(&file, "# mine\n\n# too").unwrap();
        add_for_agent(&file, "codex", "hosts", "a.test").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, "# mine\n\n# too\n[agents.codex]\nhosts = [\"a.test\"]\n");
        std::fs::write(&file, "agents = 1\n").unwrap();
        assert!(add_for_agent(&file, "codex", "hosts", "a.test").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "agents = 1\n");
    }

    #[test]
    fn of_additions_at_once_none_is_lost() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("config.toml");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let file = &file;
                let host = format!("h{n}.test");
                scope.spawn(move || add_for_agent(file, "codex", "hosts", &host).unwrap());
            }
        });
        let text = std::fs::read_to_string(&file).unwrap();
        assert!((0..8).all(|n| text.contains(&format!("\"h{n}.test\""))), "{text}");
    }

    #[test]
    fn the_file_keeps_its_mode() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("config.toml");
        let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
        add_for_agent(&file, "codex", "hosts", "a.test").unwrap();
        assert_eq!(mode(), 0o600, "a new one is this user's alone");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        add_for_agent(&file, "codex", "hosts", "b.test").unwrap();
        assert_eq!(mode(), 0o644);
    }

    #[test]
    fn a_linked_configuration_stays_linked() {
        let root = tempfile::tempdir().unwrap();
        let (file, real) = (root.path().join("config.toml"), root.path().join("dotfiles"));
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &file).unwrap();
        add_for_agent(&file, "codex", "read", "/x").unwrap();
        assert!(file.is_symlink());
        assert!(std::fs::read_to_string(&real).unwrap().contains("read = [\"/x\"]"));
    }
}
