//! `paddock prune --caches`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::bytes;
use crate::caches::{Cache, Freed, agents_with_homes, find, free};
use crate::cli;
use crate::error::{Error, status};
use crate::launch::Directories;
use crate::output::{complain, print, shown};

/// A cache, and what became of it; nothing, where it was only to be told.
type Outcome = (Cache, Option<Freed>);
/// A directory in a home that could not be looked into, and why.
type Closed = (PathBuf, io::Error);

/// Tells what the caches in private homes take up, and frees it once that is wanted; 0
/// when nothing that was to go is there still.
pub(crate) fn prune_caches(named: &str, options: &cli::Prune) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let known = agents_with_homes(&directories)?;
    let agents = match named {
        "" => known,
        named if known.iter().any(|agent| agent == named) => vec![named.to_owned()],
        named => {
            return Err(Error::CachesUnknown { agent: named.into(), known: known.join(", ") });
        }
    };
    let mut caches: Vec<(String, Vec<Cache>)> = Vec::new();
    let mut closed: Vec<Closed> = Vec::new();
    for agent in agents {
        let found = find(&agent, &directories);
        closed.extend(found.closed);
        caches.push((agent, found.caches));
    }
    let is_nothing = caches.iter().all(|(_, caches)| caches.is_empty());
    if !options.json {
        if !is_nothing || closed.is_empty() {
            list(&caches)?;
        }
        for closed in &closed {
            complain(describe_closed(closed));
        }
    }
    let is_decided = options.dry_run || options.yes || is_nothing;
    if !is_decided && !confirm(options.json)? {
        return Ok(status::FAILED);
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (agent, caches) in caches {
        if options.dry_run {
            outcomes.extend(caches.into_iter().map(|cache| (cache, None)));
        } else {
            let freed = free(&agent, &caches, &directories);
            outcomes.extend(caches.into_iter().zip(freed.into_iter().map(Some)));
        }
    }
    tell(&outcomes, &closed, !named.is_empty(), options)
}

/// What is there, before it is asked about.
fn list(caches: &[(String, Vec<Cache>)]) -> Result<(), Error> {
    for cache in caches.iter().flat_map(|(_, caches)| caches) {
        let (size, path) = (bytes(cache.bytes), shown(&cache.path));
        print(format_args!(
            "{size:>10}  {}  {path} ({})",
            shown(cache.agent.as_ref()),
            cache.whose
        ))?;
    }
    let all: u64 = caches.iter().flat_map(|(_, caches)| caches).map(|cache| cache.bytes).sum();
    if all == 0 && caches.iter().all(|(_, caches)| caches.is_empty()) {
        return print("no agent has caches");
    }
    print(format_args!("{:>10}  in all", bytes(all)))
}

/// Asks the person, where there is one.
fn confirm(is_json: bool) -> Result<bool, Error> {
    let (input, mut output) = (std::io::stdin(), std::io::stderr());
    if is_json || !input.is_terminal() || !output.is_terminal() {
        return Err(Error::CachesUnconfirmed);
    }
    let _ = write!(output, "remove them? [y/N] ");
    let _ = output.flush();
    let mut answer = String::new();
    let _ = input.lock().read_line(&mut answer);
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn tell(
    outcomes: &[Outcome],
    closed: &[Closed],
    is_named: bool,
    options: &cli::Prune,
) -> Result<u8, Error> {
    let freed: u64 = outcomes
        .iter()
        .filter(|(_, freed)| matches!(freed, Some(Freed::Removed)))
        .map(|(cache, _)| cache.bytes)
        .sum();
    let stays = |freed: &Option<Freed>| match freed {
        None | Some(Freed::Removed) => false,
        Some(Freed::Running(_) | Freed::InUse) => is_named,
        Some(Freed::Failed(_)) => true,
    };
    if options.json {
        let caches: Vec<Value> = outcomes.iter().map(value).collect();
        print(json!({
            "schema": 1, "dryRun": options.dry_run, "caches": caches, "freed": freed,
            "errors": closed.iter().map(|(path, e)| json!({
                "path": path.to_string_lossy(), "error": e.to_string(), "next": opens(path),
            })).collect::<Vec<_>>(),
        }))?;
    } else {
        let mut told: Vec<String> = Vec::new();
        for (cache, freed) in outcomes {
            let line = describe(cache, freed.as_ref());
            // Of a launch that lives once.
            if let Some(line) = line.filter(|line| !told.contains(line)) {
                complain(&line);
                told.push(line);
            }
        }
        if !options.dry_run && !outcomes.is_empty() {
            print(format_args!("{} freed", bytes(freed)))?;
        }
    }
    let is_left = outcomes.iter().any(|(_, freed)| stays(freed));
    Ok(if is_left || !closed.is_empty() { status::FAILED } else { 0 })
}

/// What to type, to have it looked into the next time.
fn opens(closed: &Path) -> String {
    format!("chmod u+rwx {}", shown(closed))
}

fn describe_closed((path, error): &Closed) -> String {
    format!("{} could not be looked into: {error}\n  next: {}", shown(path), opens(path))
}

fn describe(cache: &Cache, freed: Option<&Freed>) -> Option<String> {
    let agent = shown(cache.agent.as_ref());
    Some(match freed? {
        Freed::Removed => return None,
        Freed::Running(launch) => format!(
            "the caches of {agent} are kept: its launch {launch} lives\n  next: paddock stop {launch}"
        ),
        Freed::InUse => {
            format!("the caches of {agent} are kept: a launch of it lives\n  next: paddock list")
        }
        Freed::Failed(e) => format!(
            "{} could not be removed: {e}\n  next: paddock prune --caches {agent}",
            shown(&cache.path)
        ),
    })
}

fn value((cache, freed): &Outcome) -> Value {
    let (error, next) = match freed {
        Some(Freed::Running(launch)) => (None, Some(format!("paddock stop {launch}"))),
        Some(Freed::Failed(e)) => (Some(e.to_string()), None),
        _ => (None, None),
    };
    json!({
        "agent": cache.agent, "half": cache.half, "of": cache.whose,
        "path": cache.path.to_string_lossy(), "bytes": cache.bytes,
        "outcome": freed.as_ref().map(Freed::name), "error": error, "next": next,
    })
}
