//! What exchanges may touch: the ends that the sessions of their shard hold, and the sessions.
//!
//! The methods stand in `exchange/` and `peer_lost/exchanges.rs`, as methods of [`ExchangeSide`]. Exchanges stand
//! upon the sessions: they put what is said into backlogs, answer, and send by the methods of [`SessionSide`].
//! Methods of sessions know of no end, though the list of a session's ends stands in its record: a method of theirs
//! that needs exchanges in its middle returns what is left to do, such as [`Ended`](crate::subscribe::Ended). The
//! wiring in `broker.rs` alone makes a side, for one call.

use crate::exchange::Exchanges;
use crate::session_side::SessionSide;

/// The exchanges of a shard, during one call.
#[derive(Debug)]
pub(crate) struct ExchangeSide<'a> {
    pub(crate) sessions: SessionSide<'a>,
    pub(crate) exchanges: &'a mut Exchanges,
}
