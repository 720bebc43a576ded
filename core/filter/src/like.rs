//! `LIKE` patterns: `%` is any run of characters, `_` any one character, the rest themselves.
//!
//! Relies on nothing. Invariant: a match takes no more steps than it is given, needs no
//! allocation, and never looks back further than the last `%`.

use crate::limits::LIKE_VALUE_BYTES_MAX;

/// A pattern, compiled once.
#[derive(Debug)]
pub(crate) enum LikePattern {
    /// `text`.
    Exact(Box<str>),
    /// `text%`.
    Prefix(Box<str>),
    /// `%text`.
    Suffix(Box<str>),
    /// `%text%`, which includes `%` alone.
    Contains(Box<str>),
    /// Everything else.
    General(Box<[Piece]>),
}

/// One element of a general pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Character(char),
    One,
    Many,
}

impl LikePattern {
    /// Compiles `pattern`; nothing when it ends in its escape character.
    pub(crate) fn new(pattern: &str, escape: Option<char>) -> Option<LikePattern> {
        let mut pieces = Vec::with_capacity(pattern.len());
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let piece = match character {
                _ if Some(character) == escape => Piece::Character(characters.next()?),
                '%' => Piece::Many,
                '_' => Piece::One,
                _ => Piece::Character(character),
            };
            // `%%` is `%`; without this every further one would cost a step.
            if piece != Piece::Many || pieces.last() != Some(&Piece::Many) {
                pieces.push(piece);
            }
        }
        Some(LikePattern::simplest(pieces))
    }

    /// Whether all of `value` matches; nothing when it is too long or when `steps`, from which
    /// the work is taken, are used up.
    pub(crate) fn matches(&self, value: &str, steps: &mut u32) -> Option<bool> {
        if value.len() > LIKE_VALUE_BYTES_MAX {
            return None;
        }
        if let LikePattern::General(pieces) = self {
            return matches_pieces(pieces, value, steps);
        }
        // The standard searches are linear, so one step per byte of the value pays for them.
        *steps = steps.checked_sub(value.len() as u32)?;
        Some(match self {
            LikePattern::Exact(text) => value == &**text,
            LikePattern::Prefix(text) => value.starts_with(&**text),
            LikePattern::Suffix(text) => value.ends_with(&**text),
            LikePattern::Contains(text) => value.contains(&**text),
            LikePattern::General(_) => return None,
        })
    }

    fn simplest(pieces: Vec<Piece>) -> LikePattern {
        let (leading, rest) = match pieces.as_slice() {
            [Piece::Many, rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (trailing, middle) = match rest {
            [middle @ .., Piece::Many] => (true, middle),
            middle => (leading && rest.is_empty(), middle),
        };
        let text = middle.iter().map(|piece| match piece {
            Piece::Character(character) => Some(*character),
            Piece::One | Piece::Many => None,
        });
        let Some(text) = text.collect::<Option<String>>() else {
            return LikePattern::General(pieces.into_boxed_slice());
        };
        let text = text.into_boxed_str();
        match (leading, trailing) {
            (false, false) => LikePattern::Exact(text),
            (false, true) => LikePattern::Prefix(text),
            (true, false) => LikePattern::Suffix(text),
            (true, true) => LikePattern::Contains(text),
        }
    }
}

/// Greedy matching with one resume point. Only the last `%` ever needs to grow: an earlier one
/// has already found the leftmost match of what stands between, and a later start gains nothing.
fn matches_pieces(pieces: &[Piece], value: &str, steps: &mut u32) -> Option<bool> {
    let mut pieces = pieces.iter();
    let mut value = value.chars();
    let mut resume = None;
    loop {
        *steps = steps.checked_sub(1)?;
        let mut value_ahead = value.clone();
        let mut pieces_ahead = pieces.clone();
        let matched = match (pieces_ahead.next(), value_ahead.next()) {
            (Some(Piece::Many), _) => {
                resume = Some((pieces_ahead.clone(), value.clone()));
                pieces = pieces_ahead;
                continue;
            }
            (Some(Piece::One), Some(_)) => true,
            (Some(Piece::Character(wanted)), Some(found)) => *wanted == found,
            (None, None) => return Some(true),
            (None, Some(_)) => false,
            // Growing the last `%` would leave even less of the value.
            (Some(_), None) => return Some(false),
        };
        if matched {
            (pieces, value) = (pieces_ahead, value_ahead);
        } else if let Some((resume_pieces, resume_value)) = &mut resume {
            resume_value.next();
            (pieces, value) = (resume_pieces.clone(), resume_value.clone());
        } else {
            return Some(false);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::limits::LIKE_STEPS_MAX;
    use proptest::prelude::*;

    fn matches(pattern: &str, escape: Option<char>, value: &str) -> bool {
        let mut steps = LIKE_STEPS_MAX;
        LikePattern::new(pattern, escape).unwrap().matches(value, &mut steps).unwrap()
    }

    /// The definition of `LIKE`, written as plainly as it can be.
    fn reference(pattern: &[char], escape: Option<char>, value: &[char]) -> bool {
        match (pattern, value) {
            ([], _) => value.is_empty(),
            ([first, second, rest @ ..], _) if Some(*first) == escape => {
                value.first() == Some(second) && reference(rest, escape, &value[1..])
            }
            (['%', rest @ ..], _) => {
                (0..=value.len()).any(|skipped| reference(rest, escape, &value[skipped..]))
            }
            (['_', rest @ ..], [_, behind @ ..]) => reference(rest, escape, behind),
            ([first, rest @ ..], [found, behind @ ..]) => {
                first == found && reference(rest, escape, behind)
            }
            (_, []) => false,
        }
    }

    #[test]
    fn plain_patterns_avoid_the_general_matcher() {
        let compiled = |pattern| LikePattern::new(pattern, Some('!')).unwrap();
        assert!(matches!(compiled("a!%b"), LikePattern::Exact(text) if &*text == "a%b"));
        assert!(matches!(compiled("ab%%"), LikePattern::Prefix(text) if &*text == "ab"));
        assert!(matches!(compiled("%ab"), LikePattern::Suffix(text) if &*text == "ab"));
        assert!(matches!(compiled("%"), LikePattern::Contains(text) if text.is_empty()));
        assert!(matches!(compiled("a%b"), LikePattern::General(_)));
        assert!(LikePattern::new("ab!", Some('!')).is_none());
    }

    #[test]
    fn an_underscore_is_one_character_not_one_byte() {
        assert!(matches("_", None, "ü"));
        assert!(matches("%_🦀", None, "xü🦀"));
        assert!(!matches("__", None, "ü"));
    }

    #[test]
    fn hostile_patterns_run_out_of_steps() {
        let pattern = LikePattern::new(&format!("%{}_b", "a".repeat(2000)), None).unwrap();
        let mut steps = LIKE_STEPS_MAX;
        assert_eq!(pattern.matches(&"a".repeat(LIKE_VALUE_BYTES_MAX), &mut steps), None);
        assert_eq!(steps, 0);
        assert_eq!(pattern.matches("a", &mut steps), None, "the budget is shared");
    }

    #[test]
    fn values_are_looked_at_up_to_the_limit() {
        let pattern = LikePattern::new("%", None).unwrap();
        let longest = "a".repeat(LIKE_VALUE_BYTES_MAX);
        assert_eq!(pattern.matches(&longest, &mut { LIKE_STEPS_MAX }), Some(true));
        assert_eq!(pattern.matches(&(longest + "a"), &mut { LIKE_STEPS_MAX }), None);
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference(pattern in "[ab%_!ü]{0,8}", value in "[ab%_ü]{0,8}") {
            let characters = |text: &str| text.chars().collect::<Vec<char>>();
            for escape in [None, Some('!'), Some('%')] {
                let mut steps = LIKE_STEPS_MAX;
                let Some(compiled) = LikePattern::new(&pattern, escape) else { continue };
                prop_assert_eq!(
                    compiled.matches(&value, &mut steps),
                    Some(reference(&characters(&pattern), escape, &characters(&value))),
                    "{} LIKE {} ESCAPE {:?}", value, pattern, escape
                );
            }
        }
    }
}
