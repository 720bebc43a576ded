//! Private destinations: a wildcard shows nobody what is meant for others.
//!
//! ```text
//!   temp/…/…       temporary: one session listens there
//!   user/ann/…     only the principal ann listens there
//!   group/ops/…    only members of ops listen there
//! ```
//! A wildcard in place of one of the first two levels names nothing there, and below `temp` no wildcard
//! does. In a virtual host these levels follow that of the host.

use tiderace_topics::{Level, Path, Pattern};
use tiderace_wire::{is_temporary, names_host, within_host};

/// Whether the path is that of a private destination.
pub fn is_private(path: &Path) -> bool {
    let mut levels = within_host(path.as_str()).split('/');
    match levels.next() {
        Some("temp") => true,
        Some("user" | "group") => levels.next().is_some(),
        _ => false,
    }
}

/// Whether a subscription to the pattern gets what the path names.
pub fn reaches(pattern: &Pattern, path: &Path) -> bool {
    pattern.matches(path) && (!is_private(path) || spells_owner(pattern) && !is_temporary(path))
}

/// Whether the first two levels of a pattern, behind that of a host, are no wildcards.
pub(crate) fn spells_owner(pattern: &Pattern) -> bool {
    let levels = if names_host(pattern) { 3 } else { 2 };
    let owner = pattern.levels().get(..levels).unwrap_or_default();
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
        ] {
            let (pattern, path) = (Pattern::parse(pattern).unwrap(), Path::parse(path).unwrap());
            assert_eq!(reaches(&pattern, &path), expected, "{pattern:?} {path}");
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
