//! What may be the name of a user, a group or a token.

/// Characters of a name at most.
const CHARS_MAX: usize = 128;

/// Whether the text may be such a name: 1 to 128 characters without white space, control characters and wildcards, so
/// that no identity can act as a pattern in a rule.
pub fn is_name(text: &str) -> bool {
    // A character takes one byte at least: long texts are not counted to their end.
    (1..=CHARS_MAX).contains(&text.chars().take(CHARS_MAX + 1).count())
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || "*#+>".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_wildcards() {
        assert!(is_name("bob@example.org"));
        assert!(is_name(&"ä".repeat(128)));
        for bad in ["", "*", "a b", "a#", "a\n", &"x".repeat(129)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
