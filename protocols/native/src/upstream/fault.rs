//! What is said when an upstream breaks the rules of the protocol.
//!
//! Invariant: what the upstream wrote appears in a sentence only as far as `shown` lets it.

use tiderace_base::limits::SENTENCE_BYTES_MAX;
use tiderace_base::{Close, CloseCode};

use crate::codec::CodecError;

/// The end of a session whose upstream has broken a rule.
pub(super) fn broken(rule: impl std::fmt::Display) -> Close {
    let reason = format!("the upstream does not keep to the protocol: {rule}");
    Close::new(CloseCode::BadFrame, reason)
}

/// The same for bytes that are no message.
pub(super) fn malformed(error: CodecError) -> Close {
    let Close { code, reason, .. } = error.into();
    Close { code, ..broken(reason) }
}

/// What the upstream says about an error or an end. A code that this node does not know is taken for `unknown`.
pub(super) fn told(code: u16, slug: &str, sentence: &str, unknown: CloseCode) -> Close {
    let known = CloseCode::numbered(code);
    let most = sentence.len().min(SENTENCE_BYTES_MAX);
    let end = (0..=most).rev().find(|end| sentence.is_char_boundary(*end));
    let sentence = sentence.get(..end.unwrap_or(0)).unwrap_or_default();
    let reason = match known {
        Some(_) => format!("the upstream says: {sentence}"),
        None => format!("the upstream says `{}`: {sentence}", tiderace_wire::shown(slug)),
    };
    Close::new(known.unwrap_or(unknown), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_known_or_taken_for_something() {
        let close = told(401, "not-authorised", "No.", CloseCode::PeerGone);
        let expected = Close::new(CloseCode::NotAuthorised, "the upstream says: No.");
        assert_eq!(close, expected);
        let close = told(9, "new", &"ä".repeat(SENTENCE_BYTES_MAX), CloseCode::PeerGone);
        assert_eq!(close.code, CloseCode::PeerGone);
        assert!(close.reason.starts_with("the upstream says `new`: ää"), "{close}");
        assert!(close.reason.len() <= SENTENCE_BYTES_MAX + 30);
    }
}
