//! What clients show of themselves when they log in.
//!
//! Data alone. Invariant: passwords and tokens are never shown.

/// How a client proves who it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The login name; absent for anonymous clients and for tokens.
    pub login: Option<String>,
    /// The password.
    pub passcode: Option<String>,
    /// A bearer token.
    pub token: Option<String>,
    /// The name by which the client wants to reach the server, if its protocol has a place for that; it goes before the
    /// one of the request that the session began with.
    pub host: Option<String>,
}

impl Credentials {
    /// Whether nothing is shown by which a client could be known.
    pub fn are_absent(&self) -> bool {
        let Credentials { login, passcode, token, host: _ } = self;
        [login, passcode, token].iter().all(|it| it.as_ref().is_none_or(String::is_empty))
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("login", &self.login).finish_non_exhaustive()
    }
}
