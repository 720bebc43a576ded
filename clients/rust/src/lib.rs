//! A client of the native protocol (`docs/protocol.md`): versions, gaps, deltas and recovery are its
//! business, so that an application is told whole values and what it has missed.
//!
//! [`Client`] is a state machine: transport messages in and out, no socket, no clock, no thread. It is for
//! programs that bring their own I/O. [`Connection`] drives one over WebSocket on any stream that
//! blocks, such as a `TcpStream`:
//!
//! ```no_run
//! use std::net::TcpStream;
//! use tiderace_client::{Auth, Client, Connection, Event, SubscribeOptions};
//!
//! let server = "127.0.0.1:7800";
//! let mut connection = Connection::new(TcpStream::connect(server)?, Client::new("example"));
//! connection.open(server, Auth::Anonymous)?;
//! let quotes = SubscribeOptions::topic("fx/*").pattern().snapshot().recoverable();
//! connection.send(|client, out| client.subscribe(quotes, out))?;
//! loop {
//!     connection.receive(|event| match event {
//!         Event::Update(update) if update.missed > 0 => println!("{} were left out", update.missed),
//!         Event::Update(update) => println!("{:?}: {:?}", update.path, update.body),
//!         Event::Refused { sentence, .. } => eprintln!("{sentence}"),
//!         _ => {}
//!     })?;
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! `examples/` has programs that subscribe, publish, and consume a queue; the command line of the server
//! is made of this crate.
//!
//! Relies on the codec of `tiderace-native` and on `tiderace-websocket`. Invariant: any gap in a topic's
//! versions is told, and a delta is applied to nothing but the value that it was made for.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod client;
mod connection;
mod error;
mod event;
mod options;
mod subscription;

pub use client::Client;
pub use connection::Connection;
pub use error::{ClientError, ConnectionError};
pub use event::{Event, Update};
pub use options::SubscribeOptions;
pub use tiderace_native::codec::{
    AddressList, Auth, CallMessage, ClientMessage, Content, Destination, ExchangeMessage, Publish,
    Queued, QueuedEntry, ResultMessage, SettleMessage, Welcome, flag,
};
pub use tiderace_wire::{Kind, Position, Prefetch, Replay};
