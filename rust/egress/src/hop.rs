//! Headers that are meant for one connection alone, and how long a body is.
//!
//! A message that is passed on gets its framing anew, from how its body was
//! read here: what a sender says about lengths never reaches the other side,
//! so the two cannot take one message for different ones.

use hyper::body::Body;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

use crate::Refusal;

/// RFC 9110 section 7.6.1, besides those that `Connection` names and `Proxy-*`.
const HOP_BY_HOP: [HeaderName; 6] =
    [CONNECTION, HeaderName::from_static("keep-alive"), TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Refuses the requests whose meaning would be lost or is not clear.
///
/// The lengths themselves are hyper's to judge: differing ones, and a
/// `Transfer-Encoding` that does not end in `chunked` or comes with HTTP/1.0,
/// are no requests; beside a `Transfer-Encoding` a `Content-Length` is ignored.
pub(crate) fn check_request(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.get_all(HOST).iter().count() > 1 {
        return Err(Refusal::HostHeaders);
    }
    // `h2c` is offered by clients that do as well without; RFC 9113 dropped it.
    if headers.get_all(UPGRADE).iter().any(|protocol| protocol != "h2c") {
        return Err(Refusal::Upgrade);
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if is_chunked(only) => Ok(()),
        _ => Err(Refusal::TransferCoding),
    }
}

/// Makes the headers of a request those of the request that is sent on.
pub(crate) fn clean_request(headers: &mut HeaderMap, body: &impl Body, host: HeaderValue) {
    let announced = headers.remove(CONTENT_LENGTH).is_some();
    remove_hop_by_hop(headers);
    // hyper writes the length of a body that has a known one.
    if body.is_end_stream() {
        if announced {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
    } else if body.size_hint().exact().is_none() {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    headers.insert(HOST, host);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}

/// Makes the headers of a reply those of the reply that is sent back.
pub(crate) fn clean_reply(headers: &mut HeaderMap, is_to_head: bool) {
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let single = match (lengths.next(), lengths.next()) {
        (Some(length), None) if length.as_bytes().iter().all(u8::is_ascii_digit) => {
            Some(length.clone())
        }
        _ => None,
    };
    headers.remove(CONTENT_LENGTH);
    remove_hop_by_hop(headers);
    // The reply to a HEAD tells the length of a body that is not there; hyper
    // writes the others.
    if let Some(length) = single.filter(|_| is_to_head && !chunked) {
        headers.insert(CONTENT_LENGTH, length);
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = |value: &HeaderValue| {
        let names = value.as_bytes().split(|&byte| byte == b',');
        names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect::<Vec<_>>()
    };
    let mut removed: Vec<HeaderName> =
        headers.get_all(CONNECTION).iter().flat_map(named).chain(HOP_BY_HOP).collect();
    removed.extend(headers.keys().filter(|name| name.as_str().starts_with("proxy-")).cloned());
    for name in removed {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let parse =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        lines.iter().map(parse).collect()
    }

    #[test]
    fn what_is_for_one_connection_is_removed() {
        let mut found = headers(&[
            ("connection", "close, X-Named"),
            ("connection", "x-also , host,,b d"),
            ("x-named", "1"),
            ("x-also", "1"),
            ("x-kept", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic c2VjcmV0"),
            ("proxy-connection", "keep-alive"),
            ("proxy-anything", "1"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("host", "a.example"),
        ]);
        remove_hop_by_hop(&mut found);
        assert_eq!(found, headers(&[("x-kept", "1")]));
    }

    #[test]
    fn the_length_of_a_reply_is_passed_on_for_head_alone() {
        for (lines, is_to_head, kept) in [
            (&[("content-length", "5")][..], true, Some("5")),
            (&[("content-length", "5")], false, None),
            (&[("content-length", "5"), ("content-length", "6")], true, None),
            (&[("content-length", "+5")], true, None),
            (&[("content-length", "5"), ("transfer-encoding", "chunked")], true, None),
        ] {
            let mut found = headers(lines);
            clean_reply(&mut found, is_to_head);
            let length = found.get(CONTENT_LENGTH).map(|length| length.to_str().unwrap());
            assert_eq!(length, kept, "{lines:?}");
        }
    }
}
