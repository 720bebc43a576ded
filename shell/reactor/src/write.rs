//! Writing: one greedy block per connection and turn, in one system call.
//!
//! The backlog stays in the broker, where it can be conflated or dropped by policy; only as much is
//! encoded as one block holds, and only when the socket takes it. Invariant: a connection that
//! cannot be written costs nothing until it can.

use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tiderace_base::Key;
use tiderace_base::limits::WRITE_BLOCK_BYTES;
use tiderace_broker::Left;
use tiderace_wire::{OutQueue, Output};

use crate::connection::{CarriedBy, Flags, Stage};
use crate::driver::Driver;
use crate::outcome::{Farewell, internal_error};
use crate::pool::Outgoing;
use crate::shard::Shard;
use crate::traces::Told;

impl<D: Driver> Shard<D> {
    /// Writes every connection that has something, once.
    pub(crate) fn write_all(&mut self) {
        self.end_waiting();
        if !self.lists.has_writes() {
            return self.write_h2();
        }
        // Subscribers' latency counts from reading to now, so the clock is read again.
        self.now = self.driver.now();
        let mut list = std::mem::take(&mut self.lists.write);
        let mut budget = TURN_WRITE_BYTES;
        let mut done = 0;
        for key in &list {
            if budget == 0 {
                break;
            }
            if done % CONNECTIONS_AHEAD == 0 {
                let end = list.len().min(done + CONNECTIONS_AHEAD);
                self.look_ahead(list.get(done..end).unwrap_or_default());
            }
            let written = self.write(*key);
            budget = budget.saturating_sub(written.max(WRITE_COST_BYTES));
            self.drain_effects();
            done += 1;
        }
        // Who had no turn is first in the next; who wants another one comes after.
        list.drain(..done);
        list.append(&mut self.lists.write);
        self.lists.write = list;
        self.write_long();
        self.write_h2();
    }

    /// Writes on to connections that are in the midst of much, which all others have gone before.
    fn write_long(&mut self) {
        let mut budget = TURN_LONG_WRITE_BYTES;
        for _ in 0..self.lists.long_writes.len() {
            if budget == 0 {
                return;
            }
            let Some(key) = self.lists.long_writes.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.flags.clear(Flags::LONG_LISTED);
            let written = self.write_some(key, usize::MAX);
            budget = budget.saturating_sub(written.max(WRITE_COST_BYTES));
            self.drain_effects();
        }
    }

    /// Asks memory for what the next connections need to be written. Each of them was last touched long
    /// ago, when there are many; asked for together it comes in the time of one.
    fn look_ahead(&self, keys: &[Key]) {
        if keys.len() < 2 {
            return;
        }
        let live = |key: &Key| match &self.connections.get(*key)?.stage {
            Stage::Live(live) => Some(live),
            _ => None,
        };
        let mut next = [None; CONNECTIONS_AHEAD];
        for (slot, key) in next.iter_mut().zip(keys) {
            *slot = live(key).map(|live| live.id);
        }
        let mut subscriptions = [None; CONNECTIONS_AHEAD];
        for (slot, session) in subscriptions.iter_mut().zip(next) {
            *slot = session.and_then(|session| self.broker.peek(session));
        }
        // What a session does wrong here it does again when it is written, and ends by it.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            for (key, subscription) in keys.iter().zip(subscriptions) {
                if let (Some(live), Some(subscription)) = (live(key), subscription) {
                    live.session.look_ahead(subscription);
                }
            }
        }));
    }

    /// Deliveries have come for a connection that had none: they go out this turn, or wait for others
    /// to go along with them, if that was asked for.
    pub(crate) fn list_deliveries(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.flags.set(Flags::BACKLOG);
        if self.shared.options.batch_delay.is_zero() {
            return self.lists.write(key, &mut connection.flags);
        }
        self.lists.coalescing.add(key);
    }

    /// Lists what has waited long enough.
    fn end_waiting(&mut self) {
        for key in self.lists.coalescing.end_rounds(self.now.time, self.shared.options.batch_delay)
        {
            if let Some(connection) = self.connections.get_mut(key)
                && connection.flags.has(Flags::BACKLOG)
            {
                self.lists.write(key, &mut connection.flags);
            }
        }
    }

    /// Writes one connection and says how many bytes the socket took. One with more to be written than others are to wait
    /// for is written after them.
    pub(crate) fn write(&mut self, key: Key) -> usize {
        self.write_some(key, LONG_BYTES_MIN)
    }

    /// Writes one connection that does not wait for its turn after the others, unless so much waits there.
    fn write_some(&mut self, key: Key, long_bytes: usize) -> usize {
        let Some(connection) = self.connections.get_mut(key) else {
            return 0;
        };
        connection.flags.clear(Flags::WRITE_LISTED);
        if !connection.flags.may_write() {
            self.count_backlog(key);
            return 0;
        }
        let is_outgoing = connection.flags.has(Flags::OUTGOING);
        let is_limited = connection.flags.has(Flags::LIMITED);
        if connection.flags.has(Flags::BACKLOG) {
            match self.traces.are_on() {
                false => self.fill(key, &mut ()),
                true => self.fill_traced(key),
            }
            // Delivering may have left something to be asked of the broker at once.
            self.rearm(key);
        }
        if self.connections.get_mut(key).is_some_and(|connection| connection.is_carried()) {
            self.answer_known(key);
            let written = self.write_carried(key);
            if is_limited {
                self.charge_sent(key, written);
            }
            self.count_backlog(key);
            self.reclaim(key);
            return written;
        }
        if is_outgoing {
            self.mask_outgoing(key);
        }
        let outcome = self.write_block(key, long_bytes);
        if is_outgoing {
            self.note_masked(key);
        }
        match outcome {
            Ok(written) => {
                if is_limited {
                    self.charge_sent(key, written);
                }
                self.count_backlog(key);
                self.after_write(key);
                written
            }
            Err(error) => {
                self.broken(key, &error);
                0
            }
        }
    }

    /// As [`Shard::fill`], told to traces if the session is traced. The other way is compiled as if there were none.
    #[cold]
    fn fill_traced(&mut self, key: Key) {
        let Some(traced) = self.traced_delivery(key) else { return self.fill(key, &mut ()) };
        let mut told = Vec::new();
        self.fill(key, &mut told);
        self.trace_delivered(&traced, told);
    }

    /// Takes deliveries out of the session's backlog until the block is full, and then what it says of
    /// its own accord.
    fn fill(&mut self, key: Key, told: &mut impl Told) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let live = match &mut connection.stage {
            Stage::Live(live) => live,
            Stage::Http2(_) => return self.pump(key),
            _ => return connection.flags.clear(Flags::BACKLOG),
        };
        let queue = self.pool.queue(&mut connection.outgoing);
        let framing = live.transport.framing();
        let (broker, effects, metrics) = (&mut self.broker, &mut self.effects, &self.metrics);
        let block_bytes = if connection.flags.is_h2_stream() {
            // What the client's window does not allow would only wait here.
            self.shared.options.block_bytes.min(H2_STREAM_BLOCK_BYTES)
        } else {
            self.shared.options.block_bytes.min(WRITE_BLOCK_BYTES)
        };
        let block_bytes = match connection.flags.has(Flags::LIMITED) {
            true => self.limited.block_bytes(key, block_bytes),
            false => block_bytes,
        };
        let (now, session, flags) = (self.now, &mut live.session, &mut connection.flags);
        let filled = catch_unwind(AssertUnwindSafe(|| {
            broker.look_ahead(live.id);
            let mut left = Left::Few;
            while queue.len() < block_bytes {
                if left == Left::Nothing || !session.wants_deliveries() {
                    // Its next call may bring it to want them again.
                    flags.clear(Flags::BACKLOG);
                    break;
                }
                let takes = |bytes| session.takes_body(bytes);
                let Some(pending) = broker.next_within(now, live.id, takes, effects) else {
                    flags.clear(Flags::BACKLOG);
                    break;
                };
                left = broker.left(live.id);
                if let Left::Many(subscription) = left {
                    session.look_ahead(subscription);
                }
                let delivery = pending.delivery();
                told.add(&delivery);
                metrics.messages_delivered.add((delivery.to - delivery.from) as u64);
                if !pending.is_past() {
                    metrics.latency.record(now.time.since(delivery.run.run().published()));
                }
                session.deliver(now, &delivery, &mut Output { framing, queue });
            }
            session.flush(now, &mut Output { framing, queue });
            if !flags.has(Flags::BACKLOG)
                && session.poll_write(block_bytes, &mut Output { framing, queue })
            {
                flags.set(Flags::BACKLOG);
            }
        }));
        if filled.is_err() {
            self.metrics.session_panics.add(1);
            tracing::error!(event = "session-panic", session = %live.id, "a session failed by a defect");
            self.end(key, &internal_error(), Farewell::Transport);
        }
    }

    /// One system call, or none if nothing waits. Inlined, for every write makes this call and nothing else does.
    #[inline(always)]
    fn write_block(&mut self, key: Key, long_bytes: usize) -> io::Result<usize> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(0);
        };
        if connection.outgoing.as_ref().is_some_and(|it| it.queue.len() >= long_bytes) {
            self.lists.write_long(key, &mut connection.flags);
            return Ok(0);
        }
        match connection.flags.carrier() {
            CarriedBy::Tls
                if connection.outgoing.is_some() || connection.flags.has(Flags::UNSENT) =>
            {
                return self.write_secured(key);
            }
            CarriedBy::H2Stream => return self.write_h2_stream(key),
            CarriedBy::Tls | CarriedBy::Socket => {}
        }
        let Some(outgoing) = &mut connection.outgoing else {
            return Ok(0);
        };
        if outgoing.queue.is_empty() {
            return Ok(0);
        }
        let Some(stream) = &mut connection.stream else {
            return Ok(0);
        };
        let most = match connection.flags.has(Flags::LIMITED) {
            true => self.limited.block_bytes(key, WRITE_CALL_BYTES_MAX),
            false => WRITE_CALL_BYTES_MAX,
        };
        // Mostly there are few pieces, and places for many would cost more than writing those.
        let (driver, queue) = (&mut self.driver, &outgoing.queue);
        let (offered, written) = if queue.pieces() <= FEW_SLICES {
            write_slices::<D, FEW_SLICES>(driver, stream, queue, most)?
        } else {
            write_slices::<D, SLICES_PER_WRITE>(driver, stream, queue, most)?
        };
        self.metrics.write_blocks.add(1);
        self.metrics.bytes_sent.add(written as u64);
        outgoing.queue.advance(written);
        if written < offered {
            connection.flags.clear(Flags::WRITABLE);
        }
        Ok(written)
    }

    /// Gives an empty queue back: who is idle now holds none.
    pub(crate) fn reclaim(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.outgoing.is_none() {
            return;
        }
        // What a session says that nothing carries is for nobody.
        let unheard = connection.live().is_some_and(|live| live.is_detached());
        let idle = |outgoing: &mut Box<Outgoing>| {
            unheard || outgoing.queue.is_empty() && outgoing.counted == 0
        };
        if let Some(outgoing) = connection.outgoing.take_if(idle) {
            self.metrics.backlog_bytes.sub(outgoing.counted as u64);
            self.pool.give_queue(outgoing);
        }
    }

    /// What a connection does next after a write.
    fn after_write(&mut self, key: Key) {
        self.reclaim(key);
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let clogged = connection.is_clogged();
        let flags = &mut connection.flags;
        let more = connection.outgoing.is_some() || flags.has_output();
        if more && flags.has(Flags::WRITABLE) {
            self.lists.write(key, flags);
        }
        if clogged {
            return;
        }
        // Reading may have stopped because too much waited to be written.
        if flags.has(Flags::READABLE) {
            self.lists.read(key, flags);
        }
        if flags.has(Flags::YIELDED) {
            self.lists.again(key, flags);
        }
        match connection.stage {
            Stage::Http(_) | Stage::Http2(_) if connection.input.is_some() => {
                self.lists.again(key, &mut connection.flags);
            }
            Stage::Closing { .. }
                if connection.outgoing.is_none() && !connection.flags.has(Flags::UNSENT) =>
            {
                self.shut(key);
            }
            _ => {}
        }
    }

    /// Keeps the gauge of unwritten bytes.
    fn count_backlog(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if let Some(outgoing) = &mut connection.outgoing {
            let len = outgoing.queue.len();
            self.metrics.backlog_bytes.add((len as u64).wrapping_sub(outgoing.counted as u64));
            outgoing.counted = len;
        }
    }

    /// A connection goes: its unwritten bytes count no more.
    pub(crate) fn uncount_backlog(&mut self, outgoing: Option<&Outgoing>) {
        if let Some(outgoing) = outgoing {
            self.metrics.backlog_bytes.sub(outgoing.counted as u64);
        }
    }
}

/// Offers a socket what comes first in a queue, as so many pieces and bytes at most; bytes that were offered, and
/// that it took.
fn write_slices<D: Driver, const SLICES: usize>(
    driver: &mut D,
    stream: &mut D::Stream,
    queue: &OutQueue,
    most: usize,
) -> io::Result<(usize, usize)> {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let mut count = queue.slices(&mut slices);
    let mut offered = bytes_of(&slices, count);
    if offered > most {
        count = queue.first_slices(&mut slices, most);
        offered = bytes_of(&slices, count);
    }
    let slices = slices.get(..count).unwrap_or_default();
    match driver.write(stream, slices) {
        Ok(written) => Ok((offered, written)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((offered, 0)),
        Err(error) => Err(error),
    }
}

/// The bytes of the first slices.
fn bytes_of(slices: &[IoSlice<'_>], count: usize) -> usize {
    slices.iter().take(count).map(|slice| slice.len()).sum()
}

/// What a shard writes per turn, about four milliseconds' worth: then it looks at its messages, its
/// timers and its readers before it writes on.
const TURN_WRITE_BYTES: usize = 8 * 1024 * 1024;
/// What a session that is carried by HTTP/2 encodes at once: its connection has many.
const H2_STREAM_BLOCK_BYTES: usize = 64 * 1024;
/// What a write costs at least: the system call takes as long as copying so many bytes.
const WRITE_COST_BYTES: usize = 4096;
/// Connections whose memory is asked for together.
const CONNECTIONS_AHEAD: usize = 8;
/// If so much waits for a connection it is written after the others. Less is gone with two calls.
const LONG_BYTES_MIN: usize = 2 * 1024 * 1024;
/// What a shard writes of it per turn, about half a millisecond's worth.
const TURN_LONG_WRITE_BYTES: usize = 1024 * 1024;
/// Bytes per `writev`, about half a millisecond's worth: the kernel would take all of a large message that its
/// receiver reads as fast as it comes, and nobody else would have a turn meanwhile.
const WRITE_CALL_BYTES_MAX: usize = 1024 * 1024;
/// Pieces per `writev`: a full block of runs has fewer.
const SLICES_PER_WRITE: usize = 64;
/// So many are offered without making room for more.
const FEW_SLICES: usize = 4;
