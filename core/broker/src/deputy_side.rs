//! What a shard may touch when it stands in for homes of topics at other nodes: the home of this shard.
//!
//! The methods stand in `deputies/`, as methods of [`DeputySide`]. They stand upon the home: what an upstream says is kept
//! and passed on by the home's methods, with numbers of the home, and what is for sessions goes as it does from every
//! home. The wiring in `broker.rs` alone makes a side, for one call.

use crate::deputies::Deputies;
use crate::home_side::HomeSide;

/// The deputies of a shard, during one call.
#[derive(Debug)]
pub(crate) struct DeputySide<'a> {
    pub(crate) home: HomeSide<'a>,
    pub(crate) deputies: &'a mut Deputies,
}
