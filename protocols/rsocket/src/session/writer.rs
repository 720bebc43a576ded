//! The way out: every frame of a session is written, counted and, for clients that may come back, kept
//! here.
//!
//! Relies on the transport's framing. Invariants: a payload that does not fit into one frame goes out in
//! fragments, one behind the other; what is kept is what was written, in order.

use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::ShardId;
use tiderace_wire::Output;

use super::kept::Kept;
use crate::fragment::Fragments;
use crate::frame::{Body, ErrorCode, FRAME_BYTES_MAX, Frame, Item, Payload};
use crate::metrics::Counters;
use crate::options::RSocketOptions;

/// The way out of one session.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) options: Arc<RSocketOptions>,
    pub(super) kept: Option<Box<Kept>>,
    pub(super) shard: ShardId,
}

impl Writer {
    /// Counts, for the shard.
    #[inline]
    pub(super) fn count(&self, count: impl FnOnce(&Counters)) {
        if let Some(counters) = self.options.metrics.of(self.shard) {
            count(counters);
        }
    }

    /// Writes a frame as it is.
    #[inline]
    pub(super) fn say(&mut self, frame: &Frame<'_>, output: &mut Output<'_>) {
        frame.write(output.framing, output.queue.tail());
        self.count(|counters| counters.sent(1, frame.len()));
        if self.kept.is_some() {
            self.keep(frame);
        }
    }

    /// Keeps a frame for a client that may come back, if there is room for it.
    fn keep(&mut self, frame: &Frame<'_>) {
        let Some(resume) = &self.options.resume else { return };
        let counters = self.options.metrics.of(self.shard);
        let full = counters.is_some_and(|all| all.retained.value() >= resume.bytes_shard_max);
        let most = if full { 0 } else { resume.bytes_max };
        let Some(kept) = &mut self.kept else { return };
        let more = kept.keep(frame, most);
        if let Some(counters) = counters {
            counters.retained.add(more as u64);
        }
    }

    /// Bytes of the frames in which payloads go.
    fn frame_bytes_max(&self) -> usize {
        match self.options.fragment_bytes {
            0 => FRAME_BYTES_MAX,
            bytes => bytes,
        }
    }

    /// Writes a frame, in fragments if it is too large.
    #[inline]
    pub(super) fn send(&mut self, frame: Frame<'_>, output: &mut Output<'_>) {
        let max = self.frame_bytes_max();
        if frame.len() <= max {
            return self.say(&frame, output);
        }
        // All at once: what grows by doubling is copied and takes new memory each time.
        output.queue.tail().reserve(frame.len());
        for fragment in Fragments::new(frame, max) {
            self.say(&fragment, output);
        }
    }

    /// Writes an item of a stream.
    #[inline]
    pub(super) fn item(
        &mut self,
        stream: u32,
        payload: Payload<'_>,
        complete: bool,
        output: &mut Output<'_>,
    ) {
        self.send(Frame::item(stream, payload, complete), output);
    }

    /// Writes an item whose data is large and shared: by reference where that is possible.
    pub(super) fn shared_item(
        &mut self,
        stream: u32,
        metadata: Option<&[u8]>,
        data: Bytes,
        complete: bool,
        output: &mut Output<'_>,
    ) {
        let whole = Frame::item(stream, Payload { metadata, data: &data }, complete);
        let fits = whole.len() <= self.frame_bytes_max();
        if !fits || self.kept.is_some() || !output.framing.is_prefix() {
            return self.send(whole, output);
        }
        let bytes = whole.len();
        let payload = Payload { metadata, data: &[] };
        let item = Item { follows: false, complete, next: true, payload };
        let head = Frame { stream, body: Body::Payload(item) };
        head.write_head(data.len(), output.framing, output.queue.tail());
        output.queue.share(data);
        self.count(|counters| counters.sent(1, bytes));
    }

    /// Says that a stream is over.
    pub(super) fn complete(&mut self, stream: u32, output: &mut Output<'_>) {
        self.say(&Frame::complete(stream), output);
    }

    /// Says why a stream, or for stream 0 the connection, is over.
    pub(super) fn error(
        &mut self,
        stream: u32,
        code: ErrorCode,
        text: &str,
        output: &mut Output<'_>,
    ) {
        self.say(&Frame::error(stream, code, text), output);
    }

    /// Gives credit.
    pub(super) fn request_n(&mut self, stream: u32, items: u32, output: &mut Output<'_>) {
        self.say(&Frame::request_n(stream, items), output);
    }
}
