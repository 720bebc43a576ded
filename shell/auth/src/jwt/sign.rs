//! Signing with a shared secret, to try things out: private keys stay elsewhere.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use super::algorithm::Algorithm;

/// Bytes of a secret at least: as many as the hash of HS256 has (RFC 7518 section 3.2).
pub const SECRET_BYTES_MIN: usize = 32;

/// A token with these claims; `None` if the algorithm is none of those with a secret.
pub fn sign(claims: &Value, secret: &[u8], algorithm: Algorithm) -> Option<String> {
    let key = hmac::Key::new(hmac_algorithm(algorithm)?, secret);
    let header = json!({ "alg": algorithm.name(), "typ": "JWT" });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(claims));
    let signature = hmac::sign(&key, message.as_bytes());
    Some(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

pub(super) fn hmac_algorithm(algorithm: Algorithm) -> Option<hmac::Algorithm> {
    match algorithm {
        Algorithm::Hs256 => Some(hmac::HMAC_SHA256),
        Algorithm::Hs384 => Some(hmac::HMAC_SHA384),
        Algorithm::Hs512 => Some(hmac::HMAC_SHA512),
        _ => None,
    }
}
