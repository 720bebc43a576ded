//! Spans of traced messages: which messages, what is told of them, and how it gets to a collector.
//!
//! ```text
//!   shard: Sampler ─▶ messages marked ─▶ spans of a turn ──▶ SpanQueue ══▶ exporter's thread: batches, OTLP/JSON ─▶ Post
//! ```
//! A shard chooses messages and hands over what it has at the end of a turn; it never waits. One thread puts spans into
//! batches and posts them. How HTTP is spoken is the caller's closure. Invariants: what waits is bounded in number, and
//! what is beyond that is dropped and counted; a collector that is slow, or gone, holds up nothing but the export.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod exporter;
mod otlp;
mod queue;
mod sampler;
mod span;

pub use exporter::{Exporter, ExporterOptions, Post, Posted};
pub use otlp::{Resource, encode, rejected};
pub use queue::{SpanCounters, SpanQueue};
pub use sampler::{Sampler, Sampling};
pub use span::{Operation, Span};
