//! Where an excepted host may be.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::address::special_block;

/// The other side of an exception: where a host is, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this address. Nothing is resolved.
    Address(IpAddr),
    /// Where its name resolves to, which may be in this network, too.
    Network(IpNet),
}

impl Place {
    /// The one form of the place, if a host can be there.
    ///
    /// An address must be that of a host: not the unspecified one, which would
    /// reach the loopback, and no group. A network must lie in one block of
    /// addresses that are not public: one that is wider would take in others,
    /// and in one that is public there is nothing to except.
    pub(crate) fn canonical(self) -> Option<Self> {
        match self {
            Self::Address(address) => {
                let address = address.to_canonical();
                is_of_a_host(address).then_some(Self::Address(address))
            }
            Self::Network(network) => {
                let is_whole = network == network.trunc();
                let is_special = special_block(network).is_some();
                let fits = is_whole && is_special && is_of_a_host(network.addr());
                fits.then_some(self)
            }
        }
    }

    /// Whether the address is there.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::Address(only) => *only == address,
            Self::Network(network) => network.contains(&address),
        }
    }
}

/// Refuses what reaches this host by another name, and groups.
fn is_of_a_host(address: IpAddr) -> bool {
    let is_broadcast = address == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
    !(address.is_unspecified() || address.is_multicast() || is_broadcast)
}

impl From<IpAddr> for Place {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl FromStr for Place {
    type Err = ipnet::AddrParseError;

    /// Reads `10.0.0.8` or `10.0.0.0/8`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => text.parse().map(Self::Network),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Network(network) => network.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_judged() {
        for (text, canonical) in [
            ("10.0.0.8", Some("10.0.0.8")),
            ("8.8.8.8", Some("8.8.8.8")),
            ("::ffff:10.0.0.8", Some("10.0.0.8")),
            ("0.0.0.0", None),
            ("::", None),
            ("::ffff:0.0.0.0", None),
            ("224.0.0.1", None),
            ("255.255.255.255", None),
            ("ff02::1", None),
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("10.0.0.8/32", Some("10.0.0.8/32")),
            ("127.0.0.0/8", Some("127.0.0.0/8")),
            ("192.168.7.0/24", Some("192.168.7.0/24")),
            ("fd00::/8", Some("fd00::/8")),
            ("fe80::/10", Some("fe80::/10")),
            // Bits below the prefix: the address, or the network?
            ("10.0.0.8/8", None),
            // Wider than any block, or public.
            ("0.0.0.0/0", None),
            ("10.0.0.0/7", None),
            ("192.168.0.0/15", None),
            ("8.8.8.0/24", None),
            ("::/0", None),
            ("2000::/3", None),
            // No places of hosts.
            ("0.0.0.0/8", None),
            ("224.0.0.0/4", None),
            ("255.255.255.255/32", None),
            ("::/128", None),
            ("ff00::/8", None),
            // An IPv4 network in IPv6 clothes.
            ("::ffff:10.0.0.0/104", None),
        ] {
            let place: Place = text.parse().unwrap();
            let found = place.canonical().map(|place| place.to_string());
            assert_eq!(found.as_deref(), canonical, "{text}");
        }
        for text in ["", "10.0.0", "10.0.0.0/33", "db.lan", "10.0.0.0/8/8", "127.1", "[::1]"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_is_in_a_network_in_its_mapped_form_too() {
        let place: Place = "10.0.0.0/8".parse().unwrap();
        for (address, inside) in [
            ("10.0.0.8", true),
            ("::ffff:10.0.0.8", true),
            ("11.0.0.8", false),
            // Through a translator it is another way, and another network.
            ("64:ff9b::10.0.0.8", false),
            ("::10.0.0.8", false),
        ] {
            assert_eq!(place.contains(address.parse().unwrap()), inside, "{address}");
        }
    }
}
