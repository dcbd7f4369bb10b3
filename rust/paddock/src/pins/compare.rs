//! What became different between two policies, in words, and whether the agent
//! may do more for it.

use super::facts::Facts;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    /// In words; not escaped.
    pub(crate) what: String,
    /// The agent may do what it could not, or that cannot be told.
    pub(crate) widens: bool,
}

/// What a kind of fact means.
enum Rule {
    /// Each value allows something: "now also {0} X".
    Grant(&'static str),
    /// Each value forbids something: "no longer {0} X".
    Limit(&'static str),
    /// One value, of which the first allows least, and the one that it is when
    /// nothing is said: "{0} was X, is Y".
    Scale(&'static str, &'static [&'static str], &'static str),
    /// Names of nono's groups.
    Groups,
}

const OFF_ON: &[&str] = &["false", "true"];
const ON_OFF: &[&str] = &["true", "false"];
const SAME_SANDBOX: &[&str] = &["isolated", "allow_same_sandbox", "allow_all"];

/// What is known of a kind. All others are taken to widen.
fn rule(kind: &str) -> Option<Rule> {
    use Rule::{Grant, Groups, Limit, Scale};
    Some(match kind {
        "reads" => Grant("reads"),
        "writes" => Grant("writes"),
        "deny" => Limit("denies"),
        "filesystem.bypass_protection" => Grant("lifts the protection of"),
        "filesystem.unix_socket" => Grant("connects to the socket"),
        "filesystem.unix_socket_bind" => Grant("listens on the socket"),
        "filesystem.unix_socket_dir" => Grant("connects to sockets in"),
        "filesystem.unix_socket_dir_bind" => Grant("listens on sockets in"),
        "filesystem.unix_socket_subtree" => Grant("connects to sockets below"),
        "filesystem.unix_socket_subtree_bind" => Grant("listens on sockets below"),
        "groups.include" => Groups,
        "linux.af_unix_mediation" => Scale("AF_UNIX mediation", &["pathname", "off"], "off"),
        "linux.isolate.network" => Scale("an own network", ON_OFF, "false"),
        "linux.isolate.loopback" => Scale("an own loopback", ON_OFF, "false"),
        "linux.isolate.ipc" => Scale("own System V objects", ON_OFF, "false"),
        "linux.isolate.uts" => Scale("an own host name", ON_OFF, "false"),
        "manifest.network.mode" => {
            Scale("the network", &["blocked", "proxy", "unrestricted"], "unrestricted")
        }
        "manifest.network.dns" => Scale("DNS", OFF_ON, "true"),
        "manifest.network.allow_domains" | "agent.hosts" => Grant("reaches the host"),
        "manifest.network.ports.localhost" => Grant("connects to and listens on the local port"),
        "manifest.network.ports.connect" | "network.connect_port" => Grant("connects to port"),
        "manifest.network.ports.bind" => Grant("listens on port"),
        "network.deny_domain" => Limit("refuses the host"),
        "agent.login.hosts" => Grant("reaches, when you sign in, the host"),
        "network.network_profile" => Grant("reaches the hosts of nono's list"),
        "network.credentials" => Grant("uses the credential"),
        "network.no_proxy" => Grant("goes past the proxy to"),
        "network.upstream_bypass" => Grant("goes past the upstream proxy to"),
        "network.open_port_range" => Grant("connects to and listens on the local ports"),
        "network.listen_port_range" => Grant("listens on the ports"),
        "environment.deny_vars" | "agent.drop" => Limit("withholds the variable"),
        "security.signal_mode" | "manifest.process.signal_mode" => {
            Scale("signals", SAME_SANDBOX, "isolated")
        }
        "security.process_info_mode" | "manifest.process.process_info_mode" => {
            Scale("sight of other processes", SAME_SANDBOX, "isolated")
        }
        "security.ipc_mode" | "manifest.process.ipc_mode" => {
            Scale("System V IPC", &["shared_memory_only", "full"], "shared_memory_only")
        }
        "security.capability_elevation" => Scale("asking for more", OFF_ON, "false"),
        "manifest.process.blocked_commands" => Limit("refuses to be started as"),
        "workdir.access" => {
            Scale("access to the workspace", &["none", "read", "readwrite"], "none")
        }
        "agent.server.pass" => Grant("gets the caller's variable"),
        "agent.solo.pass" => Grant("gets as one process the caller's variable"),
        "agent.client.pass" => Grant("gets in its client the caller's variable"),
        _ => return None,
    })
}

/// Every difference, those that widen first; none when the two allow the same.
pub(crate) fn compare(old: &Facts, new: &Facts) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for kind in old.kinds(new) {
        let removed: Vec<&str> = old.of(kind).filter(|value| !new.has(kind, value)).collect();
        let added: Vec<&str> = new.of(kind).filter(|value| !old.has(kind, value)).collect();
        if removed.is_empty() && added.is_empty() {
            continue;
        }
        match rule(kind) {
            Some(Rule::Grant(verb)) => {
                changes.extend(added.iter().map(|x| widens(format!("now also {verb} {x}"))));
                changes.extend(removed.iter().map(|x| narrows(format!("no longer {verb} {x}"))));
            }
            Some(Rule::Limit(verb)) => {
                changes.extend(removed.iter().map(|x| widens(format!("no longer {verb} {x}"))));
                changes.extend(added.iter().map(|x| narrows(format!("now {verb} {x}"))));
            }
            Some(Rule::Groups) => groups(&removed, &added, &mut changes),
            Some(Rule::Scale(name, steps, default)) => {
                let was = only(old.of(kind), default);
                let is = only(new.of(kind), default);
                // Said now, and so before without being said.
                if was.is_some() && was == is {
                    continue;
                }
                let step = |value: Option<&str>| steps.iter().position(|s| Some(*s) == value);
                let less = matches!((step(was), step(is)), (Some(was), Some(is)) if is <= was);
                let told = |value: Option<&str>| value.unwrap_or("several things").to_owned();
                let what = format!("{name}: was {}, is {}", told(was), told(is));
                changes.push(Change { what, widens: !less });
            }
            None => {
                changes.extend(removed.iter().map(|x| widens(format!("{kind} was {x}"))));
                changes.extend(added.iter().map(|x| widens(format!("{kind} is now {x}"))));
            }
        }
    }
    // The manifest and the profile are two views of one thing.
    let mut told = std::collections::HashSet::new();
    changes.retain(|change| told.insert(change.clone()));
    changes.sort_by_key(|change| !change.widens);
    changes
}

/// The one value; `None` when there are several.
fn only<'a>(mut values: impl Iterator<Item = &'a str>, default: &'a str) -> Option<&'a str> {
    let first = values.next().unwrap_or(default);
    values.next().is_none().then_some(first)
}

/// Some groups forbid, and bear it in their names; all others grant.
fn groups(removed: &[&str], added: &[&str], changes: &mut Vec<Change>) {
    let forbids = |name: &&str| name.starts_with("deny_") || name.starts_with("dangerous_");
    for name in added {
        let what = format!("now has nono's group {name}");
        changes.push(Change { what, widens: !forbids(name) });
    }
    for name in removed {
        let what = format!("no longer has nono's group {name}");
        changes.push(Change { what, widens: forbids(name) });
    }
}

fn widens(what: String) -> Change {
    Change { what, widens: true }
}

fn narrows(what: String) -> Change {
    Change { what, widens: false }
}

#[cfg(test)]
mod tests;
