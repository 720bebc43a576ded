//! Selectors: what a subscription may name, one pattern or a set of several.
//!
//! ```text
//!   fx/EUR-USD                 one destination
//!   fx/*, fx/EU*, fx/**        wildcards
//!   ?fx/[A-Z]{3}-USD/.*        regular expressions, level by level
//!   [a/b, c/**, ?d/\d{1,,3}]   a set: a comma inside a member is doubled
//! ```
//! Relies on [`Pattern`]. Invariant: a selector has at least one member and no two that are equal;
//! their number and the number of their regular expressions are bounded.

use std::borrow::Cow;
use std::fmt;

use tiderace_base::limits::{SELECTOR_BYTES_MAX, SELECTOR_MEMBERS_MAX, SELECTOR_REGEXES_MAX};

use crate::own::written_out;
use crate::path::mark_of;
use crate::{PathError, Pattern};

/// One pattern or several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector(Box<[Pattern]>);

/// Why a text is no selector. The message says what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A single pattern that cannot be.
    #[error("{0}")]
    Pattern(#[from] PathError),
    /// A member of a set that cannot be.
    #[error("member {member} of the set, at byte {at}: {error}{}", hint(.error))]
    Member {
        /// Counted from 1.
        member: usize,
        /// Where the member begins, in bytes.
        at: usize,
        /// What is wrong with it.
        error: PathError,
    },
    /// A set without its closing bracket.
    #[error("the set has no end: it begins with `[`, so `]` is its last character")]
    Unclosed,
    /// A set without members, or one of them is missing.
    #[error("member {member} of the set is empty (members are separated by single commas)")]
    EmptyMember {
        /// Counted from 1.
        member: usize,
    },
    /// More than [`SELECTOR_MEMBERS_MAX`].
    #[error("the set has more than {SELECTOR_MEMBERS_MAX} members; use wildcards or several sets")]
    TooManyMembers,
    /// Longer than [`SELECTOR_BYTES_MAX`].
    #[error("the selector has {bytes} bytes; at most {SELECTOR_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

impl SelectorError {
    /// What is wrong with one of its patterns; `None` if it is the set.
    pub fn path_error(&self) -> Option<&PathError> {
        match self {
            SelectorError::Pattern(error) | SelectorError::Member { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// Says which rule the text breaks and where.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        Selector::parse_members(text, |member| Ok(Cow::Borrowed(member)))
    }

    /// Parses a selector in which members may begin with `~/` (`?~/` for expressions), short for the own
    /// topics of that principal; `None` for a client that is not logged in or has no name of its own.
    ///
    /// # Errors
    /// Says which rule the text breaks and where, or why that client has no topics of its own.
    pub fn parse_own(text: &str, principal: Option<&str>) -> Result<Selector, SelectorError> {
        Selector::parse_members(text, |member| written_out(member, principal))
    }

    fn parse_members(
        text: &str,
        written_out: impl Fn(&str) -> Result<Cow<'_, str>, PathError>,
    ) -> Result<Selector, SelectorError> {
        if text.len() > SELECTOR_BYTES_MAX {
            return Err(SelectorError::TooLong { bytes: text.len() });
        }
        let mut regexes = SELECTOR_REGEXES_MAX;
        if mark_of(text) != Some('[') {
            let pattern = Pattern::parse_within(&written_out(text)?, &mut regexes)?;
            return Ok(Selector([pattern].into()));
        }
        let mut patterns: Vec<Pattern> = Vec::new();
        for (member, (at, text)) in (1..).zip(members(text)?) {
            let pattern = written_out(&text)
                .and_then(|text| Pattern::parse_within(&text, &mut regexes))
                .map_err(|error| SelectorError::Member { member, at, error })?;
            if !patterns.iter().any(|known| known.levels() == pattern.levels()) {
                patterns.push(pattern);
            }
        }
        Ok(Selector(patterns.into()))
    }

    /// Its patterns, in the order written; at least one.
    pub fn patterns(&self) -> &[Pattern] {
        &self.0
    }

    /// Whether it is more than one path: a text that no path begins with, or that has a wildcard.
    pub fn is_meant(text: &str) -> bool {
        mark_of(text).is_some() || text.contains(['*', '+', '#'])
    }
}

impl IntoIterator for Selector {
    type Item = Pattern;
    type IntoIter = std::vec::IntoIter<Pattern>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

impl fmt::Display for Selector {
    /// Writes what [`Selector::parse`] reads as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &*self.0 {
            return one.fmt(f);
        }
        for (pattern, before) in
            self.0.iter().zip(std::iter::once("[").chain(std::iter::repeat(", ")))
        {
            write!(f, "{before}{}", pattern.as_str().replace(',', ",,"))?;
        }
        f.write_str("]")
    }
}

/// The members of a set with their places, without the spaces around them.
fn members(text: &str) -> Result<Vec<(usize, String)>, SelectorError> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let inner = inner.ok_or(SelectorError::Unclosed)?;
    let mut members: Vec<(usize, String)> = Vec::new();
    let mut member = String::new();
    let mut begin = 1;
    let mut pieces = inner.char_indices().peekable();
    loop {
        let next = pieces.next();
        match next {
            Some((_, ',')) if pieces.next_if(|(_, next)| *next == ',').is_some() => {
                member.push(',');
            }
            Some((_, other)) if other != ',' => member.push(other),
            _ => {
                let trimmed = member.trim_matches(' ');
                if trimmed.is_empty() {
                    return Err(SelectorError::EmptyMember { member: members.len() + 1 });
                }
                if members.len() == SELECTOR_MEMBERS_MAX {
                    return Err(SelectorError::TooManyMembers);
                }
                let spaces = member.len() - member.trim_start_matches(' ').len();
                members.push((begin + spaces, trimmed.to_owned()));
                let Some((at, _)) = next else { return Ok(members) };
                // Behind the bracket and the comma.
                begin = at + 2;
                member.clear();
            }
        }
    }
}

/// What is easily forgotten.
fn hint(error: &PathError) -> &'static str {
    match error {
        PathError::Regex { .. } => " (in a set, a comma inside a member is written twice)",
        PathError::Selector { mark: '[' } => " (sets do not hold sets)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Vec<String> {
        Selector::parse(text).unwrap().into_iter().map(|pattern| pattern.to_string()).collect()
    }

    #[test]
    fn sets_have_members() {
        for (text, members) in [
            ("a/b", &["a/b"][..]),
            ("a,b", &["a,b"]),
            ("?a/[bc]", &["?a/[bc]"]),
            ("[a/b]", &["a/b"]),
            ("[a/b, c/**, ?d/.*]", &["a/b", "c/**", "?d/.*"]),
            ("[ a ,b,a, ?a ]", &["a", "b"]),
            ("[?a/[0-9]{1,,3}, b,,c]", &["?a/[0-9]{1,3}", "b,c"]),
            ("[a,,,b]", &["a,", "b"]),
            ("[a]b, ?[c]]", &["a]b", "?[c]"]),
        ] {
            assert_eq!(parsed(text), members, "{text}");
        }
    }

    #[test]
    fn errors_say_where() {
        let many = format!("[{}]", vec!["a"; SELECTOR_MEMBERS_MAX + 1].join(","));
        let regexes: Vec<String> = (0..=SELECTOR_REGEXES_MAX).map(|n| format!("?[a{n}]")).collect();
        let regexes = format!("[{}]", regexes.join(", "));
        let long = format!("[{}]", "a".repeat(SELECTOR_BYTES_MAX));
        for (text, error) in [
            ("[", "the set has no end: it begins with `[`, so `]` is its last character"),
            ("[a", "the set has no end: it begins with `[`, so `]` is its last character"),
            ("[]", "member 1 of the set is empty (members are separated by single commas)"),
            ("[a, ,b]", "member 2 of the set is empty (members are separated by single commas)"),
            ("[a,]", "member 2 of the set is empty (members are separated by single commas)"),
            (
                "[a, b//c]",
                "member 2 of the set, at byte 4: level 2 of the name is empty (levels are joined by single separators)",
            ),
            (
                "[a, [b]]",
                "member 2 of the set, at byte 4: the name begins with `[`, which only selectors do (`?`: regular expressions, `[`: a set); they are for subscriptions only (sets do not hold sets)",
            ),
            (
                "[?a/[0-9]{1,3}, b]",
                "member 1 of the set, at byte 1: level 2 of the pattern, from byte 8 on: unclosed counted repetition (in a set, a comma inside a member is written twice)",
            ),
            ("?a/b/(c", "level 3 of the pattern, from byte 5 on: unclosed group"),
            (
                "?a/*",
                "level 2 of the pattern, from byte 3 on: repetition operator missing expression",
            ),
            (&many, "the set has more than 64 members; use wildcards or several sets"),
            (
                &regexes,
                "member 17 of the set, at byte 119: level 1 of the pattern is one regular expression too many: at most 16 levels may be; `.*` and plain text do not count",
            ),
            (&long, "the selector has 8194 bytes; at most 8192 are allowed"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), error, "{text}");
        }
    }

    #[test]
    fn the_tilde_is_the_users_own() {
        let parse = |text| Selector::parse_own(text, Some("a.n"));
        let members: Vec<String> =
            parse("[~/x, ?~/[xy], a/~/b]").unwrap().into_iter().map(|it| it.to_string()).collect();
        assert_eq!(members, ["user/a.n/x", r"?user/a\.n/[xy]", "a/~/b"]);
        assert_eq!(parse("?~/[xy]").unwrap().patterns()[0].literal_prefix(), "user/a.n");
        let refused = Selector::parse_own("[a, ~/b]", None).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "member 2 of the set, at byte 4: `~/` stands for topics of a user of your own: log in to use it"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(text in "\\[?[ab,?*/\\[\\] ~.]{0,20}\\]?") {
            if let Ok(selector) = Selector::parse(&text) {
                prop_assert_eq!(&Selector::parse(&selector.to_string()).unwrap(), &selector);
                prop_assert!(!selector.patterns().is_empty());
            }
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,60}", set in "\\[\\PC{0,60}\\]") {
            let _ = (Selector::parse(&text), Selector::parse(&set));
        }
    }
}
