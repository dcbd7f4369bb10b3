//! What a request asks for, read from its request line alone.

use hyper::body::Body;
use hyper::{Method, Request, Uri};

use crate::record::Entry;
use crate::{Host, Refusal};

/// The destination that a request names.
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Target {
    /// Reads the destination of a `CONNECT`; notes host and port in the entry,
    /// as far as they can be read, also when the request is refused.
    ///
    /// The `Host` header is not looked at: it could only contradict.
    pub(crate) fn read<B: Body>(request: &Request<B>, entry: &mut Entry) -> Result<Self, Refusal> {
        let uri = request.uri();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        // What is before the `@` may be a secret: it is not recorded.
        let (user, rest) = match authority.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, authority),
        };
        let (host, port) = split_port(rest);
        let parsed = Host::parse(host);
        entry.asked(host, parsed.as_ref().ok(), port.and_then(parse_port));

        if request.method() != Method::CONNECT {
            return Err(Refusal::Method);
        }
        if !is_authority_form(uri) {
            return Err(Refusal::TargetForm);
        }
        if user.is_some() {
            return Err(Refusal::UserInfo);
        }
        let host = parsed?;
        let port = match port {
            None | Some("") => return Err(Refusal::MissingPort),
            Some(text) => parse_port(text).ok_or(Refusal::BadPort)?,
        };
        if !request.body().is_end_stream() {
            return Err(Refusal::Body);
        }
        Ok(Self { host, port })
    }
}

fn is_authority_form(uri: &Uri) -> bool {
    uri.authority().is_some() && uri.scheme().is_none() && uri.path_and_query().is_none()
}

/// Splits `host:port`. An IPv6 address has a port only behind its brackets; a
/// text that fits no pattern is all host, and no valid one.
pub(crate) fn split_port(text: &str) -> (&str, Option<&str>) {
    let whole = (text, None);
    let Some((host, port)) = text.rsplit_once(':') else {
        return whole;
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if bracketed || !host.contains(':') { (host, Some(port)) } else { whole }
}

/// A port: 1 to 65535, in digits.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|&port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_split_off() {
        for (text, host, port) in [
            ("", "", None),
            ("a", "a", None),
            ("a:1", "a", Some("1")),
            ("a:", "a", Some("")),
            (":1", "", Some("1")),
            ("[::1]", "[::1]", None),
            ("[::1]:1", "[::1]", Some("1")),
            ("[::1]x:1", "[::1]x:1", None),
            ("::1", "::1", None),
            ("a:1:2", "a:1:2", None),
        ] {
            assert_eq!(split_port(text), (host, port), "{text:?}");
        }
    }

    #[test]
    fn ports_are_numbers_in_range() {
        for (text, port) in [
            ("1", Some(1)),
            ("443", Some(443)),
            ("65535", Some(65535)),
            ("0", None),
            ("65536", None),
            ("", None),
            ("+80", None),
            ("-1", None),
            ("8 0", None),
            ("http", None),
            ("٤٤٣", None),
        ] {
            assert_eq!(parse_port(text), port, "{text:?}");
        }
    }
}
