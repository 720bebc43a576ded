//! Private destinations: a wildcard shows nobody what is meant for others.
//!
//! ```text
//!   temp/…/…       temporary: one session listens there
//!   user/ann/…     only the principal ann listens there
//!   group/ops/…    only members of ops listen there
//! ```
//! A wildcard in place of one of the first two levels names nothing there, and below `temp` no wildcard
//! does. In a virtual host these levels follow that of the host. What a trace tells somebody below `$sys/trace/` is as private; what
//! the server tells below `$sys/presence/` and `$sys/missing/` is hidden topic by topic, where somebody asks who gets it.

use tiderace_topics::{Level, Path, Pattern};
use tiderace_wire::{is_temporary, names_host, within_host};

/// Below `$sys/`, what is private behind the next level.
const KEPT: &[&str] = &["trace"];
/// The same where nobody asks who gets it.
const TOLD: &[&str] = &["presence", "missing", "trace"];

/// Whether the path is that of a private destination.
pub fn is_private(path: &Path) -> bool {
    is_private_below(KEPT, path)
}

fn is_private_below(told: &[&str], path: &Path) -> bool {
    let about = path.as_str().strip_prefix("$sys/").and_then(|rest| rest.split_once('/'));
    let about = about.filter(|(level, _)| told.contains(level)).map(|(_, about)| about);
    let mut levels = within_host(about.unwrap_or(path.as_str())).split('/');
    match levels.next() {
        Some("temp") => about.is_none(),
        Some("user" | "group") => levels.next().is_some(),
        _ => false,
    }
}

/// Whether a subscription to the pattern gets what the path names.
pub fn reaches(pattern: &Pattern, path: &Path) -> bool {
    reaches_below(KEPT, pattern, path)
}

/// Whether what the path names is gathered for a pattern by somebody who hands it on, so that nobody asks who gets it.
pub fn gathers(pattern: &Pattern, path: &Path) -> bool {
    reaches_below(TOLD, pattern, path)
}

fn reaches_below(told: &[&str], pattern: &Pattern, path: &Path) -> bool {
    pattern.matches(path)
        && (!is_private_below(told, path)
            || spells_owner_below(told, pattern) && !is_temporary(path))
}

/// Whether the first two levels of a pattern, behind that of a host, are no wildcards.
pub(crate) fn spells_owner(pattern: &Pattern) -> bool {
    spells_owner_below(KEPT, pattern)
}

fn spells_owner_below(told: &[&str], pattern: &Pattern) -> bool {
    let levels = pattern.levels();
    let literal = |at: usize| match levels.get(at) {
        Some(Level::Literal(text)) => Some(&**text),
        _ => None,
    };
    let is_told = literal(0) == Some("$sys") && literal(1).is_some_and(|it| told.contains(&it));
    let (skipped, has_host) = match is_told {
        true => (2, literal(2).is_some_and(|level| level.starts_with('@'))),
        false => (0, names_host(pattern)),
    };
    let owner = levels.get(..skipped + 2 + usize::from(has_host)).unwrap_or_default();
    !owner.is_empty() && owner.iter().all(|level| matches!(level, Level::Literal(_)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn wildcards_do_not_guess_owners() {
        for (pattern, path, expected) in [
            ("**", "fx/EUR", true),
            ("**", "temp/7/reply", false),
            ("*/7/reply", "temp/7/reply", false),
            ("temp/**", "temp/7/reply", false),
            ("temp/*/reply", "temp/7/reply", false),
            ("temp/7/*", "temp/7/reply", false),
            ("temp/7/**", "temp/7/reply", false),
            ("temp/8/*", "temp/7/reply", false),
            ("t*", "temp", false),
            ("**", "user/ann/inbox", false),
            ("user/**", "user/ann/inbox", false),
            ("user/a*/inbox", "user/ann/inbox", false),
            ("user/*", "user/ann", false),
            ("user/ann/**", "user/ann", true),
            ("user/ann/*", "user/ann/inbox", true),
            ("u*/ann/inbox", "user/ann/inbox", false),
            ("*", "user", true),
            ("group/*/chat", "group/ops/chat", false),
            ("group/ops/**", "group/ops/chat", true),
            ("users/**", "users/ann", true),
            ("**", "@shop/user/ann/inbox", false),
            ("@shop/**", "@shop/user/ann/inbox", false),
            ("*/user/ann/*", "@shop/user/ann/inbox", false),
            ("@shop/user/*/inbox", "@shop/user/ann/inbox", false),
            ("@shop/user/ann/*", "@shop/user/ann/inbox", true),
            ("@*/user/ann/*", "@shop/user/ann/inbox", false),
            ("@shop/**", "@shop/orders", true),
            ("$sys/**", "$sys/trace/user/oli/3", false),
            ("$sys/trace/**", "$sys/trace/user/oli/3", false),
            ("$sys/trace/user/*/*", "$sys/trace/user/oli/3", false),
            ("$sys/*/user/oli/*", "$sys/trace/user/oli/3", false),
            ("$sys/trace/user/oli/*", "$sys/trace/user/oli/3", true),
            ("$sys/trace/*", "$sys/trace/3", true),
        ] {
            let (pattern, path) = (Pattern::parse(pattern).unwrap(), Path::parse(path).unwrap());
            assert_eq!(reaches(&pattern, &path), expected, "{pattern:?} {path}");
            assert_eq!(gathers(&pattern, &path), expected, "{pattern:?} {path}");
        }
        // Each who gets it is asked for what is told of private topics, unless it is gathered.
        for (pattern, path, expected) in [
            ("$sys/presence/**", "$sys/presence/user/ann/a", false),
            ("$sys/**", "$sys/presence/user/ann/a", false),
            ("$sys/presence/user/ann/*", "$sys/presence/user/ann/a", true),
            ("$sys/missing/@shop/**", "$sys/missing/@shop/group/a/b", false),
            ("$sys/missing/@shop/group/a/*", "$sys/missing/@shop/group/a/b", true),
            ("$sys/presence/**", "$sys/presence/fx/a", true),
        ] {
            let (pattern, path) = (Pattern::parse(pattern).unwrap(), Path::parse(path).unwrap());
            assert!(reaches(&pattern, &path));
            assert_eq!(gathers(&pattern, &path), expected, "{pattern:?} {path}");
        }
    }

    #[test]
    fn only_temporary_destinations_go_with_their_readers() {
        for (path, temporary, private) in [
            ("temp/7/reply", true, true),
            ("user/ann/inbox", false, true),
            ("group/ops", false, true),
            ("user", false, false),
            ("fx/EUR", false, false),
            ("@shop/user/ann", false, true),
            ("@shop/user", false, false),
        ] {
            let path = Path::parse(path).unwrap();
            assert_eq!((is_temporary(&path), is_private(&path)), (temporary, private), "{path}");
        }
    }
}
