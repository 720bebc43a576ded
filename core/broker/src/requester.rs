//! Who asks for an operation, and what it is answered.
//!
//! Relies on nothing. Who asks travels with the operation, since what is allowed is found at the home.

use tiderace_base::{Close, SessionId};
use tiderace_wire::{OperationResult, Token};

use crate::durables::Fed;
use crate::principal::Principal;

/// Who asks for an operation.
#[derive(Clone, Debug)]
pub struct Requester {
    /// Whom to answer.
    pub session: SessionId,
    /// Under which token.
    pub token: Token,
    /// Who that is.
    pub principal: Principal,
    /// The fence of the lock that the operation depends on, as its session knows it.
    pub fence: u64,
}

/// What comes of an operation.
pub type Operated = Result<OperationResult, Close>;

/// An operation that was done at a home.
#[derive(Debug)]
pub(crate) struct Done {
    /// The answer.
    pub(crate) result: OperationResult,
    /// The record that the answer waits for; zero for none.
    pub(crate) record: u64,
    /// The places for which it waits, too.
    pub(crate) fed: Option<Box<Fed>>,
}

impl From<OperationResult> for Done {
    /// One whose answer waits for nothing.
    fn from(result: OperationResult) -> Done {
        Done { result, record: 0, fed: None }
    }
}
