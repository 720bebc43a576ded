//! Levels of rules that stand for something of the client: `{user}`, `{group}`, `{claim.NAME}`.
//!
//! Relies on patterns, to which such a level is a literal like others. Invariant: a level with braces is a placeholder or
//! an error, never a name.

use std::sync::Arc;

use crate::{Level, Pattern};

/// What a level of a rule's path stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// A value of a claim: `{claim.NAME}`.
    Claim(Arc<str>),
    /// Any of the client's groups: `{group}`.
    Group,
    /// The client's name: `{user}`.
    User,
}

/// A level in braces that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{level}` stands for nothing; the placeholders are {{user}}, {{group}} and {{claim.NAME}}, each a level of its own"
)]
pub struct UnknownPlaceholder {
    /// The level as it is spelled.
    pub level: String,
}

impl Placeholder {
    /// What the level stands for; `None` if it has no braces.
    ///
    /// # Errors
    /// If it has, and is no placeholder.
    pub fn parse(level: &str) -> Result<Option<Placeholder>, UnknownPlaceholder> {
        if !level.contains(['{', '}']) {
            return Ok(None);
        }
        let inner = level.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let claim = |inner: &str| {
            let name = inner.strip_prefix("claim.")?;
            let is_name = !name.is_empty() && !name.contains(['{', '}']);
            is_name.then(|| Placeholder::Claim(name.into()))
        };
        let known = match inner {
            Some("group") => Some(Placeholder::Group),
            Some("user") => Some(Placeholder::User),
            Some(inner) => claim(inner),
            None => None,
        };
        known.map(Some).ok_or_else(|| UnknownPlaceholder { level: level.to_owned() })
    }

    /// The placeholders of a rule's path.
    ///
    /// # Errors
    /// The first level in braces that is none.
    pub fn all_of(pattern: &Pattern) -> Result<Vec<Placeholder>, UnknownPlaceholder> {
        let mut all = Vec::new();
        for level in pattern.levels() {
            match level {
                Level::Literal(text) => all.extend(Placeholder::parse(text)?),
                Level::Glob(text) if text.contains(['{', '}']) => {
                    return Err(UnknownPlaceholder { level: text.to_string() });
                }
                _ => {}
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_levels_of_their_own() {
        let parse = |level| Placeholder::parse(level);
        assert_eq!(parse("user"), Ok(None));
        assert_eq!(parse("{user}"), Ok(Some(Placeholder::User)));
        assert_eq!(parse("{group}"), Ok(Some(Placeholder::Group)));
        assert_eq!(parse("{claim.a.b}"), Ok(Some(Placeholder::Claim("a.b".into()))));
        for bad in ["{users}", "x{user}", "{user", "{claim.}", "{claim}", "{}", "{claim.{user}}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let all = |text| Placeholder::all_of(&Pattern::parse(text).unwrap());
        assert_eq!(all("a/{user}/**").unwrap(), [Placeholder::User]);
        assert!(all("a/{user}*/b").is_err());
    }
}
