//! `paddock grant`: a person's answer to what an agent asks for.

use std::path::{Path, PathBuf};

use egress::Refusal;
use serde_json::{Value, json};

use super::grant_path::{check_scope, grant_path};
use crate::cli::{Grant, GrantKind};
use crate::error::{Error, status};
use crate::keeper::{Request, Scope, Wanted, ask_keeper};
use crate::launch::{
    Config, Directories, EgressProfile, add_for_agent, canonical_host, host_and_ports, load_agent,
    policy,
};
use crate::output::{print, shown};
use crate::state::{Stored, find_launch};

/// What came of an answer.
pub(super) struct Granted {
    /// For a person.
    pub(super) text: String,
    /// For a script.
    pub(super) answer: Value,
    /// Not, when there was nothing to take back.
    pub(super) is_done: bool,
}

/// Grants, denies or takes back; 0 when that was done.
pub(crate) fn grant(options: &Grant) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let launch = find_launch(Some(&options.launch), &directories)?;
    let Some(kind) = options.kind else { return list(&launch, options) };
    let what = options.what.as_deref().unwrap_or(Path::new(""));
    let granted = match wanted(kind, what, options.write)? {
        wanted if options.deny => deny(wanted, &launch)?,
        Wanted::Host(host) if options.revoke => revoke(&host, &launch, &directories)?,
        Wanted::Host(host) => grant_host(&host, scope(options), &launch, &directories)?,
        Wanted::Path { .. } if options.revoke => {
            let reason = format!(
                "a path is taken back for later launches alone: remove it from {}; this one may be \
                 stopped with `paddock stop {}`",
                shown(&directories.config_file()),
                launch.record.launch,
            );
            return Err(Error::Grant { reason });
        }
        Wanted::Path { path, write } => {
            check_scope(!options.once && !options.for_launch)?;
            grant_path(&path, write, &launch, &directories)?
        }
    };
    if options.json {
        print(format_args!("{}", with_schema(granted.answer)))?;
    } else {
        print(format_args!("{}", granted.text))?;
    }
    Ok(if granted.is_done { 0 } else { status::FAILED })
}

/// A person's answer to a question of a launch's, as the overlay gives it: a scope, or
/// none to deny it. What came of it, for a person.
///
/// # Errors
/// When it was not granted, or not kept.
pub(crate) fn answer_question(
    wanted: Wanted,
    scope: Option<Scope>,
    launch: &Stored,
    directories: &Directories,
) -> Result<String, Error> {
    let granted = match (wanted, scope) {
        (wanted, None) => deny(wanted, launch)?,
        (Wanted::Host(host), Some(scope)) => grant_host(&host, scope, launch, directories)?,
        (Wanted::Path { path, write }, Some(scope)) => {
            check_scope(scope == Scope::Always)?;
            grant_path(&path, write, launch, directories)?
        }
    };
    Ok(granted.text)
}

fn scope(options: &Grant) -> Scope {
    match (options.once, options.always) {
        (_, true) => Scope::Always,
        (true, _) => Scope::Once,
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
            Ok(Wanted::Path { path, write })
        }
    }
}

fn grant_host(
    host: &str,
    scope: Scope,
    launch: &Stored,
    directories: &Directories,
) -> Result<Granted, Error> {
    let wanted = Wanted::Host(host.to_owned());
    let answer = ask(launch, &Request::Grant { wanted, scope })?;
    let agent = &launch.record.agent;
    let text = match scope {
        Scope::Once => "granted for one connection".into(),
        Scope::Launch => "granted for as long as this launch lives".into(),
        Scope::Always => {
            keep("hosts", host, launch, directories)
                .map_err(|e| Error::GrantNotKept { reason: e.to_string() })?;
            match left_out(host, launch, directories) {
                None => format!("granted, for later launches of {agent}, too"),
                Some(why) => format!(
                    "granted for as long as this launch lives, and kept; but later launches of \
                     {agent} here do not have it: {why}"
                ),
            }
        }
    };
    Ok(Granted { text, answer, is_done: true })
}

fn deny(wanted: Wanted, launch: &Stored) -> Result<Granted, Error> {
    // What is asked for is where the path leads.
    let wanted = match wanted {
        Wanted::Path { path, write } => {
            Wanted::Path { path: path.canonicalize().unwrap_or(path), write }
        }
        host @ Wanted::Host(_) => host,
    };
    let answer = ask(launch, &Request::Deny { wanted: wanted.clone() })?;
    let text = match wanted {
        Wanted::Host(host) if answer["asked"] == 0 => format!(
            "nobody waits for that; what was granted is taken back by\n  \
             paddock grant {} host {host} --revoke",
            launch.record.launch
        ),
        _ => "denied".into(),
    };
    Ok(Granted { text, answer, is_done: true })
}

fn revoke(host: &str, launch: &Stored, directories: &Directories) -> Result<Granted, Error> {
    let mut answer = ask(launch, &Request::Revoke { host: host.to_owned() })?;
    let is_done = answer["wasGranted"] == true;
    let still = answer["stillAllowedBy"].as_array().into_iter().flatten();
    let still = still.filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let mut text = match (is_done, still.is_empty()) {
        (true, true) => "taken back; its connections are cut".to_owned(),
        (true, false) => format!("taken back, but {still} allows it still"),
        (false, true) => "it was not granted".to_owned(),
        (false, false) => format!("it was not granted by itself; {still} allows it"),
    };
    let kept = kept_for(host, &launch.record.agent, directories);
    answer["keptAs"] = json!(kept);
    if let Some(entry) = kept {
        let file = shown(&directories.config_file());
        text = format!(
            "{text}\n  later launches have it still: remove {} from {file}",
            shown(Path::new(&entry))
        );
    }
    Ok(Granted { text, answer, is_done })
}

/// The entry of the configuration that lets later launches of an agent reach a host.
fn kept_for(host: &str, agent: &str, directories: &Directories) -> Option<String> {
    // One that cannot be read lets no launch start.
    let config = Config::load(&directories.config_file()).ok()?;
    let of_agent = config.agents.get(agent).into_iter().flat_map(|settings| &settings.hosts);
    let (host, ports) = host_and_ports(host)?;
    let is_for_it = |entry: &&String| {
        host_and_ports(entry)
            .is_some_and(|(known, of)| known == host && of.iter().any(|port| ports.contains(port)))
    };
    config.egress.hosts.iter().chain(of_agent).find(is_for_it).cloned()
}

/// Why later launches of the agent in the launch's workspace would not have a host that
/// is kept.
fn left_out(host: &str, launch: &Stored, directories: &Directories) -> Option<String> {
    let (name, workspace) = (&launch.record.agent, &launch.record.workspace);
    let later = || {
        let persons = Config::load(&directories.config_file())?;
        let of_file = load_agent(name, &persons, directories)?.file.hosts;
        let config = persons.in_workspace(workspace, directories)?;
        let hosts = config.hosts_of(name, &of_file)?;
        let allowed = policy(&hosts, &config.egress.exceptions)?;
        let (host, ports) = host_and_ports(host).unzip();
        let ports = ports.into_iter().flatten();
        let has_it = host.is_some_and(|host| {
            ports.into_iter().any(|port| {
                !matches!(
                    allowed.route(&host, port),
                    Err(Refusal::HostNotAllowed { .. } | Refusal::PortNotAllowed { .. })
                )
            })
        });
        Ok::<_, Error>((has_it, config))
    };
    match later() {
        Ok((true, _)) => None,
        Ok((false, config)) if config.egress.profile == EgressProfile::None => {
            Some("egress.profile is \"none\"".into())
        }
        Ok((false, config)) => {
            let file = config.project.map(|project| shown(&project.path));
            Some(format!("{} leaves it out", file.unwrap_or_else(|| "the configuration".into())))
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Writes an entry into the configuration, for later launches of that agent.
pub(super) fn keep(
    key: &str,
    entry: &str,
    launch: &Stored,
    directories: &Directories,
) -> Result<(), Error> {
    add_for_agent(&directories.config_file(), &launch.record.agent, key, entry)
}

/// Asks the launch's keeper.
pub(super) fn ask(launch: &Stored, request: &Request) -> Result<Value, Error> {
    let socket = launch.record.launch_directory.join("control.sock");
    let answer = ask_keeper(&socket, request).map_err(|e| Error::Grant {
        reason: format!("the launch's keeper does not answer: {e}"),
    })?;
    match answer["error"].as_str() {
        Some(why) => Err(Error::Grant { reason: why.to_owned() }),
        None => Ok(answer),
    }
}

fn list(launch: &Stored, options: &Grant) -> Result<u8, Error> {
    let answer = ask(launch, &Request::Questions)?;
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
