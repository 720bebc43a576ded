//! What views may touch: the home of their shard, and nothing of its sessions.
//!
//! The methods stand in `views/`, as methods of [`ViewSide`]. A view follows topics at their homes and its outputs are
//! topics like others at theirs, so views stand upon the home: they read the directory, publish and remove outputs by
//! the home's methods, and tell other homes by messages. The home knows nothing of views; it says which topics have
//! changed by [`LocalMessage::TopicChanged`](crate::messages::LocalMessage::TopicChanged). The wiring in `broker.rs`
//! alone makes a side, for one call.

use crate::home_side::HomeSide;
use crate::views::Views;

/// The views of a shard, during one call.
#[derive(Debug)]
pub(crate) struct ViewSide<'a> {
    pub(crate) home: HomeSide<'a>,
    pub(crate) views: &'a mut Views,
}
