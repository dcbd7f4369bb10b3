//! The password that the two halves of one launch share.

use std::hint::black_box;
use std::os::unix::ffi::OsStringExt;

/// The environment variable that carries it.
pub(super) const VARIABLE: &str = "PADDOCK_STANDIN_PASSWORD";

/// A launch's password: not empty, and not printable by accident.
pub(super) struct Password(Vec<u8>);

/// There is no password to use.
#[derive(Debug, thiserror::Error)]
#[error("{VARIABLE} is not set: it must hold the password of this launch")]
pub(super) struct NoPassword;

impl Password {
    /// Takes the password from the environment.
    ///
    /// The variable stays in this process's environment, as it would in any agent's: a
    /// command of the same user may still read it there. It gains nothing, since a command
    /// is run only for a client that knew the password.
    pub(super) fn from_environment() -> Result<Self, NoPassword> {
        Self::new(std::env::var_os(VARIABLE).unwrap_or_default().into_vec())
    }

    /// Takes bytes as the password.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Self, NoPassword> {
        if bytes.is_empty() { Err(NoPassword) } else { Ok(Self(bytes)) }
    }

    /// The bytes, to be sent.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `offered` is the password, in a time that depends on `offered`'s length only.
    pub(super) fn is(&self, offered: &[u8]) -> bool {
        let mut difference = self.0.len() ^ offered.len();
        for (ours, theirs) in self.0.iter().cycle().zip(offered) {
            difference = black_box(difference | usize::from(ours ^ theirs));
        }
        black_box(difference) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_is_the_password() {
        let password = Password::new(b"ab\xff".to_vec()).unwrap();
        assert!(password.is(b"ab\xff"));
        for other in [&b""[..], b"a", b"ab", b"ab\xfe", b"Ab\xff", b"ab\xffa", b"ab\xffab\xff"] {
            assert!(!password.is(other), "{other:?}");
        }
    }

    #[test]
    fn an_empty_password_is_none() {
        assert!(Password::new(Vec::new()).is_err());
    }
}
