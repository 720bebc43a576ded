//! What every stream of a run does, and what clients share while they do it.
//!
//! Invariant: payloads are random and differ from stream to stream, so that nothing is saved by their likeness.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::frame::DEMAND_MAX;
use super::wheel::Wheel;
use crate::args::{RsocketArgs, RsocketMode};
use crate::clients::Counters;

/// What streams do.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// What each stream is.
    pub mode: RsocketMode,
    /// Microseconds between a stream's messages; zero for as many as go.
    pub interval_us: u64,
    /// Items to ask for at a time; none if all at once.
    pub credit: Option<u32>,
    /// Bytes of data.
    pub payload: usize,
    /// Metadata of each request.
    pub metadata: Vec<u8>,
}

impl Load {
    /// As the arguments say.
    pub(super) fn of(args: &RsocketArgs) -> Load {
        let interval_us = interval_us(args.rate);
        Load {
            mode: args.mode,
            interval_us,
            credit: args.credit.or((interval_us == 0).then_some(CREDIT_FLAT_OUT)),
            payload: args.payload,
            metadata: args.route.as_deref().map(super::frame::route).unwrap_or_default(),
        }
    }

    /// The first demand of a stream.
    pub(super) fn demand(&self) -> u32 {
        self.credit.unwrap_or(DEMAND_MAX)
    }
}

/// Microseconds between messages of that rate.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn interval_us(rate: f64) -> u64 {
    if rate > 0.0 { (1e6 / rate).round().clamp(1.0, INTERVAL_US_MAX) as u64 } else { 0 }
}

/// What a thread's clients use while they are served.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub load: &'a Load,
    pub now_ns: u64,
    pub counters: &'a mut Counters,
    /// Frames to be sent by the client whose turn it is.
    pub said: &'a mut Vec<u8>,
    pub random: &'a mut Random,
    pub wheel: &'a mut Wheel,
    pub pulse: &'a Pulse,
}

impl Turn<'_> {
    /// Microseconds, which wrap after 71 minutes.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn now_us(&self) -> u32 {
        (self.now_ns / 1_000) as u32
    }

    /// Records a message that was due `late_us` ago; what is less than a microsecond counts as one.
    pub(super) fn record(&mut self, late_us: u32) {
        let due_ns = self.now_ns.saturating_sub(u64::from(late_us.max(1)) * 1_000);
        self.counters.latency.record(due_ns, self.now_ns, 1);
    }
}

/// How the whole run stands, for the time line.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Streams that are open.
    pub streams: AtomicU64,
    /// Messages received.
    pub received: AtomicU64,
    /// Messages sent.
    pub sent: AtomicU64,
}

impl Pulse {
    /// One stream more.
    pub(super) fn begun(&self) {
        self.streams.fetch_add(1, Relaxed);
    }

    /// Some streams less.
    pub(super) fn ended(&self, count: usize) {
        self.streams.fetch_sub(count as u64, Relaxed);
    }
}

/// Random bytes: a block made once, of which every payload is a piece.
#[derive(Debug)]
pub(super) struct Random {
    block: Vec<u8>,
    state: u64,
}

impl Random {
    /// Enough for payloads of that size.
    pub(super) fn new(payload: usize, seed: u64) -> Random {
        let mut random = Random { block: Vec::new(), state: seed.max(1) };
        let words = (payload + BLOCK_BYTES) / 8 + 1;
        random.block = (0..words).flat_map(|_| random.next().to_le_bytes()).collect();
        random
    }

    /// Appends a payload of that size.
    pub(super) fn append(&mut self, out: &mut Vec<u8>, size: usize) {
        let at = (self.next() >> 32) as usize % BLOCK_BYTES;
        out.extend_from_slice(self.block.get(at..at + size).unwrap_or_default());
    }

    /// Xorshift: quick, and random enough to be incompressible.
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A stream's demand when the server sends as fast as it can: what it is ahead is bounded.
const CREDIT_FLAT_OUT: u32 = 64;
/// An hour less a little: times of streams wrap after 71 minutes.
const INTERVAL_US_MAX: f64 = 2e9;
const BLOCK_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_their_size_and_differ() {
        for size in [0, 1, 1024, 100_000] {
            let mut random = Random::new(size, 9);
            let (mut one, mut two) = (Vec::new(), Vec::new());
            random.append(&mut one, size);
            random.append(&mut two, size);
            assert_eq!((one.len(), two.len()), (size, size));
            assert!(size < 8 || one != two);
        }
    }

    #[test]
    fn rates_become_intervals() {
        assert_eq!(interval_us(1.0), 1_000_000);
        assert_eq!(interval_us(0.5), 2_000_000);
        assert_eq!(interval_us(0.0), 0);
        assert_eq!(interval_us(1e9), 1);
    }
}
