//! Which addresses may be reached at all.
//!
//! The tables follow the IANA special-purpose address registries ([RFC 6890],
//! [IPv4], [IPv6]). Every block in them is refused, also the few that a
//! registry calls globally reachable (AS112, AMT, the PCP and TURN anycast
//! addresses): those lead to infrastructure near the host, never to a service
//! on the Internet. Only the prefixes that carry an IPv4 address are judged by
//! that address.
//!
//! [RFC 6890]: https://www.rfc-editor.org/rfc/rfc6890
//! [IPv4]: https://www.iana.org/assignments/iana-ipv4-special-registry
//! [IPv6]: https://www.iana.org/assignments/iana-ipv6-special-registry

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::Refusal;

/// Narrower blocks come first, so that the most telling name is reported.
const SPECIAL_V4: [(Ipv4Net, &str); 20] = [
    (v4([0, 0, 0, 0], 8), "this network"),
    (v4([10, 0, 0, 0], 8), "private use"),
    (v4([100, 64, 0, 0], 10), "shared address space"),
    (v4([127, 0, 0, 0], 8), "loopback"),
    // Not in the registry: the fixed address at which Azure's hosts serve
    // their guests.
    (v4([168, 63, 129, 16], 32), "cloud host endpoint"),
    (v4([169, 254, 0, 0], 16), "link-local"),
    (v4([172, 16, 0, 0], 12), "private use"),
    (v4([192, 0, 0, 0], 24), "IETF protocol assignments"),
    (v4([192, 0, 2, 0], 24), "documentation"),
    (v4([192, 31, 196, 0], 24), "AS112"),
    (v4([192, 52, 193, 0], 24), "AMT"),
    (v4([192, 88, 99, 0], 24), "6to4 relay anycast"),
    (v4([192, 168, 0, 0], 16), "private use"),
    (v4([192, 175, 48, 0], 24), "AS112"),
    (v4([198, 18, 0, 0], 15), "benchmarking"),
    (v4([198, 51, 100, 0], 24), "documentation"),
    (v4([203, 0, 113, 0], 24), "documentation"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([255, 255, 255, 255], 32), "limited broadcast"),
    (v4([240, 0, 0, 0], 4), "reserved"),
];

const SPECIAL_V6: [(Ipv6Net, &str); 15] = [
    (Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 128), "unspecified"),
    (Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128), "loopback"),
    (v6([0, 0, 0, 0], 96), "IPv4-compatible"),
    (v6([0x64, 0xff9b, 1, 0], 48), "local-use translation"),
    (v6([0x100, 0, 0, 0], 64), "discard-only"),
    (v6([0x100, 0, 0, 1], 64), "dummy prefix"),
    // Teredo, ORCHID and the other assignments below it included.
    (v6([0x2001, 0, 0, 0], 23), "IETF protocol assignments"),
    (v6([0x2001, 0xdb8, 0, 0], 32), "documentation"),
    (v6([0x2620, 0x4f, 0x8000, 0], 48), "AS112"),
    (v6([0x3fff, 0, 0, 0], 20), "documentation"),
    (v6([0x5f00, 0, 0, 0], 16), "segment routing"),
    (v6([0xfc00, 0, 0, 0], 7), "unique local"),
    (v6([0xfe80, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0], 10), "site-local"),
    (v6([0xff00, 0, 0, 0], 8), "multicast"),
];

/// IPv4-mapped: not on the wire, but a socket takes it for the IPv4 address.
const MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
/// IPv4/IPv6 translation (NAT64), well-known prefix, RFC 6052.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0], 96);
const SIX_TO_FOUR: Ipv6Net = v6([0x2002, 0, 0, 0], 16);
/// The only part of the IPv6 space from which global unicast is assigned.
const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0], 3);
const ALL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0);

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

/// A block by the first half of its address.
const fn v6([a, b, c, d]: [u16; 4], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix)
}

/// Accepts an address that is an ordinary place on the Internet.
///
/// Refuses every block of the special-purpose registries (loopback, private,
/// link-local and with it the cloud metadata services, shared, multicast,
/// documentation, reserved, ...), and whatever leads to one of them: the
/// IPv4-mapped, NAT64, 6to4 and ISATAP forms of an IPv4 address are unwrapped.
/// A translation prefix that a network chose for itself cannot be told from
/// other addresses and is not unwrapped.
///
/// # Errors
///
/// [`Refusal::SpecialAddress`], with the block that the address is in.
pub fn check(address: IpAddr) -> Result<(), Refusal> {
    let special = match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    };
    match special {
        None => Ok(()),
        Some((block, purpose)) => Err(Refusal::SpecialAddress { address, block, purpose }),
    }
}

type Block = (IpNet, &'static str);

/// The one block that the whole network is in.
pub(crate) fn special_block(network: IpNet) -> Option<Block> {
    let v4 = SPECIAL_V4.iter().map(|&(block, purpose)| (IpNet::V4(block), purpose));
    let v6 = SPECIAL_V6.iter().map(|&(block, purpose)| (IpNet::V6(block), purpose));
    v4.chain(v6).find(|(block, _)| block.contains(&network))
}

fn special_v4(address: Ipv4Addr) -> Option<Block> {
    let (block, purpose) = SPECIAL_V4.iter().find(|(block, _)| block.contains(&address))?;
    Some((IpNet::V4(*block), purpose))
}

fn special_v6(address: Ipv6Addr) -> Option<Block> {
    if MAPPED.contains(&address) || NAT64.contains(&address) {
        return special_v4(low_v4(address));
    }
    if let Some((block, purpose)) = SPECIAL_V6.iter().find(|(block, _)| block.contains(&address)) {
        return Some((IpNet::V6(*block), purpose));
    }
    if !GLOBAL_UNICAST.contains(&address) {
        return Some((IpNet::V6(ALL_V6), "outside of global unicast"));
    }
    let through = [six_to_four(address), isatap(address)];
    through.into_iter().flatten().find_map(special_v4)
}

/// The IPv4 address in the last 32 bits.
fn low_v4(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

/// The IPv4 address of the router that a 6to4 address is behind, RFC 3056.
fn six_to_four(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [_, _, a, b, c, d, ..] = address.octets();
    SIX_TO_FOUR.contains(&address).then(|| Ipv4Addr::new(a, b, c, d))
}

/// The IPv4 address in an ISATAP interface identifier, RFC 5214 section 6.1.
fn isatap(address: Ipv6Addr) -> Option<Ipv4Addr> {
    // The "universal" and "group" bits may have either value.
    const FLAGS: u16 = 0x0300;
    let [.., high, low, _, _] = address.segments();
    (high & !FLAGS == 0 && low == 0x5efe).then(|| low_v4(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and last address of each refused block, and its neighbours.
    #[test]
    fn table() {
        let refused = "
            0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255
            100.100.100.200 127.0.0.1 127.255.255.255 168.63.129.16 169.254.0.0 169.254.169.254
            169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.9 192.0.0.192 192.0.0.255
            192.0.2.0 192.0.2.255 192.31.196.1 192.52.193.1 192.88.99.1 192.168.0.0 192.168.255.255
            192.175.48.1 198.18.0.0 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0
            203.0.113.255 224.0.0.0 239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255
            :: ::1 ::2 ::8.8.8.8 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.1.2.3 ::ffff:0:127.0.0.1
            64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::8.8.8.8 64:ff9b:1:ffff::1 100::1
            100:0:0:1::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:1::1 2001:20::1
            2001:1ff:ffff::1 2001:db8::1 2001:db8:ffff::1 2002:7f00:1::1 2002:a00:1::1
            2002:c0a8:101::1 2620:4f:8000::1 3fff::1 3fff:fff:ffff::1 5f00::1 4000::1 1fff::1
            fc00::1 fd00:ec2::254 fdff::1 fe80::1 febf::1 fec0::1 feff::1 ff00::1 ff02::1
            2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:127.0.0.1 2002:808:808::5efe:10.0.0.1";
        let accepted = "
            1.0.0.0 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255
            128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255
            172.32.0.0 191.255.255.255 192.0.1.0 192.0.3.0 192.31.195.255 192.167.255.255
            192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255
            203.0.114.0 223.255.255.255 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2001:200::1 2001:db7::1
            2001:db9::1 2001:4860:4860::8888 2002:808:808::1 2606:4700:4700::1111 2620:4f:8001::1
            3ffe::1 2606:4700::5efe:8.8.8.8 2606:4700::5eff:10.0.0.1 2a00::1 3fff:1000::1";
        for text in refused.split_whitespace() {
            let address = text.parse().unwrap();
            assert!(check(address).is_err(), "{text} was accepted");
        }
        for text in accepted.split_whitespace() {
            let address = text.parse().unwrap();
            assert!(check(address).is_ok(), "{text}: {:?}", check(address));
        }
    }

    #[test]
    fn the_reason_names_address_and_block() {
        let refusal = check("::ffff:169.254.169.254".parse().unwrap()).unwrap_err();
        assert_eq!(refusal.code(), "special-address");
        assert_eq!(
            refusal.to_string(),
            "::ffff:169.254.169.254 is not a public address: link-local (169.254.0.0/16)"
        );
    }
}
