//! The STOMP client side of the generator: frames, batches, connections, threads, cells.
//!
//! Invariant: nothing here formats, allocates or reads the clock once per message.

pub mod cell;
pub(crate) mod client;
pub mod connect;
pub mod consumer;
pub mod counters;
pub mod frames;
pub mod inbound;
pub mod producer;
pub mod shared;
pub mod template;
pub mod watch;
pub mod websocket;
