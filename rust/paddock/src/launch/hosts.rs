//! The names that a launch may reach.

use std::collections::BTreeMap;

use egress::{DEFAULT_PORTS, Host, Place, Policy, parse_port, split_port};

use crate::error::Error;

/// Checks the names that a launch may reach.
///
/// # Errors
/// The first that is not a name, or not an address or a network.
pub(crate) fn policy(
    hosts: &[String],
    exceptions: &BTreeMap<String, String>,
) -> Result<Policy, Error> {
    let exceptions = exceptions
        .iter()
        .map(|(name, address)| {
            let place: Place = address.parse().map_err(|_| Error::Hosts {
                reason: format!(
                    "{address:?}, the exception for {name:?}, is no address and no network"
                ),
            })?;
            Ok((name.as_str(), place))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Policy::new(hosts, exceptions).map_err(|e| Error::Hosts { reason: e.to_string() })
}

/// A host, and the ports that an entry for it means; no wildcard.
pub(crate) fn host_and_ports(entry: &str) -> Option<(Host, Vec<u16>)> {
    let (host, port) = split_port(entry);
    let ports = match port {
        Some(port) => vec![parse_port(port)?],
        None => DEFAULT_PORTS.to_vec(),
    };
    Some((Host::parse(host).ok()?, ports))
}

/// As an entry, and as `paddock ask host` takes it.
pub(crate) fn with_port(host: &Host, port: u16) -> String {
    match host.to_string() {
        address if address.contains(':') => format!("[{address}]:{port}"),
        name => format!("{name}:{port}"),
    }
}

/// `name` or `name:port` in its one form; no wildcard.
///
/// # Errors
/// Why it is neither.
pub(crate) fn canonical_host(text: &str) -> Result<String, String> {
    let (host, port) = split_port(text);
    let host = Host::parse(host).map_err(|e| e.to_string())?;
    let Some(port) = port else { return Ok(host.to_string()) };
    let port = parse_port(port).ok_or_else(|| format!("{port:?} is no port"))?;
    Ok(with_port(&host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_form() {
        for (text, wanted) in [
            ("A.Test.", Some("a.test")),
            ("a.test:443", Some("a.test:443")),
            ("[::1]:80", Some("[::1]:80")),
            ("a.test:0", None),
            ("a.test:x", None),
            ("a.test:+443", None),
            ("*.test", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(canonical_host(text).ok().as_deref(), wanted, "{text}");
        }
    }
}
