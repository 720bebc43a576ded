//! The limits of the native protocol that are no options.
//!
//! What the server's owner can set is in `options.rs`; what protocols share is in `tiderace_base::limits`.
//! Invariant: every constant that bounds what a client can make grow is here, with its reason.

/// Bytes of a PING, so that its answer is never larger than a control frame.
pub(crate) const PING_BYTES_MAX: usize = 125;
/// Bytes of the properties of one message: they are walked for every selector and copied for deliveries.
pub(crate) const PROPERTIES_BYTES_MAX: usize = 64 << 10;
/// Bytes of the longest varint: a number of 64 bits, seven at a time.
pub(crate) const VARINT_BYTES_MAX: usize = tiderace_base::VARINT_BYTES_MAX;
/// Messages of one transport message, without publications that are taken: what they ask for is only
/// done, and their answers are only written, when the last of them has been read.
pub(crate) const REQUESTS_MAX: usize = 16_384;
/// Bytes of a batch, so that the usual length of a frame's header does.
pub(crate) const BATCH_BYTES_MAX: usize = 60_000;
/// Bytes of the head of a message of a batch: its type and the longest length.
pub(crate) const HEAD_BYTES_MAX: usize = 11;
/// Names of nodes in NODES: far more than are above one node through all of its upstreams.
pub(crate) const NODES_MAX: usize = 64;
/// Bytes of each of them.
pub(crate) const NODE_BYTES_MAX: usize = 64;
/// Principals of whom an edge has told, for each of whom it may have told some 18,000 bytes.
pub(crate) const PRINCIPALS_MAX: usize = 64;
/// Messages of one AS: as many as a session takes in at a time, since it does not stop in their midst.
pub(crate) const AS_MESSAGES_MAX: usize = tiderace_base::limits::INTAKE_MESSAGES_MAX;
/// Bytes that a server takes in a message of the transport beyond the longest body, at least: it is the lowest value of
/// its option `limits.header_bytes_max`.
pub(crate) const BESIDE_BODY_BYTES_MIN: usize = 256;
/// Connections from an edge up to a node that has no upstream: more are a mistake, or a circle of nodes without names.
pub(crate) const HOPS_MAX: u64 = 4;
/// Exchanges that an upstream may give to an edge's clients under one subscription.
pub(crate) const SERVED_EXCHANGES_MAX: u32 = 1_024;
/// Topics that an upstream has announced at the same time: some hundred bytes each. Servers keep 65,536 unless they are
/// told otherwise.
pub(crate) const UPSTREAM_TOPICS_MAX: usize = 1 << 20;
/// How often a message that is too large for this node is rejected. One that still comes, since its queue has no limit of
/// attempts, stays with its consumer, or it would go to and fro for ever.
pub(crate) const REJECTED_MAX: u32 = 32;
/// The highest version that is taken from an upstream: as many bits as a subscription notes.
pub(crate) const UPSTREAM_VERSION_MAX: u64 = (1 << 56) - 1;
/// The highest number that is taken from an upstream, so that none that is counted from it overflows.
pub(crate) const UPSTREAM_NUMBER_MAX: u64 = 1 << 62;
/// Homes that an upstream may have: as many as a numbering names.
pub(crate) const UPSTREAM_HOMES_MAX: u16 = 64;
/// Bytes of one row of a position: a home and a number.
pub(crate) const ROW_BYTES_MAX: usize = 3 + 10;
