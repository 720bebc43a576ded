//! Reading: one buffer for all connections, one read per connection and turn, or several while there is
//! more to write than to read.
//!
//! An idle connection holds no bytes. What a session leaves over is small as a rule: it is copied
//! in front of the next read. Only what has grown large stays in a buffer of its own, which grows
//! by what has arrived, never by what was announced. Invariant: bytes reach the session in order,
//! each once, however they were split.

use std::io;

use tiderace_base::{Close, CloseCode, Key, Span};
use tiderace_wire::Intake;

use crate::connection::{Connection, Flags, Liveness, PeerSide, ReadGate, Stage};
use crate::departure::{Departure, LeavesFor, Step};
use crate::driver::Driver;
use crate::outcome::Farewell;
use crate::pool::{KEPT_COPIED_MAX, READ_BYTES};
use crate::shard::Shard;
use crate::sniff::{Sniffed, sniff};
use crate::tls_sessions::Got;

impl<D: Driver> Shard<D> {
    /// Reads every connection that has something, once; and again, as long as the last turn's writing
    /// took, if all of that could be written: a write costs much more than a read, and what is read
    /// together for one subscriber goes out together.
    pub(crate) fn read_all(&mut self) {
        let timeout = if self.lists.has_writes() { Span::ZERO } else { self.clock.wrote() };
        let timeout = timeout.min(READ_SPAN_MAX);
        loop {
            let all = self.read_round();
            let more = all && !self.lists.read.is_empty() && !timeout.is_zero();
            if !more || self.driver.now().time.since(self.now.time) >= timeout {
                return;
            }
            if !self.post.flush() || self.post.is_behind() {
                return;
            }
        }
    }

    /// Reads connections that have something once, and says whether it was the turn of all.
    fn read_round(&mut self) -> bool {
        let mut list = std::mem::take(&mut self.lists.read);
        let mut buffer = self.spare.take_read_buffer();
        let mut budget = turn_read_bytes(self.shared.wakers.len());
        let most = READ_BYTES.min(budget);
        let intake = Intake::begin();
        let mut done = 0;
        for key in &list {
            if budget == 0 || self.post.kept() >= TURN_MESSAGES || intake.is_full() {
                break;
            }
            let count = self.read(*key, &mut buffer, most);
            budget = budget.saturating_sub(count.max(READ_COST_BYTES));
            done += 1;
            // Before the next connection brings more: the fields of requests are longer than what they came in.
            self.read_inbox(&mut buffer, most, &mut budget, &intake);
        }
        self.read_inbox(&mut buffer, most, &mut budget, &intake);
        list.drain(..done);
        let all = list.is_empty();
        self.spare.give_read_buffer(buffer);
        // Who had no turn is first in the next; who wants another one comes after.
        list.append(&mut self.lists.read);
        self.lists.read = list;
        all
    }

    /// What came by HTTP/2 has been taken apart and goes on.
    fn read_inbox(&mut self, buffer: &mut [u8], most: usize, budget: &mut usize, intake: &Intake) {
        if self.lists.inbox.is_empty() {
            return;
        }
        let mut inbox = std::mem::take(&mut self.lists.inbox);
        for key in inbox.drain(..) {
            if *budget == 0 || self.post.kept() >= TURN_MESSAGES || intake.is_full() {
                self.lists.read.push(key);
                continue;
            }
            let count = self.read(key, buffer, most);
            *budget = budget.saturating_sub(count.max(H2_STREAM_COST_BYTES));
        }
        inbox.append(&mut self.lists.inbox);
        self.lists.inbox = inbox;
    }

    /// Handles again what connections have read but their sessions did not take in.
    pub(crate) fn handle_again(&mut self) {
        let mut list = std::mem::take(&mut self.lists.again);
        let intake = Intake::begin();
        let mut done = 0;
        for key in &list {
            if intake.is_full() {
                break;
            }
            self.again(*key, true);
            done += 1;
        }
        list.drain(..done);
        list.append(&mut self.lists.again);
        self.lists.again = list;
    }

    /// Reads one connection and says how many bytes came, at most `most`.
    fn read(&mut self, key: Key, buffer: &mut [u8], most: usize) -> usize {
        let is_full = self.shared.is_full() || self.broker.memory().is_full();
        let Some(connection) = self.connections.get_mut(key) else {
            return 0;
        };
        let flags = &mut connection.flags;
        flags.clear(Flags::READ_LISTED);
        if !flags.has(Flags::READABLE) || connection.read_gate() != ReadGate::Open {
            return 0;
        }
        let most = if connection.flags.has(Flags::ESTABLISHED) {
            most
        } else {
            connection.early_room(most, self.shared.options.ahead_bytes_max)
        };
        // Many publishers do not bring much more before they hear that they have to wait.
        let most = if is_full { connection.little_room(most) } else { most };
        if connection.flags.is_h2_stream() {
            return self.read_by_h2_stream(key, buffer, most);
        }
        self.read_now(key, buffer, most)
    }

    /// Reads what a stream of HTTP/2 has brought, unless too much waits on the others.
    fn read_by_h2_stream(&mut self, key: Key, buffer: &mut [u8], most: usize) -> usize {
        if self.must_wait(key) {
            return 0;
        }
        let count = self.read_now(key, buffer, most);
        self.count_h2_stream(key);
        count
    }

    fn read_now(&mut self, key: Key, buffer: &mut [u8], most: usize) -> usize {
        let Some(connection) = self.connections.get_mut(key) else {
            return 0;
        };
        let kept = connection.input_len();
        let front = if kept < KEPT_COPIED_MAX { kept } else { 0 };
        let (front_bytes, space) = buffer.split_at_mut(front);
        if let Some(input) = connection.input.as_ref().filter(|_| front > 0) {
            front_bytes.copy_from_slice(input);
        }
        let space = space.get_mut(..most).unwrap_or_default();
        match self.read_socket(key, space) {
            Ok(Got { wire: 0, .. }) => {
                self.note_end(key);
                0
            }
            Ok(got) => {
                let count = got.wire;
                self.note_read(key, &got);
                self.note_tls(key);
                if got.plain > 0 {
                    self.take_in(key, buffer, front, kept, got.plain);
                }
                if let Some(failure) = got.failure {
                    self.fail_tls(key, &failure);
                }
                count
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.flags.clear(Flags::READABLE);
                }
                0
            }
            Err(error) => {
                self.broken(key, &error);
                0
            }
        }
    }

    /// Keeps the marks of a connection that was heard.
    fn note_read(&mut self, key: Key, got: &Got) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if !connection.flags.is_h2_stream() {
            self.metrics.bytes_received.add(got.wire as u64);
        }
        let flags = &mut connection.flags;
        flags.set_liveness(Liveness::Heard);
        if got.is_ended {
            // The next read finds the end, as it does behind the bytes of a plain socket.
            flags.note_peer_ending();
        }
        if got.is_full || flags.peer() != PeerSide::Open {
            self.lists.read(key, flags);
        } else {
            // A short read has emptied the socket, unless the end is behind it.
            flags.clear(Flags::READABLE);
        }
    }

    /// Handles `count` new bytes behind `front` copied ones in the buffer.
    fn take_in(&mut self, key: Key, buffer: &mut [u8], front: usize, kept: usize, count: usize) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let waits = kept + count < connection.need as usize
            && !matches!(connection.stage, Stage::Closing { .. });
        if connection.reads_into_file() || waits && connection.is_stream() && self.begin_large(key)
        {
            self.take_into_file(key, buffer.get(front..front + count).unwrap_or_default());
            return self.end_input(key, None, true);
        }
        if kept > 0 && (waits || front == 0) {
            let Some(connection) = self.connections.get_mut(key) else {
                return;
            };
            let new = buffer.get(front..front + count).unwrap_or_default();
            connection.input.get_or_insert_with(|| self.pool.input()).extend_from_slice(new);
            let departure = if waits { None } else { self.consume_kept(key) };
            return self.end_input(key, departure, true);
        }
        let bytes = buffer.get_mut(..front + count).unwrap_or_default();
        let Handled { consumed, departure } = self.consume(key, bytes);
        let rest = bytes.get(consumed..).unwrap_or_default();
        self.keep(key, rest);
        self.end_input(key, departure, true);
    }

    /// Replaces the kept bytes.
    fn keep(&mut self, key: Key, rest: &[u8]) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if rest.is_empty() {
            if let Some(input) = connection.input.take() {
                self.pool.give_input(input);
            }
            return;
        }
        let input = connection.input.get_or_insert_with(|| self.pool.input());
        input.clear();
        input.extend_from_slice(rest);
    }

    /// Handles the kept bytes where they are.
    fn consume_kept(&mut self, key: Key) -> Option<Box<Departure>> {
        let mut input = self.connections.get_mut(key).and_then(|c| c.input.take())?;
        let Handled { consumed, departure } = self.consume(key, &mut input);
        input.drain(..consumed.min(input.len()));
        match self.connections.get_mut(key) {
            Some(connection) if !input.is_empty() => connection.input = Some(input),
            _ => self.pool.give_input(input),
        }
        departure
    }

    /// Handles again what is kept of a connection. Whether it may look for another session: one that has not
    /// found it may not.
    pub(crate) fn again(&mut self, key: Key, may_seek: bool) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.flags.clear(Flags::AGAIN_LISTED);
        // It is listed again when it is resumed, or when what waits for its client has been written.
        if connection.flags.has(Flags::YIELDED) && connection.is_slowed() {
            return;
        }
        let flags = &mut connection.flags;
        if flags.is_behind() {
            flags.clear(Flags::YIELDED);
            flags.clear(Flags::HELD);
            self.lists.read(key, flags);
        }
        let (is_h2_stream, in_file) = (flags.is_h2_stream(), flags.has(Flags::IN_FILE));
        if in_file {
            self.offer_large(key);
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.reads_into_file() {
            // What has been read is behind the frame.
            return;
        }
        let departure = self.offer_rest(key).or_else(|| self.consume_kept(key));
        self.end_input(key, departure, may_seek);
        if is_h2_stream && let Some(h2) = self.h2_streams.h2_connection_of(key) {
            self.wake_ended_h2(h2);
        }
    }

    /// What is to be done after a connection's bytes have been handled and kept.
    pub(crate) fn end_input(
        &mut self,
        key: Key,
        departure: Option<Box<Departure>>,
        may_seek: bool,
    ) {
        if let Some(departure) = departure {
            self.leave(key, departure.to, may_seek);
        }
        self.move_marked(key);
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let early_max = self.shared.options.ahead_bytes_max;
        let input_max = self.shared.options.unfinished_bytes_max;
        if connection.input_len() > input_max && !connection.is_behind() {
            let reason = "a frame is larger than this server takes";
            self.end(key, &Close::new(CloseCode::FrameTooLarge, reason), Farewell::Full);
        } else if connection.needs_more_than_early(early_max) {
            // It would be read no further and wait for its deadline.
            let reason = format!("before the login a client may send {early_max} bytes");
            self.end(key, &Close::new(CloseCode::FrameTooLarge, reason), Farewell::Full);
        } else {
            connection.watch(self.now.time, &self.shared.options.deadlines);
            self.hold_back(key);
            self.count_input(key);
            self.end_half_open(key);
        }
        self.rearm(key);
        self.drain_effects();
    }

    /// A connection leaves: all that it has not taken in is kept.
    #[cold]
    fn leave(&mut self, key: Key, to: LeavesFor, may_seek: bool) {
        match to {
            LeavesFor::Shard(shard) => self.move_request(key, shard),
            LeavesFor::Probed(ticket) => self.finish_takeover(key, &ticket),
            LeavesFor::Named(whom) => self.finish_hand_over(key, whom, may_seek),
        }
    }

    /// Handles bytes by the connection's stage and says how many are done with.
    fn consume(&mut self, key: Key, bytes: &mut [u8]) -> Handled {
        let mut consumed = 0;
        let intake = Intake::begin();
        loop {
            let Some(connection) = self.connections.get_mut(key) else {
                return Handled::stay(bytes.len());
            };
            let Some(rest) = bytes.get_mut(consumed..) else {
                return Handled::stay(bytes.len());
            };
            if connection.flags.has(Flags::YIELDED) {
                return Handled::stay(consumed);
            }
            connection.need = 0;
            if intake.is_full() && !rest.is_empty() {
                self.go_on_later(key);
                return Handled::stay(consumed);
            }
            let outcome = match &connection.stage {
                _ if rest.is_empty() => return Handled::stay(consumed),
                Stage::Sniff => self.sniff(key, rest),
                Stage::Http(_) => self.http(key, rest),
                Stage::Http2(_) => self.http2(key, rest),
                Stage::Dialling => self.upgrade_answer(key, rest),
                Stage::Starting(_) | Stage::Seeking(_) => return Handled::stay(consumed),
                Stage::Live(live) if live.is_websocket() => self.websocket(key, rest),
                Stage::Live(_) if connection.flags.has(Flags::LIMITED) => {
                    self.stream_limited(key, rest)
                }
                Stage::Live(_) => self.stream(key, rest),
                Stage::Closing { .. } => self.discard_input(key, rest),
            };
            match outcome {
                Step::Next(count) => consumed += count,
                Step::Wait(count) => return Handled::stay(consumed + count),
                Step::Leave(departure) => {
                    let consumed = consumed + departure.consumed;
                    return Handled { consumed, departure: Some(departure) };
                }
            }
        }
    }

    fn sniff(&mut self, key: Key, bytes: &mut [u8]) -> Step {
        if let Some(step) = self.sniff_proxy(key, bytes) {
            return step;
        }
        if let Some(step) = self.sniff_tls(key, bytes) {
            return step;
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return Step::Wait(0);
        };
        let pin = self.shared.pins.get(usize::from(connection.listener)).copied();
        let pin = pin.unwrap_or(crate::sniff::Pin::Any);
        let http2 = self.shared.options.http2.enabled;
        if http2 && !matches!(pin, crate::sniff::Pin::Protocol(_)) && self.secure.agreed_http2(key)
        {
            // A preface that is wrong is an error of HTTP/2 (RFC 9113 section 3.4).
            self.begin_http2(key);
            return Step::Next(0);
        }
        match sniff(bytes, pin, http2, &self.shared.services.protocols) {
            Sniffed::More => Step::Wait(0),
            Sniffed::Http => {
                self.begin_http(key);
                Step::Next(0)
            }
            Sniffed::Http2 => {
                self.begin_http2(key);
                Step::Next(0)
            }
            Sniffed::Protocol(protocol) => {
                self.begin_session(key, protocol);
                Step::Next(0)
            }
            Sniffed::Refused(close, text) => {
                let queue = self.pool.queue(&mut connection.outgoing);
                queue.tail().extend_from_slice(&text);
                self.end(key, &close, Farewell::Full);
                Step::Wait(bytes.len())
            }
        }
    }

    /// A connection has had its share of this turn: it goes on in the next, or when it is read again.
    pub(crate) fn go_on_later(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.flags.set(Flags::YIELDED);
            self.lists.again(key, &mut connection.flags);
        }
    }

    /// Gives a stream's bytes to its session.
    #[inline(always)]
    pub(crate) fn stream(&mut self, key: Key, bytes: &[u8]) -> Step {
        let waited = !self.is_established(key);
        let mut progress = tiderace_wire::Progress::default();
        let mut called = self.call(key, |session, now, context| {
            progress = session.receive(now, bytes, context)?;
            Ok(())
        });
        let failed = called.is_over();
        let stopped = called.actions.take_yield().is_some();
        let departure = self.after_call(key, called);
        self.drain_effects();
        if failed {
            return Step::Wait(bytes.len());
        }
        if let Some(connection) = self.connections.get_mut(key) {
            connection.need = u32::try_from(progress.need).unwrap_or(u32::MAX);
        }
        if stopped {
            self.go_on_later(key);
        }
        let consumed = progress.consumed.min(bytes.len());
        if let Some(mut departure) = departure {
            departure.consumed = consumed;
            return Step::Leave(departure);
        }
        // A login that was decided at once has not found what came behind it: it was not kept yet.
        if waited && self.is_established(key) { Step::Next(consumed) } else { Step::Wait(consumed) }
    }

    pub(crate) fn is_established(&mut self, key: Key) -> bool {
        let live = self.connections.get_mut(key).and_then(|connection| connection.live());
        live.is_some_and(|live| live.session.is_established())
    }

    /// A connection that ends reads on, so that its last words are not lost to a reset, but not for
    /// ever. Who goes on sending is held back then: the kernel may still have the words to send, which
    /// it paces, and would throw them away if the socket were closed at once.
    fn discard_input(&mut self, key: Key, bytes: &[u8]) -> Step {
        if let Some(connection) = self.connections.get_mut(key)
            && let Stage::Closing { discarded, .. } = &mut connection.stage
        {
            *discarded = discarded.saturating_add(bytes.len() as u32);
            if *discarded > DISCARD_BYTES_MAX && connection.flags.raise(Flags::HELD) {
                let soon = self.now.time + LAST_WORDS_PAUSE;
                connection.deadline = connection.deadline.min(soon);
                self.rearm(key);
            }
        }
        Step::Wait(bytes.len())
    }

    /// A client that sends far ahead of its login waits.
    fn hold_back(&mut self, key: Key) {
        let ahead_max = self.shared.options.ahead_bytes_max;
        if let Some(connection) = self.connections.get_mut(key) {
            let ahead = connection.input_len() + connection.rest_len();
            if let Stage::Http(stage) = &connection.stage
                && stage.work.waits()
                && ahead >= ahead_max
            {
                // Requests behind one that waits for its answer, or a body ahead of its login.
                connection.flags.set(Flags::HELD);
            }
            if let Some(live) = connection.live()
                && !live.session.is_established()
                && ahead >= ahead_max
            {
                connection.flags.set(Flags::HELD);
            }
        }
    }

    /// The peer has closed its side.
    fn note_end(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.flags.note_peer_ended();
        connection.flags.clear(Flags::READABLE);
        self.end_input(key, None, true);
    }

    /// Ends a connection whose peer has closed its side, unless its session waits for its login:
    /// `printf '…' | nc` closes before that is decided. A frame that is not whole by now never will be.
    fn end_half_open(&mut self, key: Key) {
        let is_peer_ended = |it: &Connection<D::Stream>| it.flags.is_peer_ended();
        if !self.connections.get(key).is_some_and(is_peer_ended) {
            return;
        }
        let is_untaken = self.is_untaken(key);
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let pending = connection.input_len() + connection.rest_len() > 0;
        match &connection.stage {
            Stage::Closing { is_shut: true, .. } => self.forget(key),
            Stage::Closing { .. } => {}
            // It has more to take in, and comes back here then.
            _ if connection.flags.has(Flags::YIELDED) => {}
            _ if connection.flags.has(Flags::STORING) => {}
            Stage::Http2(_) if is_untaken => {}
            Stage::Live(live) if live.verifying => {}
            Stage::Live(live) if live.is_internal() => {}
            // Pipelined requests wait for room to answer.
            Stage::Http(_) if pending && connection.is_clogged() => {}
            Stage::Starting(starting) if starting.is_moving => {}
            // What it has sent is for the session that it looks for.
            Stage::Seeking(_) => {}
            _ => self.end(key, &CloseCode::PeerGone.into(), Farewell::Silent),
        }
    }
}

/// What handling all bytes that are there led to.
struct Handled {
    /// Bytes that are done with.
    consumed: usize,
    /// The connection leaves once the rest is kept.
    departure: Option<Box<Departure>>,
}

impl Handled {
    fn stay(consumed: usize) -> Handled {
        Handled { consumed, departure: None }
    }
}

/// What a shard reads and handles per turn before it writes and sends to other shards. All shards together read two
/// mebibytes, because all of it may be for the subscribers of one.
fn turn_read_bytes(shards: usize) -> usize {
    (2 * 1024 * 1024 / shards.max(1)).clamp(128 * 1024, 1024 * 1024)
}

/// Messages to other shards after which a shard reads nobody else in this turn. Requests of a few bytes
/// make messages of more bytes than they have themselves: without this a turn's worth of them was more than may be
/// under way, so that each shard in turn waited for the other to handle it.
const TURN_MESSAGES: usize = 1024;
/// How long a shard reads on at most before it writes what that has brought.
const READ_SPAN_MAX: Span = Span::from_millis(30);
/// What a read costs at least: the system call takes as long as copying so many bytes.
const READ_COST_BYTES: usize = 4096;
/// The same for a stream of HTTP/2, which takes no system call.
const H2_STREAM_COST_BYTES: usize = 512;
/// What a connection that ends may still send.
const DISCARD_BYTES_MAX: u32 = 1024 * 1024;
/// How long the last words have to leave when no more is read.
const LAST_WORDS_PAUSE: Span = Span::from_millis(200);
