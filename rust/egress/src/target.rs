//! What a request asks for, read from its request line alone.

use std::net::IpAddr;

use hyper::body::Body;
use hyper::header::HeaderValue;
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Uri};

use crate::record::Entry;
use crate::{Host, Refusal, hop};

/// The port of an `http` URL that names none.
const HTTP_PORT: u16 = 80;

/// The destination that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Target {
    /// Reads the destination; notes host and port in the entry, as far as they
    /// can be read, also when the request is refused.
    ///
    /// A `CONNECT` names it as `host:port`, any other request by an `http://`
    /// URL. The `Host` header is not looked at: it could only contradict.
    pub(crate) fn read<B: Body>(request: &Request<B>, entry: &mut Entry) -> Result<Self, Refusal> {
        let uri = request.uri();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        // What is before the `@` may be a secret: it is not recorded.
        let (user, rest) = match authority.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, authority),
        };
        let (host, port) = split_port(rest);
        let is_connect = request.method() == Method::CONNECT;
        let is_http = uri.scheme() == Some(&Scheme::HTTP);
        let port = match port {
            None | Some("") if is_connect => Err(Refusal::MissingPort),
            None if is_http => Ok(HTTP_PORT),
            None => Err(Refusal::BadPort),
            Some(text) => parse_port(text).ok_or(Refusal::BadPort),
        };
        let parsed = Host::parse(host);
        entry.asked(host, parsed.as_ref().ok(), port.as_ref().ok().copied());

        if request.method() == Method::TRACE {
            return Err(Refusal::Method);
        }
        let is_form_right = if is_connect { is_authority_form(uri) } else { is_absolute_form(uri) };
        if !is_form_right {
            return Err(Refusal::TargetForm);
        }
        if !is_connect && !is_http {
            return Err(Refusal::Scheme);
        }
        if user.is_some() {
            return Err(Refusal::UserInfo);
        }
        let host = parsed?;
        let port = port?;
        if !is_connect {
            hop::check_request(request.headers())?;
        } else if !request.body().is_end_stream() {
            return Err(Refusal::Body);
        }
        Ok(Self { host, port })
    }

    /// The `Host` header of a forwarded request, from its URL and nothing else.
    pub(crate) fn host_header(&self) -> HeaderValue {
        let host = match self.host.address() {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host.to_string(),
        };
        let text = if self.port == HTTP_PORT { host } else { format!("{host}:{}", self.port) };
        // A canonical host has only characters that a header may have.
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

fn is_authority_form(uri: &Uri) -> bool {
    uri.authority().is_some() && uri.scheme().is_none() && uri.path_and_query().is_none()
}

fn is_absolute_form(uri: &Uri) -> bool {
    uri.authority().is_some() && uri.scheme().is_some()
}

/// Splits `host:port`. An IPv6 address has a port only behind its brackets; a
/// text that fits no pattern is all host, and no valid one.
pub fn split_port(text: &str) -> (&str, Option<&str>) {
    let whole = (text, None);
    let Some((host, port)) = text.rsplit_once(':') else {
        return whole;
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if bracketed || !host.contains(':') { (host, Some(port)) } else { whole }
}

/// A port: 1 to 65535, in digits.
pub fn parse_port(text: &str) -> Option<u16> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|&port| port != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn read(method: &str, uri: &[u8]) -> Option<Result<Target, Refusal>> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = Request::builder().method(method).uri(Uri::try_from(uri).ok()?);
        let request = request.body(String::new()).unwrap();
        let recorder: crate::Recorder = Arc::new(|record| {
            // Whatever was sent: what is recorded can be shown.
            assert!(record.host.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
        });
        Some(Target::read(&request, &mut Entry::new(&recorder, 0)))
    }

    proptest! {
        #[test]
        fn no_target_is_too_strange(
            method in "CONNECT|GET|OPTIONS|TRACE|X",
            start in "|http://|https://|//|/|HTTP://u@",
            rest in proptest::collection::vec(any::<u8>(), 0..40),
            tail in "|:80|:443/|/a?b#c",
        ) {
            let uri = [start.as_bytes(), &rest, tail.as_bytes()].concat();
            if let Some(Ok(target)) = read(&method, &uri) {
                prop_assert!(["CONNECT", "GET", "OPTIONS", "X"].contains(&method.as_str()));
                // What is sent on as the host means the same host.
                let header = target.host_header();
                let (host, port) = split_port(header.to_str().unwrap());
                prop_assert_eq!(Host::parse(host), Ok(target.host));
                prop_assert_eq!(port.map_or(Some(HTTP_PORT), parse_port), Some(target.port));
            }
        }

        #[test]
        fn the_authority_that_is_shown_is_read_as_the_same(bits: u32, v6: u128, port in 1..=u16::MAX) {
            for address in [IpAddr::V4(bits.into()), IpAddr::V6(v6.into())] {
                let target = Target { host: address.into(), port };
                let header = target.host_header();
                let text = header.to_str().unwrap();
                let plain = read("GET", format!("http://{text}/").as_bytes());
                prop_assert_eq!(plain, Some(Ok(target.clone())));
                let authority = if port == HTTP_PORT { format!("{text}:80") } else { text.to_owned() };
                prop_assert_eq!(read("CONNECT", authority.as_bytes()), Some(Ok(target)));
            }
        }
    }

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
