//! Traces of messages: the exporter by the configuration, and what it counts.
//!
//! Relies on `fetch` for HTTP and on `tiderace-telemetry` for everything else. Invariant: without a collector in the
//! configuration there is no thread, and nothing is marked.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use tiderace_base::{Sample, SampleValue};
use tiderace_config::TelemetryConfig;
use tiderace_reactor::SpanOptions;
use tiderace_telemetry::{Exporter, ExporterOptions, Posted, Resource, Sampling, SpanQueue};

use crate::fetch::{Answer, Fetch};
use crate::metrics::{SPAN_REQUESTS_FAILED, SPANS_DROPPED, SPANS_EXPORTED, SPANS_WAITING};

/// How long the end of the server waits for spans that are still to be posted.
pub(crate) const FINISHING: Duration = Duration::from_secs(3);

/// Starts the exporter, if there is a collector; `node` is the name of this server.
///
/// # Errors
/// When the authorities cannot be read, or the thread cannot be started.
pub(crate) fn start(
    config: Option<&TelemetryConfig>,
    node: &str,
) -> anyhow::Result<Option<Exporter>> {
    let Some(config) = config else { return Ok(None) };
    let fetch = Fetch::with(config.authorities.as_deref(), config.timeout, 1)
        .context("telemetry.authorities")?;
    let options = ExporterOptions {
        waiting_max: config.queue_spans_max,
        batch_max: config.batch_spans_max,
        batch_delay: config.batch_delay,
        retry_max: config.retry_time,
        resource: Resource {
            service: config.service_name.clone(),
            instance: node.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
        },
    };
    let exposed = |(name, value): &(String, tiderace_config::Secret)| {
        (name.clone(), value.expose().to_owned())
    };
    let headers: Vec<(String, String)> = config.headers.iter().map(exposed).collect();
    let endpoint = config.endpoint.clone();
    let post = Box::new(move |text: &str| {
        let Answer { status, text, retry_after } = fetch.post(&endpoint, &headers, text)?;
        Ok(Posted { status, text: text.unwrap_or_default(), retry_after })
    });
    let exporter = Exporter::start(options, post);
    exporter.map(Some).context("the thread that exports spans could not be started")
}

/// What the event loop does for it.
pub(crate) fn spans(
    config: Option<&TelemetryConfig>,
    exporter: Option<&Exporter>,
    seed: u128,
) -> Option<SpanOptions> {
    let (config, exporter) = config.zip(exporter)?;
    let (per_million, follow_parents) = (config.sample_per_million, config.follow_parents);
    Some(SpanOptions {
        sampling: Sampling { per_million, follow_parents },
        queue: exporter.queue().clone(),
        seed,
        since_1970: Arc::new(AtomicU64::new(0)),
    })
}

/// What is counted of spans.
pub(crate) fn samples(queue: &SpanQueue) -> [Sample<'static>; 6] {
    let counters = queue.counters();
    let dropped = |reason, count| Sample {
        row: &SPANS_DROPPED,
        labels: vec![reason],
        value: SampleValue::Number(count),
    };
    [
        Sample::number(&SPANS_EXPORTED, counters.exported()),
        dropped("full", counters.full()),
        dropped("failed", counters.failed()),
        dropped("rejected", counters.rejected()),
        Sample::number(&SPAN_REQUESTS_FAILED, counters.requests_failed()),
        Sample::number(&SPANS_WAITING, queue.waiting() as u64),
    ]
}
