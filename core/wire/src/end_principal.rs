//! Whom a request is made for, where a node passes on what its own clients ask for.
//!
//! An edge says with each request that it passes on who had asked for it; the upstream applies its rules to that principal
//! as well as to the edge. Relies on the form of names in `tiderace-base`. Invariant: no name of a principal or a group
//! could stand for somebody else in a rule, and what one principal is told to be is bounded.

use std::sync::Arc;

use tiderace_base::{is_local_name, is_name};

/// A name and one of its values, as the login of the principal tells it.
pub type EndClaim = (Arc<str>, Arc<str>);

/// A principal of another node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndPrincipal {
    name: Arc<str>,
    groups: Arc<[Arc<str>]>,
    claims: Arc<[EndClaim]>,
    anonymous: bool,
}

/// Why something is no principal of which another node can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndPrincipalError {
    /// A name has white space, wildcards or control characters, or is empty or too long.
    #[error(
        "the name of a user or a group has white space, wildcards or control characters, or is empty or longer than 128 characters"
    )]
    BadName,
    /// It is the name of a process on the admin socket of a node, which is nobody elsewhere.
    #[error(
        "who has come by the admin socket of a server is nobody at another one; log in to ask for this"
    )]
    Local,
    /// There are too many groups or claims, or too many bytes of them.
    #[error(
        "the user is in more than 256 groups, has more than 256 claims, or they have more than 16384 bytes together"
    )]
    TooMuch,
}

impl EndPrincipal {
    /// Groups at most, and claims at most.
    pub const ROWS_MAX: usize = 256;
    /// Bytes of all its texts at most: it is told again and again.
    pub const BYTES_MAX: usize = 16_384;

    /// A principal of that name.
    ///
    /// # Errors
    /// When it cannot be told to another node; see [`EndPrincipalError`].
    pub fn new(
        name: Arc<str>,
        groups: Arc<[Arc<str>]>,
        claims: Arc<[EndClaim]>,
        anonymous: bool,
    ) -> Result<EndPrincipal, EndPrincipalError> {
        if !is_name(&name) || !groups.iter().all(|group| is_name(group)) {
            return Err(EndPrincipalError::BadName);
        }
        if is_local_name(&name) {
            return Err(EndPrincipalError::Local);
        }
        let in_groups: usize = groups.iter().map(|group| group.len()).sum();
        let in_claims: usize = claims.iter().map(|(name, value)| name.len() + value.len()).sum();
        let rows = groups.len().max(claims.len());
        if rows > Self::ROWS_MAX || in_groups + in_claims > Self::BYTES_MAX {
            return Err(EndPrincipalError::TooMuch);
        }
        Ok(EndPrincipal { name, groups, claims, anonymous })
    }

    /// Bytes of all its texts.
    pub fn bytes(&self) -> usize {
        let in_groups: usize = self.groups.iter().map(|group| group.len()).sum();
        let in_claims = self.claims.iter().map(|(name, value)| name.len() + value.len());
        self.name.len() + in_groups + in_claims.sum::<usize>()
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The groups that it belongs to.
    pub fn groups(&self) -> &Arc<[Arc<str>]> {
        &self.groups
    }

    /// What its login says besides.
    pub fn claims(&self) -> &Arc<[EndClaim]> {
        &self.claims
    }

    /// Whether the name is not authenticated.
    pub fn is_anonymous(&self) -> bool {
        self.anonymous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, groups: Vec<String>, claims: Vec<EndClaim>) -> Option<EndPrincipalError> {
        let groups = groups.into_iter().map(Arc::from).collect();
        EndPrincipal::new(name.into(), groups, claims.into(), false).err()
    }

    #[test]
    fn nobody_is_told_to_be_the_server_or_a_wildcard() {
        assert_eq!(made("ann", vec!["traders".into()], vec![]), None);
        for name in ["*", "", "a b", "a/#", "#"] {
            assert_eq!(made(name, vec![], vec![]), Some(EndPrincipalError::BadName), "{name}");
            let groups = vec![name.to_owned()];
            assert_eq!(made("ann", groups, vec![]), Some(EndPrincipalError::BadName), "{name}");
        }
    }

    #[test]
    fn a_process_on_an_admin_socket_is_nobody_at_another_node() {
        assert_eq!(made("uid:0", vec![], vec![]), Some(EndPrincipalError::Local));
        assert_eq!(made("uid:ann", vec![], vec![]), None);
    }

    #[test]
    fn a_principal_is_bounded() {
        let groups = |count: usize| (0..count).map(|number| format!("g{number}")).collect();
        assert_eq!(made("ann", groups(256), vec![]), None);
        assert_eq!(made("ann", groups(257), vec![]), Some(EndPrincipalError::TooMuch));
        let known = EndPrincipal::new(
            "ann".into(),
            ["all".into()].into(),
            [("a".into(), "bc".into())].into(),
            false,
        );
        assert_eq!(known.map(|known| known.bytes()), Ok(9));
        let claim = |bytes: usize| (Arc::from("a"), Arc::from("x".repeat(bytes - 1)));
        assert_eq!(made("ann", vec![], vec![claim(16_384)]), None);
        assert_eq!(made("ann", vec![], vec![claim(16_385)]), Some(EndPrincipalError::TooMuch));
        let many = vec![(Arc::from("a"), Arc::from("b")); 257];
        assert_eq!(made("ann", vec![], many), Some(EndPrincipalError::TooMuch));
    }
}
