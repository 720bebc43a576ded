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
//! A message is published, and its confirmation waited for, like this:
//!
//! ```no_run
//! # use std::net::TcpStream;
//! # use tiderace_client::{Auth, Client, Connection, Content, Destination, Event, Kind, Publish, flag};
//! # let server = "127.0.0.1:7800";
//! # let mut connection = Connection::new(TcpStream::connect(server)?, Client::new("example"));
//! # connection.open(server, Auth::Anonymous)?;
//! let quote = Publish {
//!     request: 0,
//!     flags: Content::Json.bits() | flag::RETAIN,
//!     destination: Destination::Path(Kind::Topic, "fx/EUR-USD"),
//!     expires_ms: None,
//!     properties: b"",
//!     body: br#"{"bid":1.09}"#,
//! };
//! let request = connection.send(|client, out| client.publish(quote, true, out))?.unwrap_or_default();
//! let mut is_done = false;
//! while !is_done {
//!     connection.receive(|event| {
//!         if let Event::Done { first, last } = event {
//!             is_done = (first..=last).contains(&request);
//!         }
//!     })?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! When a connection is lost, [`Connection::reopen`] goes on over another stream: subscriptions are made again, recoverable
//! ones behind the last message. [`Reconnect`] says where and when, over several addresses, with pauses that grow.
//! A client needs no server to be tried:
//!
//! ```
//! use tiderace_client::{Auth, Client, SubscribeOptions};
//!
//! let (mut client, mut out) = (Client::new("example"), Vec::new());
//! client.connect(Auth::Token("secret"), &mut out);
//! let jobs = client.subscribe(SubscribeOptions::queue("jobs").explicit(), &mut out);
//! assert!(client.awaits(jobs), "the server has not answered");
//! ```
//! `examples/` has programs that subscribe, publish, consume a queue, and call a service; the command line of the server
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
mod reconnect;
mod subscription;

pub use client::Client;
pub use connection::Connection;
pub use error::{ClientError, ConnectionError};
pub use event::{Event, Update};
pub use options::SubscribeOptions;
pub use reconnect::Reconnect;
pub use tiderace_native::codec::{
    AddressList, Auth, CallMessage, ClientMessage, Content, Destination, ExchangeMessage, Publish,
    Queued, QueuedEntry, ResultMessage, SendMessage, SettleMessage, Welcome, flag,
};
pub use tiderace_wire::{Kind, Position, Prefetch, Replay};

/// So that the examples of the README are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
