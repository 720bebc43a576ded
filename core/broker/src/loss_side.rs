//! What the loss of a place may touch: the home of its shard.
//!
//! The methods stand in `peer_lost/home.rs`, as methods of [`LossSide`]. They stand upon the home: they do what the home
//! does when a session there ends, by the methods of [`HomeSide`]. The
//! wiring in `broker.rs` alone makes a side, for one call.

use crate::home_side::HomeSide;

/// The loss of a place at a home, during one call.
#[derive(Debug)]
pub(crate) struct LossSide<'a> {
    pub(crate) home: HomeSide<'a>,
}
