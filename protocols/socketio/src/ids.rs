//! Names that clients get: socket ids, which everybody may know, and recovery ids, which nobody else
//! may.
//!
//! Relies on the secret of the session's ticket being random. Invariant: no name tells anything about
//! another, nor about the secret: each is a hash of the secret and of its own label.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The public id of the session's socket after so many connects to namespaces.
pub(crate) fn socket(secret: u128, connect: u32) -> u64 {
    (derive(secret, b's', connect) >> 64) as u64
}

/// The private id by which what the session has in a namespace may be found again.
pub(crate) fn recovery(secret: u128, connect: u32) -> u128 {
    derive(secret, b'p', connect)
}

/// A socket id as clients see it.
pub(crate) fn spell_socket(sid: u64) -> String {
    URL_SAFE_NO_PAD.encode(sid.to_be_bytes())
}

/// Whether a text is that socket's id.
pub(crate) fn is_socket(sid: u64, text: &[u8]) -> bool {
    let mut bytes = [0; 9];
    text.len() == 11
        && URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).is_ok()
        && bytes.starts_with(&sid.to_be_bytes())
}

/// A recovery id as clients see it.
pub(crate) fn spell_recovery(pid: u128) -> String {
    URL_SAFE_NO_PAD.encode(pid.to_be_bytes())
}

/// The recovery id in a text, if it is one.
pub(crate) fn parse_recovery(text: &str) -> Option<u128> {
    if text.len() > 22 {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(u128::from_be_bytes(bytes.try_into().ok()?))
}

fn derive(secret: u128, label: u8, number: u32) -> u128 {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(b"tiderace socket.io");
    hash.update(&[label]);
    hash.update(&number.to_be_bytes());
    hash.update(&secret.to_be_bytes());
    let digest = hash.digest().bytes();
    digest.iter().take(16).fold(0, |id, byte| id << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_come_back() {
        let pid = recovery(7, 0);
        assert_eq!(parse_recovery(&spell_recovery(pid)), Some(pid));
        assert_ne!(socket(7, 0), socket(7, 1));
        assert_ne!(socket(7, 0), socket(8, 0));
        assert_ne!(u128::from(socket(7, 0)), pid >> 64);
        assert!(is_socket(5, spell_socket(5).as_bytes()) && !is_socket(5, b"AAAAAAAAAAY"));
        assert!(!is_socket(5, b"") && !is_socket(5, b"AAAAAAAAA=="));
        for text in ["", "!", "constructor", "__proto__", "AAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(parse_recovery(text), None, "{text}");
        }
    }
}
