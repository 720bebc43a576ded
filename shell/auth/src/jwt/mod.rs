//! Signed tokens: JSON Web Tokens (RFC 7519) as JSON Web Signatures in compact form (RFC 7515).
//!
//! ```text
//!   algorithm ◀─┐
//!   sign ◀──────┼── key ◀──┬── key_set
//!   der ◀───────┘          └── key_store ◀── issuer
//! ```
//! Relies on `ring` for every signature and on `serde_json` for what is signed. Invariants: a key verifies its own
//! algorithms alone, whatever a token says; nothing of a token is believed before its signature is right; a token that
//! never ends is refused.

mod algorithm;
mod der;
mod issuer;
mod key;
mod key_set;
mod key_store;
mod sign;

pub use algorithm::Algorithm;
pub(crate) use issuer::Parts;
pub use issuer::{Issuer, IssuerOptions, TokenProblem};
pub use key::{Key, KeyError};
pub use key_set::{KEYS_MAX, parse_key_set};
pub(crate) use key_store::Prospect;
pub use key_store::{KeyFetcher, KeySource, KeyStore, OnFetch};
pub use sign::{SECRET_BYTES_MIN, sign};

/// Bytes of a token at most. Real ones with many groups have some 2 KiB; HTTP servers take 8 KiB of a field as a rule.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// Whether the text has the form of a signed token: three parts of base64url, joined by dots.
pub fn looks_signed(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let mut parts = text.split('.');
    let three = [parts.next(), parts.next(), parts.next()];
    parts.next().is_none() && three.iter().all(|part| part.is_some_and(is_part))
}
