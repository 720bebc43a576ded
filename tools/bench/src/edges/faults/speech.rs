//! What a client of the faults speaks, and what it is told whatever that is.
//!
//! Invariant: what is told is what the protocol says; whether anything is missing or comes twice is for the checker to find.

use std::io;

use serde_json::Value;

/// Something that a client was told.
#[derive(Debug)]
pub(super) enum Told<'a> {
    /// A message of a topic.
    Value(Message<'a>),
    /// A topic has no value any more.
    Removed(&'a str),
    /// Something may be missing: of a topic, or of all.
    Gap(Option<&'a str>),
    /// All subscriptions are there.
    Ready,
}

/// A message of a topic.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) topic: &'a str,
    pub(super) version: u64,
    pub(super) value: &'a Value,
    /// The protocol says that it has come before.
    pub(super) is_repeated: bool,
}

/// How one subscription is exchanged for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It was asked for on the connection that is there.
    Asked,
    /// It takes a new connection.
    Reconnect,
}

/// A client's conversation, over any number of connections.
pub(super) trait Speech: std::fmt::Debug {
    /// Begins on a new connection.
    fn open(&mut self, authority: &str, out: &mut Vec<u8>);

    /// Takes in what has come; how much of it is done with. What is to be answered goes out.
    ///
    /// # Errors
    /// When the server ends the conversation or refuses something: why.
    fn take(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> io::Result<usize>;

    /// Ends the subscription to one topic and begins one to another.
    fn change(&mut self, from: &str, to: &str, out: &mut Vec<u8>) -> Change;
}
