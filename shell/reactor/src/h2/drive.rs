//! Connections of HTTP/2: their bytes go to the engine, their streams become tunnels.
//!
//! ```text
//!   socket ─▶ Watch ─▶ Engine ─┬─ request ─▶ a record in Stage::Http, carried by a tunnel
//!                              └─ alarms ──▶ tunnels that have something, or room
//!   socket ◀─ one block ◀─ Engine ◀─ what tunnels have written, after all others have
//! ```
//! Relies on `transports/http2`. Invariants: bytes are given to the engine in slices, and what they bring
//! is taken out before the next, so that nothing piles up; while the socket does not take what the engine
//! has to say, nothing more is read. A hub ends after its tunnels, unless it breaks.

use tiderace_base::limits::WRITE_BLOCK_BYTES;
use tiderace_base::{Close, CloseCode, Key, Time};
use tiderace_http2::{
    Accepted, AnswerHead, AnswerReader, Body, Engine, Flood, Over, Refusal, Watch, write_request,
};

use crate::connection::{CarriedBy, Connection, Flags, Stage};
use crate::departure::Step;
use crate::driver::Driver;
use crate::h2::connection::Hub;
use crate::h2::streams::{Beginning, End, Looked};
use crate::http_stage::Work;
use crate::metrics::Gauge;
use crate::outcome::Farewell;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// The connection's first bytes are the preface of HTTP/2.
    pub(crate) fn begin_http2(&mut self, key: Key) {
        let deadlines = &self.shared.options.deadlines;
        let by = self.now.time + deadlines.head;
        let hub = Hub {
            engine: Engine::new(&self.shared.options.http2.limits),
            watch: Watch::default(),
            seen: 0,
            tunnels: Vec::new(),
            idle_by: self.now.time + deadlines.keep_alive,
            is_within: true,
            is_draining: false,
            unsent: 0,
            held: 0,
            is_known: false,
            waiting: Vec::new(),
        };
        self.set_stage(key, Stage::Http2(Box::new(hub)));
        if let Some(connection) = self.connections.get_mut(key) {
            connection.deadline = by;
        }
        self.rouse_hub(key);
    }

    /// Handles bytes of an HTTP/2 connection.
    pub(crate) fn http2(&mut self, key: Key, bytes: &[u8]) -> Step {
        let (mut consumed, mut frames) = (0, 0);
        while consumed < bytes.len() {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let (now, limits) = (self.now.time, self.shared.options.http2.limits);
            let Some(Stage::Http2(hub)) = self.connections.get_mut(key).map(|it| &mut it.stage)
            else {
                return Step::Wait(bytes.len());
            };
            let mut flood = None;
            if hub.seen == 0 {
                let scanned = hub.watch.scan(rest, now, &limits);
                (hub.seen, flood) = (scanned.bytes, scanned.flood);
                frames += scanned.frames;
                self.metrics.http2_resets.add(u64::from(scanned.resets));
            }
            let slice = rest.get(..hub.seen).unwrap_or_default();
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
        self.watch_hub(key, frames);
        // What there is to say goes out with what the tunnels say in this turn.
        self.rouse_hub(key);
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
        let Stage::Http2(hub) = &mut connection.stage else {
            return None;
        };
        let queue = self.pool.queue(&mut connection.outgoing);
        let room = WRITE_BLOCK_BYTES.saturating_sub(queue.len());
        let output = queue.tail();
        let most = output.len() + room;
        let mut accepted = Vec::new();
        let driven = hub.engine.drive(slice, output, most, |stream| accepted.push(stream));
        hub.seen = hub.seen.saturating_sub(driven.consumed);
        let is_done = hub.is_draining && hub.tunnels.is_empty() && accepted.is_empty();
        // Without room the engine has not been asked for all.
        let flags = &mut connection.flags;
        flags.assign(Flags::BACKLOG, driven.is_full);
        if !accepted.is_empty() {
            // Some are answered, or refused, at once.
            self.rouse_hub(key);
        }
        for stream in accepted {
            self.open_tunnel(key, stream);
        }
        self.look(key);
        if let Some(over) = driven.over {
            self.end_over(key, over);
            return None;
        }
        if is_done {
            self.end(key, &CloseCode::ShuttingDown.into(), Farewell::Silent);
            return None;
        }
        Some(driven.consumed)
    }

    /// A request has come: it gets a record and a tunnel.
    fn open_tunnel(&mut self, hub_key: Key, accepted: Accepted) {
        let Accepted { request, protocol, mut stream } = accepted;
        let most = self.shared.options.connections_max.saturating_mul(2);
        let is_crowded = self.shared.connections() >= most || self.stopping.is_some();
        let Some(connection) = self.connections.get_mut(hub_key) else {
            return;
        };
        let (peer, listener) = (connection.peer, connection.listener);
        let Stage::Http2(hub) = &mut connection.stage else {
            return;
        };
        if is_crowded || hub.is_draining {
            self.metrics.http2_refused.add(1);
            return stream.refuse();
        }
        let stream_protocol = (*request.method() == tiderace_http2::Method::POST)
            .then(|| self.shared.stream_protocol(request.uri().path()))
            .flatten();
        let beginning = if stream_protocol.is_some() {
            let head = AnswerHead::stream();
            if !stream.respond(head, false) {
                return;
            }
            let answer = AnswerReader::raw();
            Beginning { head: Vec::new(), is_duplex: true, body: Body::Plain, answer }
        } else {
            let mut head = Vec::with_capacity(HEAD_BYTES);
            match write_request(&request, protocol.as_deref(), stream.is_ended(), &mut head) {
                Ok(asked) => Beginning {
                    head,
                    is_duplex: asked.is_upgrade,
                    body: asked.body,
                    answer: AnswerReader::new(asked.is_head, asked.is_upgrade),
                },
                Err(Refusal::Malformed) => return stream.malformed(),
                Err(Refusal::UnknownProtocol) => {
                    stream.respond(AnswerHead::not_implemented(), true);
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
        self.shared.gain(self.id);
        self.metrics.opened.add(1);
        self.metrics.http2_streams.add(1);
        self.metrics.http2_opened.add(1);
        if let Some(Stage::Http2(hub)) = self.connections.get_mut(hub_key).map(|it| &mut it.stage) {
            let place = hub.tunnels.len();
            hub.tunnels.push(self.tunnels.open(record, (hub_key, place), stream, beginning));
        }
        match stream_protocol {
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
        let Some(Stage::Http2(hub)) = self.connections.get_mut(key).map(|it| &mut it.stage) else {
            return;
        };
        if !hub.engine.has_rung() {
            return;
        }
        // Looking changes no tunnels; what it finds broken goes afterwards.
        let tunnels = std::mem::take(&mut hub.tunnels);
        let mut came = 0;
        let (mut broken, mut relayed) = (Vec::new(), Vec::new());
        for key in &tunnels {
            let Some(tunnel) = self.tunnels.get_mut(*key) else {
                continue;
            };
            let before = tunnel.owed();
            let looked = tunnel.look();
            came += tunnel.owed() - before;
            let record = match &tunnel.end {
                End::Here(record) => *record,
                End::There(_) => {
                    relayed.push((*key, looked));
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
        if let Some(Stage::Http2(hub)) = self.connections.get_mut(key).map(|it| &mut it.stage) {
            hub.tunnels = tunnels;
            hub.held += came;
        }
        for (tunnel, looked) in relayed.into_iter().filter(|(_, looked)| *looked != Looked::Nothing)
        {
            self.relay(tunnel, looked);
        }
        for record in broken {
            self.discard(record, CloseCode::PeerGone);
            self.drain_effects();
        }
    }

    /// The engine of a connection has something to say: it is asked after all others have written.
    pub(crate) fn rouse_hub(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key)
            && matches!(connection.stage, Stage::Http2(_))
        {
            connection.flags.set(Flags::BACKLOG);
            if connection.flags.raise(Flags::WRITE_LISTED) {
                self.lists.hubs.push(key);
            }
        }
    }

    /// Writes the hubs that have been roused.
    pub(crate) fn write_hubs(&mut self) {
        for key in std::mem::take(&mut self.lists.hubs) {
            self.write(key);
            self.drain_effects();
            // What this turn has not read is there to stay.
            self.count_input(key);
        }
    }

    /// A tunnel has gone.
    pub(crate) fn leave_hub(&mut self, key: Key, place: usize) {
        let idle_by = self.now.time + self.shared.options.deadlines.keep_alive;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let Stage::Http2(hub) = &mut connection.stage else {
            return;
        };
        if place < hub.tunnels.len() {
            hub.tunnels.swap_remove(place);
            let moved = hub.tunnels.get(place);
            if let Some(moved) = moved.and_then(|moved| self.tunnels.get_mut(*moved)) {
                moved.place = place;
            }
        }
        if hub.tunnels.is_empty() {
            hub.idle_by = idle_by;
            hub.tunnels = Vec::new();
            connection.deadline = connection.deadline.min(idle_by);
            self.rearm(key);
        }
        self.rouse_hub(key);
    }

    /// So many bytes less are held for the client.
    pub(crate) fn count_read(&mut self, key: Key, bytes: usize) {
        if let Some(Stage::Http2(hub)) = self.connections.get_mut(key).map(|it| &mut it.stage) {
            hub.held = hub.held.saturating_sub(bytes);
        }
    }

    /// A client has logged in whose session, or whose request to it, a tunnel carries: it may send further
    /// ahead from now on.
    pub(crate) fn trust_hub(&mut self, record: Key) {
        let flags = self.connections.get(record).map(|connection| connection.flags);
        if !flags.is_some_and(|flags| flags.is_h2_stream()) {
            return;
        }
        match self.tunnels.hub_of(record) {
            Some(hub) => self.widen_hub(hub),
            None => self.tunnels.tell_login(record, &mut self.post),
        }
    }

    pub(crate) fn widen_hub(&mut self, key: Key) {
        let window = self.shared.options.http2.limits.connection_window_bytes;
        if let Some(Stage::Http2(hub)) = self.connections.get_mut(key).map(|it| &mut it.stage)
            && !std::mem::replace(&mut hub.is_known, true)
        {
            hub.engine.widen(window);
            self.rouse_hub(key);
        }
    }

    /// Whether a request has to wait because its client does not take the answers to others.
    pub(crate) fn must_wait(&mut self, key: Key) -> bool {
        let Some(hub) = self.tunnels.hub_of(key) else {
            return false;
        };
        let is_request = match self.connections.get(key).map(|connection| &connection.stage) {
            Some(Stage::Http(stage)) => matches!(stage.work, Work::Idle),
            _ => false,
        };
        match self.connections.get_mut(hub).map(|connection| &mut connection.stage) {
            Some(Stage::Http2(hub)) if is_request && hub.unsent >= hub.unsent_max() => {
                hub.waiting.push(key);
                true
            }
            _ => false,
        }
    }

    /// What waits for the client on one tunnel has changed.
    pub(crate) fn count_unsent(&mut self, hub: Key, before: usize, after: usize) {
        let Some(Stage::Http2(hub)) = self.connections.get_mut(hub).map(|it| &mut it.stage) else {
            return;
        };
        hub.unsent = (hub.unsent + after).saturating_sub(before);
        if hub.unsent < hub.unsent_max() && !hub.waiting.is_empty() {
            for record in std::mem::take(&mut hub.waiting) {
                if let Some(connection) = self.connections.get_mut(record) {
                    self.lists.inbox(record, &mut connection.flags);
                }
            }
        }
    }

    /// Notes what the client has begun and not finished.
    fn watch_hub(&mut self, key: Key, frames: u32) {
        let frame = self.shared.options.deadlines.frame;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let Stage::Http2(hub) = &mut connection.stage else {
            return;
        };
        let was_within = std::mem::replace(&mut hub.is_within, hub.watch.is_within());
        let idle_by = if hub.tunnels.is_empty() { hub.idle_by } else { Time::NEVER };
        if !hub.is_within {
            connection.deadline = idle_by;
        } else if !was_within || frames > 0 {
            connection.deadline = idle_by.min(self.now.time + frame);
        }
    }

    /// The patience with an HTTP/2 connection has run out.
    pub(crate) fn hub_timeout(&mut self, key: Key) {
        let frame = self.shared.options.deadlines.frame;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let is_deaf = connection.is_deaf();
        let Stage::Http2(hub) = &mut connection.stage else {
            return;
        };
        if hub.is_within && is_deaf {
            connection.deadline = self.now.time + frame;
            return;
        }
        let code = match hub.is_within {
            true if hub.watch.is_opening() => CloseCode::HeadTimeout,
            true => CloseCode::FrameTimeout,
            false if hub.tunnels.is_empty() => CloseCode::Done,
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

    /// The node stops: a connection that carries something says that it takes no more, and ends when that
    /// has ended. False if nothing is carried.
    pub(crate) fn drain_hub(&mut self, key: Key) -> bool {
        let Some(Stage::Http2(hub)) = self.connections.get_mut(key).map(|it| &mut it.stage) else {
            return false;
        };
        if hub.tunnels.is_empty() {
            return false;
        }
        if !std::mem::replace(&mut hub.is_draining, true) {
            hub.engine.drain();
            self.rouse_hub(key);
        }
        true
    }

    /// An HTTP/2 connection has ended: it says so unless it has, and what it carried ends with it.
    pub(crate) fn close_hub(&mut self, key: Key, mut hub: Hub, close: &Close) {
        let over = match close.code {
            CloseCode::Http2Flood | CloseCode::MemoryFull => Over::Flooded(String::new()),
            CloseCode::Done | CloseCode::PeerGone | CloseCode::ShuttingDown => Over::Done,
            _ => Over::Broken(String::new()),
        };
        hub.engine.abort(&over);
        if let Some(connection) = self.connections.get_mut(key) {
            let output = self.pool.queue(&mut connection.outgoing).tail();
            let most = output.len() + LAST_WORDS_BYTES;
            hub.engine.drive(&[], output, most, drop);
        }
        self.drop_tunnels(hub);
    }

    /// What an HTTP/2 connection carried ends without it.
    pub(crate) fn drop_tunnels(&mut self, mut hub: Hub) {
        for tunnel in std::mem::take(&mut hub.tunnels) {
            match self.tunnels.get_mut(tunnel).map(|it| &it.end) {
                Some(End::Here(record)) => {
                    let record = *record;
                    self.discard(record, CloseCode::PeerGone);
                }
                Some(End::There(_)) => self.end_relay(tunnel),
                None => {}
            }
        }
    }
}

/// What the head of a request takes as a rule.
const HEAD_BYTES: usize = 512;
/// What an engine may still say when its connection ends.
const LAST_WORDS_BYTES: usize = 64 * 1024;
