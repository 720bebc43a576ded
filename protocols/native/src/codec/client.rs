//! What clients send.

use tiderace_wire::{Kind, Prefetch, Replay, write_varint};

use super::consumer::{read_ranges, write_ranges};
use super::fields::{kind_byte, write_numbers};
use super::nodes::node;
use super::operate::{read_replay, write_replay};
use super::{
    AsMessage, CodecError, ConsumerMessage, OperateMessage, PrincipalMessage, Reader,
    begin_message, check_properties, end_message, flag, kind, subscribe, write_bytes,
};
use crate::limits::PING_BYTES_MAX;

/// Who a client says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth<'a> {
    /// Nobody in particular.
    Anonymous,
    /// A user.
    Password {
        /// The name.
        user: &'a str,
        /// The password.
        password: &'a str,
    },
    /// The bearer of a token.
    Token(&'a str),
}

/// The first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The version it speaks.
    pub version: u64,
    /// Who it is.
    pub auth: Auth<'a>,
    /// The delta codecs it can decode, best first.
    pub codecs: Vec<u64>,
    /// What it calls itself.
    pub client: &'a str,
    /// Where it left off; empty if nowhere.
    pub position: &'a [u8],
    /// The name by which it wants to reach the server.
    pub host: Option<&'a str>,
    /// Of an edge: the name of its node, empty if it has none.
    pub edge: Option<&'a str>,
}

/// SUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribeMessage<'a> {
    /// The request.
    pub request: u32,
    /// The client's number for it.
    pub subscription: u32,
    /// Of [`subscribe`], without those of the fields below.
    pub flags: u64,
    /// Of what.
    pub kind: Kind,
    /// A path or pattern.
    pub path: &'a str,
    /// Only messages that match.
    pub selector: Option<&'a str>,
    /// What may be under way.
    pub prefetch: Option<Prefetch>,
    /// Where to go on; empty for that of HELLO.
    pub position: Option<&'a [u8]>,
    /// Where to begin in what topics keep.
    pub replay: Option<Replay>,
    /// Milliseconds between two updates of one topic, at least.
    pub interval_ms: Option<u64>,
    /// The position in a queue to begin at; 0 for behind all that is there.
    pub start: Option<u64>,
    /// How many messages may come until GRANT says more.
    pub credit: Option<u64>,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// Declared before.
    Declared(u32),
    /// In full.
    Path(Kind, &'a str),
}

/// PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The request; 0 for none.
    pub request: u32,
    /// Content, RETAIN, REMOVE, PERSISTENT, QUEUE_FIELDS.
    pub flags: u8,
    /// Where it goes.
    pub destination: Destination<'a>,
    /// Milliseconds until it is worthless.
    pub expires_ms: Option<u64>,
    /// Its properties, in the neutral form.
    pub properties: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
}

/// SETTLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleMessage {
    /// The request; 0 for none.
    pub request: u32,
    /// Whose messages.
    pub subscription: u32,
    /// Who numbered them.
    pub home: u16,
    /// Given back instead of consumed.
    pub reject: bool,
    /// Stretches of numbers, both ends included.
    pub ranges: Vec<(u64, u64)>,
}

/// CALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallMessage<'a> {
    /// The caller's number for the exchange.
    pub number: u32,
    /// Content, LAST; without CREDIT, which is that of the field.
    pub flags: u8,
    /// How long the responder may be silent; 0 for the server's choice.
    pub timeout_ms: u64,
    /// The service.
    pub destination: Destination<'a>,
    /// How many messages it wants until it asks for more by WANT; absent: no such bound.
    pub credit: Option<u64>,
    /// The properties, in the neutral form.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendMessage<'a> {
    /// The number of the exchange.
    pub number: u32,
    /// Content, LAST, RESPONDER, BARE.
    pub flags: u8,
    /// The properties, in the neutral form.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// One message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum ClientMessage<'a> {
    Hello(Hello<'a>),
    Login {
        request: u32,
        auth: Auth<'a>,
    },
    Subscribe(SubscribeMessage<'a>),
    Unsubscribe {
        request: u32,
        subscription: u32,
    },
    Declare {
        declared: u32,
        kind: Kind,
        path: &'a str,
    },
    Publish(Publish<'a>),
    Settle(SettleMessage),
    Call(CallMessage<'a>),
    Send(SendMessage<'a>),
    Cancel {
        responder: bool,
        number: u32,
        code: u16,
        sentence: &'a str,
    },
    Credit {
        bytes: u64,
    },
    Ping(&'a [u8]),
    Bye,
    Operate(OperateMessage<'a>),
    Principal(PrincipalMessage<'a>),
    As(AsMessage<'a>),
    Want {
        number: u32,
        messages: u64,
    },
    Consumer(ConsumerMessage),
    /// Of a type that is not known.
    Other(u8),
}

impl<'a> ClientMessage<'a> {
    /// Reads a message of that type.
    ///
    /// # Errors
    /// When the payload is none of that type.
    pub fn read(kind: u8, payload: &'a [u8]) -> Result<ClientMessage<'a>, CodecError> {
        let from = &mut Reader::new(payload);
        Ok(match kind {
            kind::HELLO => ClientMessage::Hello(Hello::read(from)?),
            kind::LOGIN => {
                ClientMessage::Login { request: from.number()?, auth: Auth::read(from)? }
            }
            kind::SUBSCRIBE => ClientMessage::Subscribe(SubscribeMessage::read(from)?),
            kind::UNSUBSCRIBE => {
                ClientMessage::Unsubscribe { request: from.number()?, subscription: from.number()? }
            }
            kind::DECLARE => ClientMessage::Declare {
                declared: from.number()?,
                kind: from.destination_kind()?,
                path: from.text()?,
            },
            kind::PUBLISH => ClientMessage::Publish(Publish::read(from)?),
            kind::SETTLE => ClientMessage::Settle(SettleMessage::read(from)?),
            kind::CALL => ClientMessage::Call(CallMessage::read(from)?),
            kind::SEND => ClientMessage::Send(SendMessage::read(from)?),
            kind::CANCEL => ClientMessage::Cancel {
                responder: from.truth()?,
                number: from.number()?,
                code: from.number()?,
                sentence: from.text()?,
            },
            kind::CREDIT => ClientMessage::Credit { bytes: from.varint()? },
            kind::PING => match from.rest() {
                rest if rest.len() <= PING_BYTES_MAX => ClientMessage::Ping(rest),
                _ => return Err(CodecError::OutOfRange),
            },
            kind::BYE => ClientMessage::Bye,
            kind::OPERATE => ClientMessage::Operate(OperateMessage::read(from)?),
            kind::PRINCIPAL => ClientMessage::Principal(PrincipalMessage::read(from)?),
            kind::AS => ClientMessage::As(AsMessage::read(from)?),
            kind::WANT => ClientMessage::Want { number: from.number()?, messages: from.varint()? },
            kind::CONSUMER => ClientMessage::Consumer(ConsumerMessage::read(from)?),
            other => ClientMessage::Other(other),
        })
    }

    /// Appends it as a whole message.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = begin_message(self.kind(), out);
        match self {
            ClientMessage::Hello(hello) => hello.write(out),
            ClientMessage::Login { request, auth } => {
                write_varint(out, u64::from(*request));
                auth.write(out);
            }
            ClientMessage::Subscribe(subscribe) => subscribe.write(out),
            ClientMessage::Unsubscribe { request, subscription } => {
                write_varint(out, u64::from(*request));
                write_varint(out, u64::from(*subscription));
            }
            ClientMessage::Declare { declared, kind, path } => {
                write_varint(out, u64::from(*declared));
                out.push(kind_byte(*kind));
                write_bytes(out, path.as_bytes());
            }
            ClientMessage::Publish(publish) => publish.write(out),
            ClientMessage::Settle(settle) => settle.write(out),
            ClientMessage::Call(call) => call.write(out),
            ClientMessage::Send(sent) => sent.write(out),
            ClientMessage::Cancel { responder, number, code, sentence } => {
                out.push(u8::from(*responder));
                write_varint(out, u64::from(*number));
                write_varint(out, u64::from(*code));
                write_bytes(out, sentence.as_bytes());
            }
            ClientMessage::Credit { bytes } => write_varint(out, *bytes),
            ClientMessage::Ping(bytes) => out.extend_from_slice(bytes),
            ClientMessage::Operate(operate) => operate.write(out),
            ClientMessage::Principal(principal) => principal.write(out),
            ClientMessage::As(message) => message.write(out),
            ClientMessage::Want { number, messages } => {
                write_varint(out, u64::from(*number));
                write_varint(out, *messages);
            }
            ClientMessage::Consumer(message) => message.write(out),
            ClientMessage::Bye | ClientMessage::Other(_) => {}
        }
        end_message(start, out);
    }

    fn kind(&self) -> u8 {
        match self {
            ClientMessage::Hello(_) => kind::HELLO,
            ClientMessage::Login { .. } => kind::LOGIN,
            ClientMessage::Subscribe(_) => kind::SUBSCRIBE,
            ClientMessage::Unsubscribe { .. } => kind::UNSUBSCRIBE,
            ClientMessage::Declare { .. } => kind::DECLARE,
            ClientMessage::Publish(_) => kind::PUBLISH,
            ClientMessage::Settle(_) => kind::SETTLE,
            ClientMessage::Call(_) => kind::CALL,
            ClientMessage::Send(_) => kind::SEND,
            ClientMessage::Cancel { .. } => kind::CANCEL,
            ClientMessage::Credit { .. } => kind::CREDIT,
            ClientMessage::Ping(_) => kind::PING,
            ClientMessage::Bye => kind::BYE,
            ClientMessage::Operate(_) => kind::OPERATE,
            ClientMessage::Principal(_) => kind::PRINCIPAL,
            ClientMessage::As(_) => kind::AS,
            ClientMessage::Want { .. } => kind::WANT,
            ClientMessage::Consumer(_) => kind::CONSUMER,
            ClientMessage::Other(other) => *other,
        }
    }
}

impl<'a> Auth<'a> {
    fn read(from: &mut Reader<'a>) -> Result<Auth<'a>, CodecError> {
        match from.byte()? {
            0 => Ok(Auth::Anonymous),
            1 => Ok(Auth::Password { user: from.text()?, password: from.text()? }),
            2 => Ok(Auth::Token(from.text()?)),
            _ => Err(CodecError::UnknownValue),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Auth::Anonymous => out.push(0),
            Auth::Password { user, password } => {
                out.push(1);
                write_bytes(out, user.as_bytes());
                write_bytes(out, password.as_bytes());
            }
            Auth::Token(token) => {
                out.push(2);
                write_bytes(out, token.as_bytes());
            }
        }
    }
}

impl<'a> Hello<'a> {
    fn read(from: &mut Reader<'a>) -> Result<Hello<'a>, CodecError> {
        let version = from.varint()?;
        let flags = from.wide_flags(HELLO_HOST | HELLO_EDGE)?;
        Ok(Hello {
            version,
            auth: Auth::read(from)?,
            codecs: from.numbers()?,
            client: from.text()?,
            position: from.bytes()?,
            host: (flags & HELLO_HOST != 0).then(|| from.text()).transpose()?,
            edge: (flags & HELLO_EDGE != 0).then(|| node(from)).transpose()?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.version);
        let edge = self.edge.map_or(0, |_| HELLO_EDGE);
        write_varint(out, self.host.map_or(0, |_| HELLO_HOST) | edge);
        self.auth.write(out);
        write_numbers(out, &self.codecs);
        write_bytes(out, self.client.as_bytes());
        write_bytes(out, self.position);
        if let Some(host) = self.host {
            write_bytes(out, host.as_bytes());
        }
        if let Some(node) = self.edge {
            write_bytes(out, node.as_bytes());
        }
    }
}

/// The flag of HELLO that says that it names a host.
const HELLO_HOST: u64 = 1;
/// The flag of HELLO that says that an edge says it, and which.
const HELLO_EDGE: u64 = 2;

impl<'a> SubscribeMessage<'a> {
    fn read(from: &mut Reader<'a>) -> Result<SubscribeMessage<'a>, CodecError> {
        let (request, subscription) = (from.number()?, from.number()?);
        let flags = from.wide_flags(subscribe::ALL)?;
        let (kind, path) = (from.destination_kind()?, from.text()?);
        let has = |flag| flags & flag != 0;
        Ok(SubscribeMessage {
            request,
            subscription,
            flags: flags & !FIELDS,
            kind,
            path,
            selector: has(subscribe::SELECTOR).then(|| from.text()).transpose()?,
            prefetch: has(subscribe::WINDOW)
                .then(|| Ok(Prefetch { messages: from.number()?, bytes: from.number()? }))
                .transpose()?,
            position: has(subscribe::RESUME).then(|| from.bytes()).transpose()?,
            replay: has(subscribe::REPLAY).then(|| read_replay(from)).transpose()?,
            interval_ms: has(subscribe::INTERVAL).then(|| from.varint()).transpose()?,
            start: has(subscribe::START).then(|| from.varint()).transpose()?,
            credit: has(subscribe::CREDIT).then(|| from.varint()).transpose()?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let bit = |flag, is| if is { flag } else { 0 };
        write_varint(out, u64::from(self.request));
        write_varint(out, u64::from(self.subscription));
        let flags = self.flags & !FIELDS
            | bit(subscribe::SELECTOR, self.selector.is_some())
            | bit(subscribe::WINDOW, self.prefetch.is_some())
            | bit(subscribe::RESUME, self.position.is_some())
            | bit(subscribe::REPLAY, self.replay.is_some())
            | bit(subscribe::INTERVAL, self.interval_ms.is_some())
            | bit(subscribe::START, self.start.is_some())
            | bit(subscribe::CREDIT, self.credit.is_some());
        write_varint(out, flags);
        out.push(kind_byte(self.kind));
        write_bytes(out, self.path.as_bytes());
        if let Some(selector) = self.selector {
            write_bytes(out, selector.as_bytes());
        }
        if let Some(prefetch) = self.prefetch {
            write_varint(out, u64::from(prefetch.messages));
            write_varint(out, u64::from(prefetch.bytes));
        }
        if let Some(position) = self.position {
            write_bytes(out, position);
        }
        if let Some(replay) = self.replay {
            write_replay(replay, out);
        }
        for number in [self.interval_ms, self.start, self.credit].into_iter().flatten() {
            write_varint(out, number);
        }
    }
}

impl<'a> Destination<'a> {
    fn read(from: &mut Reader<'a>) -> Result<Destination<'a>, CodecError> {
        match from.number()? {
            0 => Ok(Destination::Path(from.destination_kind()?, from.text()?)),
            declared => Ok(Destination::Declared(declared)),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Destination::Declared(declared) => write_varint(out, u64::from(*declared)),
            Destination::Path(kind, path) => {
                out.extend_from_slice(&[0, kind_byte(*kind)]);
                write_bytes(out, path.as_bytes());
            }
        }
    }
}

impl<'a> Publish<'a> {
    #[inline]
    fn read(from: &mut Reader<'a>) -> Result<Publish<'a>, CodecError> {
        let request = from.number()?;
        let marks = flag::RETAIN | flag::REMOVE | flag::PERSISTENT | flag::QUEUE_FIELDS;
        let known = flag::CONTENT | flag::PROPERTIES | flag::EXPIRES | marks;
        let flags = from.flags(known)?;
        Ok(Publish {
            request,
            flags: flags & !(flag::PROPERTIES | flag::EXPIRES),
            destination: Destination::read(from)?,
            expires_ms: (flags & flag::EXPIRES != 0).then(|| from.varint()).transpose()?,
            properties: read_properties(flags, from)?,
            body: from.rest(),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.request));
        let expires = if self.expires_ms.is_some() { flag::EXPIRES } else { 0 };
        out.push(self.flags | expires | properties_flag(self.properties));
        self.destination.write(out);
        if let Some(expires_ms) = self.expires_ms {
            write_varint(out, expires_ms);
        }
        write_properties(out, self.properties);
        out.extend_from_slice(self.body);
    }
}

impl SettleMessage {
    fn read(from: &mut Reader<'_>) -> Result<SettleMessage, CodecError> {
        let (request, subscription, home) = (from.number()?, from.number()?, from.number()?);
        let reject = from.truth()?;
        let ranges = read_ranges(from)?;
        Ok(SettleMessage { request, subscription, home, reject, ranges })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.request));
        write_varint(out, u64::from(self.subscription));
        write_varint(out, u64::from(self.home));
        out.push(u8::from(self.reject));
        write_ranges(&self.ranges, out);
    }
}

impl<'a> CallMessage<'a> {
    fn read(from: &mut Reader<'a>) -> Result<CallMessage<'a>, CodecError> {
        let number = from.number()?;
        let known = flag::CONTENT | flag::PROPERTIES | flag::LAST | flag::CREDIT;
        let flags = from.flags(known)?;
        Ok(CallMessage {
            number,
            flags: flags & !(flag::PROPERTIES | flag::CREDIT),
            timeout_ms: from.varint()?,
            destination: Destination::read(from)?,
            credit: (flags & flag::CREDIT != 0).then(|| from.varint()).transpose()?,
            properties: read_properties(flags, from)?,
            body: from.rest(),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.number));
        let credit = self.credit.map_or(0, |_| flag::CREDIT);
        out.push(self.flags | properties_flag(self.properties) | credit);
        write_varint(out, self.timeout_ms);
        self.destination.write(out);
        if let Some(credit) = self.credit {
            write_varint(out, credit);
        }
        write_properties(out, self.properties);
        out.extend_from_slice(self.body);
    }
}

impl<'a> SendMessage<'a> {
    fn read(from: &mut Reader<'a>) -> Result<SendMessage<'a>, CodecError> {
        let number = from.number()?;
        let known = flag::CONTENT | flag::PROPERTIES | flag::LAST | flag::RESPONDER | flag::BARE;
        let flags = from.flags(known)?;
        Ok(SendMessage {
            number,
            flags: flags & !flag::PROPERTIES,
            properties: read_properties(flags, from)?,
            body: from.rest(),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.number));
        out.push(self.flags | properties_flag(self.properties));
        write_properties(out, self.properties);
        out.extend_from_slice(self.body);
    }
}

/// Properties that a client sends, checked.
fn read_properties<'a>(flags: u8, from: &mut Reader<'a>) -> Result<&'a [u8], CodecError> {
    if flags & flag::PROPERTIES == 0 {
        return Ok(b"");
    }
    let block = from.bytes()?;
    check_properties(block)?;
    Ok(block)
}

fn properties_flag(block: &[u8]) -> u8 {
    if block.is_empty() { 0 } else { flag::PROPERTIES }
}

fn write_properties(out: &mut Vec<u8>, block: &[u8]) {
    if !block.is_empty() {
        write_bytes(out, block);
    }
}

/// The flags of SUBSCRIBE that say which fields there are.
const FIELDS: u64 = subscribe::SELECTOR
    | subscribe::WINDOW
    | subscribe::RESUME
    | subscribe::REPLAY
    | subscribe::INTERVAL
    | subscribe::START
    | subscribe::CREDIT;
