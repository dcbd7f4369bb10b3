//! The one form of a host that everything after it works on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

/// The longest text that is looked at; no name that is valid is longer, in any
/// notation that is in use.
const MAX_TEXT: usize = 1024;
/// RFC 1035: a name in its text form, without the final dot.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A host in canonical form: two texts that mean the same host give equal
/// values.
///
/// A name is lower case ASCII without a final dot (IDNA by UTS #46, as in the
/// WHATWG URL standard). An address literal is an address, in whichever
/// notation it came: `127.1`, `0x7f.1`, `2130706433`, `0177.0.0.1`, `[::1]`,
/// and `::ffff:127.0.0.1` is `127.0.0.1`.
///
/// [`Display`](fmt::Display) writes that form, an IPv6 address without brackets;
/// it consists of ASCII letters, digits and `-_.:`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Form);

/// The two kinds of host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Form {
    Name(String),
    Address(IpAddr),
}

/// Why a text is not a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing, or nothing but dots.
    #[error("the host is empty")]
    Empty,
    /// Longer than a name (253) or one of its labels (63) may be.
    #[error("the host name is too long")]
    TooLong,
    /// A percent sign: an escape, or the zone of an IPv6 address.
    #[error("the host contains a percent sign; neither escapes nor IPv6 zones are accepted")]
    Percent,
    /// A character that no host name has, such as a space, control or delimiter.
    #[error("the host contains a character that is not allowed in host names")]
    Character,
    /// Two dots in a row, or one at the start.
    #[error("the host name has an empty label")]
    EmptyLabel,
    /// Not valid under IDNA (UTS #46).
    #[error("the host name is not a valid internationalised name")]
    Idna,
    /// The last label is a number, but the whole is no IPv4 address.
    #[error("the host ends in a number but is not an IPv4 address")]
    Ipv4,
    /// It has brackets or a colon, but is no IPv6 address.
    #[error("the host is not an IPv6 address")]
    Ipv6,
}

impl Host {
    /// Brings `text` into canonical form. An IPv6 address may come with or
    /// without brackets.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > MAX_TEXT {
            return Err(HostError::TooLong);
        }
        if text.contains('%') {
            return Err(HostError::Percent);
        }
        if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(HostError::Character);
        }
        if text.contains(['[', ']', ':']) {
            return ipv6(text).map(|address| Self::from(IpAddr::V6(address)));
        }

        if text.is_ascii() && !is_plain(text) {
            return Err(HostError::Character);
        }

        let deny = AsciiDenyList::URL;
        let ascii = Uts46::new()
            .to_ascii(text.as_bytes(), deny, Hyphens::Allow, DnsLength::Ignore)
            .map_err(|_| HostError::Idna)?;
        let name = ascii.trim_end_matches('.');
        if name.is_empty() {
            return Err(HostError::Empty);
        }
        if name.split('.').any(str::is_empty) {
            return Err(HostError::EmptyLabel);
        }
        // Again: the mapping may have brought in other characters.
        if !is_plain(name) {
            return Err(HostError::Character);
        }
        if ends_in_number(name) {
            let address = ipv4(name).ok_or(HostError::Ipv4)?;
            return Ok(Self::from(IpAddr::V4(address)));
        }
        if name.len() > MAX_NAME || name.split('.').any(|label| label.len() > MAX_LABEL) {
            return Err(HostError::TooLong);
        }
        Ok(Self(Form::Name(name.to_owned())))
    }

    pub(crate) fn form(&self) -> &Form {
        &self.0
    }

    /// The name, unless the host is an address.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Form::Name(name) => Some(name),
            Form::Address(_) => None,
        }
    }

    /// The address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self.0 {
            Form::Name(_) => None,
            Form::Address(address) => Some(address),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self(Form::Address(address.to_canonical()))
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Name(name) => f.write_str(name),
            Form::Address(address) => address.fmt(f),
        }
    }
}

/// Whether there are only the characters of host names, in either case.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

fn ipv6(text: &str) -> Result<Ipv6Addr, HostError> {
    let inner = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or(HostError::Ipv6)?,
        None => text,
    };
    inner.parse().map_err(|_| HostError::Ipv6)
}

/// Whether the URL standard, and `inet_aton`, may take the name for an IPv4
/// address. Such a name is never a DNS name.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    match last.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|b| b.is_ascii_hexdigit()),
        None => last.bytes().all(|b| b.is_ascii_digit()),
    }
}

/// One to four numbers; the last one fills all bytes that are left.
fn ipv4(name: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u32> = name.split('.').map(number).collect::<Option<_>>()?;
    let (&last, leading) = numbers.split_last()?;
    let mut high: u32 = 0;
    for (&number, shift) in leading.iter().zip([24, 16, 8]) {
        high |= u32::from(u8::try_from(number).ok()?) << shift;
    }
    let low_bits = match leading.len() {
        0 => 32,
        1 => 24,
        2 => 16,
        3 => 8,
        _ => return None,
    };
    (u64::from(last) < 1 << low_bits).then(|| Ipv4Addr::from_bits(high | last))
}

fn number(text: &str) -> Option<u32> {
    if let Some(hex) = text.strip_prefix("0x") {
        // By the URL standard a lone "0x" is zero.
        return if hex.is_empty() { Some(0) } else { u32::from_str_radix(hex, 16).ok() };
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u32::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
