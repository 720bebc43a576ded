//! What a shard counts, in one table from which names, help and documentation are made.
//!
//! Every shard writes its own numbers with plain loads and stores; only reading crosses threads.

use tiderace_base::{
    CLOSE_CODES, ClientLimit, CloseCode, Counter as Cell, MetricKind, MetricRow, Sample,
    SampleValue, Span,
};
use tiderace_broker::{BROKER_MAXIMA, BROKER_METRICS, BrokerMetrics};
use tiderace_http2::{FLOODS, Flood};
use tiderace_tls::{Established, FAILURES, FailureKind};

/// Spans counted in buckets whose bounds are powers of two of a nanosecond.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [Cell; HISTOGRAM_BUCKETS],
    nanos: Cell,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: [const { Cell::new() }; HISTOGRAM_BUCKETS], nanos: Cell::default() }
    }
}

impl Histogram {
    pub(crate) fn record(&self, span: Span) {
        let nanos = span.as_nanos() as u64;
        let bits = (u64::BITS - nanos.leading_zeros()) as usize;
        if let Some(bucket) = self.buckets.get(bits.min(HISTOGRAM_BUCKETS - 1)) {
            bucket.add(1);
        }
        self.nanos.add(nanos);
    }
}

macro_rules! metrics {
    ($($field:ident $constant:ident $kind:ident $name:literal $labels:tt $help:literal;)+) => {
        $(const $constant: MetricRow =
            MetricRow::new(MetricKind::$kind, $name, $help).with_labels(&$labels);)+

        /// All metrics of the event loop.
        pub const METRICS: &[MetricRow] = &[$($constant),+];
    };
}

metrics! {
    connections CONNECTIONS Gauge "tiderace_connections" ["protocol", "transport"]
        "Connections open now, and sessions carried by requests or detached; protocol none until it is known.";
    opened OPENED Counter "tiderace_connections_opened_total" []
        "Connections accepted, and sessions begun that are carried by requests.";
    closed CLOSED Counter "tiderace_connections_closed_total" ["reason"]
        "Connections ended, by close code.";
    rejected REJECTED Counter "tiderace_connections_rejected_total" ["reason"]
        "Connections closed as soon as they came.";
    limits_reached LIMITS_REACHED Counter "tiderace_client_limits_reached_total" ["limit"]
        "Times that a limit of [[limit]] was reached: logins, subscriptions and requests refused, and clients that were not read, or not written to, for a while.";
    logins LOGINS Counter "tiderace_logins_total" ["result"]
        "Logins that were decided, by what came of them: accepted, or the code with which they were refused.";
    migrated MIGRATED Counter "tiderace_connections_migrated_total" []
        "Connections that moved to another shard.";
    detached DETACHED Counter "tiderace_sessions_detached_total" []
        "Sessions that lost their connection and waited for their client.";
    detach_refused DETACH_REFUSED Counter "tiderace_sessions_detach_refused_total" []
        "Sessions that could not wait for their client, because too many did.";
    detached_bytes DETACHED_BYTES Gauge "tiderace_sessions_detached_bytes" []
        "Bytes that detached sessions hold for their clients.";
    resumed RESUMED Counter "tiderace_sessions_resumed_total" []
        "Connections that came to carry a session which had another one before.";
    resumes_refused RESUMES_REFUSED Counter "tiderace_sessions_resumes_refused_total" []
        "Connections whose client wanted to go on with a session that was not there for it.";
    paused PAUSED Gauge "tiderace_connections_paused" []
        "Connections that are not read now, since a topic or a queue that they publish to is full.";
    bytes_received BYTES_RECEIVED Counter "tiderace_bytes_received_total" []
        "Bytes read from connections.";
    bytes_sent BYTES_SENT Counter "tiderace_bytes_sent_total" []
        "Bytes written to connections.";
    messages_delivered MESSAGES_DELIVERED Counter "tiderace_messages_delivered_total" []
        "Messages put into write blocks.";
    backlog_bytes BACKLOG_BYTES Gauge "tiderace_write_backlog_bytes" []
        "Bytes encoded and not yet taken by the operating system.";
    write_blocks WRITE_BLOCKS Counter "tiderace_write_blocks_total" []
        "Writes to connections.";
    http_requests HTTP_REQUESTS Counter "tiderace_http_requests_total" []
        "HTTP requests answered, WebSocket upgrades included.";
    tls_connections TLS_CONNECTIONS Gauge "tiderace_tls_connections" []
        "Connections secured by TLS now, those whose handshake is under way included.";
    tls_handshakes TLS_HANDSHAKES Counter "tiderace_tls_handshakes_total" ["version", "kind"]
        "TLS handshakes that came to their end: full, or resumed with a ticket.";
    tls_failures TLS_FAILURES Counter "tiderace_tls_failures_total" ["reason"]
        "TLS handshakes and secured connections that failed.";
    http2_streams HTTP2_STREAMS Gauge "tiderace_http2_streams" []
        "Streams of HTTP/2 connections open now.";
    http2_opened HTTP2_OPENED Counter "tiderace_http2_streams_opened_total" []
        "Streams of HTTP/2 connections accepted.";
    http2_refused HTTP2_REFUSED Counter "tiderace_http2_streams_refused_total" []
        "Streams refused because the server has as many connections and streams as it may, or stops.";
    http2_resets HTTP2_RESETS Counter "tiderace_http2_streams_reset_total" []
        "Streams reset by clients.";
    http2_floods HTTP2_FLOODS Counter "tiderace_http2_floods_total" ["kind"]
        "HTTP/2 connections ended because of too many frames of a kind; kind engine is what the codec itself found.";
    upstream_state UPSTREAM_STATE Gauge "tiderace_upstream_state" ["upstream", "state"]
        "One for the state that the connection to an upstream is in, zero for the others.";
    upstream_attempts UPSTREAM_ATTEMPTS Counter "tiderace_upstream_attempts_total" ["upstream"]
        "Times that a connection to an upstream was begun.";
    upstream_failures UPSTREAM_FAILURES Counter "tiderace_upstream_failures_total" ["upstream"]
        "Connections to an upstream that did not come to be, or were lost.";
    upstream_connections UPSTREAM_CONNECTIONS Counter "tiderace_upstream_connections_total" ["upstream"]
        "Times that a connection to an upstream came to be, and the upstream let this server in.";
    upstream_topics UPSTREAM_TOPICS Gauge "tiderace_upstream_topics" ["upstream"]
        "Topics of an upstream that are kept here.";
    upstream_stale UPSTREAM_STALE Gauge "tiderace_upstream_stale_topics" ["upstream"]
        "Those that may have changed there in the meantime: all while it is away, and until it has said what has changed.";
    upstream_round_trip UPSTREAM_ROUND_TRIP Gauge "tiderace_upstream_round_trip_seconds" ["upstream"]
        "Time from the last PING to its PONG, sent every ten seconds; none while the upstream is away.";
    session_panics SESSION_PANICS Counter "tiderace_session_panics_total" []
        "Sessions that failed by a defect of the server.";
    turns TURNS Counter "tiderace_turns_total" []
        "Turns of the event loops.";
    turn_seconds TURN_SECONDS Histogram "tiderace_turn_seconds" []
        "How long turns took, without waiting.";
    drain_state DRAIN_STATE Gauge "tiderace_drain_state" []
        "How far the server has come with sending its clients elsewhere: 0 it does not, 1 announced, 2 draining, 3 all have left, 4 taken back and not all listeners are open.";
    drain_connections DRAIN_CONNECTIONS Gauge "tiderace_drain_connections" []
        "Connections, and sessions without one, that the server is sending elsewhere and that have not left; 0 while it does not drain.";
    drain_goodbyes DRAIN_GOODBYES Counter "tiderace_drain_goodbyes_total" []
        "Connections and sessions that were told to go elsewhere.";
    latency LATENCY Histogram "tiderace_publish_to_deliver_seconds" []
        "From reading a publisher's bytes to writing them for a subscriber, per delivery; without values, histories and what was missed, which are older than the wish for them.";
}

/// What is told of each upstream.
pub(crate) const UPSTREAM_ROWS: [&MetricRow; 7] = [
    &UPSTREAM_STATE,
    &UPSTREAM_ATTEMPTS,
    &UPSTREAM_FAILURES,
    &UPSTREAM_CONNECTIONS,
    &UPSTREAM_TOPICS,
    &UPSTREAM_STALE,
    &UPSTREAM_ROUND_TRIP,
];

/// Why a connection was closed as soon as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    AddressLimit,
    Blocked,
    Failed,
    Files,
    Limit,
}

const REJECTED_NAMES: [&str; 5] = ["address-limit", "blocked", "failed", "files", "limit"];

/// The numbers of one shard.
#[derive(Debug)]
pub(crate) struct ShardMetrics {
    /// Names of the rows of `connections`: "none", "http", "http2", then each protocol.
    protocols: Vec<&'static str>,
    connections: Vec<[Cell; TRANSPORTS.len()]>,
    closed: Vec<Cell>,
    rejected: [Cell; REJECTED_NAMES.len()],
    limits_reached: [Cell; ClientLimit::ALL.len()],
    logins_accepted: Cell,
    /// By close code.
    logins_refused: Vec<Cell>,
    pub(crate) opened: Cell,
    pub(crate) migrated: Cell,
    pub(crate) detached: Cell,
    pub(crate) detach_refused: Cell,
    pub(crate) detached_bytes: Cell,
    pub(crate) resumed: Cell,
    pub(crate) resumes_refused: Cell,
    pub(crate) paused: Cell,
    pub(crate) bytes_received: Cell,
    pub(crate) bytes_sent: Cell,
    pub(crate) messages_delivered: Cell,
    pub(crate) backlog_bytes: Cell,
    pub(crate) write_blocks: Cell,
    pub(crate) http_requests: Cell,
    pub(crate) tls_connections: Cell,
    /// By version and kind.
    tls_handshakes: [[Cell; TLS_KINDS.len()]; TLS_VERSIONS.len()],
    tls_failures: Vec<Cell>,
    pub(crate) http2_streams: Cell,
    pub(crate) http2_opened: Cell,
    pub(crate) http2_refused: Cell,
    pub(crate) http2_resets: Cell,
    http2_floods: [Cell; FLOODS.len()],
    pub(crate) session_panics: Cell,
    pub(crate) drain_state: Cell,
    pub(crate) drain_connections: Cell,
    pub(crate) drain_goodbyes: Cell,
    pub(crate) turns: Cell,
    pub(crate) turn_seconds: Histogram,
    pub(crate) latency: Histogram,
    /// The broker's numbers as they were at its last tick, in the order of its own table.
    broker: Vec<Cell>,
}

/// Which of the connection gauges counts a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gauge {
    pub(crate) row: usize,
    pub(crate) transport: usize,
}

/// What carries a session, by the place of its name.
const TRANSPORTS: [&str; 4] = ["tcp", "websocket", "requests", "detached"];

/// Versions of TLS, in the order of [`tiderace_tls::Version`].
const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];
const TLS_KINDS: [&str; 2] = ["full", "resumed"];

impl Gauge {
    pub(crate) const UNKNOWN: Gauge = Gauge { row: 0, transport: 0 };
    pub(crate) const HTTP: Gauge = Gauge { row: 1, transport: 0 };
    pub(crate) const HTTP2: Gauge = Gauge { row: 2, transport: 0 };
    /// No gauge counts what is no connection.
    pub(crate) const NONE: Gauge = Gauge { row: usize::MAX, transport: 0 };

    /// The name of what it counts as carried by.
    pub(crate) fn transport_name(self) -> &'static str {
        TRANSPORTS.get(self.transport).copied().unwrap_or_default()
    }

    pub(crate) fn protocol(index: u16, transport: usize) -> Gauge {
        Gauge { row: usize::from(index) + 3, transport }
    }
}

impl ShardMetrics {
    pub(crate) fn new(protocols: impl IntoIterator<Item = &'static str>) -> ShardMetrics {
        let protocols: Vec<_> = ["none", "http", "http2"].into_iter().chain(protocols).collect();
        ShardMetrics {
            connections: protocols.iter().map(|_| Default::default()).collect(),
            protocols,
            closed: CLOSE_CODES.iter().map(|_| Cell::default()).collect(),
            rejected: Default::default(),
            limits_reached: Default::default(),
            logins_accepted: Cell::default(),
            logins_refused: CLOSE_CODES.iter().map(|_| Cell::default()).collect(),
            opened: Cell::default(),
            migrated: Cell::default(),
            detached: Cell::default(),
            detach_refused: Cell::default(),
            detached_bytes: Cell::default(),
            resumed: Cell::default(),
            resumes_refused: Cell::default(),
            paused: Cell::default(),
            bytes_received: Cell::default(),
            bytes_sent: Cell::default(),
            messages_delivered: Cell::default(),
            backlog_bytes: Cell::default(),
            write_blocks: Cell::default(),
            http_requests: Cell::default(),
            tls_connections: Cell::default(),
            tls_handshakes: Default::default(),
            tls_failures: FAILURES.iter().map(|_| Cell::default()).collect(),
            http2_streams: Cell::default(),
            http2_opened: Cell::default(),
            http2_refused: Cell::default(),
            http2_resets: Cell::default(),
            http2_floods: Default::default(),
            session_panics: Cell::default(),
            drain_state: Cell::default(),
            drain_connections: Cell::default(),
            drain_goodbyes: Cell::default(),
            turns: Cell::default(),
            turn_seconds: Histogram::default(),
            latency: Histogram::default(),
            broker: BROKER_METRICS.iter().map(|_| Cell::default()).collect(),
        }
    }

    /// Publishes the broker's numbers.
    pub(crate) fn set_broker(&self, metrics: &BrokerMetrics) {
        for (cell, value) in self.broker.iter().zip(metrics.values()) {
            cell.set(value);
        }
    }

    pub(crate) fn count_closed(&self, code: CloseCode) {
        if let Some(cell) = self.closed.get(code.index()) {
            cell.add(1);
        }
    }

    pub(crate) fn count_rejected(&self, reason: Rejected) {
        if let Some(cell) = self.rejected.get(reason as usize) {
            cell.add(1);
        }
    }

    pub(crate) fn count_limit(&self, limit: ClientLimit, times: u64) {
        if let Some(cell) = self.limits_reached.get(limit as usize) {
            cell.add(times);
        }
    }

    pub(crate) fn count_login(&self, refused: Option<CloseCode>) {
        match refused {
            None => self.logins_accepted.add(1),
            Some(code) => {
                if let Some(cell) = self.logins_refused.get(code.index()) {
                    cell.add(1);
                }
            }
        }
    }

    pub(crate) fn count_handshake(&self, established: Established) {
        let versions = self.tls_handshakes.get(established.version as usize);
        if let Some(cell) = versions.and_then(|it| it.get(usize::from(established.is_resumed))) {
            cell.add(1);
        }
    }

    pub(crate) fn count_tls_failure(&self, kind: FailureKind) {
        if let Some(cell) = self.tls_failures.get(kind.index()) {
            cell.add(1);
        }
    }

    pub(crate) fn count_flood(&self, flood: Flood) {
        if let Some(cell) = self.http2_floods.get(flood as usize) {
            cell.add(1);
        }
    }

    pub(crate) fn connections(&self, gauge: Gauge) -> Option<&Cell> {
        self.connections.get(gauge.row)?.get(gauge.transport)
    }
}

/// The numbers of all shards, added up, in the order of [`METRICS`]; without [`UPSTREAM_ROWS`], which no shard counts.
pub(crate) fn collect(shards: &[impl AsRef<ShardMetrics>]) -> Vec<Sample<'static>> {
    let mut samples = Vec::new();
    let Some(first) = shards.first().map(AsRef::as_ref) else {
        return samples;
    };
    let sum = |read: &dyn Fn(&ShardMetrics) -> u64| {
        let total =
            |sum: u64, shard: &dyn AsRef<ShardMetrics>| sum.wrapping_add(read(shard.as_ref()));
        shards.iter().fold(0, |sum, shard| total(sum, shard))
    };
    let mut number = |row: &'static MetricRow, labels: Vec<&'static str>, value: u64| {
        let value = SampleValue::Number(value);
        samples.push(Sample { row, labels, value });
    };
    for (index, name) in first.protocols.iter().enumerate() {
        for (transport, label) in TRANSPORTS.iter().enumerate() {
            let gauge = Gauge { row: index, transport };
            let value = sum(&|shard| shard.connections(gauge).map_or(0, Cell::value));
            number(&CONNECTIONS, vec![name, label], value);
        }
    }
    number(&OPENED, vec![], sum(&|shard| shard.opened.value()));
    for (index, row) in CLOSE_CODES.iter().enumerate() {
        let value = sum(&|shard| shard.closed.get(index).map_or(0, Cell::value));
        number(&CLOSED, vec![row.slug], value);
    }
    for (index, name) in REJECTED_NAMES.iter().enumerate() {
        let value = sum(&|shard| shard.rejected.get(index).map_or(0, Cell::value));
        number(&REJECTED, vec![name], value);
    }
    for (index, limit) in ClientLimit::ALL.iter().enumerate() {
        let value = sum(&|shard| shard.limits_reached.get(index).map_or(0, Cell::value));
        number(&LIMITS_REACHED, vec![limit.option()], value);
    }
    number(&LOGINS, vec!["accepted"], sum(&|shard| shard.logins_accepted.value()));
    for (index, row) in CLOSE_CODES.iter().enumerate() {
        let value = sum(&|shard| shard.logins_refused.get(index).map_or(0, Cell::value));
        // Other codes refuse logins when a session ends meanwhile.
        if value > 0 || row.code.refuses_login() {
            number(&LOGINS, vec![row.slug], value);
        }
    }
    type Read = fn(&ShardMetrics) -> &Cell;
    for (version, version_name) in TLS_VERSIONS.iter().enumerate() {
        for (kind, kind_name) in TLS_KINDS.iter().enumerate() {
            let cell = |shard: &ShardMetrics| {
                let cell = shard.tls_handshakes.get(version).and_then(|kinds| kinds.get(kind));
                cell.map_or(0, Cell::value)
            };
            number(&TLS_HANDSHAKES, vec![version_name, kind_name], sum(&cell));
        }
    }
    for (index, (_, name)) in FAILURES.iter().enumerate() {
        let value = sum(&|shard| shard.tls_failures.get(index).map_or(0, Cell::value));
        number(&TLS_FAILURES, vec![name], value);
    }
    for (index, name) in FLOODS.iter().enumerate() {
        let value = sum(&|shard| shard.http2_floods.get(index).map_or(0, Cell::value));
        number(&HTTP2_FLOODS, vec![name], value);
    }
    let plain: [(&'static MetricRow, Read); 22] = [
        (&MIGRATED, |shard| &shard.migrated),
        (&DETACHED, |shard| &shard.detached),
        (&DETACH_REFUSED, |shard| &shard.detach_refused),
        (&DETACHED_BYTES, |shard| &shard.detached_bytes),
        (&RESUMED, |shard| &shard.resumed),
        (&RESUMES_REFUSED, |shard| &shard.resumes_refused),
        (&PAUSED, |shard| &shard.paused),
        (&BYTES_RECEIVED, |shard| &shard.bytes_received),
        (&BYTES_SENT, |shard| &shard.bytes_sent),
        (&MESSAGES_DELIVERED, |shard| &shard.messages_delivered),
        (&BACKLOG_BYTES, |shard| &shard.backlog_bytes),
        (&WRITE_BLOCKS, |shard| &shard.write_blocks),
        (&HTTP_REQUESTS, |shard| &shard.http_requests),
        (&TLS_CONNECTIONS, |shard| &shard.tls_connections),
        (&HTTP2_STREAMS, |shard| &shard.http2_streams),
        (&HTTP2_OPENED, |shard| &shard.http2_opened),
        (&HTTP2_REFUSED, |shard| &shard.http2_refused),
        (&HTTP2_RESETS, |shard| &shard.http2_resets),
        (&SESSION_PANICS, |shard| &shard.session_panics),
        (&DRAIN_STATE, |shard| &shard.drain_state),
        (&DRAIN_CONNECTIONS, |shard| &shard.drain_connections),
        (&DRAIN_GOODBYES, |shard| &shard.drain_goodbyes),
    ];
    for (row, read) in plain {
        number(row, vec![], sum(&|shard| read(shard).value()));
    }
    number(&TURNS, vec![], sum(&|shard| shard.turns.value()));
    for (row, read) in [
        (&TURN_SECONDS, (|shard| &shard.turn_seconds) as fn(&ShardMetrics) -> &Histogram),
        (&LATENCY, |shard| &shard.latency),
    ] {
        let bucket =
            |index: usize| sum(&|shard| read(shard).buckets.get(index).map_or(0, Cell::value));
        let buckets = (0..HISTOGRAM_BUCKETS).map(bucket).collect();
        let nanos = sum(&|shard| read(shard).nanos.value());
        let value = SampleValue::Histogram { buckets, nanos };
        samples.push(Sample { row, labels: vec![], value });
    }
    samples
}

/// The brokers' numbers of all shards, added up, in the order of their own table.
pub(crate) fn collect_broker(
    shards: &[impl AsRef<ShardMetrics>],
) -> Vec<(&'static MetricRow, u64)> {
    let value = |(index, row): (usize, &MetricRow)| {
        let cells = shards.iter().filter_map(|shard| shard.as_ref().broker.get(index));
        let values = cells.map(Cell::value);
        match BROKER_MAXIMA.contains(&row.name) {
            true => values.max().unwrap_or_default(),
            false => values.fold(0u64, u64::wrapping_add),
        }
    };
    BROKER_METRICS.iter().enumerate().map(|it| (it.1, value(it))).collect()
}

/// One of the brokers' numbers, shard by shard.
pub(crate) fn broker_by_shard<S: AsRef<ShardMetrics>>(
    shards: &[S],
    name: &'static str,
) -> impl Iterator<Item = u64> {
    let index = BROKER_METRICS.iter().position(|row| row.name == name);
    let cells = shards.iter().filter_map(move |shard| shard.as_ref().broker.get(index?));
    cells.map(Cell::value)
}

/// Some of the event loops' numbers, for who asks for them all the time: nothing is allocated for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Connections that were closed as they came, for lack of files.
    pub refused_for_files: u64,
    /// Connections that were closed as they came, since there were as many as there may be.
    pub refused_for_limit: u64,
    /// Connections that are not read now, since a topic or a queue that they publish to is full.
    pub paused: u64,
    /// Sessions that failed by a defect.
    pub session_panics: u64,
}

impl NodeCounts {
    /// What all shards have counted.
    pub(crate) fn of(shards: &[impl AsRef<ShardMetrics>]) -> NodeCounts {
        let mut counts = NodeCounts::default();
        for shard in shards.iter().map(AsRef::as_ref) {
            let rejected =
                |reason: Rejected| shard.rejected.get(reason as usize).map_or(0, Cell::value);
            counts.refused_for_files += rejected(Rejected::Files);
            counts.refused_for_limit += rejected(Rejected::Limit);
            counts.paused = counts.paused.wrapping_add(shard.paused.value());
            counts.session_panics += shard.session_panics.value();
        }
        counts
    }
}

/// Up to 2³⁹ ns, nine minutes.
const HISTOGRAM_BUCKETS: usize = 41;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_row_of_the_table_has_samples_with_its_labels() {
        let shards =
            [Arc::new(ShardMetrics::new(["stomp"])), Arc::new(ShardMetrics::new(["stomp"]))];
        shards[0].opened.add(2);
        shards[1].opened.add(3);
        shards[1].latency.record(Span::from_nanos(1023));
        shards[0].count_closed(CloseCode::Done);
        shards[0].count_rejected(Rejected::Limit);
        let samples = collect(&shards);
        for row in METRICS.iter().filter(|row| !UPSTREAM_ROWS.contains(row)) {
            let of_row: Vec<_> = samples.iter().filter(|sample| sample.row == row).collect();
            assert!(!of_row.is_empty(), "{}", row.name);
            assert!(of_row.iter().all(|s| s.labels.len() == row.labels.len()));
        }
        let find = |name: &str, label: Option<&str>| {
            let found = samples.iter().find(|sample| {
                sample.row.name == name && label.is_none_or(|label| sample.labels == [label])
            });
            found.unwrap().value.clone()
        };
        let one = SampleValue::Number(1);
        assert_eq!(find("tiderace_connections_opened_total", None), SampleValue::Number(5));
        assert_eq!(find("tiderace_connections_closed_total", Some("done")), one);
        assert_eq!(find("tiderace_connections_rejected_total", Some("limit")), one);
        let SampleValue::Histogram { buckets, nanos } =
            find("tiderace_publish_to_deliver_seconds", None)
        else {
            unreachable!()
        };
        assert_eq!((buckets.get(10), nanos), (Some(&1), 1023));
    }
}
