//! Argon2id password hashes with parameters that are neither weak nor ruinous.
//!
//! Relies on RustCrypto's `argon2`. Invariant: a [`PasswordHash`] can be verified within the bounds
//! below, so no entry of the configuration can exhaust memory or time at login.

use std::fmt;

use argon2::password_hash::phc;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

/// Memory of one hash in KiB: the OWASP minimum at one end, and what the worker may take at the other.
const MEMORY_KIB: std::ops::RangeInclusive<u32> = 7 * 1_024..=256 * 1_024;
/// Passes over the memory.
const PASSES: std::ops::RangeInclusive<u32> = 1..=16;
/// Lanes; more than this would only be slow, as one thread computes them all.
const LANES: std::ops::RangeInclusive<u32> = 1..=8;
/// Bytes of the hash itself: 128 bits at least.
const OUTPUT_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// An argon2id hash in PHC form whose parameters have been checked.
#[derive(Clone)]
pub struct PasswordHash(phc::PasswordHash);

/// Why a text is not an acceptable password hash, or a password cannot be hashed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Another algorithm than argon2id, version 19.
    #[error("the hash is not argon2id version 19; make one with `tiderace password`")]
    Algorithm,
    /// The password is empty.
    #[error("the password is empty")]
    Empty,
    /// Not in PHC form.
    #[error("the text is no password hash in PHC form; make one with `tiderace password`")]
    Form,
    /// A parameter outside its bounds.
    #[error(
        "the hash has {name}={value}, but {name} must be from {min} to {max}; make one with `tiderace password`"
    )]
    Parameter {
        /// Name of the parameter in the PHC form, or `output`.
        name: &'static str,
        /// What it is.
        value: u64,
        /// Smallest acceptable value.
        min: u64,
        /// Largest acceptable value.
        max: u64,
    },
    /// The operating system gave no random bytes for the salt.
    #[error("the operating system gave no random bytes")]
    Random,
}

impl PasswordHash {
    /// Reads and checks a hash in PHC form.
    ///
    /// # Errors
    /// When it is no argon2id hash, or its parameters are too weak or too expensive.
    pub fn parse(text: &str) -> Result<PasswordHash, PasswordError> {
        let hash = phc::PasswordHash::new(text).map_err(|_| PasswordError::Form)?;
        let algorithm =
            Algorithm::try_from(hash.algorithm.as_str()).map_err(|_| PasswordError::Algorithm)?;
        if algorithm != Algorithm::Argon2id || hash.version != Some(Version::V0x13.into()) {
            return Err(PasswordError::Algorithm);
        }
        let params = Params::try_from(&hash).map_err(|_| PasswordError::Form)?;
        let output = hash.hash.as_ref().map_or(0, |output| output.as_bytes().len());
        if hash.salt.is_none() || output == 0 {
            return Err(PasswordError::Form);
        }
        within(
            "m",
            params.m_cost().into(),
            &(*MEMORY_KIB.start() as u64..=*MEMORY_KIB.end() as u64),
        )?;
        within("t", params.t_cost().into(), &(*PASSES.start() as u64..=*PASSES.end() as u64))?;
        within("p", params.p_cost().into(), &(*LANES.start() as u64..=*LANES.end() as u64))?;
        within(
            "output",
            output as u64,
            &(*OUTPUT_BYTES.start() as u64..=*OUTPUT_BYTES.end() as u64),
        )?;
        Ok(PasswordHash(hash))
    }

    /// Whether this is the password. Takes about 20 ms and 19 MiB with the parameters of
    /// [`hash_password`].
    pub fn matches(&self, password: &str) -> bool {
        // The parameters of the hash are used, not those of this instance.
        Argon2::default().verify_password(password.as_bytes(), &self.0).is_ok()
    }
}

/// A hash is no secret in clear, but nobody needs it in a log.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(***)")
    }
}

/// Hashes a password with a random salt; the result is the PHC text for `password_hash`.
///
/// # Errors
/// When the password is empty or no salt could be drawn.
pub fn hash_password(password: &str) -> Result<String, PasswordError> {
    if password.is_empty() {
        return Err(PasswordError::Empty);
    }
    // The default parameters are OWASP's first choice: 19 MiB, two passes, one lane.
    let hash: phc::PasswordHash =
        Argon2::default().hash_password(password.as_bytes()).map_err(|_| PasswordError::Random)?;
    Ok(hash.to_string())
}

fn within(
    name: &'static str,
    value: u64,
    range: &std::ops::RangeInclusive<u64>,
) -> Result<(), PasswordError> {
    match range.contains(&value) {
        true => Ok(()),
        false => {
            Err(PasswordError::Parameter { name, value, min: *range.start(), max: *range.end() })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_password_matches_its_own_hash_only() {
        let text = hash_password("correct horse").unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        let hash = PasswordHash::parse(&text).unwrap();
        assert!(hash.matches("correct horse"));
        assert!(!hash.matches("correct hors"));
        assert!(!hash.matches(""));
        assert_ne!(text, hash_password("correct horse").unwrap(), "the salt is random");
        assert!(!format!("{hash:?}").contains("argon2id"));
    }

    #[test]
    fn an_empty_password_is_refused() {
        assert_eq!(hash_password(""), Err(PasswordError::Empty));
    }

    #[test]
    fn bad_hashes_are_refused() {
        const SALT: &str = "c2FsdHNhbHRzYWx0";
        const HASH: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let with =
            |algorithm: &str, params: &str| format!("${algorithm}$v=19${params}${SALT}${HASH}");
        let parameter = |name, value, min, max| PasswordError::Parameter { name, value, min, max };
        let cases = [
            (with("argon2id", "m=19456,t=2,p=1"), None),
            (with("argon2i", "m=19456,t=2,p=1"), Some(PasswordError::Algorithm)),
            (with("scrypt", "m=19456,t=2,p=1"), Some(PasswordError::Algorithm)),
            (
                format!("$argon2id$v=16$m=19456,t=2,p=1${SALT}${HASH}"),
                Some(PasswordError::Algorithm),
            ),
            (format!("$argon2id$m=19456,t=2,p=1${SALT}${HASH}"), Some(PasswordError::Algorithm)),
            (with("argon2id", "m=1024,t=2,p=1"), Some(parameter("m", 1_024, 7_168, 262_144))),
            (
                with("argon2id", "m=4000000,t=2,p=1"),
                Some(parameter("m", 4_000_000, 7_168, 262_144)),
            ),
            (with("argon2id", "m=19456,t=99,p=1"), Some(parameter("t", 99, 1, 16))),
            (with("argon2id", "m=19456,t=2,p=64"), Some(parameter("p", 64, 1, 8))),
            (
                format!("$argon2id$v=19$m=19456,t=2,p=1${SALT}$AAAAAAAAAAAAAAAA"),
                Some(parameter("output", 12, 16, 64)),
            ),
            (format!("$argon2id$v=19$m=19456,t=2,p=1${SALT}"), Some(PasswordError::Form)),
            ("$argon2id$v=19$m=19456,t=2,p=1".to_owned(), Some(PasswordError::Form)),
            ("hunter2".to_owned(), Some(PasswordError::Form)),
            (String::new(), Some(PasswordError::Form)),
        ];
        for (text, expected) in cases {
            assert_eq!(PasswordHash::parse(&text).err(), expected, "{text}");
        }
    }
}
