//! The canonical name of a destination.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use tiderace_base::limits::{PATH_BYTES_MAX, PATH_DEPTH_MAX, SELECTOR_REGEXES_MAX};

use crate::order;

/// A path of one or more levels joined by `/`, without wildcards: `fx/EUR-USD`.
///
/// Cloning is cheap. Paths are ordered as a tree is walked ([`crate::order`]). No level is empty and none holds a control character, `*`, `+` or `#`; the
/// first does not begin with `?` or `[`, as selectors do; length and depth keep to [`PATH_BYTES_MAX`] and [`PATH_DEPTH_MAX`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Path(Arc<str>);

/// Why a text is not a path or pattern. The message says what is wrong and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing there.
    #[error("the name is empty")]
    Empty,
    /// Two separators in a row, or one at an end.
    #[error("level {level} of the name is empty (levels are joined by single separators)")]
    EmptyLevel {
        /// Counted from 1.
        level: usize,
    },
    /// Longer than [`PATH_BYTES_MAX`].
    #[error("the name has {bytes} bytes; at most {PATH_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Deeper than [`PATH_DEPTH_MAX`].
    #[error("the name has more than {PATH_DEPTH_MAX} levels")]
    TooDeep,
    /// A control character.
    #[error("byte {at} of the name is a control character")]
    Control {
        /// Offset in bytes.
        at: usize,
    },
    /// A wildcard where one destination must be named.
    #[error(
        "byte {at} of the name is the wildcard `{wildcard}`; wildcards are for subscriptions only"
    )]
    Wildcard {
        /// Offset in bytes.
        at: usize,
        /// Which one.
        wildcard: char,
    },
    /// The beginning of a selector where one destination must be named.
    #[error(
        "the name begins with `{mark}`, which only selectors do (`?`: regular expressions, `[`: a set); they are for subscriptions only"
    )]
    Selector {
        /// Which.
        mark: char,
    },
    /// A level that is no usable regular expression.
    #[error("level {level} of the pattern, from byte {at} on: {problem}")]
    Regex {
        /// Counted from 1.
        level: usize,
        /// Offset in bytes in the whole pattern.
        at: usize,
        /// What is wrong, and what to do.
        problem: Box<str>,
    },
    /// More than [`SELECTOR_REGEXES_MAX`] levels that need to be compiled.
    #[error(
        "level {level} of the pattern is one regular expression too many: at most {SELECTOR_REGEXES_MAX} levels may be; `.*` and plain text do not count"
    )]
    TooManyRegexes {
        /// Counted from 1.
        level: usize,
    },
    /// `**` before the last level, or too many stars in a level.
    #[error(
        "level {level} of the pattern: `**` stands only as the whole last level, and a level has at most 4 stars"
    )]
    BadWildcard {
        /// Counted from 1.
        level: usize,
    },
    /// `~/` of a client without a name of its own.
    #[error("`~/` stands for topics of a user of your own: log in to use it")]
    OwnOfNobody,
    /// `~/` of a client whose name is more than one level, or a wildcard.
    #[error("`~/` cannot be used, since the name `{name}` is no level of a path")]
    OwnName {
        /// The beginning of the name.
        name: Box<str>,
    },
}

impl Path {
    /// Parses the canonical spelling.
    ///
    /// # Errors
    /// Says which rule the text breaks and where.
    pub fn parse(text: &str) -> Result<Path, PathError> {
        check(text)?;
        if let Some((at, wildcard)) =
            text.char_indices().find(|(_, c)| matches!(c, '*' | '+' | '#'))
        {
            return Err(PathError::Wildcard { at, wildcard });
        }
        if let Some(mark) = mark_of(text) {
            return Err(PathError::Selector { mark });
        }
        Ok(Path(Arc::from(text)))
    }

    /// The canonical spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels, from the root.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Whether both are the very same allocation: a cheap "yes" before comparing bytes.
    pub fn is_same(&self, other: &Path) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A stable hash of the name: the same on every shard and node, so that a name's home is too.
    pub fn stable_hash(&self) -> u64 {
        // FNV-1a with a final mix; not for hash tables fed by strangers, only for placement.
        let hash = self.0.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }
}

/// What makes a text a selector, if it is one.
pub(crate) fn mark_of(text: &str) -> Option<char> {
    text.chars().next().filter(|first| matches!(first, '?' | '['))
}

/// The rules that paths and patterns share.
pub(crate) fn check(text: &str) -> Result<(), PathError> {
    if text.is_empty() {
        return Err(PathError::Empty);
    }
    if text.len() > PATH_BYTES_MAX {
        return Err(PathError::TooLong { bytes: text.len() });
    }
    if let Some(at) = text.bytes().position(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(PathError::Control { at });
    }
    for (index, level) in text.split('/').enumerate() {
        if index == PATH_DEPTH_MAX {
            return Err(PathError::TooDeep);
        }
        if level.is_empty() {
            return Err(PathError::EmptyLevel { level: index + 1 });
        }
    }
    Ok(())
}

impl Ord for Path {
    fn cmp(&self, other: &Path) -> Ordering {
        order(&self.0, &other.0)
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Path) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Path({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn accepts_what_people_write() {
        for good in [
            "a",
            "fx/EUR-USD",
            "a.b/c",
            "sports/football/match 7",
            "münchen/ü",
            "$sys/x",
            "a/?b",
            "a/[b",
        ] {
            assert_eq!(Path::parse(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn refuses_what_is_not_one_name() {
        let long = "x".repeat(PATH_BYTES_MAX + 1);
        let deep = vec!["x"; PATH_DEPTH_MAX + 1].join("/");
        let rows: Vec<(&str, PathError)> = vec![
            ("", PathError::Empty),
            ("/a", PathError::EmptyLevel { level: 1 }),
            ("a/", PathError::EmptyLevel { level: 2 }),
            ("a//b", PathError::EmptyLevel { level: 2 }),
            ("a\nb", PathError::Control { at: 1 }),
            ("a/*", PathError::Wildcard { at: 2, wildcard: '*' }),
            ("a/#", PathError::Wildcard { at: 2, wildcard: '#' }),
            ("?a", PathError::Selector { mark: '?' }),
            ("[a]", PathError::Selector { mark: '[' }),
            (&long, PathError::TooLong { bytes: PATH_BYTES_MAX + 1 }),
            (&deep, PathError::TooDeep),
        ];
        for (text, error) in rows {
            assert_eq!(Path::parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn homes_are_spread() {
        let mut counts = [0usize; 4];
        for n in 0..4000 {
            let path = Path::parse(&format!("load/{n}")).unwrap();
            counts[(path.stable_hash() % 4) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
