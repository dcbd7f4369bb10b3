//! Who may ask at all.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::PROXY_AUTHORIZATION;
use subtle::ConstantTimeEq;

use crate::Refusal;

/// What a client must present, as `Basic` authentication (RFC 7617) has it.
pub(crate) struct Credential {
    /// The base64 form, which is the only one that clients send.
    encoded: String,
}

impl Credential {
    pub(crate) fn new(user: &str, secret: &str) -> Self {
        Self { encoded: STANDARD.encode(format!("{user}:{secret}")) }
    }

    /// Accepts a request that presents it, exactly once. How long that takes tells
    /// nothing about the secret but its length.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut presented = headers.get_all(PROXY_AUTHORIZATION).iter();
        let (Some(only), None) = (presented.next(), presented.next()) else {
            return Err(Refusal::Unauthenticated);
        };
        let (scheme, encoded) = only.as_bytes().split_at_checked(6).unwrap_or_default();
        let is_basic = scheme.eq_ignore_ascii_case(b"basic ");
        let is_right: bool = encoded.trim_ascii().ct_eq(self.encoded.as_bytes()).into();
        if is_basic && is_right { Ok(()) } else { Err(Refusal::Unauthenticated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_credential_is_accepted() {
        // The example of RFC 7617.
        let credential = Credential::new("Aladdin", "open sesame");
        for (presented, accepted) in [
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="][..], true),
            (&["bAsIc   QWxhZGRpbjpvcGVuIHNlc2FtZQ=="], true),
            (&[], false),
            (&[""], false),
            (&["Basic"], false),
            (&["Basic "], false),
            (&["QWxhZGRpbjpvcGVuIHNlc2FtZQ=="], false),
            (&["Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ=="], false),
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ"], false),
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZR=="], false),
            (&["Basic qwxhzgrpbjpvcgvuihnlc2ftzq=="], false),
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ== x"], false),
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in presented {
                headers.append(PROXY_AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(credential.check(&headers).is_ok(), accepted, "{presented:?}");
        }
    }
}
