//! The key of the opening handshake and its answer (RFC 6455 sections 4.1 and 4.2.2).
//!
//! Relies on SHA-1 and base64 from their crates. Invariant: the answer is always 28 bytes of
//! ASCII, and only a key that decodes to exactly 16 bytes is well-formed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;

/// The value of `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`: base64 of the SHA-1 of the key
/// followed by the fixed GUID (section 4.2.2, item 5.4).
#[must_use]
pub fn accept_key(key: &[u8]) -> [u8; 28] {
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(GUID);
    encode_exactly(&hash.digest().bytes())
}

/// The value of `Sec-WebSocket-Key` for 16 random bytes (section 4.1, item 7).
#[must_use]
pub fn encode_nonce(nonce: [u8; 16]) -> [u8; 24] {
    encode_exactly(&nonce)
}

/// Whether `key` is base64 of exactly 16 bytes (section 4.2.1, item 5).
pub(super) fn key_well_formed(key: &[u8]) -> bool {
    let mut decoded = [0; 18];
    key.len() == 24 && STANDARD.decode_slice(key, &mut decoded) == Ok(16)
}

/// Base64 into an array whose size the caller derived from the input's: 20 bytes make 28
/// characters, 16 make 24.
fn encode_exactly<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut encoded = [0; N];
    let written = STANDARD.encode_slice(bytes, &mut encoded);
    debug_assert_eq!(written, Ok(N));
    encoded
}

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 1.3: the example of the specification.
    #[test]
    fn example_of_section_1_3() {
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), *b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(encode_nonce(*b"the sample nonce"), *b"dGhlIHNhbXBsZSBub25jZQ==");
    }

    /// Section 4.2.1, item 5: the key, when decoded, is 16 bytes in length.
    #[test]
    fn keys_decode_to_sixteen_bytes() {
        assert!(key_well_formed(b"dGhlIHNhbXBsZSBub25jZQ=="));
        for key in [
            &b""[..],
            b"dGhlIHNhbXBsZSBub25jZQ=",
            b"dGhlIHNhbXBsZSBub25jZQ",
            b"dGhlIHNhbXBsZSBub25jZTE=",
            b"dGhlIHNhbXBsZSBub25jZTEy",
            b"dGhlIHNhbXBsZSBub25j!Q==",
            b" dGhlIHNhbXBsZSBub25jZQ==",
        ] {
            assert!(!key_well_formed(key), "{}", key.escape_ascii());
        }
    }
}
