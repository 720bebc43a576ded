//! The record of one connection, and the stages it goes through.
//!
//! ```text
//!  accept ─▶ Sniff ─┬─▶ Http2: each of its streams is a record that begins in Http, carried by a stream of HTTP/2
//!                   ├─▶ Http ──upgrade──▶ Starting(WebSocket) ─┐
//!                   │    │ ▲ keep-alive                        ├─▶ Live ─▶ Closing ─▶ (gone)
//!                   │    └─┘                                   │
//!                   └───────────────────▶ Starting(stream) ────┘
//!  connect ─▶ Dialling: TCP, TLS, the handshake of WebSocket ─▶ Live, or Closing     (to an upstream)
//!  Live ──hand-over──▶ Seeking ─▶ into the record of another session, or Live again
//!  every stage ─▶ Closing: the last words are written, our side is shut, the rest is discarded
//! ```
//! A connection without a broker session (every stage but `Live`) may move to another shard; it
//! takes its unread bytes and unwritten bytes with it. An idle record holds no buffers. What a record is beside
//! its stage, and which of that goes together, is in a table in `flags`.

mod flags;
mod peer;
mod stage;

use std::net::SocketAddr;

use tiderace_base::Time;
use tiderace_base::limits::WRITE_BLOCK_BYTES;

pub(crate) use self::flags::{CarriedBy, Flags, Liveness, PeerSide, ReadGate};
pub(crate) use self::peer::Peer;
pub(crate) use self::stage::{
    Live, Origin, Pending, Requests, Rest, Seeking, Stage, Starting, Transport,
};
use crate::http_stage::{HttpStage, Work};
use crate::options::Deadlines;
use crate::pool::Outgoing;

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
    /// When the stage's timeout ends; the session has a deadline of its own.
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
            // Internal sessions are looked at every turn.
            Stage::Live(live) if live.is_internal() => Time::NEVER,
            Stage::Live(live) => self.deadline.min(live.session.deadline()).min(live.rest_by()),
            _ => self.deadline,
        }
    }

    /// Notes what its client has begun and not finished.
    pub(crate) fn watch(&mut self, now: Time, deadlines: &Deadlines) {
        // Of a WebSocket, the payload alone counts: others of its frames come while a message stands still.
        let amid_frame = self.input_len() > 0 || self.flags.has(Flags::PARTIAL);
        let in_file = self.flags.has(Flags::IN_FILE);
        let partial = amid_frame || in_file;
        let Stage::Live(live) = &mut self.stage else {
            return;
        };
        match &mut live.transport {
            Transport::Stream | Transport::Chunked if !live.session.is_established() => {}
            Transport::Stream | Transport::Chunked if partial => {
                self.deadline = now + deadlines.frame;
            }
            Transport::Stream | Transport::Chunked => self.deadline = Time::NEVER,
            Transport::Requests(_) | Transport::Internal | Transport::Detached => {}
            Transport::WebSocket { decoder, rest } => {
                let fragments = decoder.heap_bytes() > 0;
                if !amid_frame && !fragments && rest.is_none() {
                    return;
                }
                let begun = rest.get_or_insert_default();
                if !fragments {
                    begun.message_by = Time::NEVER;
                } else if begun.message_by == Time::NEVER {
                    begun.message_by = now + deadlines.message;
                }
                if amid_frame {
                    begun.frame_by = now + deadlines.frame;
                } else if begun.bytes.is_empty() && !in_file {
                    begun.frame_by = Time::NEVER;
                }
                if begun.is_over() {
                    *rest = None;
                }
            }
        }
    }

    /// Whether it is read, and if not, why.
    #[inline]
    pub(crate) fn read_gate(&self) -> ReadGate {
        let shut = self.flags.shut_gate();
        if shut == ReadGate::Open && self.is_clogged() { ReadGate::Clogged } else { shut }
    }

    /// Whether its client is slowed down on purpose: by the broker, by a limit, or since it does not read.
    pub(crate) fn is_slowed(&self) -> bool {
        self.flags.is_slowed() || self.is_clogged()
    }

    /// Whether its silence says nothing of the client: what comes is not read, or what asks whether anybody is there may wait.
    pub(crate) fn may_be_silent(&self) -> bool {
        self.is_unread() || self.flags.has(Flags::PACED)
    }

    /// Whether nothing is read, whatever comes.
    pub(crate) fn is_unread(&self) -> bool {
        self.flags.is_unread() || self.is_clogged()
    }

    /// Whether bytes may wait that we do not read: then silence is no fault of the client's.
    pub(crate) fn is_deaf(&self) -> bool {
        self.flags.has(Flags::READABLE) || self.is_unread()
    }

    /// Whether the session has left what it could take in, so that its length says nothing about a frame.
    pub(crate) fn is_behind(&self) -> bool {
        self.flags.is_behind() || matches!(&self.stage, Stage::Live(live) if live.verifying)
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
                let secured = self.flags.is_tls();
                let least = if secured { EARLY_RECORDS_BYTES } else { EARLY_READ_BYTES_MIN };
                most.min(ahead_max.saturating_sub(self.input_len()).max(least))
            }
        }
    }

    /// How much of `most` bytes may be read while the memory of some shard is used up.
    pub(crate) fn little_room(&self, most: usize) -> usize {
        let secured = self.flags.is_tls();
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
        self.input_len() > 0 || self.flags.has(Flags::PARTIAL) || self.flags.has(Flags::IN_FILE)
    }

    /// Whether what is read of it goes into a file as it is.
    pub(crate) fn reads_into_file(&self) -> bool {
        self.flags.has(Flags::IN_FILE) && self.is_stream()
    }

    /// Whether a session takes what is read of it as it is.
    pub(crate) fn is_stream(&self) -> bool {
        let Stage::Live(live) = &self.stage else { return false };
        matches!(live.transport, Transport::Stream | Transport::Chunked)
    }

    /// Whether a part of a frame has come of which the session has not heard: its client is not silent.
    pub(crate) fn is_amid_frame(&self) -> bool {
        self.flags.has(Flags::IN_FILE) || self.need > 0 && self.input_len() > 0
    }

    /// Whether nothing of its own carries it: requests of others do, or nothing at all.
    pub(crate) fn is_carried(&self) -> bool {
        self.stream.is_none() && !self.flags.is_h2_stream()
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

/// The protocol of sessions that no client brought about.
pub(crate) const NO_PROTOCOL: u16 = u16::MAX;
/// The listener of records that no client brought about.
pub(crate) const NO_LISTENER: u16 = u16::MAX;
