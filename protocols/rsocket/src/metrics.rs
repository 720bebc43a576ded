//! What RSocket sessions count, in one table from which names, help and documentation are made.
//!
//! Relies on [`Counter`]: each shard's sessions write their own numbers and anybody reads. Invariant:
//! counting takes a load and a store, never a lock.

use tiderace_base::{Counter, MetricKind, MetricRow, Sample, SampleValue, ShardId};

use crate::frame::Interaction;

/// All metrics of RSocket.
pub const RSOCKET_METRICS: &[MetricRow] = &[
    OPENED,
    CLOSED,
    FRAMES,
    FRAME_BYTES,
    STARTED,
    COMPLETED,
    STREAMS,
    REJECTED,
    FAULTS,
    RESUMED,
    RETAINED,
    FRAGMENTS,
];

const OPENED: MetricRow = counter(
    "tiderace_rsocket_connections_opened_total",
    &[],
    "Connections whose SETUP was accepted.",
);
const CLOSED: MetricRow = counter(
    "tiderace_rsocket_connections_closed_total",
    &[],
    "Connections ended whose SETUP had been accepted.",
);
const FRAMES: MetricRow =
    counter("tiderace_rsocket_frames_total", &["direction"], "Frames received and sent.");
const FRAME_BYTES: MetricRow = counter(
    "tiderace_rsocket_frame_bytes_total",
    &["direction"],
    "Bytes of frames received and sent, without what transports add.",
);
const STARTED: MetricRow = counter(
    "tiderace_rsocket_requests_started_total",
    &["interaction", "role"],
    "Requests begun; the server is responder of those that clients begin.",
);
const COMPLETED: MetricRow = counter(
    "tiderace_rsocket_requests_completed_total",
    &["interaction", "role", "signal"],
    "Requests ended: completed, failed or cancelled.",
);
const STREAMS: MetricRow =
    gauge("tiderace_rsocket_streams", &["role"], "Requests open now, fire-and-forget aside.");
const REJECTED: MetricRow = counter(
    "tiderace_rsocket_requests_rejected_total",
    &["reason"],
    "Requests that were not begun, by the limit they met.",
);
const FAULTS: MetricRow = counter(
    "tiderace_rsocket_faults_total",
    &["rule"],
    "Frames that broke a rule and were ignored, by rule.",
);
const RESUMED: MetricRow = counter(
    "tiderace_rsocket_resumed_total",
    &["outcome"],
    "Attempts to go on with a session on a new connection.",
);
const FRAGMENTS: MetricRow = gauge(
    "tiderace_rsocket_fragments_bytes",
    &[],
    "Bytes of fragments that wait for the rest of their payloads.",
);
const RETAINED: MetricRow = gauge(
    "tiderace_rsocket_retained_bytes",
    &[],
    "Bytes of sent frames kept for clients that may come back.",
);

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricRow {
    MetricRow::new(MetricKind::Counter, name, help).with_labels(labels)
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricRow {
    MetricRow::new(MetricKind::Gauge, name, help).with_labels(labels)
}

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal $meaning:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $(#[doc = $meaning] $variant,)+
        }

        impl $name {
            /// The values of the label, in the order of the variants.
            const NAMES: &[&str] = &[$($text),+];
        }
    };
}

labels! {
    /// What a request is.
    Kind {
        Push "metadatapush" "METADATA_PUSH.";
        Forget "fnf" "Fire-and-forget.";
        Response "response" "Request-response.";
        Stream "stream" "Request-stream.";
        Channel "channel" "Request-channel.";
    }
}

labels! {
    /// The server's part in a request.
    Role {
        Requester "requester" "It has asked.";
        Responder "responder" "It is asked.";
    }
}

labels! {
    /// How a request ended.
    Signal {
        Complete "complete" "As it should.";
        Error "error" "By a failure.";
        Cancel "cancel" "It was given up.";
    }
}

labels! {
    /// Why a request was not begun.
    Rejection {
        Streams "streams" "The connection has too many open.";
        Node "node" "The node has too many open.";
        Lease "lease" "No lease allows it.";
        Memory "memory" "What it would keep is too much.";
        Other "other" "The broker or the request's own words forbid it.";
    }
}

labels! {
    /// Rules that clients break.
    Rule {
        StreamId "stream-id" "A request's id is even, or zero, or in use.";
        UnknownStream "unknown-stream" "A frame for a stream that never was.";
        Demand "demand" "A demand of zero.";
        Overflow "overflow" "An item that was not asked for.";
        Fragment "fragment" "A fragment that is too small, or out of place.";
        Setup "setup" "A second SETUP.";
        Place "place" "A frame on the wrong stream.";
        Lease "lease" "A request without a lease.";
    }
}

impl From<Interaction> for Kind {
    fn from(interaction: Interaction) -> Kind {
        match interaction {
            Interaction::FireAndForget => Kind::Forget,
            Interaction::Response => Kind::Response,
            Interaction::Stream => Kind::Stream,
            Interaction::Channel => Kind::Channel,
        }
    }
}

const KINDS: usize = Kind::NAMES.len();
const ROLES: usize = Role::NAMES.len();
const SIGNALS: usize = Signal::NAMES.len();

/// The numbers of one shard, in lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) opened: Counter,
    pub(crate) closed: Counter,
    frames: [Counter; 2],
    bytes: [Counter; 2],
    started: [[Counter; ROLES]; KINDS],
    completed: [[[Counter; SIGNALS]; ROLES]; KINDS],
    streams: [Counter; ROLES],
    rejected: [Counter; Rejection::NAMES.len()],
    faults: [Counter; Rule::NAMES.len()],
    pub(crate) resumed: Counter,
    pub(crate) not_resumed: Counter,
    pub(crate) retained: Counter,
    pub(crate) fragments: Counter,
}

impl Counters {
    /// A frame has come.
    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        let [frames, _] = &self.frames;
        let [counted, _] = &self.bytes;
        frames.add(1);
        counted.add(bytes as u64);
    }

    /// Frames go.
    #[inline]
    pub(crate) fn sent(&self, count: u64, bytes: usize) {
        let [_, frames] = &self.frames;
        let [_, counted] = &self.bytes;
        frames.add(count);
        counted.add(bytes as u64);
    }

    /// A request begins; those that nothing follows are not open.
    pub(crate) fn start(&self, kind: Kind, role: Role) {
        if let Some(cell) = self.started.get(kind as usize).and_then(|row| row.get(role as usize)) {
            cell.add(1);
        }
        if !matches!(kind, Kind::Push | Kind::Forget)
            && let Some(open) = self.streams.get(role as usize)
        {
            open.add(1);
        }
    }

    /// A request ends.
    pub(crate) fn end(&self, kind: Kind, role: Role, signal: Signal) {
        let roles = self.completed.get(kind as usize).and_then(|row| row.get(role as usize));
        if let Some(cell) = roles.and_then(|row| row.get(signal as usize)) {
            cell.add(1);
        }
        if !matches!(kind, Kind::Push | Kind::Forget)
            && let Some(open) = self.streams.get(role as usize)
        {
            open.sub(1);
        }
    }

    /// Requests of this shard's clients that are open.
    pub(crate) fn open(&self) -> u64 {
        self.streams.get(Role::Responder as usize).map_or(0, Counter::value)
    }

    pub(crate) fn reject(&self, why: Rejection) {
        if let Some(cell) = self.rejected.get(why as usize) {
            cell.add(1);
        }
    }

    pub(crate) fn fault(&self, rule: Rule) {
        if let Some(cell) = self.faults.get(rule as usize) {
            cell.add(1);
        }
    }
}

/// The numbers of all shards.
#[derive(Debug)]
pub struct RSocketMetrics(Box<[Counters]>);

impl RSocketMetrics {
    /// For a node of so many shards.
    pub fn new(shards: usize) -> RSocketMetrics {
        RSocketMetrics((0..shards.max(1)).map(|_| Counters::default()).collect())
    }

    /// The numbers that a shard's sessions write; those of the first for a shard that is not known.
    pub(crate) fn of(&self, shard: ShardId) -> Option<&Counters> {
        self.0.get(usize::from(shard.0)).or_else(|| self.0.first())
    }

    /// Every metric with the values of its labels and its value, those of one metric together.
    pub fn samples(&self) -> Vec<Sample<'static>> {
        let mut all = Vec::new();
        let sum = |read: &dyn Fn(&Counters) -> Option<&Counter>| {
            let values = self.0.iter().filter_map(|shard| read(shard).map(Counter::value));
            values.fold(0, u64::wrapping_add)
        };
        let mut add = |row, labels, value| {
            all.push(Sample { row, labels, value: SampleValue::Number(value) });
        };
        add(&OPENED, vec![], sum(&|shard| Some(&shard.opened)));
        add(&CLOSED, vec![], sum(&|shard| Some(&shard.closed)));
        for (at, name) in DIRECTIONS.iter().enumerate() {
            add(&FRAMES, vec![*name], sum(&|shard| shard.frames.get(at)));
        }
        for (at, name) in DIRECTIONS.iter().enumerate() {
            add(&FRAME_BYTES, vec![*name], sum(&|shard| shard.bytes.get(at)));
        }
        for (kind, kind_name) in Kind::NAMES.iter().enumerate() {
            for (role, role_name) in Role::NAMES.iter().enumerate() {
                let value = sum(&|shard| shard.started.get(kind)?.get(role));
                add(&STARTED, vec![*kind_name, *role_name], value);
            }
        }
        for (kind, kind_name) in Kind::NAMES.iter().enumerate() {
            for (role, role_name) in Role::NAMES.iter().enumerate() {
                for (signal, signal_name) in Signal::NAMES.iter().enumerate() {
                    let value = sum(&|shard| shard.completed.get(kind)?.get(role)?.get(signal));
                    add(&COMPLETED, vec![*kind_name, *role_name, *signal_name], value);
                }
            }
        }
        for (role, name) in Role::NAMES.iter().enumerate() {
            add(&STREAMS, vec![*name], sum(&|shard| shard.streams.get(role)));
        }
        for (at, name) in Rejection::NAMES.iter().enumerate() {
            add(&REJECTED, vec![*name], sum(&|shard| shard.rejected.get(at)));
        }
        for (at, name) in Rule::NAMES.iter().enumerate() {
            add(&FAULTS, vec![*name], sum(&|shard| shard.faults.get(at)));
        }
        add(&RESUMED, vec!["accepted"], sum(&|shard| Some(&shard.resumed)));
        add(&RESUMED, vec!["refused"], sum(&|shard| Some(&shard.not_resumed)));
        add(&RETAINED, vec![], sum(&|shard| Some(&shard.retained)));
        add(&FRAGMENTS, vec![], sum(&|shard| Some(&shard.fragments)));
        all
    }
}

const DIRECTIONS: [&str; 2] = ["inbound", "outbound"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_row_has_values_with_its_labels() {
        let metrics = RSocketMetrics::new(2);
        let first = metrics.of(ShardId(0)).unwrap();
        let second = metrics.of(ShardId(1)).unwrap();
        first.start(Kind::Stream, Role::Responder);
        second.start(Kind::Stream, Role::Responder);
        second.start(Kind::Forget, Role::Responder);
        first.end(Kind::Stream, Role::Responder, Signal::Cancel);
        first.received(20);
        second.sent(2, 30);
        first.fault(Rule::Overflow);
        first.reject(Rejection::Lease);
        assert_eq!(second.open(), 1);
        let samples = metrics.samples();
        for row in RSOCKET_METRICS {
            let of_row: Vec<_> = samples.iter().filter(|sample| sample.row == row).collect();
            assert!(!of_row.is_empty(), "{}", row.name);
            assert!(of_row.iter().all(|sample| sample.labels.len() == row.labels.len()));
        }
        let find = |name: &str, labels: &[&str]| {
            let mut found = samples
                .iter()
                .filter(|sample| sample.row.name.ends_with(name) && sample.labels == labels);
            let SampleValue::Number(value) = found.next().unwrap().value else { unreachable!() };
            assert!(found.next().is_none());
            value
        };
        assert_eq!(find("started_total", &["stream", "responder"]), 2);
        assert_eq!(find("completed_total", &["stream", "responder", "cancel"]), 1);
        assert_eq!(find("streams", &["responder"]), 1);
        assert_eq!(find("frames_total", &["inbound"]), 1);
        assert_eq!(find("bytes_total", &["outbound"]), 30);
        assert_eq!(find("faults_total", &["overflow"]), 1);
        assert_eq!(find("rejected_total", &["lease"]), 1);
    }
}
