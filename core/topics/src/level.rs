//! One level of a pattern, and the names that fit it.
//!
//! Relies on `regex` for levels that need an automaton. Invariant: an expression that stands for a text,
//! for anything, or for texts with anything between them becomes a level without an automaton.

use tiderace_base::limits::PATTERN_STARS_PER_LEVEL_MAX;
use tiderace_expression::regex_syntax::hir::{self, Hir, HirKind};

use crate::{Regex, regex};

/// One level of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Exactly this text.
    Literal(Box<str>),
    /// Any one level.
    One,
    /// Any one level that fits a text with `*` inside.
    Glob(Box<str>),
    /// Any one level that fits a regular expression as a whole.
    Regex(Regex),
    /// This level and all below it, and also nothing; always last.
    Rest,
}

impl Level {
    /// Whether one level of a path fits.
    pub fn fits(&self, name: &str) -> bool {
        match self {
            Level::Literal(text) => **text == *name,
            Level::One | Level::Rest => true,
            Level::Glob(glob) => glob_fits(glob, name),
            Level::Regex(regex) => regex.fits(name),
        }
    }
}

/// First piece at the start, last at the end, the others leftmost in between.
fn glob_fits(glob: &str, name: &str) -> bool {
    let Some((head, rest)) = glob.split_once('*') else {
        return glob == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    let (middle, tail) = match rest.rsplit_once('*') {
        Some((middle, tail)) => (Some(middle), tail),
        None => (None, rest),
    };
    let Some(inner) = name.strip_suffix(tail) else {
        return false;
    };
    name = inner;
    for piece in middle.into_iter().flat_map(|middle| middle.split('*')) {
        let Some(at) = name.find(piece) else {
            return false;
        };
        let Some(after) = name.get(at + piece.len()..) else {
            return false;
        };
        name = after;
    }
    true
}

/// Reads one level as a regular expression. What needs no automaton becomes a level without one.
pub(crate) fn parse_regex(text: &str) -> Result<Level, regex::Problem> {
    let hir = regex::read(text)?;
    match simple(&hir) {
        Some(level) => Ok(level),
        None => regex::compile(text, hir).map(Level::Regex),
    }
}

/// The level that needs no automaton: one text, anything, or texts with `.*` between them.
fn simple(hir: &Hir) -> Option<Level> {
    let parts = match hir.kind() {
        HirKind::Concat(parts) => parts.as_slice(),
        _ => std::slice::from_ref(hir),
    };
    let mut glob = String::new();
    for part in parts {
        match part.kind() {
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                // What no name holds must neither act as a wildcard nor as a separator.
                if text.contains(['/', '*', '+', '#', '\x7f'])
                    || text.bytes().any(|byte| byte < 0x20)
                {
                    return None;
                }
                glob.push_str(text);
            }
            HirKind::Repetition(many) if many.max.is_none() && any(&many.sub) => match many.min {
                0 if glob.ends_with('*') => {}
                0 => glob.push('*'),
                // No level is empty.
                1 if parts.len() == 1 => glob.push('*'),
                _ => return None,
            },
            _ => return None,
        }
    }
    match glob.bytes().filter(|byte| *byte == b'*').count() {
        _ if glob.is_empty() => None,
        _ if glob == "*" => Some(Level::One),
        0 => Some(Level::Literal(glob.into())),
        1..=PATTERN_STARS_PER_LEVEL_MAX => Some(Level::Glob(glob.into())),
        _ => None,
    }
}

/// Whether it stands for every character that a name can hold.
fn any(hir: &Hir) -> bool {
    let HirKind::Class(hir::Class::Unicode(class)) = hir.kind() else { return false };
    let mut unmet = ' ';
    for range in class.ranges() {
        if range.start() > unmet && !(unmet == '\x7f' && range.start() == '\u{80}') {
            return false;
        }
        if range.end() == char::MAX {
            return true;
        }
        // The surrogates are no characters.
        unmet = unmet.max(char::from_u32(range.end() as u32 + 1).unwrap_or('\u{e000}'));
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn simple_expressions_need_no_automaton() {
        for (text, expected) in [
            ("EUR-USD", Level::Literal("EUR-USD".into())),
            (r"a\.b", Level::Literal("a.b".into())),
            (".*", Level::One),
            (".+", Level::One),
            (r"[\s\S]*", Level::One),
            ("EUR.*", Level::Glob("EUR*".into())),
            (".*-USD", Level::Glob("*-USD".into())),
            ("E.*.*U.*", Level::Glob("E*U*".into())),
        ] {
            assert_eq!(parse_regex(text).unwrap(), expected, "{text}");
        }
        for text in ["EUR.+", r"a\*", r"a\x2Fb", "()", "[ab]", "(?i)a", ".*a.*a.*a.*a.*a", "[^a]*"]
        {
            assert!(matches!(parse_regex(text), Ok(Level::Regex(_))), "{text}");
        }
    }
}
