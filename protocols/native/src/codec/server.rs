//! What the server sends.

use tiderace_wire::write_varint;

use super::addresses::AddressList;
use super::fields::write_numbers;
use super::{
    CodecError, Nodes, QueuedEntries, Reader, ResultMessage, Updates, begin_message, end_message,
    flag, kind, write_bytes,
};

/// WELCOME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome<'a> {
    /// The version spoken.
    pub version: u64,
    /// Who the client is.
    pub name: &'a str,
    /// The epoch of positions, as a varint.
    pub epoch: &'a [u8],
    /// How often to send PING if the carrier's own signs of life cannot be seen; 0 for never.
    pub ping_ms: u64,
    /// Bytes of a body.
    pub message_bytes_max: u64,
    /// Subscription ids are below this.
    pub subscriptions_max: u64,
    /// Declared ids are at most this.
    pub declarations_max: u64,
    /// Within which random time to connect again.
    pub jitter_ms: u64,
    /// The delta codecs that may be used.
    pub codecs: Vec<u64>,
    /// Name and version of the server.
    pub server: &'a str,
    /// What the server can do beyond the first edition of version 1: [`super::feature`]; 0 of older ones.
    pub features: u64,
    /// The name of the node, by which edges notice that they go round; empty if it has none.
    pub node: &'a str,
}

/// QUEUED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued<'a> {
    /// ANNOUNCED.
    pub flags: u8,
    /// A subscription id, or a topic id if announced.
    pub id: u32,
    /// Who numbered the messages.
    pub home: u16,
    /// The number of the first; the others follow.
    pub first: u64,
    /// How often they were delivered before.
    pub redeliveries: u32,
    /// The entries' bytes.
    pub entries: &'a [u8],
}

/// EXCHANGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeMessage<'a> {
    /// Content, LAST, RESPONDER, FIRST, SERVICE_ANNOUNCED, BARE.
    pub flags: u8,
    /// Of the exchange.
    pub number: u32,
    /// Which service was called, for the first message to a responder.
    pub id: Option<u32>,
    /// The properties, in the neutral form.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// One message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum ServerMessage<'a> {
    Welcome(Welcome<'a>),
    Ok {
        first: u32,
        last: u32,
    },
    Error {
        request: u32,
        code: u16,
        slug: &'a str,
        sentence: &'a str,
    },
    Topic {
        topic: u32,
        subscription: u32,
        path: &'a str,
    },
    /// The bytes of its entries; see [`ServerMessage::updates`].
    Updates(&'a [u8]),
    Queued(Queued<'a>),
    Exchange(ExchangeMessage<'a>),
    Position(Vec<(u64, u64)>),
    Recovered {
        request: u32,
        complete: bool,
        /// Whether versions that the client knows are still those of the same messages.
        continues: bool,
    },
    Ended {
        responder: bool,
        number: u32,
        code: u16,
        slug: &'a str,
        sentence: &'a str,
    },
    Pong(&'a [u8]),
    Close {
        code: u16,
        slug: &'a str,
        sentence: &'a str,
        reconnect: bool,
        jitter_ms: u64,
        addresses: AddressList<'a>,
    },
    LoggedIn {
        request: u32,
        name: &'a str,
    },
    Result(ResultMessage<'a>),
    Joined {
        subscription: u32,
        path: &'a str,
        /// As JSON text.
        spec: &'a str,
        /// Whether the topic holds no value, or one that comes anew.
        is_empty: bool,
    },
    Left {
        subscription: u32,
        path: &'a str,
        reason: &'a str,
    },
    /// The next version of a topic follows this one: no message had a version between them.
    Follows {
        flags: u8,
        id: u32,
        version: u64,
    },
    /// A subscription with BROWSE has brought all that was there; nothing follows.
    Browsed {
        subscription: u32,
    },
    /// The server has ended a subscription: nothing follows, and its id is free.
    Unsubscribed {
        subscription: u32,
        code: u16,
        slug: &'a str,
        sentence: &'a str,
    },
    /// To edges: from where the server has what it passes on.
    Nodes(Nodes<'a>),
    /// Its caller wants so many messages of this responder, or so many more.
    Wanted {
        number: u32,
        messages: u64,
    },
    /// Of a type that is not known: to be skipped.
    Other(u8),
}

impl<'a> ServerMessage<'a> {
    /// Reads a message of that type.
    ///
    /// # Errors
    /// When the payload is none of that type.
    pub fn read(kind: u8, payload: &'a [u8]) -> Result<ServerMessage<'a>, CodecError> {
        let from = &mut Reader::new(payload);
        Ok(match kind {
            kind::WELCOME => ServerMessage::Welcome(Welcome::read(from)?),
            kind::OK => {
                let (first, more): (u32, u32) = (from.number()?, from.number()?);
                let last = first.checked_add(more).ok_or(CodecError::OutOfRange)?;
                ServerMessage::Ok { first, last }
            }
            kind::ERROR => ServerMessage::Error {
                request: from.number()?,
                code: from.number()?,
                slug: from.text()?,
                sentence: from.text()?,
            },
            kind::TOPIC => ServerMessage::Topic {
                topic: from.number()?,
                subscription: from.number()?,
                path: from.text()?,
            },
            kind::UPDATES => ServerMessage::Updates(from.rest()),
            kind::QUEUED => ServerMessage::Queued(Queued {
                flags: from.flags(flag::ANNOUNCED)?,
                id: from.number()?,
                home: from.number()?,
                first: from.varint()?,
                redeliveries: from.number()?,
                entries: from.rest(),
            }),
            kind::EXCHANGE => ServerMessage::Exchange(ExchangeMessage::read(from)?),
            kind::POSITION => {
                let mut numbers = Vec::new();
                while !from.is_empty() {
                    numbers.push((from.varint()?, from.varint()?));
                }
                ServerMessage::Position(numbers)
            }
            kind::RECOVERED => {
                let (request, complete) = (from.number()?, from.truth()?);
                let continues = !from.is_empty() && from.truth()?;
                ServerMessage::Recovered { request, complete, continues }
            }
            kind::ENDED => ServerMessage::Ended {
                responder: from.truth()?,
                number: from.number()?,
                code: from.number()?,
                slug: from.text()?,
                sentence: from.text()?,
            },
            kind::PONG => ServerMessage::Pong(from.rest()),
            kind::CLOSE => ServerMessage::Close {
                code: from.number()?,
                slug: from.text()?,
                sentence: from.text()?,
                reconnect: from.truth()?,
                jitter_ms: from.varint()?,
                addresses: AddressList::read(from)?,
            },
            kind::LOGGED_IN => {
                ServerMessage::LoggedIn { request: from.number()?, name: from.text()? }
            }
            kind::RESULT => ServerMessage::Result(ResultMessage::read(from)?),
            kind::JOINED => ServerMessage::Joined {
                subscription: from.number()?,
                path: from.text()?,
                spec: from.text()?,
                is_empty: !from.is_empty() && from.truth()?,
            },
            kind::LEFT => ServerMessage::Left {
                subscription: from.number()?,
                path: from.text()?,
                reason: from.text()?,
            },
            kind::FOLLOWS => ServerMessage::Follows {
                flags: from.flags(flag::ANNOUNCED)?,
                id: from.number()?,
                version: from.varint()?,
            },
            kind::BROWSED => ServerMessage::Browsed { subscription: from.number()? },
            kind::UNSUBSCRIBED => ServerMessage::Unsubscribed {
                subscription: from.number()?,
                code: from.number()?,
                slug: from.text()?,
                sentence: from.text()?,
            },
            kind::NODES => ServerMessage::Nodes(Nodes::read(from)?),
            kind::WANTED => {
                ServerMessage::Wanted { number: from.number()?, messages: from.varint()? }
            }
            other => ServerMessage::Other(other),
        })
    }

    /// Appends it as a whole message.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = begin_message(self.kind(), out);
        self.write_payload(out);
        end_message(start, out);
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        match self {
            ServerMessage::Welcome(welcome) => welcome.write(out),
            ServerMessage::Ok { first, last } => {
                write_varint(out, u64::from(*first));
                write_varint(out, u64::from(last - first));
            }
            ServerMessage::Error { request, code, slug, sentence } => {
                write_varint(out, u64::from(*request));
                write_end(out, *code, slug, sentence);
            }
            ServerMessage::Topic { topic, subscription, path } => {
                write_varint(out, u64::from(*topic));
                write_varint(out, u64::from(*subscription));
                write_bytes(out, path.as_bytes());
            }
            ServerMessage::Updates(entries) => out.extend_from_slice(entries),
            ServerMessage::Queued(queued) => {
                queued.write_head(out);
                out.extend_from_slice(queued.entries);
            }
            ServerMessage::Exchange(exchange) => {
                exchange.write_head(out);
                out.extend_from_slice(exchange.body);
            }
            ServerMessage::Position(numbers) => {
                for (numbering, number) in numbers {
                    write_varint(out, *numbering);
                    write_varint(out, *number);
                }
            }
            ServerMessage::Recovered { request, complete, continues } => {
                write_varint(out, u64::from(*request));
                out.extend_from_slice(&[u8::from(*complete), u8::from(*continues)]);
            }
            ServerMessage::Ended { responder, number, code, slug, sentence } => {
                out.push(u8::from(*responder));
                write_varint(out, u64::from(*number));
                write_end(out, *code, slug, sentence);
            }
            ServerMessage::Pong(bytes) => out.extend_from_slice(bytes),
            ServerMessage::Close { code, slug, sentence, reconnect, jitter_ms, addresses } => {
                write_end(out, *code, slug, sentence);
                out.push(u8::from(*reconnect));
                write_varint(out, *jitter_ms);
                addresses.write(out);
            }
            ServerMessage::LoggedIn { request, name } => {
                write_varint(out, u64::from(*request));
                write_bytes(out, name.as_bytes());
            }
            ServerMessage::Result(result) => result.write(out),
            ServerMessage::Joined { subscription, path, spec, is_empty } => {
                write_notice(out, *subscription, path, spec);
                if *is_empty {
                    out.push(1);
                }
            }
            ServerMessage::Left { subscription, path, reason } => {
                write_notice(out, *subscription, path, reason);
            }
            ServerMessage::Follows { flags, id, version } => {
                out.push(*flags);
                write_varint(out, u64::from(*id));
                write_varint(out, *version);
            }
            ServerMessage::Browsed { subscription } => write_varint(out, u64::from(*subscription)),
            ServerMessage::Unsubscribed { subscription, code, slug, sentence } => {
                write_varint(out, u64::from(*subscription));
                write_end(out, *code, slug, sentence);
            }
            ServerMessage::Nodes(nodes) => nodes.write(out),
            ServerMessage::Wanted { number, messages } => {
                write_varint(out, u64::from(*number));
                write_varint(out, *messages);
            }
            ServerMessage::Other(_) => {}
        }
    }

    /// The entries of UPDATES.
    pub fn updates(entries: &'a [u8]) -> Updates<'a> {
        Updates::new(entries)
    }

    fn kind(&self) -> u8 {
        match self {
            ServerMessage::Welcome(_) => kind::WELCOME,
            ServerMessage::Ok { .. } => kind::OK,
            ServerMessage::Error { .. } => kind::ERROR,
            ServerMessage::Topic { .. } => kind::TOPIC,
            ServerMessage::Updates(_) => kind::UPDATES,
            ServerMessage::Queued(_) => kind::QUEUED,
            ServerMessage::Exchange(_) => kind::EXCHANGE,
            ServerMessage::Position(_) => kind::POSITION,
            ServerMessage::Recovered { .. } => kind::RECOVERED,
            ServerMessage::Ended { .. } => kind::ENDED,
            ServerMessage::Pong(_) => kind::PONG,
            ServerMessage::Close { .. } => kind::CLOSE,
            ServerMessage::LoggedIn { .. } => kind::LOGGED_IN,
            ServerMessage::Result(_) => kind::RESULT,
            ServerMessage::Joined { .. } => kind::JOINED,
            ServerMessage::Left { .. } => kind::LEFT,
            ServerMessage::Follows { .. } => kind::FOLLOWS,
            ServerMessage::Browsed { .. } => kind::BROWSED,
            ServerMessage::Unsubscribed { .. } => kind::UNSUBSCRIBED,
            ServerMessage::Nodes(_) => kind::NODES,
            ServerMessage::Wanted { .. } => kind::WANTED,
            ServerMessage::Other(other) => *other,
        }
    }
}

impl<'a> Welcome<'a> {
    fn read(from: &mut Reader<'a>) -> Result<Welcome<'a>, CodecError> {
        let version = from.varint()?;
        from.wide_flags(0)?;
        Ok(Welcome {
            version,
            name: from.text()?,
            epoch: from.bytes()?,
            ping_ms: from.varint()?,
            message_bytes_max: from.varint()?,
            subscriptions_max: from.varint()?,
            declarations_max: from.varint()?,
            jitter_ms: from.varint()?,
            codecs: from.numbers()?,
            server: from.text()?,
            features: if from.is_empty() { 0 } else { from.varint()? },
            node: if from.is_empty() { "" } else { from.text()? },
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.version);
        out.push(0);
        write_bytes(out, self.name.as_bytes());
        write_bytes(out, self.epoch);
        for number in [
            self.ping_ms,
            self.message_bytes_max,
            self.subscriptions_max,
            self.declarations_max,
            self.jitter_ms,
        ] {
            write_varint(out, number);
        }
        write_numbers(out, &self.codecs);
        write_bytes(out, self.server.as_bytes());
        if self.features > 0 || !self.node.is_empty() {
            write_varint(out, self.features);
        }
        if !self.node.is_empty() {
            write_bytes(out, self.node.as_bytes());
        }
    }
}

impl<'a> Queued<'a> {
    /// Its entries.
    pub fn entries(&self) -> QueuedEntries<'a> {
        QueuedEntries::new(self.entries)
    }

    /// Appends the payload up to the entries.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        out.push(self.flags);
        write_varint(out, u64::from(self.id));
        write_varint(out, u64::from(self.home));
        write_varint(out, self.first);
        write_varint(out, u64::from(self.redeliveries));
    }
}

impl<'a> ExchangeMessage<'a> {
    fn read(from: &mut Reader<'a>) -> Result<ExchangeMessage<'a>, CodecError> {
        let flags = from.flags(
            flag::CONTENT
                | flag::PROPERTIES
                | flag::LAST
                | flag::RESPONDER
                | flag::FIRST
                | flag::SERVICE_ANNOUNCED
                | flag::BARE,
        )?;
        let number = from.number()?;
        let called = flags & CALLED == CALLED;
        Ok(ExchangeMessage {
            flags: flags & !flag::PROPERTIES,
            number,
            id: called.then(|| from.number()).transpose()?,
            properties: if flags & flag::PROPERTIES == 0 { b"" } else { from.bytes()? },
            body: from.rest(),
        })
    }

    /// Appends the payload up to the body.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        let properties = if self.properties.is_empty() { 0 } else { flag::PROPERTIES };
        out.push(self.flags | properties);
        write_varint(out, u64::from(self.number));
        if self.flags & CALLED == CALLED {
            write_varint(out, u64::from(self.id.unwrap_or_default()));
        }
        if !self.properties.is_empty() {
            write_bytes(out, self.properties);
        }
    }
}

/// A code with its name and sentence.
fn write_end(out: &mut Vec<u8>, code: u16, slug: &str, sentence: &str) {
    write_varint(out, u64::from(code));
    write_bytes(out, slug.as_bytes());
    write_bytes(out, sentence.as_bytes());
}

/// What a subscription is told of a topic: its path, and a text.
fn write_notice(out: &mut Vec<u8>, subscription: u32, path: &str, text: &str) {
    write_varint(out, u64::from(subscription));
    write_bytes(out, path.as_bytes());
    write_bytes(out, text.as_bytes());
}

/// The flags of an EXCHANGE that says which service was called.
const CALLED: u8 = flag::RESPONDER | flag::FIRST;
