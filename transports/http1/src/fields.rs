//! Small readings of header values (RFC 9110 section 5).
//!
//! Relies on nothing. Invariant: one pass over the value, no allocation.

/// The members of a comma-separated list, without surrounding blanks or empty members
/// (RFC 9110 section 5.6.1).
pub fn header_tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim).filter(|member| !member.is_empty())
}

/// Whether `value` is a token (RFC 9110 section 5.6.2).
#[must_use]
pub fn is_token(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().copied().all(is_token_byte)
}

/// Whether a token may contain the byte.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a field value may contain the byte (RFC 9110 section 5.5): visible ASCII, space, tab
/// and the obsolete upper half, which is opaque.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7F)
}

/// Whether the list has a member equal to `token`, whatever the case.
pub(crate) fn contains_token(value: &[u8], token: &str) -> bool {
    header_tokens(value).any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
}

/// Without leading and trailing spaces and tabs, the only optional white space of HTTP.
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_skip_empty_members() {
        let members: Vec<_> = header_tokens(b",a,\t b , ,").collect();
        assert_eq!(members, [b"a", b"b"]);
        assert!(contains_token(b"TE, Close", "close"));
        assert!(!contains_token(b"closed", "close"));
    }

    #[test]
    fn value_bytes_exclude_controls() {
        let allowed = (0..=255).filter(|byte| is_value_byte(*byte)).count();
        assert_eq!(allowed, 256 - 32 - 1 + 1, "all but 32 controls and DEL, with tab");
        assert!(!is_token(b"") && !is_token(b"a b") && is_token(b"X-Y"));
    }
}
