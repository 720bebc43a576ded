//! What notices may touch: what sessions of their shard have been told of topics, and the sessions.
//!
//! The methods stand in `notices/`, as methods of [`NoticeSide`]. Notices stand upon the sessions: they answer, take
//! places in backlogs and send by the methods of [`SessionSide`], and let a subscription listen when it has been
//! told of all that is there. Sessions know of no notices: where a session logs in or subscribes, their method
//! returns what is left to do ([`Begun`](crate::subscribe::Begun), [`Login`](crate::identity::Login)). The wiring in
//! `broker.rs` alone makes a side, for one call.

use crate::notices::Notices;
use crate::session_side::SessionSide;

/// The notices of a shard, during one call.
#[derive(Debug)]
pub(crate) struct NoticeSide<'a> {
    pub(crate) sessions: SessionSide<'a>,
    pub(crate) notices: &'a mut Notices,
}
