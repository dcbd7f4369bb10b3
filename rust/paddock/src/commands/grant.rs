//! `paddock grant`: a person's answer to what an agent asks for.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::{Grant, GrantKind};
use crate::error::{Error, status};
use crate::keeper::{Request, Scope, Wanted, ask_keeper};
use crate::launch::{Directories, add_for_agent, canonical_host};
use crate::output::{print, shown};
use crate::state::{Stored, find_launch};

/// Grants, denies or takes back; 0 when that was done.
pub(crate) fn grant(options: &Grant) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let launch = find_launch(Some(&options.launch), &directories)?;
    let Some(kind) = options.kind else { return list(&launch, options) };
    let what = options.what.as_deref().unwrap_or(Path::new(""));
    let wanted = wanted(kind, what, options.write)?;
    let request = match (&wanted, options.deny, options.revoke) {
        (_, true, _) => Request::Deny { wanted: wanted.clone() },
        (Wanted::Host(host), _, true) => Request::Revoke { host: host.clone() },
        (Wanted::Path { .. }, _, true) => {
            let reason = "a path is taken back in the configuration, for the next launch".into();
            return Err(Error::Grant { reason });
        }
        _ => Request::Grant { wanted: wanted.clone(), scope: scope(options, &wanted) },
    };
    let is_kept_for_good = matches!(&request, Request::Grant { scope: Scope::Always, .. });
    if is_kept_for_good {
        keep(&wanted, &launch, &directories)?;
    }
    let answer = asked(&launch, &request)?;
    if options.json {
        print(format_args!("{}", with_schema(answer)))?;
        return Ok(0);
    }
    let said = match &request {
        Request::Deny { .. } => "denied".to_owned(),
        Request::Revoke { .. } if answer["wasGranted"] == false => {
            print(format_args!("it was not granted"))?;
            return Ok(status::FAILED);
        }
        Request::Revoke { .. } => "taken back; its connections are cut".to_owned(),
        _ => told(&wanted, &launch, scope(options, &wanted)),
    };
    print(format_args!("{said}"))?;
    Ok(0)
}

fn scope(options: &Grant, wanted: &Wanted) -> Scope {
    match (options.once, options.always, wanted) {
        // A sandbox that runs cannot be widened.
        (.., Wanted::Path { .. }) | (_, true, _) => Scope::Always,
        (true, ..) => Scope::Once,
        _ => Scope::Launch,
    }
}

fn wanted(kind: GrantKind, what: &Path, write: bool) -> Result<Wanted, Error> {
    let bad = |reason: String| Error::Grant { reason };
    match kind {
        GrantKind::Host => {
            let text = what.to_str().unwrap_or_default();
            let host = canonical_host(text).map_err(|e| bad(format!("{}: {e}", shown(what))))?;
            Ok(Wanted::Host(host))
        }
        GrantKind::Path => {
            let path: PathBuf = std::path::absolute(what).map_err(|e| bad(e.to_string()))?;
            if path.to_str().is_none_or(|text| text.contains(',')) {
                let reason =
                    "its name is not UTF-8, or has a comma, which nono takes for a separator";
                return Err(bad(format!("{}: {reason}", shown(&path))));
            }
            Ok(Wanted::Path { path, write })
        }
    }
}

/// Writes it into the configuration, for later launches of that agent.
fn keep(wanted: &Wanted, launch: &Stored, directories: &Directories) -> Result<(), Error> {
    let (key, entry) = match wanted {
        Wanted::Host(host) => ("hosts", host.clone()),
        Wanted::Path { path, write } => {
            (if *write { "write" } else { "read" }, path.to_string_lossy().into_owned())
        }
    };
    add_for_agent(&directories.config_file(), &launch.record.agent, key, &entry)
}

fn asked(launch: &Stored, request: &Request) -> Result<Value, Error> {
    let socket = launch.record.launch_directory.join("control.sock");
    let answer = ask_keeper(&socket, request).map_err(|e| Error::Grant {
        reason: format!("the launch's keeper does not answer: {e}"),
    })?;
    match answer["error"].as_str() {
        Some(why) => Err(Error::Grant { reason: why.to_owned() }),
        None => Ok(answer),
    }
}

fn told(wanted: &Wanted, launch: &Stored, scope: Scope) -> String {
    match (wanted, scope) {
        (Wanted::Host(_), Scope::Once) => "granted for one connection".into(),
        (Wanted::Host(_), Scope::Launch) => "granted for as long as this launch lives".into(),
        (Wanted::Host(_), Scope::Always) => {
            format!("granted, for later launches of {}, too", launch.record.agent)
        }
        (Wanted::Path { .. }, _) => format!(
            "granted for the next launch of {0}: a sandbox that runs cannot be widened\n  \
             next: paddock run {0}",
            launch.record.agent
        ),
    }
}

fn list(launch: &Stored, options: &Grant) -> Result<u8, Error> {
    let answer = asked(launch, &Request::Questions)?;
    if options.json {
        print(format_args!("{}", with_schema(answer)))?;
        return Ok(0);
    }
    let questions = answer["questions"].as_array().cloned().unwrap_or_default();
    if questions.is_empty() {
        print(format_args!("no question waits"))?;
    }
    for question in questions {
        let wanted: Option<Wanted> = serde_json::from_value(question["wanted"].clone()).ok();
        let what = match wanted {
            Some(Wanted::Host(host)) => format!("host {host}"),
            Some(Wanted::Path { path, write: true }) => format!("path {} --write", shown(&path)),
            Some(Wanted::Path { path, .. }) => format!("path {}", shown(&path)),
            None => "something unknown".into(),
        };
        print(format_args!("{what}"))?;
    }
    Ok(0)
}

fn with_schema(mut answer: Value) -> Value {
    answer["schema"] = json!(1);
    answer
}
