//! What a login says about a client beyond its name and groups, for the placeholders of rules.
//!
//! Relies on nothing. Invariant: without claims nothing is allocated. Only those are kept that rules
//! name, so that two logins that rules treat alike are one identity.

use std::sync::Arc;

/// Names with values; a name may stand several times, and each of its values counts. Cloning is cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claims(Option<Arc<[Claim]>>);

/// A name and one of its values.
pub type Claim = (Arc<str>, Arc<str>);

impl Claims {
    /// The values of that name.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.0.iter().flat_map(|claims| claims.iter());
        all.filter(move |(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Arc<[Claim]> {
        self.0.clone().unwrap_or_default()
    }
}

impl FromIterator<Claim> for Claims {
    fn from_iter<I: IntoIterator<Item = Claim>>(claims: I) -> Claims {
        let claims: Arc<[Claim]> = claims.into_iter().collect();
        Claims((!claims.is_empty()).then_some(claims))
    }
}
