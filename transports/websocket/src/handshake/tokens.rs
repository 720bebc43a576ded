//! Comma-separated lists of tokens in header values (RFC 9110 section 5.6.1).
//!
//! Relies on nothing. Invariant: one pass over the value, no allocation.

/// The members of a list, without surrounding blanks; empty members are skipped, as RFC 9110
/// asks of recipients.
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim).filter(|member| !member.is_empty())
}

/// Whether the list has a member equal to `token`, whatever the case.
pub(super) fn contains(value: &[u8], token: &str) -> bool {
    list(value).any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
}

/// Without leading and trailing spaces and tabs; other white space is not optional in HTTP.
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether `value` is a token (RFC 9110 section 5.6.2).
pub(super) fn is_token(value: &[u8]) -> bool {
    !value.is_empty()
        && value
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_trimmed_and_compared_without_case() {
        let members: Vec<_> = list(b" a ,,\tb c ,").collect();
        assert_eq!(members, [&b"a"[..], b"b c"]);
        assert!(contains(b"keep-alive, UPGRADE", "Upgrade"));
        assert!(!contains(b"upgrades", "Upgrade"));
    }

    #[test]
    fn tokens_have_no_separators() {
        assert!(is_token(b"v12.stomp") && is_token(b"a!#$%&'*+-.^_`|~9"));
        for value in [&b""[..], b"a b", b"a,b", b"a/b", b"\xC3\xA9", b"a\r"] {
            assert!(!is_token(value), "{}", value.escape_ascii());
        }
    }
}
