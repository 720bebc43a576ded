//! Static tokens, kept as SHA-256 digests.
//!
//! Relies on RustCrypto's `sha2`. A plain hash is enough because a token is random, not chosen by a
//! person. Invariant: comparing takes the same time whatever the digests are.

use std::fmt;
use std::hint::black_box;

use argon2::password_hash::try_generate_salt;
use sha2::{Digest, Sha256};

/// The SHA-256 of a token.
#[derive(Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest of a token in clear.
    pub fn of(token: &str) -> TokenDigest {
        TokenDigest(Sha256::digest(token.as_bytes()).into())
    }

    /// A digest from the configuration.
    pub fn from_bytes(bytes: [u8; 32]) -> TokenDigest {
        TokenDigest(bytes)
    }

    /// Whether both are equal, in constant time.
    pub fn is_equal(&self, other: &TokenDigest) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        // `black_box` keeps the compiler from leaving the loop early.
        let difference =
            pairs.fold(0, |difference, (left, right)| black_box(difference | (left ^ right)));
        difference == 0
    }
}

/// As the configuration wants it: `sha256:` and 64 hexadecimal digits.
impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(***)")
    }
}

/// A new random token of 256 bits, as hexadecimal digits behind `tr_`, so that scanners recognise it.
/// `None` if the operating system gives no random bytes.
pub fn generate_token() -> Option<String> {
    // Two draws of 128 bits each.
    let halves = [try_generate_salt().ok()?, try_generate_salt().ok()?];
    let mut token = String::from("tr_");
    for byte in halves.iter().flatten() {
        token.push_str(&format!("{byte:02x}"));
    }
    Some(token)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha_256() {
        // FIPS 180-2, appendix B.1.
        let expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenDigest::of("abc").to_string(), expected);
        assert!(!format!("{:?}", TokenDigest::of("abc")).contains("ba78"));
    }

    #[test]
    fn only_equal_digests_are_equal() {
        let digest = TokenDigest::of("abc");
        assert!(digest.is_equal(&TokenDigest::of("abc")));
        for index in 0..32 {
            let mut other = digest.0;
            other[index] ^= 0x80;
            assert!(!digest.is_equal(&TokenDigest::from_bytes(other)), "byte {index}");
        }
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let token = generate_token().unwrap();
        assert_eq!(token.len(), 3 + 64);
        assert_ne!(token, generate_token().unwrap());
    }
}
