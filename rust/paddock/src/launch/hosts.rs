//! The names that a launch may reach.

use std::collections::BTreeMap;

use egress::{Host, Place, Policy};

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

/// A host and its port, where `text` has one.
fn split_host(text: &str) -> (&str, Option<&str>) {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    port.map_or((text, None), |(host, port)| (host, Some(port)))
}

/// Those of a host that is named without one.
const USUAL_PORTS: [u16; 2] = [443, 80];

/// A host, and the ports that an entry for it means; no wildcard.
pub(crate) fn host_and_ports(entry: &str) -> Option<(Host, Vec<u16>)> {
    let (host, port) = split_host(entry);
    let ports = match port {
        Some(port) => vec![port.parse().ok().filter(|port| *port > 0)?],
        None => USUAL_PORTS.to_vec(),
    };
    Some((Host::parse(host).ok()?, ports))
}

/// `name` or `name:port` in its one form; no wildcard.
///
/// # Errors
/// Why it is neither.
pub(crate) fn canonical_host(text: &str) -> Result<String, String> {
    let (host, port) = split_host(text);
    let host = Host::parse(host).map_err(|e| e.to_string())?;
    let Some(port) = port else { return Ok(host.to_string()) };
    let host = host.to_string();
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(format!("{host}:{port}")),
        _ => Err(format!("{port:?} is no port")),
    }
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
            ("*.test", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(canonical_host(text).ok().as_deref(), wanted, "{text}");
        }
    }
}
