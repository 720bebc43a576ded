//! The record of one connection, and the stages it goes through.
//!
//! ```text
//!  accept ─▶ Sniff ─┬─▶ Http2: each of its streams is a record that begins in Http, carried by a tunnel
//!                   ├─▶ Http ──upgrade──▶ Starting(WebSocket) ─┐
//!                   │    │ ▲ keep-alive                        ├─▶ Live ─▶ Closing ─▶ (gone)
//!                   │    └─┘                                   │
//!                   └───────────────────▶ Starting(stream) ────┘
//!  Live ──hand-over──▶ Seeking ─▶ into the record of another session, or Live again
//!  every stage ─▶ Closing: the last words are written, our side is shut, the rest is discarded
//! ```
//! A connection without a broker session (every stage but `Live`) may move to another shard; it
//! takes its unread bytes and unwritten bytes with it. An idle record holds no buffers.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tiderace_base::limits::WRITE_BLOCK_BYTES;
use tiderace_base::{SessionId, Time};
use tiderace_websocket::Decoder;
use tiderace_wire::{Framing, Session};

use crate::chunked::CHUNKS;
use crate::hand_over::Seeking;
use crate::http::{HttpStage, KeptRequest, Work};
use crate::hub::Hub;
use crate::options::Deadlines;
use crate::pool::Outgoing;
use crate::requests::Requests;
use crate::upgrade::FRAMING;

/// One connection.
pub(crate) struct Connection<S> {
    /// Absent while the session has no connection of its own: it is carried by requests of others,
    /// or by nothing at all.
    pub(crate) stream: Option<S>,
    /// Bytes, counted from the first one kept in `input`, without which handling is pointless.
    pub(crate) need: u32,
    pub(crate) flags: Flags,
    pub(crate) listener: u16,
    pub(crate) peer: Peer,
    /// When the stage's patience ends; the session has a deadline of its own.
    pub(crate) deadline: Time,
    /// The earliest entry in the timer wheel; later ones are ignored when they fire.
    pub(crate) armed: Time,
    /// Bytes received and not consumed.
    pub(crate) input: Option<Box<Vec<u8>>>,
    /// Bytes not written.
    pub(crate) outgoing: Option<Box<Outgoing>>,
    pub(crate) stage: Stage,
}

const _: () = assert!(
    size_of::<Connection<std::os::fd::OwnedFd>>() <= 120,
    "with the slab's own fields a record takes at most 128 bytes"
);

impl<S> Connection<S> {
    pub(crate) fn new(stream: S, peer: SocketAddr, listener: u16, deadline: Time) -> Self {
        let mut flags = Flags::default();
        flags.set(Flags::WRITABLE);
        Connection {
            stream: Some(stream),
            need: 0,
            flags,
            listener,
            peer: Peer::from(peer),
            deadline,
            armed: Time::NEVER,
            input: None,
            outgoing: None,
            stage: Stage::Sniff,
        }
    }

    /// The record of a session without a connection of its own.
    pub(crate) fn carried(peer: Peer, listener: u16, deadline: Time) -> Self {
        Connection {
            stream: None,
            need: 0,
            flags: Flags::default(),
            listener,
            peer,
            deadline,
            armed: Time::NEVER,
            input: None,
            outgoing: None,
            stage: Stage::Sniff,
        }
    }

    /// The session, if the connection is at that stage.
    pub(crate) fn live(&mut self) -> Option<&mut Live> {
        match &mut self.stage {
            Stage::Live(live) => Some(live),
            _ => None,
        }
    }

    /// When a timer has to look at the connection.
    pub(crate) fn next_deadline(&self) -> Time {
        match &self.stage {
            // Residents are looked at every turn.
            Stage::Live(live) if live.is_resident() => Time::NEVER,
            Stage::Live(live) => self.deadline.min(live.session.deadline()).min(live.rest_by()),
            _ => self.deadline,
        }
    }

    /// Notes what its client has begun and not finished.
    pub(crate) fn watch(&mut self, now: Time, deadlines: &Deadlines) {
        let partial = self.is_partial();
        let Stage::Live(live) = &mut self.stage else {
            return;
        };
        match &mut live.transport {
            Transport::Stream | Transport::Chunked if !live.session.is_established() => {}
            Transport::Stream | Transport::Chunked if partial => {
                self.deadline = now + deadlines.frame;
            }
            Transport::Stream | Transport::Chunked => self.deadline = Time::NEVER,
            Transport::Requests(_) | Transport::Resident | Transport::Detached => {}
            Transport::WebSocket { decoder, rest } => {
                let fragments = decoder.heap_bytes() > 0;
                if !partial && !fragments && rest.is_none() {
                    return;
                }
                let begun = rest.get_or_insert_default();
                if !fragments {
                    begun.message_by = Time::NEVER;
                } else if begun.message_by == Time::NEVER {
                    begun.message_by = now + deadlines.message;
                }
                if partial {
                    begun.frame_by = now + deadlines.frame;
                } else if begun.bytes.is_empty() {
                    begun.frame_by = Time::NEVER;
                }
                if begun.is_over() {
                    *rest = None;
                }
            }
        }
    }

    /// Whether bytes may wait that we do not read: then silence is no fault of the client's.
    pub(crate) fn is_deaf(&self) -> bool {
        self.flags.has(Flags::PAUSED | Flags::HELD | Flags::READABLE) || self.is_clogged()
    }

    /// Bytes of WebSocket messages that the session has not consumed.
    pub(crate) fn rest_len(&self) -> usize {
        match &self.stage {
            Stage::Live(Live {
                transport: Transport::WebSocket { rest: Some(rest), .. }, ..
            }) => rest.bytes.len(),
            _ => 0,
        }
    }

    /// How much of `most` bytes may be read of a client that may not have logged in.
    pub(crate) fn early_room(&self, most: usize, ahead_max: usize) -> usize {
        match &self.stage {
            Stage::Live(live) if live.session.is_established() => most,
            Stage::Http(HttpStage { work: Work::Collect(collected), .. })
                if !collected.is_awaiting() =>
            {
                most
            }
            Stage::Http2(_) | Stage::Closing { .. } => most,
            _ => {
                let secured = self.flags.has(Flags::SECURED);
                let least = if secured { EARLY_RECORDS_BYTES } else { EARLY_READ_BYTES_MIN };
                most.min(ahead_max.saturating_sub(self.input_len()).max(least))
            }
        }
    }

    /// How much of `most` bytes may be read while the memory of some shard is used up.
    pub(crate) fn little_room(&self, most: usize) -> usize {
        let secured = self.flags.has(Flags::SECURED);
        most.min(if secured { EARLY_RECORDS_BYTES } else { FULL_READ_BYTES })
    }

    /// Whether a client that has not logged in has begun a frame of which more would have to be kept than
    /// may be kept of such a client. What is behind a login that is being judged waits for that.
    pub(crate) fn needs_more_than_early(&self, early_max: usize) -> bool {
        self.need as usize > early_max
            && !self.flags.has(Flags::ESTABLISHED)
            && matches!(&self.stage, Stage::Live(live)
                if !live.verifying && !live.session.is_established())
    }

    /// Whether so much waits to be written that nothing more should be read: a client that asks and
    /// does not listen must not fill our memory with answers.
    pub(crate) fn is_clogged(&self) -> bool {
        let outgoing = self.outgoing.as_ref();
        outgoing.is_some_and(|outgoing| outgoing.queue.len() >= WRITE_BLOCK_BYTES)
    }

    /// Whether something has begun to come and is not whole.
    pub(crate) fn is_partial(&self) -> bool {
        self.input_len() > 0 || self.flags.has(Flags::PARTIAL)
    }

    /// Whether nothing of its own carries it: requests of others do, or nothing at all.
    pub(crate) fn is_carried(&self) -> bool {
        self.stream.is_none() && !self.flags.has(Flags::TUNNEL)
    }

    /// Bytes received and not consumed.
    pub(crate) fn input_len(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.len())
    }
}

/// What is read at least, however much waits of a client that has not logged in.
const EARLY_READ_BYTES_MIN: usize = 2048;
/// What is read at once while memory is used up: a read costs as much as copying so many bytes.
const FULL_READ_BYTES: usize = 4096;
/// The least of one that speaks TLS: what is kept of one record, and all of another.
const EARLY_RECORDS_BYTES: usize = 40 * 1024;

/// The listener of records that no client brought about.
pub(crate) const NO_LISTENER: u16 = u16::MAX;

/// What a connection is doing.
pub(crate) enum Stage {
    /// Its protocol is not known yet.
    Sniff,
    /// It sends HTTP requests.
    Http(HttpStage),
    /// It speaks HTTP/2; what that carries has records of its own.
    Http2(Box<Hub>),
    /// Its protocol is known; the session begins when it has its shard.
    Starting(Box<Starting>),
    /// It carries a session.
    Live(Live),
    /// It looks for the session that its client wants to go on with.
    Seeking(Box<Seeking>),
    /// It ends.
    Closing {
        /// Bytes received and thrown away since.
        discarded: u32,
    },
}

/// What a session needs to begin.
#[derive(Debug)]
pub(crate) struct Starting {
    /// Its place among the protocols.
    pub(crate) protocol: u16,
    pub(crate) websocket: bool,
    pub(crate) subprotocol: Option<&'static str>,
    /// The request for the WebSocket.
    pub(crate) request: Option<Box<KeptRequest>>,
    /// Whether it must stay on its shard, where the session is that it may take over.
    pub(crate) pinned: bool,
}

/// A session and what carries it.
pub(crate) struct Live {
    pub(crate) session: Box<dyn Session>,
    pub(crate) id: SessionId,
    /// Its place among the protocols, for metrics.
    pub(crate) protocol: u16,
    /// Its login is being verified.
    pub(crate) verifying: bool,
    pub(crate) transport: Transport,
}

/// How the session's bytes are carried.
pub(crate) enum Transport {
    /// As they are.
    Stream,
    /// In chunks of one answer; what the client sends is taken as it is.
    Chunked,
    /// In WebSocket messages.
    WebSocket {
        decoder: Decoder,
        /// Payload bytes of earlier messages that the session has not consumed.
        rest: Option<Box<Rest>>,
    },
    /// By the answers to requests on other connections.
    Requests(Box<Requests>),
    /// Not at all: the session lives on the server.
    Resident,
    /// By nothing, until its client comes back.
    Detached,
}

/// What a WebSocket client has begun and not finished.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Payload that waits for more, or for the session to take it.
    pub(crate) bytes: Vec<u8>,
    /// Set if that is a whole message, which a session that takes messages was given and did not take:
    /// whether it is text.
    pub(crate) whole: Option<bool>,
    /// Bytes without which another call is pointless.
    pub(crate) need: usize,
    /// When the next byte of an unfinished frame is due, the protocol's or the WebSocket's.
    pub(crate) frame_by: Time,
    /// When the last fragment of a fragmented message is due.
    pub(crate) message_by: Time,
}

impl Default for Rest {
    fn default() -> Self {
        let (frame_by, message_by) = (Time::NEVER, Time::NEVER);
        Rest { bytes: Vec::new(), whole: None, need: 0, frame_by, message_by }
    }
}

impl Rest {
    /// When patience with the client ends.
    pub(crate) fn deadline(&self) -> Time {
        self.frame_by.min(self.message_by)
    }

    /// Whether nothing is unfinished.
    fn is_over(&self) -> bool {
        self.bytes.is_empty() && self.deadline() == Time::NEVER
    }
}

impl Live {
    /// When patience with an unfinished frame or message ends.
    pub(crate) fn rest_by(&self) -> Time {
        match &self.transport {
            Transport::WebSocket { rest: Some(rest), .. } => rest.deadline(),
            _ => Time::NEVER,
        }
    }

    pub(crate) fn is_websocket(&self) -> bool {
        matches!(self.transport, Transport::WebSocket { .. })
    }

    pub(crate) fn is_resident(&self) -> bool {
        matches!(self.transport, Transport::Resident)
    }

    pub(crate) fn is_detached(&self) -> bool {
        matches!(self.transport, Transport::Detached)
    }

    /// Whether the session may live on when its connection is gone.
    pub(crate) fn may_detach(&self) -> bool {
        matches!(self.transport, Transport::Stream | Transport::WebSocket { .. })
            && self.session.secret().is_some()
            && self.session.is_established()
    }

    /// Whether another connection may come to carry the session.
    pub(crate) fn may_be_carried(&self) -> bool {
        (self.may_detach() || self.is_detached()) && !self.verifying
    }
}

impl Transport {
    /// How it marks protocol frames.
    pub(crate) fn framing(&self) -> Framing {
        match self {
            Transport::Stream
            | Transport::Requests(_)
            | Transport::Resident
            | Transport::Detached => Framing::Stream,
            Transport::WebSocket { .. } => Framing::Messages(&FRAMING),
            Transport::Chunked => Framing::Messages(&CHUNKS),
        }
    }
}

/// Marks of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// The socket has bytes that were not read yet.
    pub(crate) const READABLE: u32 = 1;
    /// The socket takes bytes, as far as we know.
    pub(crate) const WRITABLE: u32 = 1 << 1;
    /// It is on the list of connections to be read.
    pub(crate) const READ_LISTED: u32 = 1 << 2;
    /// It is on the list of connections to be written.
    pub(crate) const WRITE_LISTED: u32 = 1 << 3;
    /// It is on the list of connections whose kept input is to be handled again.
    pub(crate) const AGAIN_LISTED: u32 = 1 << 4;
    /// The broker holds deliveries for it.
    pub(crate) const BACKLOG: u32 = 1 << 5;
    /// The broker asked not to read it.
    pub(crate) const PAUSED: u32 = 1 << 6;
    /// Its session does not take in what has been read already.
    pub(crate) const HELD: u32 = 1 << 7;
    /// The event said that the peer sends no more: read until the end shows.
    pub(crate) const PEER_ENDING: u32 = 1 << 8;
    /// The peer sends no more.
    pub(crate) const PEER_ENDED: u32 = 1 << 9;
    /// Something arrived since the last look at the silence.
    pub(crate) const HEARD: u32 = 1 << 10;
    /// A ping was sent and nothing has arrived since.
    pub(crate) const PINGED: u32 = 1 << 11;
    /// Our side is shut.
    pub(crate) const SHUT: u32 = 1 << 12;
    /// It is to move to another shard at the end of its handling.
    pub(crate) const MOVING: u32 = 1 << 13;
    /// A request head has begun.
    pub(crate) const HEAD_BEGUN: u32 = 1 << 14;
    /// The login has been seen to be done.
    pub(crate) const ESTABLISHED: u32 = 1 << 15;

    /// Its bytes are encrypted: its TLS session is in the shard's table.
    pub(crate) const SECURED: u32 = 1 << 16;
    /// The socket has not taken all that is encrypted.
    pub(crate) const UNSENT: u32 = 1 << 17;
    /// The beginning of a record has come, and not its end.
    pub(crate) const PARTIAL: u32 = 1 << 18;
    /// What its client has begun and not finished counts in the memory budget.
    pub(crate) const COUNTED: u32 = 1 << 20;
    /// It is carried by a stream of an HTTP/2 connection: its tunnel is in the shard's table.
    pub(crate) const TUNNEL: u32 = 1 << 19;

    /// Its session, or what carries it, has had its share of this turn and has more to take in.
    pub(crate) const STOPPED: u32 = 1 << 21;

    pub(crate) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u32) {
        self.0 |= flag;
    }

    pub(crate) fn clear(&mut self, flag: u32) {
        self.0 &= !flag;
    }

    /// Sets or clears it.
    pub(crate) fn assign(&mut self, flag: u32, is_set: bool) {
        if is_set { self.set(flag) } else { self.clear(flag) }
    }

    /// What carries a connection, and how far that has come.
    pub(crate) const CARRIER: u32 = Flags::SECURED | Flags::UNSENT | Flags::PARTIAL | Flags::TUNNEL;
    /// On which lists it is.
    pub(crate) const LISTS: u32 = Flags::READ_LISTED | Flags::WRITE_LISTED | Flags::AGAIN_LISTED;

    /// These flags as they are, and no others.
    pub(crate) fn keep(self, flags: u32) -> Flags {
        Flags(self.0 & flags)
    }

    /// Those of the flags that are set.
    pub(crate) fn only(self, flags: u32) -> u32 {
        self.0 & flags
    }

    /// Sets it and says whether it was not set before.
    pub(crate) fn raise(&mut self, flag: u32) -> bool {
        let fresh = !self.has(flag);
        self.set(flag);
        fresh
    }
}

/// A socket address in 18 bytes instead of 32. Scope and flow of IPv6 are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    address: [u8; 16],
    port: [u8; 2],
}

impl Peer {
    /// The address without the port.
    pub(crate) fn address(self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }

    /// The whole address.
    pub(crate) fn socket(self) -> SocketAddr {
        SocketAddr::new(self.address(), u16::from_be_bytes(self.port))
    }
}

impl From<SocketAddr> for Peer {
    fn from(peer: SocketAddr) -> Self {
        let address = match peer.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Peer { address: address.octets(), port: peer.port().to_be_bytes() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_peer_keeps_its_address() {
        for text in ["127.0.0.1:1", "[2001:db8::7]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Peer::from(address).socket(), address);
        }
        let mapped: SocketAddr = "[::ffff:10.1.2.3]:9".parse().unwrap();
        let plain: SocketAddr = "10.1.2.3:9".parse().unwrap();
        assert_eq!(Peer::from(mapped).socket(), plain);
    }

    #[test]
    fn raising_a_flag_tells_whether_it_is_new() {
        let mut flags = Flags::default();
        assert!(flags.raise(Flags::PAUSED));
        assert!(!flags.raise(Flags::PAUSED));
        flags.clear(Flags::PAUSED);
        assert!(!flags.has(Flags::PAUSED));
    }
}
