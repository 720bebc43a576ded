//! Paths of rules with levels that stand for something of the client: `{user}`, `{group}`, `{claim.NAME}`.
//!
//! Relies on patterns, in which such a level is `*`. Invariants: a level of this kind is compared as a whole, so that no
//! value can bring in wildcards or further levels; a client without a value is allowed nothing by such a path, and by a
//! rule that denies it is denied what the path names whatever the value.

use tiderace_topics::{Level, Path, Pattern, Placeholder};

use crate::principal::Principal;

/// A path of a rule, ready to be compared.
#[derive(Clone, Debug)]
pub(crate) struct RulePath {
    /// Placeholders are `*`.
    pattern: Pattern,
    /// By number of the level. All stand before a `**`, which is always last.
    placeholders: Box<[(usize, Placeholder)]>,
}

impl RulePath {
    pub(crate) fn new(pattern: &Pattern) -> RulePath {
        let mut placeholders = Vec::new();
        let mut levels: Vec<&str> = pattern.as_str().split('/').collect();
        for (at, level) in pattern.levels().iter().enumerate() {
            if let Level::Literal(text) = level
                && let Ok(Some(known)) = Placeholder::parse(text)
                && let Some(spelled) = levels.get_mut(at)
            {
                placeholders.push((at, known));
                *spelled = "*";
            }
        }
        let open =
            if placeholders.is_empty() { None } else { Pattern::parse(&levels.join("/")).ok() };
        match open {
            Some(open) => RulePath { pattern: open, placeholders: placeholders.into() },
            // It holds for no path that has a value in that place, as it is spelled.
            None => RulePath { pattern: pattern.clone(), placeholders: [].into() },
        }
    }

    /// Whether a rule that allows this path, or one that does not, speaks of that path.
    pub(crate) fn covers(&self, allow: bool, principal: &Principal, path: &Path) -> bool {
        let named = if allow { self.pattern.matches(path) } else { self.pattern.fits(path) };
        named
            && self.placeholders.iter().all(|(at, placeholder)| {
                let level = path.levels().nth(*at);
                let same = compare(placeholder, principal, |value| level == Some(value));
                same.unwrap_or(!allow)
            })
    }

    /// Whether it allows everything that the pattern names.
    pub(crate) fn contains(&self, principal: &Principal, other: &Pattern) -> bool {
        self.pattern.contains(other)
            && self.placeholders.iter().all(|(at, placeholder)| match other.levels().get(*at) {
                Some(Level::Literal(level)) => {
                    compare(placeholder, principal, |value| **level == *value).unwrap_or(false)
                }
                _ => false,
            })
    }

    /// Whether a rule that denies it may speak of something that the pattern names.
    pub(crate) fn overlaps(&self, principal: &Principal, other: &Pattern) -> bool {
        self.pattern.overlaps(other)
            && self.placeholders.iter().all(|(at, placeholder)| match other.levels().get(*at) {
                Some(level) if *level != Level::Rest => {
                    compare(placeholder, principal, |value| level.fits(value)).unwrap_or(true)
                }
                _ => true,
            })
    }
}

/// Whether some value that the client has for it is like that; `None` if it has no value.
fn compare(
    placeholder: &Placeholder,
    principal: &Principal,
    is_like: impl Fn(&str) -> bool,
) -> Option<bool> {
    let either = |known: Option<bool>, value: &str| Some(known == Some(true) || is_like(value));
    match placeholder {
        _ if principal.anonymous => None,
        Placeholder::Claim(name) => principal.claims.values(name).fold(None, either),
        Placeholder::Group => principal.groups.iter().map(|group| &**group).fold(None, either),
        Placeholder::User => Some(is_like(&principal.name)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn principal() -> Principal {
        let claim = |name: &str, value: &str| (name.into(), value.into());
        Principal {
            groups: ["ops".into(), "sales".into()].into(),
            claims: [claim("tenant", "acme"), claim("tenant", "umbra"), claim("evil", "a/b")]
                .into_iter()
                .collect(),
            ..Principal::named("ann")
        }
    }

    #[test]
    fn levels_are_compared_as_a_whole() {
        let (ann, nobody) = (principal(), Principal::anonymous());
        // Rule, path, whether it allows it to ann, whether it denies it to ann, and to nobody.
        let rows = [
            ("t/{claim.tenant}/**", "t/acme/x", true, true, true),
            ("t/{claim.tenant}/**", "t/umbra", true, true, true),
            ("t/{claim.tenant}/**", "t/other/x", false, false, true),
            ("t/{claim.evil}/x", "t/a/b/x", false, false, false),
            ("t/{claim.none}/x", "t/a/x", false, true, true),
            ("{user}/{group}", "ann/ops", true, true, true),
            ("{user}/{group}", "ann/sales", true, true, true),
            ("{user}/{group}", "ann/hr", false, false, true),
            ("{user}/{group}", "bob/ops", false, false, true),
            ("a/{user}", "a/anonymous", false, false, true),
        ];
        for (rule, path, allows, denies, denies_nobody) in rows {
            let place = RulePath::new(&Pattern::parse(rule).unwrap());
            let path = Path::parse(path).unwrap();
            assert_eq!(place.covers(true, &ann, &path), allows, "allow {rule} {path}");
            assert_eq!(place.covers(false, &ann, &path), denies, "deny {rule} {path}");
            assert!(!place.covers(true, &nobody, &path), "allow {rule} {path} to nobody");
            assert_eq!(place.covers(false, &nobody, &path), denies_nobody, "deny {rule} {path}");
        }
    }

    #[test]
    fn patterns_are_compared_conservatively() {
        let ann = principal();
        // Rule, pattern, whether all of it is allowed, whether a denial may meet it.
        let rows = [
            ("t/{claim.tenant}/**", "t/acme/*", true, true),
            ("t/{claim.tenant}/**", "t/acme/**", true, true),
            ("t/{claim.tenant}/**", "t/*/x", false, true),
            ("t/{claim.tenant}/**", "t/a*/x", false, true),
            ("t/{claim.tenant}/**", "t/b*/x", false, false),
            ("t/{claim.tenant}/**", "t/**", false, true),
            ("t/{claim.tenant}/**", "t/other/**", false, false),
            ("t/{claim.none}/**", "t/other/**", false, true),
            ("{user}/x", "**", false, true),
            ("{user}/x", "ann/x", true, true),
        ];
        for (rule, pattern, all, some) in rows {
            let place = RulePath::new(&Pattern::parse(rule).unwrap());
            let other = Pattern::parse(pattern).unwrap();
            assert_eq!(place.contains(&ann, &other), all, "{rule} {pattern}");
            assert_eq!(place.overlaps(&ann, &other), some, "{rule} {pattern}");
        }
    }
}
