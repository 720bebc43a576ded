//! How it stands with the connection to each upstream, for everybody who asks: `/readyz`, metrics, people.
//!
//! Written by the shard that keeps the connection when something changes, which is seldom; read by any thread.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use tiderace_base::{MetricRow, Sample, SampleValue, ShardId};
use tiderace_broker::DeputyState;

use super::options::UpstreamOptions;

/// How far the connection to an upstream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamState {
    /// The next attempt waits for its time.
    Waiting,
    /// The name of its host is asked for.
    Resolving,
    /// TCP.
    Connecting,
    /// The handshake of TLS.
    Securing,
    /// The handshake of WebSocket.
    Upgrading,
    /// The session has not logged in yet.
    LoggingIn,
    /// The session is established.
    Connected,
    /// This node stops.
    Stopped,
}

/// All states, in the order in which a connection goes through them.
pub(crate) const STATES: [UpstreamState; 8] = [
    UpstreamState::Waiting,
    UpstreamState::Resolving,
    UpstreamState::Connecting,
    UpstreamState::Securing,
    UpstreamState::Upgrading,
    UpstreamState::LoggingIn,
    UpstreamState::Connected,
    UpstreamState::Stopped,
];

impl UpstreamState {
    /// Its name in metrics and for people.
    pub fn name(self) -> &'static str {
        match self {
            UpstreamState::Waiting => "waiting",
            UpstreamState::Resolving => "resolving",
            UpstreamState::Connecting => "connecting",
            UpstreamState::Securing => "tls-handshake",
            UpstreamState::Upgrading => "websocket-handshake",
            UpstreamState::LoggingIn => "logging-in",
            UpstreamState::Connected => "connected",
            UpstreamState::Stopped => "stopped",
        }
    }
}

/// How it stands with the connection to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// The upstream's name.
    pub name: String,
    /// The shard that keeps the connection.
    pub shard: ShardId,
    /// How far it has come.
    pub state: UpstreamState,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Since when it is not connected, in milliseconds since 1970; absent while it is.
    pub away_since_ms: Option<u64>,
    /// The address of the present attempt, or of the last one.
    pub url: String,
    /// The socket address of the connection, while there is one.
    pub address: Option<SocketAddr>,
    /// Attempts so far.
    pub attempts: u64,
    /// Attempts that failed, and connections that were lost.
    pub failures: u64,
    /// Why the last of those did, and what to do about it.
    pub last_error: Option<String>,
    /// Times that it came to be connected.
    pub connections: u64,
    /// What stands in for its topics here; not older than a tick.
    pub deputy: DeputyState,
}

impl UpstreamStatus {
    /// It is in that state from now on.
    pub(crate) fn enter(&mut self, state: UpstreamState, wall_ms: u64) {
        (self.state, self.since_ms) = (state, wall_ms);
        match state {
            UpstreamState::Connected => {
                self.away_since_ms = None;
                self.connections += 1;
            }
            _ => _ = self.away_since_ms.get_or_insert(wall_ms),
        }
    }
}

/// The states of all upstreams, in the order of the options.
#[derive(Debug)]
pub(crate) struct UpstreamStatuses(Vec<Mutex<UpstreamStatus>>);

impl UpstreamStatuses {
    pub(crate) fn new(upstreams: &[UpstreamOptions]) -> UpstreamStatuses {
        let status = |upstream: &UpstreamOptions| UpstreamStatus {
            name: upstream.name.clone(),
            shard: upstream.shard,
            state: UpstreamState::Waiting,
            since_ms: 0,
            away_since_ms: None,
            url: upstream.urls.first().map(ToString::to_string).unwrap_or_default(),
            address: None,
            attempts: 0,
            failures: 0,
            last_error: None,
            connections: 0,
            deputy: DeputyState::default(),
        };
        UpstreamStatuses(upstreams.iter().map(|it| Mutex::new(status(it))).collect())
    }

    /// Changes what is known of one.
    pub(crate) fn change(&self, upstream: usize, change: impl FnOnce(&mut UpstreamStatus)) {
        if let Some(status) = self.0.get(upstream) {
            change(&mut status.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// What is known of all.
    pub(crate) fn all(&self) -> Vec<UpstreamStatus> {
        let copy =
            |it: &Mutex<UpstreamStatus>| it.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.0.iter().map(copy).collect()
    }

    /// The names of those that are away, each with the reason if there is one.
    pub(crate) fn away(&self) -> Vec<(String, Option<String>)> {
        let away = |it: &Mutex<UpstreamStatus>| {
            let status = it.lock().unwrap_or_else(PoisonError::into_inner);
            status.away_since_ms.map(|_| (status.name.clone(), status.last_error.clone()))
        };
        self.0.iter().filter_map(away).collect()
    }
}

/// The metrics of upstreams: the rows of state, attempts, failures, connections, topics, stale topics and
/// the round trip, in this order.
pub(crate) fn samples<'a>(
    upstreams: &'a [UpstreamOptions],
    statuses: &UpstreamStatuses,
    [state, attempts, failures, connections, topics, stale, round_trip]: [&'static MetricRow; 7],
) -> Vec<Sample<'a>> {
    let statuses = statuses.all();
    let named = || upstreams.iter().map(|upstream| upstream.name.as_str()).zip(&statuses);
    let number = |row, labels, value| Sample { row, labels, value: SampleValue::Number(value) };
    let mut samples = Vec::new();
    for (name, status) in named() {
        let is_in = |each: UpstreamState| u64::from(each == status.state);
        let each = |each: UpstreamState| number(state, vec![name, each.name()], is_in(each));
        samples.extend(STATES.map(each));
    }
    type Numbered = (&'static MetricRow, fn(&UpstreamStatus) -> u64);
    let numbers: [Numbered; 5] = [
        (attempts, |status| status.attempts),
        (failures, |status| status.failures),
        (connections, |status| status.connections),
        (topics, |status| status.deputy.topics),
        (stale, |status| status.deputy.stale),
    ];
    // All samples of one name are to stand together.
    for (row, value) in numbers {
        samples.extend(named().map(|(name, status)| number(row, vec![name], value(status))));
    }
    samples.extend(named().filter_map(|(name, status)| {
        let value = SampleValue::Decimal(status.deputy.round_trip?.as_secs_f64());
        Some(Sample { row: round_trip, labels: vec![name], value })
    }));
    samples
}
