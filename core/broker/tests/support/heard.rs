//! What clients get.

use std::sync::Arc;

use tiderace_base::ShardId;
use tiderace_wire::{Exchange, LeaveReason, Numbering, TopicSpec};

/// A message as a client got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub key: u32,
    pub home: ShardId,
    pub sequence: u64,
    pub path: String,
    pub body: String,
    pub is_in_file: bool,
    pub redeliveries: u32,
    pub properties: Vec<u8>,
    pub version: u64,
    /// Who numbered it elsewhere, and its number there.
    pub upstream: Option<(Numbering, u64)>,
    /// In its queue.
    pub queue_version: u64,
    /// The version that it follows, if that is not one less.
    pub follows: Option<u64>,
    /// The body of the message before it, if the delivery knows it.
    pub previous: Option<String>,
    /// Whether it was put together of several.
    pub is_merged: bool,
}

/// A message of an exchange as a client got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Of the subscription, for responders.
    pub key: u32,
    pub exchange: Exchange,
    pub path: String,
    pub body: String,
}

/// A topic that a subscription has joined or left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub key: u32,
    pub path: String,
    pub joined: Option<Arc<TopicSpec>>,
    pub left: Option<LeaveReason>,
    /// How many messages had come before.
    pub behind: usize,
}
