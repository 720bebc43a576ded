//! What clients speak inside their carrier: how they begin, subscribe, and count what comes.
//!
//! Invariant: [`Language::walk`] consumes whole messages or none, except for bodies that are skipped.

use std::io;

use crate::clients::counters::Counters;
use crate::clients::native;
use crate::clients::socketio::SocketIo;
use crate::clients::stomp::Stomp;
use crate::clients::values;

/// A language to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// The native protocol.
    Native,
    /// Socket.IO: protocol 5 over Engine.IO 4.
    SocketIo,
    /// STOMP 1.2.
    Stomp,
}

/// One client's conversation.
#[derive(Debug)]
pub enum Language {
    /// See [`Speech::Native`].
    Native(native::Reader),
    /// The native protocol of a client that holds values.
    Values(Box<values::Reader>),
    /// See [`Speech::SocketIo`].
    SocketIo(SocketIo),
    /// See [`Speech::Stomp`].
    Stomp(Stomp),
}

impl Language {
    /// A conversation with so many subscriptions.
    pub fn new(speech: Speech, subscriptions: usize) -> Language {
        match speech {
            Speech::Native => Language::Native(native::Reader::new(subscriptions)),
            Speech::SocketIo => Language::SocketIo(SocketIo::default()),
            Speech::Stomp => Language::Stomp(Stomp::default()),
        }
    }

    /// Whether its messages are text.
    pub fn is_text(&self) -> bool {
        !matches!(self, Language::Native(_) | Language::Values(_))
    }

    /// The first message.
    pub fn greeting(&self, credentials: Option<&(String, String)>) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Language::Native(_) => native::hello(&mut out, credentials, &[]),
            Language::Values(reader) => {
                native::hello(&mut out, credentials, reader.codec().as_slice());
            }
            Language::SocketIo(_) => out.push(b'0'),
            Language::Stomp(_) => crate::clients::stomp::connect(&mut out, credentials),
        }
        out
    }

    /// The messages that subscribe, each at most `SUBSCRIBE_BYTES` or one request long.
    pub fn subscriptions(&self, paths: &[String]) -> Vec<Vec<u8>> {
        let mut messages: Vec<Vec<u8>> = Vec::new();
        for (id, path) in paths.iter().enumerate() {
            let mut out = Vec::new();
            match self {
                Language::Native(_) | Language::Values(_) => {
                    native::subscribe(&mut out, id as u64 + 1, id as u64, self.flags(), path);
                    if let Some(last) = messages.last_mut()
                        && last.len() + out.len() <= SUBSCRIBE_BYTES
                    {
                        last.append(&mut out);
                        continue;
                    }
                }
                Language::SocketIo(_) => crate::clients::socketio::subscribe(&mut out, id, path),
                Language::Stomp(_) => crate::clients::stomp::subscribe(&mut out, id, path),
            }
            messages.push(out);
        }
        messages
    }

    /// Flags of its subscriptions, in the native protocol.
    fn flags(&self) -> u8 {
        match self {
            Language::Values(reader) if reader.codec().is_some() => {
                native::SNAPSHOT | native::DELTAS
            }
            Language::Values(_) => native::SNAPSHOT,
            _ => 0,
        }
    }

    /// Appends a message to publish, as one message of the carrier can hold it.
    pub fn publish(&self, out: &mut Vec<u8>, path: &str, body: &[u8]) {
        match self {
            Language::Native(_) => native::publish(out, 0, native::OCTETS, path, body),
            Language::Values(_) => native::publish(out, 0, native::JSON_VALUE, path, body),
            Language::SocketIo(_) => crate::clients::socketio::control(out, body),
            Language::Stomp(_) => crate::clients::stomp::send(out, path, body),
        }
    }

    /// Walks bytes of one message of the carrier; `is_end` says that it ends with them. What is not
    /// consumed has to come again with more behind it.
    ///
    /// # Errors
    /// When the server speaks nonsense, refuses something or closes.
    pub fn walk(
        &mut self,
        bytes: &[u8],
        is_end: bool,
        counters: &mut Counters,
    ) -> io::Result<usize> {
        match self {
            Language::Native(reader) => reader.walk(bytes, counters),
            Language::Values(reader) => reader.walk(bytes, counters),
            _ if !is_end => Ok(0),
            Language::SocketIo(socket) => socket.take(bytes, counters).map(|()| bytes.len()),
            Language::Stomp(stomp) => stomp.take(bytes, counters).map(|()| bytes.len()),
        }
    }

    /// Whether the server has greeted back.
    pub fn is_greeted(&self) -> bool {
        match self {
            Language::Native(reader) => reader.heard.welcome,
            Language::Values(reader) => reader.heard.welcome,
            Language::SocketIo(socket) => socket.is_connected,
            Language::Stomp(stomp) => stomp.is_connected,
        }
    }

    /// How many subscriptions the server has confirmed.
    pub fn confirmed(&self) -> u64 {
        match self {
            Language::Native(reader) => reader.heard.answered,
            Language::Values(reader) => reader.heard.answered,
            Language::SocketIo(socket) => socket.confirmed,
            Language::Stomp(stomp) => stomp.confirmed,
        }
    }
}

/// What goes into one message of the carrier.
const SUBSCRIBE_BYTES: usize = 32 * 1024;
