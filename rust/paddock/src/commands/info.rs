//! `paddock info`.

use confine::escape::escape;
use serde_json::{Value, json};

use super::{recorded, state_name};
use crate::agent;
use crate::cli::Info;
use crate::error::Error;
use crate::launch::{Config, Directories, Found, Search, find_named_agent, find_self, find_warden};
use crate::obeyed::told;
use crate::output::{print, shown};
use crate::state::{LEDGER, find_launch};

/// Shows a launch, or what would be used here.
pub(crate) fn info(options: &Info) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let nothing_named = options.launch.is_none() && !options.paths && !options.agents;
    if options.programs || nothing_named && find_launch(None, &directories).is_err() {
        return programs(options, &directories);
    }
    if options.paths {
        return paths(options, &directories);
    }
    if options.agents {
        return agents(options, &directories);
    }
    let launch = find_launch(options.launch.as_deref(), &directories)?;
    let mut value = serde_json::to_value(&launch.record).unwrap_or_default();
    value["state"] = state_name(&launch).into();
    value["ledger"] = json!(launch.directory.join(LEDGER));
    // A ledger that cannot be read says so where it is asked for.
    let says = |event| recorded(&launch, event).ok().flatten();
    let git = says("start").map(|mut start| start["git"].take()).unwrap_or_default();
    let obeyed = says("obeyed");
    value["git"] = git;
    value["obeyed"] = obeyed.clone().unwrap_or_default();
    if options.json {
        print(format_args!("{value}"))?;
    } else {
        let record = &launch.record;
        print(format_args!("launch     {} ({})", record.launch, state_name(&launch)))?;
        let what = record.form.of(&record.agent);
        print(format_args!("agent      {what} ({})", record.tier))?;
        print(format_args!("workspace  {}", shown(&record.workspace)))?;
        for shared in &record.shared {
            print(format_args!("shared     {}", shown(shared)))?;
        }
        print(format_args!("keeper     {}", record.keeper))?;
        for part in &record.parts {
            print(format_args!("  {:<18} {}", part.name, part.process))?;
        }
        if let Some(status) = record.status {
            print(format_args!(
                "status     {status} {}",
                record.reason.as_deref().unwrap_or_default()
            ))?;
        }
        if let Some(settings) = value["git"]["settings"].as_str() {
            let kept = value["git"]["readOnly"].as_array().map_or(0, Vec::len);
            let settings = escape(settings.as_bytes());
            print(format_args!("git        {settings} hooks and settings; the veil keeps {kept}"))?;
        }
        if let Some(told) = obeyed.as_ref().and_then(told) {
            let count = told.len();
            print(format_args!(
                "changed    {count} of what is obeyed outside; paddock log --obeyed"
            ))?;
        }
        print(format_args!("ledger     {}", shown(&launch.directory.join(LEDGER))))?;
    }
    Ok(0)
}

fn programs(options: &Info, directories: &Directories) -> Result<u8, Error> {
    let config = Config::load(&directories.config_file())?;
    let search = Search::here(&config, directories);
    let mut found: Vec<(String, Result<Found, Error>)> = vec![
        ("paddock".into(), find_self()),
        ("warden".into(), find_self().and_then(|own| find_warden(&own))),
        ("nono".into(), search.nono()),
        ("bwrap".into(), search.bwrap()),
    ];
    // Of the agents nobody needs all.
    let required_missing = found.iter().any(|(_, program)| program.is_err());
    for name in agent::known_agents(&directories.agents()) {
        let program = find_named_agent(&name, &config, directories);
        found.push((format!("agent {name}"), program));
    }
    if options.json {
        let values: Vec<Value> = found
            .iter()
            .map(|(name, program)| match program {
                Ok(p) => json!({ "name": name, "path": p.path.to_string_lossy(), "version": p.version, "source": p.source }),
                Err(e) => json!({ "name": name, "error": e.to_string(), "advice": e.advice() }),
            })
            .collect();
        print(format_args!("{}", json!({ "schema": 1, "programs": values })))?;
    } else {
        for (name, program) in &found {
            match program {
                Ok(p) => print(format_args!(
                    "{name:<14} {} {} (from {})",
                    shown(&p.path),
                    p.version.as_deref().unwrap_or("-"),
                    p.source
                ))?,
                Err(e) => {
                    print(format_args!("{name:<14} missing: {e}"))?;
                    if let Some(advice) = e.advice() {
                        print(format_args!("{:<14} {advice}", ""))?;
                    }
                }
            }
        }
    }
    Ok(if required_missing { crate::error::status::FAILED } else { 0 })
}

fn paths(options: &Info, directories: &Directories) -> Result<u8, Error> {
    let rows = [
        ("configuration", directories.config_file()),
        ("own agents", directories.agents()),
        ("launches", directories.launches()),
        ("agent homes", directories.data.join("homes")),
        ("cache", directories.cache.clone()),
        ("sockets", directories.runtime.clone()),
    ];
    if options.json {
        let rows: serde_json::Map<String, Value> =
            rows.iter().map(|(name, path)| ((*name).to_owned(), json!(path))).collect();
        print(format_args!("{}", json!({ "schema": 1, "paths": rows })))?;
    } else {
        for (name, path) in rows {
            print(format_args!("{name:<14} {}", shown(&path)))?;
        }
    }
    Ok(0)
}

fn agents(options: &Info, directories: &Directories) -> Result<u8, Error> {
    let mut rows = Vec::new();
    for name in agent::known_agents(&directories.agents()) {
        let agent = agent::load(&name, &directories.agents())?;
        let source = agent.source.as_ref().map_or("shipped".to_owned(), |path| shown(path));
        if !options.json {
            print(format_args!("{name:<10} {} ({source})", agent.file.title))?;
        }
        rows.push(json!({ "name": name, "title": agent.file.title, "source": source }));
    }
    if options.json {
        print(format_args!("{}", json!({ "schema": 1, "agents": rows })))?;
    }
    Ok(0)
}
