//! The names that a launch may reach.

use std::collections::BTreeMap;

use egress::{Place, Policy};

use crate::error::Error;

/// Checks the names that a launch may reach.
///
/// # Errors
/// The first that is not a name, or not an address or a network.
pub(super) fn policy(
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
