//! What clients have begun to send and not finished, in the memory budget.
//!
//! Counted after what came has been handled: bytes that were read and not taken in, fragments, bodies, and
//! what sessions keep until the rest comes. Little of it is the ordinary state of every second connection and
//! is not counted. Invariant: the table has an entry for exactly those records that have [`Flags::COUNTED`].

use tiderace_base::{Close, CloseCode, Key, MemoryUse};

use crate::connection::{Connection, Flags, Live, Stage, Transport};
use crate::driver::Driver;
use crate::http_answer::refusal;
use crate::http_stage::Work;
use crate::outcome::Farewell;
use crate::shard::Shard;

impl<S> Connection<S> {
    /// What its client has begun and not finished, in bytes, and whether that client has logged in.
    fn unfinished(&self) -> (usize, bool) {
        // What grows by what arrives takes up to twice that; what is small is in a buffer of the pool.
        let input = self.input.as_ref().map_or(0, |input| match input.len() {
            few @ ..COUNTED_BYTES_MIN => few,
            _ => input.capacity(),
        });
        match &self.stage {
            Stage::Live(live) => {
                let transport = match &live.transport {
                    Transport::WebSocket { decoder, rest } => {
                        decoder.heap_bytes() + rest.as_ref().map_or(0, |rest| rest.bytes.capacity())
                    }
                    _ => 0,
                };
                let session = live.session.unfinished_bytes();
                (input + transport + session, live.session.is_established())
            }
            Stage::Http(stage) => match &stage.work {
                Work::Collect(collected) => (input + collected.bytes(), collected.is_known()),
                _ => (input, false),
            },
            Stage::Http2(h2) => {
                let (held, is_known) = h2.held();
                (input + held, is_known)
            }
            _ => (input, false),
        }
    }
}

impl<D: Driver> Shard<D> {
    /// Counts what a client has begun and not finished. If there is no memory for it, the client hears so
    /// and the connection ends; one that has not logged in may have no more than its small limit.
    pub(crate) fn count_input(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let (mut bytes, is_known) = connection.unfinished();
        if connection.flags.has(Flags::IN_FILE) {
            bytes += self.large_input.memory_bytes(key);
        }
        if bytes < COUNTED_BYTES_MIN {
            if connection.flags.has(Flags::COUNTED) {
                self.release_input(key);
            }
            return;
        }
        self.count_much(key, bytes, is_known);
    }

    #[cold]
    fn count_much(&mut self, key: Key, bytes: usize, is_known: bool) {
        let early_max = self.shared.options.ahead_bytes_max;
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.flags.set(Flags::COUNTED);
        let what = if is_known { MemoryUse::Input } else { MemoryUse::EarlyInput };
        let memory = self.broker.memory();
        let before = self.unfinished.count(key.slot, what, bytes);
        if let Some((before, bytes)) = before {
            memory.refund(before, bytes);
        }
        let grows = before.is_none_or(|(_, before)| before < bytes);
        // Who sends nothing that could be read, or as much as one read brings, is not refused for what
        // others keep: the windows of a connection of HTTP/2 are bounded, and so is what is read of one
        // that is paused. That, too, ends where all who have begun something have their share.
        let waits = connection.flags.is_unread() || matches!(connection.stage, Stage::Http2(_));
        let is_spared = is_known && (waits || bytes <= SPARED_BYTES_MAX);
        let room = match is_spared {
            true => memory.has_share(what, bytes),
            false => memory.has_room(what, bytes),
        };
        memory.charge(what, bytes);
        let close = if grows && !room {
            CloseCode::MemoryFull.into()
        } else if !is_known && connection.assembled() > early_max {
            let reason = format!("before the login a client may send {early_max} bytes");
            Close::new(CloseCode::FrameTooLarge, reason)
        } else {
            return;
        };
        if matches!(connection.stage, Stage::Http(_)) {
            let response = refusal(&close).with("Retry-After", "5");
            self.write_answer(key, &response, false, false);
            self.end(key, &close, Farewell::Silent);
        } else {
            self.end(key, &close, Farewell::Full);
        }
        if close.code == CloseCode::MemoryFull {
            self.release_freed();
        }
    }

    /// Buffers that grew have left smaller ones behind, as much again as is kept, which the allocator would keep for
    /// a while. When memory is short the system gets them back, but not so often that refusing becomes dear.
    fn release_freed(&mut self) {
        let Some(release) = self.shared.options.release_freed else { return };
        if self.unfinished.may_release(self.now.time) {
            release();
        }
    }

    /// What a record's client has begun is for nobody any more.
    pub(crate) fn forget_input(&mut self, key: Key) {
        self.forget_large(key);
        self.release_input(key);
    }

    /// Nothing of a record counts any more.
    fn release_input(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.flags.has(Flags::COUNTED) {
            connection.flags.clear(Flags::COUNTED);
            if let Some((what, bytes)) = self.unfinished.forget(key.slot) {
                self.broker.memory().refund(what, bytes);
            }
        }
    }
}

impl<S> Connection<S> {
    /// What has been put together of a message that is not whole, in bytes: unlike what is merely not taken
    /// in, it grows as long as it is read.
    fn assembled(&self) -> usize {
        match &self.stage {
            Stage::Live(Live {
                transport: Transport::WebSocket { decoder, .. }, session, ..
            }) => decoder.heap_bytes() + session.unfinished_bytes(),
            Stage::Live(live) => live.session.unfinished_bytes(),
            _ => 0,
        }
    }
}

/// Less is not counted.
const COUNTED_BYTES_MIN: usize = 4096;
/// What a client that has logged in is not refused for: one read. A publisher whose queue fills the memory
/// has as much in hand before it hears that it has to pause.
const SPARED_BYTES_MAX: usize = 64 << 10;
