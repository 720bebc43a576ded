//! Numbers for what clients show: which of them are still accepted can be told without keeping them.
//!
//! Invariant: within one process equal credentials have equal numbers; a number tells nothing about a secret to who does not
//! know the process's random key.

use std::hash::{BuildHasher, Hash, RandomState};

/// A number for one user with one password, one static token, or one issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CredentialMark(u64);

impl CredentialMark {
    /// The number.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Gives the numbers of one process.
#[derive(Clone, Debug, Default)]
pub struct CredentialMarks(RandomState);

impl CredentialMarks {
    /// The number of a user's password, which is known by its text or its hash, for a virtual host.
    pub fn of_user(&self, name: &str, secret: &str, host: Option<&str>) -> CredentialMark {
        self.of("user", (name, secret, host))
    }

    /// The number of a static token, known by its digest, that stands for somebody in a virtual host.
    pub(crate) fn of_token(
        &self,
        digest: impl Hash,
        principal: &str,
        host: Option<&str>,
    ) -> CredentialMark {
        self.of("token", (digest, principal, host))
    }

    /// The number of all tokens of an issuer: of all that decides which those are, and whom they stand for.
    pub fn of_issuer(&self, description: impl Hash) -> CredentialMark {
        self.of("issuer", description)
    }

    fn of(&self, kind: &str, what: impl Hash) -> CredentialMark {
        CredentialMark(self.0.hash_one((kind, what)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_different_has_another_number() {
        let marks = CredentialMarks::default();
        let ann = marks.of_user("ann", "one", None);
        assert_eq!(ann, marks.clone().of_user("ann", "one", None));
        let others = [
            marks.of_user("ann", "two", None),
            marks.of_user("bob", "one", None),
            marks.of_user("ann", "one", Some("*")),
            marks.of_token([1, 2], "ann", None),
            marks.of_token([1, 3], "ann", None),
            marks.of_token([1, 2], "bob", None),
            marks.of_token([1, 2], "ann", Some("shop")),
            marks.of_issuer("ann"),
            CredentialMarks::default().of_user("ann", "one", None),
        ];
        for (place, other) in others.iter().enumerate() {
            assert!(ann != *other && !others[..place].contains(other), "{place}");
        }
    }
}
