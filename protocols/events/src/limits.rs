//! The limits of REST and Server-Sent Events that are no options.
//!
//! What the server's owner can set is in `options.rs`; what protocols share is in `tiderace_base::limits`.
//! Invariant: every constant that bounds what a client can make grow is here, with its reason.

use tiderace_base::Span;

/// Bytes of a content type or origin that is kept and sent back: longer than every one in use.
pub(crate) const FIELD_BYTES_MAX: usize = 255;
/// Bytes of an answer that is remembered under an idempotency key; larger ones are not.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes of all values of one list.
pub(crate) const LIST_BYTES_MAX: usize = 4 << 20;
/// Bytes of all lists of a node that are being made or sent.
pub(crate) const LISTS_BYTES_MAX: usize = 64 << 20;
/// Bytes of an idempotency key; the specification's examples have 36.
pub(crate) const KEY_BYTES_MAX: usize = 255;
/// Properties that one request may set.
pub(crate) const PROPERTIES_MAX: usize = 64;
/// How deep JSON may be nested.
pub(crate) const JSON_DEPTH_MAX: usize = 64;
/// How long a service may take if the caller does not say.
pub(crate) const CALL_TIMEOUT: Span = Span::from_secs(10);
/// Entity tags in one condition.
pub(crate) const TAGS_MAX: usize = 16;
/// Bytes of events that may be written before the subscription is made: less than the broker tells of topics at once, for it
/// waits then until that is taken.
pub(crate) const EARLY_BYTES_MAX: usize = 32 << 10;
/// What is passed on of a `tracestate`: W3C Trace Context wants every system to pass on as much at least.
pub(crate) const TRACESTATE_BYTES_MAX: usize = 512;
