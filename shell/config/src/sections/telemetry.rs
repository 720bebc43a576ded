//! Traces of messages for an OpenTelemetry collector.

use std::fmt;
use std::time::Duration;

use crate::kind::Kind;
use crate::secret::{Secret, SecretSource};
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::section;

section! {
    /// [Traces of messages](telemetry.md) for an OpenTelemetry collector. They are on if `endpoint` is set.
    "telemetry" TABLE TelemetrySection {
        /// Address that spans are posted to by OTLP/HTTP, such as `http://127.0.0.1:4318/v1/traces`. Not set: no message is traced, which costs nothing.
        "endpoint" endpoint: Option<String> = Absent, Kind::Text;
        /// Of a million messages and calls whose client does not say that it traces them, how many are traced.
        "sample_per_million" sample_per_million: u32 = Is("0"), Kind::Integer { min: 1, max: 1_000_000 }, zero("only those that clients trace");
        /// Whether messages with a `traceparent` belong to the trace that it names, and are always traced if it says that the client records. Off: it is passed on, and nothing else.
        "follow_parents" follow_parents: bool = Is("true"), Kind::Boolean;
        /// What the server is called in traces (`service.name`).
        "service_name" service_name: String = Is("tiderace"), Kind::Text;
        /// File with the authorities, in PEM, whose certificates are trusted there. Not set: those of the system.
        "authorities" authorities: Option<String> = Absent, Kind::Text;
        /// Time for one request, from the name to the last byte.
        "timeout" timeout: Duration = Is("5s"), Kind::Duration { min: Duration::from_millis(50), max: Duration::from_secs(60) };
        /// For how long a request is repeated that the collector could not take. What is not taken by then is dropped.
        "retry_time" retry_time: Duration = Is("30s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(600) }, zero("it is not repeated");
        /// Spans of one request, at most.
        "batch_spans_max" batch_spans_max: usize = Is("512"), Kind::Integer { min: 1, max: 10_000 };
        /// How long a span may wait for others, to be posted with them.
        "batch_delay" batch_delay: Duration = Is("1s"), Kind::Duration { min: Duration::from_millis(10), max: Duration::from_secs(60) };
        /// Spans that may wait, those of the request under way included; those beyond are dropped and counted. Each takes some 200 bytes.
        "queue_spans_max" queue_spans_max: usize = Is("16384"), Kind::Integer { min: 1, max: 1_000_000 };
    }
}

section! {
    /// A field of the requests to `telemetry.endpoint`, such as one that says who asks.
    "telemetry_header" LIST TelemetryHeaderSection {
        /// Name of the field, such as `Authorization`.
        "name" name: String = Required, Kind::Name;
        /// Its value, from `file:PATH` or `env:NAME`.
        "value" value: SecretSource = Required, Kind::Secret { hash: None };
    }
}

/// Where spans go, and which messages are traced.
#[derive(Clone, PartialEq)]
pub struct TelemetryConfig {
    /// Where to.
    pub endpoint: String,
    /// Fields of each request.
    pub headers: Vec<(String, Secret)>,
    /// Of a million messages.
    pub sample_per_million: u32,
    /// Whether messages belong to the traces of their clients.
    pub follow_parents: bool,
    /// What the server is called.
    pub service_name: String,
    /// File with authorities that are trusted there.
    pub authorities: Option<String>,
    /// Time for one request.
    pub timeout: Duration,
    /// For how long one is repeated.
    pub retry_time: Duration,
    /// Spans of one.
    pub batch_spans_max: usize,
    /// How long a span waits for others.
    pub batch_delay: Duration,
    /// Spans that may wait.
    pub queue_spans_max: usize,
}

impl fmt::Debug for TelemetryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryConfig").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
