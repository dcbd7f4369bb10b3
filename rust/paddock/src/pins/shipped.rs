//! `profiles/pins.toml`: the sha256 of every shipped profile and adapter.
//!
//! Files and pins are both compiled in. That they belong together is looked at
//! by a test, and at every launch: a build from a tree in which they do not is
//! refused.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::agent::Agent;
use crate::error::Error;
use crate::files::sha256;

const PINS: &str = include_str!("../../../../profiles/pins.toml");

/// Path below `profiles/`, and its pin.
type Pins = BTreeMap<String, Pin>;

/// What a shipped file must be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    sha256: String,
    /// The document that says why it is as it is; a test reads it.
    #[cfg_attr(not(test), allow(dead_code))]
    adr: String,
}

/// Refuses an agent of which a shipped file is not the pinned one.
///
/// # Errors
/// The first such file, with both hashes.
pub(super) fn check(agent: &Agent) -> Result<(), Error> {
    check_with(PINS, agent)
}

fn check_with(pins: &str, agent: &Agent) -> Result<(), Error> {
    let pins: Pins = toml::from_str(pins).map_err(|e| Error::PinShipped {
        file: "pins.toml".into(),
        pinned: "its own form".into(),
        found: e.to_string(),
    })?;
    let pen = ("pen.json".to_owned(), agent.profiles.pen.clone());
    // Also those of which one of a person's own is made.
    for (file, text) in agent.shipped.iter().chain([&pen]) {
        let found = sha256(text.as_bytes());
        let pinned = pins.get(file).map_or("nothing", |pin| &pin.sha256);
        if pinned != found {
            return Err(Error::PinShipped { file: file.clone(), pinned: pinned.to_owned(), found });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::agent::{known_agents, load};

    /// The repository, or the copy of it in which the tests run.
    fn root() -> PathBuf {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("set for tests");
        Path::new(&package).join("../..")
    }

    fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            if entry.path().is_dir() {
                files_below(&entry.path(), found);
            } else {
                found.push(entry.path());
            }
        }
    }

    /// A changed profile needs a new pin, and a line in a document that says why.
    #[test]
    fn every_shipped_file_has_its_pin_and_a_line_in_a_decision() {
        let profiles = root().join("profiles");
        let pins: Pins = toml::from_str(PINS).unwrap();
        let mut files = Vec::new();
        files_below(&profiles, &mut files);
        let mut seen = 0;
        for path in files {
            let name = path.strip_prefix(&profiles).unwrap().to_str().unwrap().to_owned();
            if name == "pins.toml" {
                continue;
            }
            let found = sha256(&std::fs::read(&path).unwrap());
            let pin = pins.get(&name).unwrap_or_else(|| {
                panic!("profiles/pins.toml has no entry for {name}; its sha256 is {found}")
            });
            assert_eq!(
                pin.sha256,
                found,
                "profiles/{name} was changed: its sha256 is {found}; put that into \
                 profiles/pins.toml, and a line with {} into a document in docs/adr/",
                &found[..12]
            );
            assert!(pin.adr.starts_with("docs/adr/"), "{name}: {}", pin.adr);
            let adr = std::fs::read_to_string(root().join(&pin.adr))
                .unwrap_or_else(|e| panic!("{}, named for {name}: {e}", pin.adr));
            let says_why = adr.lines().any(|l| l.contains(&name) && l.contains(&found[..12]));
            assert!(says_why, "{} has no line with {name} and {}", pin.adr, &found[..12]);
            seen += 1;
        }
        assert_eq!(seen, pins.len(), "profiles/pins.toml names files that are not there");
    }

    #[test]
    fn what_is_compiled_in_is_what_is_pinned() {
        for name in known_agents(Path::new("/nonexistent")) {
            check(&load(&name, Path::new("/nonexistent")).unwrap()).unwrap();
        }
    }

    #[test]
    fn a_shipped_file_that_does_not_match_is_refused_with_both_hashes() {
        let shipped = load("standin", Path::new("/nonexistent")).unwrap();
        check(&shipped).unwrap();
        let refused = |agent: &Agent, file: &str| {
            let error = check(agent).unwrap_err();
            let told = error.to_string();
            assert!(told.starts_with("pin-mismatch: ") && told.contains(file), "{told}");
            let Error::PinShipped { pinned, found, .. } = error else { panic!("{told}") };
            assert!(told.contains(&pinned) && told.contains(&found), "{told}");
            assert_ne!(pinned, found);
        };
        for file in ["pen.json", "standin/agent.toml", "standin/server.json", "standin/client.json"]
        {
            let mut agent = shipped.clone();
            let text = match file {
                "pen.json" => &mut agent.profiles.pen,
                file => &mut agent.shipped.iter_mut().find(|(f, _)| f == file).unwrap().1,
            };
            text.push(' ');
            refused(&agent, file);
        }
        // Nor as a part of a person's own.
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("mine")).unwrap();
        std::fs::write(root.path().join("mine/agent.toml"), "extends = \"standin\"\n").unwrap();
        let mine = load("mine", root.path()).unwrap();
        check(&mine).unwrap();
        for file in ["standin/agent.toml", "standin/server.json", "standin/client.json"] {
            let mut mine = mine.clone();
            mine.shipped.iter_mut().find(|(name, _)| name == file).unwrap().1.push(' ');
            refused(&mine, file);
        }
        // An agent of one's own has policies of its own, under the same pen.
        let mut own = shipped.clone();
        own.shipped.clear();
        own.profiles.server.push(' ');
        check(&own).unwrap();
        own.profiles.pen.push(' ');
        refused(&own, "pen.json");
        assert!(matches!(check_with("", &shipped), Err(Error::PinShipped { .. })));
        assert!(matches!(check_with("[", &shipped), Err(Error::PinShipped { .. })));
    }
}
