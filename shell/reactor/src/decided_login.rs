//! What came of a login, on its way to the session.
//!
//! Data alone. Invariant: none.

use tiderace_base::{Close, SessionId, Span};
use tiderace_broker::Principal;

/// A login that was decided.
#[derive(Debug)]
pub(crate) struct DecidedLogin {
    pub(crate) session: SessionId,
    /// Who it is, or why it is nobody.
    pub(crate) result: Result<Principal, Close>,
    /// How long it is, if not for good.
    pub(crate) valid_for: Option<Span>,
}
