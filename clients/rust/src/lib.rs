//! A client of the native protocol (`docs/protocol.md`) as a state machine: transport messages in and
//! out, no socket, no clock, no thread. For load generators and programs that bring their own I/O.
//!
//! ```
//! use tiderace_client::{Client, Event, Wish};
//!
//! let mut client = Client::new("example");
//! let mut message = Vec::new();
//! client.connect(tiderace_client::Auth::Anonymous, &mut message);
//! let quotes = client.subscribe(Wish::topic("fx/EUR-USD").snapshot().recoverable(), &mut message);
//! // Send `message` as one binary WebSocket message; then, for each that comes:
//! # let incoming: &[u8] = &[];
//! client.receive(incoming, |event| match event {
//!     Event::Update(update) if update.missed > 0 => println!("{} were left out", update.missed),
//!     Event::Update(update) => println!("{:?}", update.body),
//!     _ => {}
//! })?;
//! # Ok::<(), tiderace_client::ClientError>(())
//! ```
//! Relies on the codec of `tiderace-native`. Invariant: any gap in a topic's versions is told, and a
//! delta is applied to nothing but the value that it was made for.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod client;
mod error;
mod event;
mod subscription;
mod wish;

pub use client::Client;
pub use error::ClientError;
pub use event::{Event, Update};
pub use tiderace_native::codec::{
    Auth, CallMessage, ClientMessage, Content, Destination, ExchangeMessage, Publish, Queued,
    QueuedEntry, ResultMessage, Welcome, flag,
};
pub use tiderace_wire::{Kind, Position, Prefetch, Replay};
pub use wish::Wish;
