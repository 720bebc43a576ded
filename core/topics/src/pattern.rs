//! Patterns: `*` one level, `EU*` part of a level, a last `**` any levels or none; behind a leading
//! `?` each level is a regular expression.
//!
//! Wildcards and expressions at the first level name nothing that begins with `$`, such as what the
//! server itself says below `$sys`: who wants that spells the first level out.
//!
//! MQTT's `+` and `#` are accepted as other spellings of `*` and `**`. Matching takes time linear
//! in the path for patterns without part-level stars, and at most length × stars with them.

use std::fmt;
use std::sync::Arc;

use tiderace_base::limits::{PATTERN_STARS_PER_LEVEL_MAX, SELECTOR_REGEXES_MAX};

use crate::path::{check, mark_of};
use crate::{Level, Path, PathError, level};

/// Names a set of destinations. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern(Arc<Parsed>);

#[derive(PartialEq, Eq, Hash)]
struct Parsed {
    text: Box<str>,
    levels: Box<[Level]>,
}

impl Pattern {
    /// Parses a pattern; a text without wildcards is a pattern that matches one path.
    ///
    /// # Errors
    /// Says which rule the text breaks and where.
    pub fn parse(text: &str) -> Result<Pattern, PathError> {
        Pattern::parse_within(text, &mut SELECTOR_REGEXES_MAX.clone())
    }

    /// The same, with a number of regular expressions that are still allowed.
    pub(crate) fn parse_within(text: &str, regexes: &mut usize) -> Result<Pattern, PathError> {
        check(text)?;
        let levels = match mark_of(text) {
            None => with_wildcards(text)?,
            Some('?') => with_regexes(text, regexes)?,
            Some(mark) => return Err(PathError::Selector { mark }),
        };
        Ok(Pattern(Arc::new(Parsed { text: text.into(), levels: levels.into() })))
    }

    /// The text it was parsed from.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Its levels, from the root.
    pub fn levels(&self) -> &[Level] {
        &self.0.levels
    }

    /// The path it stands for if it has no wildcard.
    pub fn as_path(&self) -> Option<Path> {
        if self.levels().iter().all(|level| matches!(level, Level::Literal(_))) {
            return Path::parse(&self.literal_prefix()).ok();
        }
        None
    }

    /// The path that everything it names is at or below: its leading levels without wildcards, joined
    /// by `/`; empty if the first level is a wildcard. For walks through paths in order.
    pub fn literal_prefix(&self) -> String {
        let mut prefix = String::new();
        for level in self.levels() {
            let Level::Literal(text) = level else {
                break;
            };
            if !prefix.is_empty() {
                prefix.push('/');
            }
            prefix.push_str(text);
        }
        prefix
    }

    /// What its regular expressions take in memory, once for all clones.
    pub fn regex_bytes(&self) -> usize {
        let bytes = |level: &Level| match level {
            Level::Regex(regex) => regex.bytes(),
            _ => 0,
        };
        self.levels().iter().map(bytes).sum()
    }

    /// Whether every path the other pattern names is surely named by this one too. May say no of a
    /// pattern that is contained in a roundabout way.
    pub fn contains(&self, other: &Pattern) -> bool {
        if let (Some(own), Some(Level::Literal(name))) =
            (self.levels().first(), other.levels().first())
            && is_special(name)
            && !matches!(own, Level::Literal(_))
        {
            return false;
        }
        let mut theirs = other.levels().iter();
        for level in self.levels() {
            if *level == Level::Rest {
                return true;
            }
            let contained = match (level, theirs.next()) {
                (Level::One, Some(their)) => *their != Level::Rest,
                (Level::Glob(_) | Level::Regex(_), Some(Level::Literal(name))) => level.fits(name),
                (_, their) => Some(level) == their,
            };
            if !contained {
                return false;
            }
        }
        theirs.next().is_none()
    }

    /// Whether some path may fit both, also where the first level begins with `$`. May say yes where none does.
    pub fn overlaps(&self, other: &Pattern) -> bool {
        let (mut own, mut theirs) = (self.levels().iter(), other.levels().iter());
        loop {
            match (own.next(), theirs.next()) {
                (Some(Level::Rest), _) | (_, Some(Level::Rest)) | (None, None) => return true,
                (Some(Level::Literal(name)), Some(level))
                | (Some(level), Some(Level::Literal(name))) => {
                    if !level.fits(name) {
                        return false;
                    }
                }
                (Some(_), Some(_)) => {}
                (None, Some(_)) | (Some(_), None) => return false,
            }
        }
    }

    /// Whether the path is one of those it names.
    pub fn matches(&self, path: &Path) -> bool {
        let spelled = || matches!(self.levels().first(), Some(Level::Literal(_)));
        (!is_special(path.as_str()) || spelled()) && self.fits(path)
    }

    /// Whether the path's levels fit, also where the first begins with `$` and is not spelled out:
    /// for those who forbid.
    pub fn fits(&self, path: &Path) -> bool {
        let mut names = path.levels();
        for level in self.levels() {
            if *level == Level::Rest {
                return true;
            }
            let Some(name) = names.next() else {
                return false;
            };
            if !level.fits(name) {
                return false;
            }
        }
        names.next().is_none()
    }
}

/// Whether wildcards at the first level pass by a name that begins so.
pub(crate) fn is_special(name: &str) -> bool {
    name.starts_with('$')
}

fn with_wildcards(text: &str) -> Result<Vec<Level>, PathError> {
    let count = text.split('/').count();
    let mut levels = Vec::with_capacity(count);
    for (index, level) in text.split('/').enumerate() {
        let last = index + 1 == count;
        let stars = level.bytes().filter(|byte| *byte == b'*').count();
        levels.push(match level {
            "*" | "+" => Level::One,
            "**" | "#" if last => Level::Rest,
            _ if level.contains("**") || level.contains(['#', '+']) => {
                return Err(PathError::BadWildcard { level: index + 1 });
            }
            _ if stars > PATTERN_STARS_PER_LEVEL_MAX => {
                return Err(PathError::BadWildcard { level: index + 1 });
            }
            _ if stars > 0 => Level::Glob(level.into()),
            _ => Level::Literal(level.into()),
        });
    }
    Ok(levels)
}

/// Reads `?fx/[A-Z]{3}-USD/.*`.
fn with_regexes(text: &str, regexes: &mut usize) -> Result<Vec<Level>, PathError> {
    let body = text.strip_prefix('?').unwrap_or(text);
    let mut at = text.len() - body.len();
    let count = body.split('/').count();
    let mut levels = Vec::with_capacity(count);
    for (text, level) in body.split('/').zip(1..) {
        if text.is_empty() {
            return Err(PathError::EmptyLevel { level });
        }
        let parsed = match text {
            "**" if level == count => Level::Rest,
            _ => level::parse_regex(text).map_err(|problem| PathError::Regex {
                level,
                at: at + problem.at,
                problem: problem.text.into(),
            })?,
        };
        if matches!(parsed, Level::Regex(_)) {
            *regexes = regexes.checked_sub(1).ok_or(PathError::TooManyRegexes { level })?;
        }
        levels.push(parsed);
        at += text.len() + 1;
    }
    Ok(levels)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn matches_as_documented() {
        let rows = [
            ("a/b", "a/b", true),
            ("a/b", "a/c", false),
            ("a/*", "a/b", true),
            ("a/*", "a", false),
            ("a/*", "a/b/c", false),
            ("*/b", "a/b", true),
            ("a/**", "a", true),
            ("a/**", "a/b/c", true),
            ("**", "x/y/z", true),
            ("#", "x", true),
            ("a/+/c", "a/b/c", true),
            ("fx/EUR*", "fx/EUR-USD", true),
            ("fx/EUR*", "fx/USD-EUR", false),
            ("fx/*-USD", "fx/EUR-USD", true),
            ("fx/E*U*D", "fx/EUR-USD", true),
            ("fx/a*a", "fx/a", false),
            ("fx/*b*b*", "fx/b", false),
            ("**", "$sys/sessions/1", false),
            ("**", "$sys", false),
            ("*/sessions/*", "$sys/sessions/1", false),
            ("$*/sessions/*", "$sys/sessions/1", false),
            ("?.*/sessions/.*", "$sys/sessions/1", false),
            ("?.sys/**", "$sys/sessions/1", false),
            ("$sys/**", "$sys/sessions/1", true),
            ("$sys/*/1", "$sys/sessions/1", true),
            (r"?\$sys/.*/[0-9]", "$sys/sessions/1", true),
            ("a/**", "a/$b", true),
        ];
        for (pattern, path, expected) in rows {
            let matched = Pattern::parse(pattern).unwrap().matches(&Path::parse(path).unwrap());
            assert_eq!(matched, expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn refuses_misplaced_wildcards() {
        for bad in ["**/a", "a**", "a/#/b", "a#", "a+", "a/*x*x*x*x*", ""] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn containment_is_never_claimed_wrongly() {
        let rows = [
            ("a/**", "a/b/*", true),
            ("a/**", "a/**", true),
            ("**", "x/*", true),
            ("a/*", "a/b", true),
            ("**", "$sys/x", false),
            ("*/x", "$sys/x", false),
            ("$sys/**", "$sys/*", true),
            ("a/*", "a/**", false),
            ("a/b", "a/*", false),
            ("a/E*", "a/EUR", true),
            ("a/E*", "a/U*", false),
            ("a/**", "*/b", false),
            ("a/*", "?a/[bc]", true),
            ("a/**", "?a/[bc]/**", true),
            ("?a/[bc]", "?a/[bc]", true),
            ("?a/[bc]", "a/b", true),
            ("?a/[bc]", "a/d", false),
            ("?a/[bc]", "?a/b", true),
            ("?a/[bcd]", "?a/[bc]", false),
            ("a/b*", "?a/b[xy]", false),
            ("?a/b.*", "a/b*", true),
            ("?.*/b", "a/*", false),
        ];
        for (pattern, other, expected) in rows {
            let contained =
                Pattern::parse(pattern).unwrap().contains(&Pattern::parse(other).unwrap());
            assert_eq!(contained, expected, "{pattern} on {other}");
        }
    }

    #[test]
    fn patterns_without_a_path_in_common_do_not_overlap() {
        let rows = [
            ("a/**", "b/**", false),
            ("a/**", "a", true),
            ("a/*", "a", false),
            ("a/*", "*/b", true),
            ("secret*/**", "fx/*", false),
            ("secret*/**", "secrets/x", true),
            ("?a/[bc]", "a/d", false),
            ("?a/[bc]", "a/d*", true),
            ("**", "$sys/x", true),
        ];
        for (pattern, other, expected) in rows {
            let overlaps =
                Pattern::parse(pattern).unwrap().overlaps(&Pattern::parse(other).unwrap());
            assert_eq!(overlaps, expected, "{pattern} and {other}");
        }
    }

    #[test]
    fn the_literal_prefix_ends_before_the_first_wildcard() {
        let rows = [
            ("a/b/c", "a/b/c"),
            ("a/b/*", "a/b"),
            ("a/**", "a"),
            ("a/b*/c", "a"),
            ("*/a", ""),
            ("**", ""),
        ];
        for (pattern, prefix) in rows {
            assert_eq!(Pattern::parse(pattern).unwrap().literal_prefix(), prefix, "{pattern}");
        }
    }

    fn naive(glob: &[u8], name: &[u8]) -> bool {
        match glob.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            Some((byte, rest)) => {
                name.split_first().is_some_and(|(first, name)| first == byte && naive(rest, name))
            }
        }
    }

    proptest! {
        #[test]
        fn globs_agree_with_the_obvious_matcher(glob in "[ab*]{1,7}", name in "[ab]{1,8}") {
            if let Ok(pattern) = Pattern::parse(&glob)
                && !pattern.levels().contains(&Level::Rest)
            {
                let path = Path::parse(&name).unwrap();
                prop_assert_eq!(pattern.matches(&path), naive(glob.as_bytes(), name.as_bytes()));
            }
        }

        #[test]
        fn patterns_that_one_path_fits_overlap(
            patterns in proptest::collection::vec("(a|b|\\*|a\\*)(/(a|b|\\*|b\\*)){0,2}(/\\*\\*)?", 2),
            path in "(a|b|ab)(/(a|b|ba)){0,3}",
        ) {
            let [one, other] = [0, 1].map(|at| Pattern::parse(&patterns[at]).unwrap());
            let path = Path::parse(&path).unwrap();
            prop_assert_eq!(one.overlaps(&other), other.overlaps(&one));
            prop_assert!(!(one.fits(&path) && other.fits(&path)) || one.overlaps(&other));
            prop_assert!(!one.contains(&other) || one.overlaps(&other));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            if let Ok(path) = Path::parse(&text) {
                prop_assert!(Pattern::parse(&text).is_ok_and(|pattern| pattern.matches(&path)));
            }
        }
    }
}
