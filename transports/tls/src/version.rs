//! The versions of TLS that are spoken, as settings allow and sessions report them.

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 5246, with forward secrecy and authenticated ciphers only.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}
