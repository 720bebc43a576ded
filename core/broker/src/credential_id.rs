//! Numbers for what sessions have logged in with.
//!
//! Invariant: the broker knows nothing of credentials but these.

/// What somebody has logged in with: a number for one user with one password, one static token, or one issuer of
/// signed tokens, which is another one when it would not be accepted any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CredentialId(pub u64);

impl CredentialId {
    /// What no change of the configuration takes back: its validity is somebody else's business.
    pub const LASTING: CredentialId = CredentialId(0);
    /// Nothing, where that is enough.
    pub const NOTHING: CredentialId = CredentialId(1);
    /// A name that was believed since nothing was verified.
    pub const BELIEVED: CredentialId = CredentialId(2);
    /// The least number of credentials that were verified.
    pub const VERIFIED_FROM: u64 = 16;
}
