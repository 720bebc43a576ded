//! Temporary destinations are private: only who knows the name of one reaches it.
//!
//! Their paths begin with `temp` and their owner's number. A wildcard in place of either names
//! nothing there, so `**` shows nobody the replies meant for others.

use tiderace_topics::{Level, Path, Pattern};

/// Whether the path is that of a temporary destination.
pub fn is_private(path: &Path) -> bool {
    path.levels().next() == Some("temp")
}

/// Whether a subscription to the pattern gets what the path names.
pub fn reaches(pattern: &Pattern, path: &Path) -> bool {
    let spelled = || {
        let owner = pattern.levels().get(..2).unwrap_or_default();
        !owner.is_empty() && owner.iter().all(|level| matches!(level, Level::Literal(_)))
    };
    pattern.matches(path) && (!is_private(path) || spelled())
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
            ("temp/7/*", "temp/7/reply", true),
            ("temp/7/**", "temp/7/reply", true),
            ("temp/8/*", "temp/7/reply", false),
            ("t*", "temp", false),
        ] {
            let (pattern, path) = (Pattern::parse(pattern).unwrap(), Path::parse(path).unwrap());
            assert_eq!(reaches(&pattern, &path), expected, "{pattern:?} {path}");
        }
    }
}
