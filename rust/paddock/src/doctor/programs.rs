//! The programs that a launch is made of, and those it works with.

use std::path::Path;

use confine::escape::escape_short;

use super::Feature;
use crate::agent;
use crate::error::Error;
use crate::launch::{Config, Directories, Found, NONO_KNOWN, Search, find_named_agent};
use crate::output::shown;

/// nono, bubblewrap, herdr, git and each agent.
pub(super) fn examine(config: &Config, directories: &Directories) -> Vec<Feature> {
    let search = Search::here(config, directories);
    let mut features = vec![
        nono(search.nono()),
        program("bubblewrap", search.bwrap()),
        tool("herdr", "paddock works without it, in any terminal", &search),
        tool("git", "paddock works without it; without git a workspace is a directory", &search),
    ];
    for name in agent::known_agents(&directories.agents()) {
        let found = find_named_agent(&name, config, directories);
        let name = escape_short(name.as_bytes(), 40);
        features.push(program(&format!("agent-{name}"), found));
    }
    features
}

fn nono(found: Result<Found, Error>) -> Feature {
    let known = found.as_ref().ok().and_then(|found| found.version.clone());
    let known = known.is_some_and(|version| NONO_KNOWN.contains(&version.as_str()));
    let feature = program("nono", found);
    if known || !feature.suffices() {
        return feature;
    }
    Feature::partial("nono", format!("{}; not a version known to work", feature.reason)).advise(
        format!(
            "cargo install nono-cli --version {} installs one that is",
            NONO_KNOWN.join(" or ")
        ),
    )
}

fn program(name: &str, found: Result<Found, Error>) -> Feature {
    match found {
        Ok(found) => Feature::enforced(name, described(&found)),
        Err(e) => {
            let feature = Feature::missing(name, e.to_string());
            match e.advice() {
                Some(advice) => feature.advise(advice),
                None => feature,
            }
        }
    }
}

fn tool(name: &'static str, without: &str, search: &Search<'_>) -> Feature {
    match search.tool(name) {
        Some(Ok(found)) => Feature::enforced(name, described(&found)),
        Some(Err(e)) => Feature::unknown(name, e.to_string()).advise(without),
        None => Feature::missing(name, "it was not found on PATH").advise(without),
    }
}

fn described(found: &Found) -> String {
    let path = shown(Path::new(&found.path));
    match &found.version {
        Some(version) => format!("{path} {}", escape_short(version.as_bytes(), 40)),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[allow(clippy::unnecessary_wraps)] // what it stands for can fail
    fn found(version: Option<&str>) -> Result<Found, Error> {
        Ok(Found {
            path: "/opt/x".into(),
            file: confine::proc::FileId::of_path(Path::new("/")).unwrap(),
            version: version.map(str::to_owned),
            source: "PATH".into(),
        })
    }

    #[test]
    fn a_nono_that_is_not_known_to_work_is_partial() {
        assert_eq!(nono(found(Some("0.81.0"))).state, State::Enforced);
        let newer = nono(found(Some("0.99.0")));
        assert_eq!(newer.state, State::Partial);
        assert_eq!(newer.reason, "/opt/x 0.99.0; not a version known to work");
        let missing = nono(Err(Error::MissingProgram {
            program: "nono",
            looked: "PATH".into(),
            install: "install it",
        }));
        assert_eq!(missing.state, State::Missing);
        assert_eq!(missing.advice.as_deref(), Some("install it"));
    }

    #[test]
    fn what_a_program_says_of_itself_is_escaped() {
        let feature = program("x", found(Some("1.0\u{1b}[2J")));
        assert_eq!(feature.reason, "/opt/x 1.0\\u{1b}[2J");
        assert_eq!(program("x", found(None)).reason, "/opt/x");
    }
}
