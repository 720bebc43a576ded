//! Connections of HTTP/2: their bytes go to the engine, their streams carry records.
//!
//! ```text
//!   socket ─▶ Watch ─▶ Engine ─┬─ request ─▶ a record in Stage::Http, carried by a stream
//!                              └─ alarms ──▶ streams that have something, or room
//!   socket ◀─ one block ◀─ Engine ◀─ what streams have written, after all others have
//! ```
//! Relies on `transports/http2`. Invariants: bytes are given to the engine in slices, and what they bring
//! is taken out before the next, so that nothing piles up; while the socket does not take what the engine
//! has to say, nothing more is read. An HTTP/2 connection ends after its streams, unless it breaks.

use tiderace_base::limits::WRITE_BLOCK_BYTES;
use tiderace_base::{Close, CloseCode, Key, Time};
use tiderace_http2::{
    Accepted, AnswerHead, Body, Engine, Flood, Over, Refusal, Watch, write_request,
};

use crate::connection::{CarriedBy, Connection, Flags, Stage};
use crate::departure::Step;
use crate::driver::Driver;
use crate::h2::connection::H2Connection;
use crate::h2::streams::{Beginning, End, Looked};
use crate::http_stage::Work;
use crate::metrics::Gauge;
use crate::outcome::Farewell;
use crate::proxies;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// The connection's first bytes are the preface of HTTP/2.
    pub(crate) fn begin_http2(&mut self, key: Key) {
        let deadlines = &self.shared.options.deadlines;
        let by = self.now.time + deadlines.head;
        let h2 = H2Connection {
            engine: Engine::new(&self.shared.options.http2.limits),
            watch: Watch::default(),
            seen: 0,
            streams: Vec::new(),
            idle_by: self.now.time + deadlines.keep_alive,
            is_within: true,
            is_draining: false,
            unsent: 0,
            held: 0,
            is_known: false,
            waiting: Vec::new(),
        };
        self.set_stage(key, Stage::Http2(Box::new(h2)));
        if let Some(connection) = self.connections.get_mut(key) {
            connection.deadline = by;
        }
        self.wake_h2(key);
    }

    /// Handles bytes of an HTTP/2 connection.
    pub(crate) fn http2(&mut self, key: Key, bytes: &[u8]) -> Step {
        let (mut consumed, mut frames) = (0, 0);
        while consumed < bytes.len() {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let (now, limits) = (self.now.time, self.shared.options.http2.limits);
            let Some(Stage::Http2(h2)) = self.connections.get_mut(key).map(|it| &mut it.stage)
            else {
                return Step::Wait(bytes.len());
            };
            let mut flood = None;
            if h2.seen == 0 {
                let scanned = h2.watch.scan(rest, now, &limits);
                (h2.seen, flood) = (scanned.bytes, scanned.flood);
                frames += scanned.frames;
                self.metrics.http2_resets.add(u64::from(scanned.resets));
            }
            let slice = rest.get(..h2.seen).unwrap_or_default();
            let Some(taken) = self.drive(key, slice) else {
                return Step::Wait(bytes.len());
            };
            if let Some(flood) = flood {
                self.end_flood(key, flood);
                return Step::Wait(bytes.len());
            }
            consumed += taken;
            if taken < slice.len() {
                break;
            }
        }
        self.watch_h2(key, frames);
        // What there is to say goes out with what the streams say in this turn.
        self.wake_h2(key);
        Step::Wait(consumed)
    }

    /// What the engine of a connection has to say is put into its queue, as far as there is room.
    pub(crate) fn pump(&mut self, key: Key) {
        self.drive(key, &[]);
    }

    /// Gives bytes to the engine and takes out what follows from them; says how many were taken, or
    /// nothing if the connection is over.
    fn drive(&mut self, key: Key, slice: &[u8]) -> Option<usize> {
        let connection = self.connections.get_mut(key)?;
        let Stage::Http2(h2) = &mut connection.stage else {
            return None;
        };
        let queue = self.pool.queue(&mut connection.outgoing);
        let room = WRITE_BLOCK_BYTES.saturating_sub(queue.len());
        let output = queue.tail();
        let most = output.len() + room;
        let mut accepted = Vec::new();
        let driven = h2.engine.drive(slice, output, most, |stream| accepted.push(stream));
        h2.seen = h2.seen.saturating_sub(driven.consumed);
        let is_done = h2.is_draining && h2.streams.is_empty() && accepted.is_empty();
        // Without room the engine has not been asked for all.
        let flags = &mut connection.flags;
        flags.assign(Flags::BACKLOG, driven.is_full);
        if !accepted.is_empty() {
            // Some are answered, or refused, at once.
            self.wake_h2(key);
        }
        for stream in accepted {
            self.open_h2_stream(key, stream);
        }
        self.look(key);
        if let Some(over) = driven.over {
            self.end_over(key, over);
            return None;
        }
        if is_done {
            let is_stop = self.stopping.is_some();
            let code = if is_stop { CloseCode::ShuttingDown } else { CloseCode::Draining };
            self.end(key, &code.into(), Farewell::Silent);
            return None;
        }
        Some(driven.consumed)
    }

    /// A request has come: it gets a record and a stream of HTTP/2.
    fn open_h2_stream(&mut self, h2_key: Key, accepted: Accepted) {
        let Accepted { request, protocol, mut stream } = accepted;
        let most = self.shared.options.connections_max.saturating_mul(2);
        let is_crowded = self.shared.connections() >= most || self.stopping.is_some();
        let Some(connection) = self.connections.get_mut(h2_key) else {
            return;
        };
        let (peer, listener) = (connection.peer, connection.listener);
        let Stage::Http2(h2) = &mut connection.stage else {
            return;
        };
        if is_crowded || h2.is_draining {
            self.metrics.http2_refused.add(1);
            return stream.refuse();
        }
        let stream_protocol = (*request.method() == tiderace_http2::Method::POST)
            .then(|| self.shared.stream_protocol(request.uri().path()))
            .flatten();
        let mut client = peer.socket();
        let beginning = if stream_protocol.is_some() {
            let fields = request.headers().iter();
            let fields = fields.map(|(name, value)| (name.as_str(), value.as_bytes()));
            match self.shared.client_of(self.now.time, client, fields) {
                Ok(found) => client = found,
                Err(close) => {
                    if let Some(head) = AnswerHead::new(close.code.http(), std::iter::empty()) {
                        stream.respond(head, Some(0));
                    }
                    return;
                }
            }
            if !stream.respond(AnswerHead::stream(), None) {
                return;
            }
            Beginning { head: Vec::new(), is_duplex: true, body: Body::Plain }
        } else {
            let mut head = Vec::with_capacity(HEAD_BYTES);
            match write_request(&request, protocol.as_deref(), stream.is_ended(), &mut head) {
                Ok(asked) => Beginning { head, is_duplex: asked.is_upgrade, body: asked.body },
                Err(Refusal::Malformed) => return stream.malformed(),
                Err(Refusal::UnknownProtocol) => {
                    stream.respond(AnswerHead::not_implemented(), Some(0));
                    return;
                }
            }
        };
        let deadline = self.now.time + self.shared.options.deadlines.head;
        let mut record = Connection::carried(peer, listener, deadline);
        record.flags.set_carrier(CarriedBy::H2Stream);
        record.flags.set(Flags::WRITABLE);
        record.flags.set(Flags::READABLE);
        let record = self.connections.insert(record);
        self.change_gauge(None, Some(Gauge::UNKNOWN));
        self.shared.gain(self.id, listener);
        self.metrics.opened.add(1);
        self.metrics.http2_streams.add(1);
        self.metrics.http2_opened.add(1);
        if let Some(Stage::Http2(h2)) = self.connections.get_mut(h2_key).map(|it| &mut it.stage) {
            let place = h2.streams.len();
            h2.streams.push(self.h2_streams.open(record, (h2_key, place), stream, beginning));
        }
        match stream_protocol {
            Some(_) if !self.claim(record, client) => {
                self.end(record, &proxies::too_many(client.ip()), Farewell::Silent);
            }
            Some(protocol) => self.begin_session(record, protocol),
            None => self.begin_http(record),
        }
        if let Some(connection) = self.connections.get_mut(record) {
            self.lists.inbox(record, &mut connection.flags);
        }
        self.rearm(record);
    }

    /// Looks at the streams whose alarms have rung.
    fn look(&mut self, key: Key) {
        let Some(Stage::Http2(h2)) = self.connections.get_mut(key).map(|it| &mut it.stage) else {
            return;
        };
        if !h2.engine.has_rung() {
            return;
        }
        // Looking changes no streams; what it finds broken goes afterwards.
        let h2_streams = std::mem::take(&mut h2.streams);
        let mut came = 0;
        let (mut broken, mut remote) = (Vec::new(), Vec::new());
        for key in &h2_streams {
            let Some(h2_stream) = self.h2_streams.get_mut(*key) else {
                continue;
            };
            let before = h2_stream.owed();
            let looked = h2_stream.look();
            came += h2_stream.owed() - before;
            let record = match &h2_stream.end {
                End::Here(record) => *record,
                End::There(_) => {
                    remote.push((*key, looked));
                    continue;
                }
            };
            let Some(connection) = self.connections.get_mut(record) else {
                continue;
            };
            let flags = &mut connection.flags;
            if let Looked::Readable { ends } = looked {
                flags.set(Flags::READABLE);
                if ends {
                    flags.note_peer_ending();
                }
                self.lists.inbox(record, flags);
            }
            if looked == Looked::Reset {
                broken.push(record);
            } else if looked != Looked::Nothing && !flags.has(Flags::WRITABLE) {
                flags.set(Flags::WRITABLE);
                if connection.outgoing.is_some() || flags.has(Flags::BACKLOG) {
                    self.lists.write(record, &mut connection.flags);
                }
            }
        }
        if let Some(Stage::Http2(h2)) = self.connections.get_mut(key).map(|it| &mut it.stage) {
            h2.streams = h2_streams;
            h2.held += came;
        }
        for (h2_stream, looked) in
            remote.into_iter().filter(|(_, looked)| *looked != Looked::Nothing)
        {
            self.forward(h2_stream, looked);
        }
        for record in broken {
            self.discard(record, CloseCode::PeerGone);
            self.drain_effects();
        }
    }

    /// The engine of a connection has something to say: it is asked after all others have written.
    pub(crate) fn wake_h2(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key)
            && matches!(connection.stage, Stage::Http2(_))
        {
            connection.flags.set(Flags::BACKLOG);
            if connection.flags.raise(Flags::WRITE_LISTED) {
                self.lists.h2_connections.push(key);
            }
        }
    }

    /// Writes the HTTP/2 connections that have something to say.
    pub(crate) fn write_h2(&mut self) {
        for key in std::mem::take(&mut self.lists.h2_connections) {
            self.write(key);
            self.drain_effects();
            // What this turn has not read is there to stay.
            self.count_input(key);
        }
    }

    /// A stream of HTTP/2 has gone.
    pub(crate) fn leave_h2(&mut self, key: Key, place: usize) {
        let idle_by = self.now.time + self.shared.options.deadlines.keep_alive;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let Stage::Http2(h2) = &mut connection.stage else {
            return;
        };
        if place < h2.streams.len() {
            h2.streams.swap_remove(place);
            let moved = h2.streams.get(place);
            if let Some(moved) = moved.and_then(|moved| self.h2_streams.get_mut(*moved)) {
                moved.place = place;
            }
        }
        if h2.streams.is_empty() {
            h2.idle_by = idle_by;
            h2.streams = Vec::new();
            connection.deadline = connection.deadline.min(idle_by);
            self.rearm(key);
        }
        self.wake_h2(key);
    }

    /// So many bytes less are held for the client.
    pub(crate) fn count_read(&mut self, key: Key, bytes: usize) {
        if let Some(Stage::Http2(h2)) = self.connections.get_mut(key).map(|it| &mut it.stage) {
            h2.held = h2.held.saturating_sub(bytes);
        }
        self.wake_ended_h2(key);
    }

    /// Whether something that a connection of HTTP/2 has brought has yet to be taken in.
    pub(crate) fn is_untaken(&self, key: Key) -> bool {
        let Some(connection) = self.connections.get(key) else { return false };
        let Stage::Http2(h2) = &connection.stage else { return false };
        let has_yielded = |stream: &Key| match self.h2_streams.get(*stream).map(|it| &it.end) {
            Some(End::Here(record)) => self
                .connections
                .get(*record)
                .is_some_and(|it| it.flags.has(Flags::YIELDED) || it.flags.has(Flags::STORING)),
            Some(End::There(_)) | None => false,
        };
        h2.held > 0 || h2.streams.iter().any(has_yielded)
    }

    /// A connection that waited for its streams to take in what came before its end may end now.
    pub(crate) fn wake_ended_h2(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key)
            && connection.flags.is_peer_ended()
            && matches!(connection.stage, Stage::Http2(_))
        {
            self.lists.again(key, &mut connection.flags);
        }
    }

    /// A client has logged in whose session, or whose request to it, a stream of HTTP/2 carries: it may send further
    /// ahead from now on.
    pub(crate) fn trust_h2(&mut self, record: Key) {
        let flags = self.connections.get(record).map(|connection| connection.flags);
        if !flags.is_some_and(|flags| flags.is_h2_stream()) {
            return;
        }
        match self.h2_streams.h2_connection_of(record) {
            Some(h2) => self.widen_h2(h2),
            None => self.h2_streams.tell_login(record, &mut self.post),
        }
    }

    pub(crate) fn widen_h2(&mut self, key: Key) {
        let window = self.shared.options.http2.limits.connection_window_bytes;
        if let Some(Stage::Http2(h2)) = self.connections.get_mut(key).map(|it| &mut it.stage)
            && !std::mem::replace(&mut h2.is_known, true)
        {
            h2.engine.widen(window);
            self.wake_h2(key);
        }
    }

    /// Whether a request has to wait because its client does not take the answers to others.
    pub(crate) fn must_wait(&mut self, key: Key) -> bool {
        let Some(h2) = self.h2_streams.h2_connection_of(key) else {
            return false;
        };
        let is_request = match self.connections.get(key).map(|connection| &connection.stage) {
            Some(Stage::Http(stage)) => matches!(stage.work, Work::Idle),
            _ => false,
        };
        match self.connections.get_mut(h2).map(|connection| &mut connection.stage) {
            Some(Stage::Http2(h2)) if is_request && h2.unsent >= h2.unsent_max() => {
                h2.waiting.push(key);
                true
            }
            _ => false,
        }
    }

    /// What waits for the client on one stream has changed.
    pub(crate) fn count_unsent(&mut self, h2: Key, before: usize, after: usize) {
        let Some(Stage::Http2(h2)) = self.connections.get_mut(h2).map(|it| &mut it.stage) else {
            return;
        };
        h2.unsent = (h2.unsent + after).saturating_sub(before);
        if h2.unsent < h2.unsent_max() && !h2.waiting.is_empty() {
            for record in std::mem::take(&mut h2.waiting) {
                if let Some(connection) = self.connections.get_mut(record) {
                    self.lists.inbox(record, &mut connection.flags);
                }
            }
        }
    }

    /// Notes what the client has begun and not finished.
    fn watch_h2(&mut self, key: Key, frames: u32) {
        let frame = self.shared.options.deadlines.frame;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let Stage::Http2(h2) = &mut connection.stage else {
            return;
        };
        let was_within = std::mem::replace(&mut h2.is_within, h2.watch.is_within());
        let idle_by = if h2.streams.is_empty() { h2.idle_by } else { Time::NEVER };
        if !h2.is_within {
            connection.deadline = idle_by;
        } else if !was_within || frames > 0 {
            connection.deadline = idle_by.min(self.now.time + frame);
        }
    }

    /// The deadline of an HTTP/2 connection has passed.
    pub(crate) fn h2_timeout(&mut self, key: Key) {
        let frame = self.shared.options.deadlines.frame;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let is_deaf = connection.is_deaf();
        let Stage::Http2(h2) = &mut connection.stage else {
            return;
        };
        if h2.is_within && is_deaf {
            connection.deadline = self.now.time + frame;
            return;
        }
        let code = match h2.is_within {
            true if h2.watch.is_opening() => CloseCode::HeadTimeout,
            true => CloseCode::FrameTimeout,
            false if h2.streams.is_empty() => CloseCode::Done,
            false => return connection.deadline = Time::NEVER,
        };
        self.end(key, &code.into(), Farewell::Full);
    }

    fn end_flood(&mut self, key: Key, flood: Flood) {
        self.metrics.count_flood(flood);
        let reason = format!(
            "the client sent more HTTP/2 frames of a kind than it may: {}; the limits are in the section http2",
            flood.name()
        );
        self.end(key, &Close::new(CloseCode::Http2Flood, reason), Farewell::Full);
    }

    /// The engine has ended the connection, and has said so.
    fn end_over(&mut self, key: Key, over: Over) {
        let close = match over {
            Over::Done => CloseCode::Done.into(),
            Over::Broken(reason) => Close::new(CloseCode::Http2Error, reason),
            Over::Flooded(reason) => {
                self.metrics.count_flood(Flood::Engine);
                Close::new(CloseCode::Http2Flood, reason)
            }
        };
        self.end(key, &close, Farewell::Silent);
    }

    /// The node stops, or sends its clients elsewhere: a connection that carries something says that it takes no more, and ends when that
    /// has ended. False if nothing is carried.
    pub(crate) fn drain_h2(&mut self, key: Key) -> bool {
        let Some(Stage::Http2(h2)) = self.connections.get_mut(key).map(|it| &mut it.stage) else {
            return false;
        };
        if h2.streams.is_empty() {
            return false;
        }
        if !std::mem::replace(&mut h2.is_draining, true) {
            h2.engine.drain();
            self.wake_h2(key);
        }
        true
    }

    /// An HTTP/2 connection has ended: it says so unless it has, and what it carried ends with it.
    pub(crate) fn close_h2(&mut self, key: Key, mut h2: H2Connection, close: &Close) {
        let over = match close.code {
            CloseCode::Http2Flood | CloseCode::MemoryFull => Over::Flooded(String::new()),
            CloseCode::Done
            | CloseCode::PeerGone
            | CloseCode::ShuttingDown
            | CloseCode::Draining => Over::Done,
            _ => Over::Broken(String::new()),
        };
        h2.engine.abort(&over);
        if let Some(connection) = self.connections.get_mut(key) {
            let output = self.pool.queue(&mut connection.outgoing).tail();
            let most = output.len() + LAST_WORDS_BYTES;
            h2.engine.drive(&[], output, most, drop);
        }
        self.drop_h2_streams(h2);
    }

    /// What an HTTP/2 connection carried ends without it.
    pub(crate) fn drop_h2_streams(&mut self, mut h2: H2Connection) {
        for h2_stream in std::mem::take(&mut h2.streams) {
            match self.h2_streams.get_mut(h2_stream).map(|it| &it.end) {
                Some(End::Here(record)) => {
                    let record = *record;
                    self.discard(record, CloseCode::PeerGone);
                }
                Some(End::There(_)) => self.end_remote_record(h2_stream),
                None => {}
            }
        }
    }
}

/// What the head of a request takes as a rule.
const HEAD_BYTES: usize = 512;
/// What an engine may still say when its connection ends.
const LAST_WORDS_BYTES: usize = 64 * 1024;
