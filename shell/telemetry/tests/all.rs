//! The exporter with collectors that answer, refuse, or do not answer.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::num::{NonZeroU64, NonZeroU128};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use tiderace_telemetry::{Exporter, ExporterOptions, Operation, Posted, Resource, Span};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, SpanContext, SpanId, TraceId};

const LONG: Duration = Duration::from_secs(60);

fn options() -> ExporterOptions {
    ExporterOptions {
        waiting_max: 100,
        batch_max: 10,
        batch_delay: Duration::ZERO,
        retry_max: LONG,
        resource: Resource { service: "s".into(), instance: "i".into(), version: "1" },
    }
}

fn span(number: u64) -> Span {
    let trace = TraceId(NonZeroU128::new(9).unwrap());
    let span = SpanId(NonZeroU64::new(number).unwrap());
    Span {
        context: SpanContext { trace, span, parent: None },
        operation: Operation::Publish,
        destination: Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() },
        protocol: "stomp",
        bytes: 1,
        start_nanos: 1,
        end_nanos: 2,
        shard: 0,
        error: None,
    }
}

/// The numbers of the spans of a request.
fn numbers(text: &str) -> Vec<u64> {
    let value: Value = serde_json::from_str(text).unwrap();
    let spans = value["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    spans
        .iter()
        .map(|it| u64::from_str_radix(it["spanId"].as_str().unwrap(), 16).unwrap())
        .collect()
}

/// An exporter whose collector answers what it is told, one answer after the other.
fn exporter(
    options: ExporterOptions,
) -> (Exporter, std::sync::mpsc::Sender<Result<Posted, String>>, Receiver<Vec<u64>>) {
    let (answers, next) = channel();
    let (asked, requests) = channel();
    let post = move |text: &str| {
        let _ = asked.send(numbers(text));
        next.recv().unwrap_or(Err("the test is over".into()))
    };
    (Exporter::start(options, Box::new(post)).unwrap(), answers, requests)
}

fn answer(status: u16, text: &str) -> Result<Posted, String> {
    Ok(Posted { status, text: text.into(), retry_after: None })
}

#[test]
fn what_is_offered_is_exported_in_batches_and_counted() {
    let (exporter, answers, requests) = exporter(options());
    let queue = exporter.queue().clone();
    queue.offer(vec![]);
    queue.offer((1..=25).map(span).collect());
    for expected in [1..=10, 11..=20, 21..=25] {
        assert_eq!(requests.recv_timeout(LONG).unwrap(), expected.collect::<Vec<u64>>());
        answers.send(answer(200, "{}")).unwrap();
    }
    assert!(exporter.finish(LONG));
    assert_eq!((queue.counters().exported(), queue.waiting()), (25, 0));
    let counters = queue.counters();
    assert_eq!((counters.full(), counters.failed(), counters.rejected()), (0, 0, 0));
}

#[test]
fn spans_beyond_what_may_wait_are_dropped_and_counted() {
    let (exporter, answers, requests) = exporter(options());
    let queue = exporter.queue().clone();
    queue.offer(vec![span(1)]);
    requests.recv_timeout(LONG).unwrap();
    // The collector does not answer, and 99 places are left.
    for _ in 0..20 {
        queue.offer((1..=10).map(span).collect());
    }
    assert_eq!(queue.counters().full(), 101);
    assert_eq!(queue.waiting(), 100);
    // It ends although the collector never answers.
    assert!(!exporter.finish(Duration::from_millis(20)));
    drop(answers);
}

#[test]
fn a_batch_is_repeated_where_that_may_help_and_only_there() {
    let (exporter, answers, requests) = exporter(options());
    let queue = exporter.queue().clone();
    queue.offer(vec![span(1)]);
    for refusal in [answer(503, ""), Err("connection refused".into()), answer(429, "")] {
        assert_eq!(requests.recv_timeout(LONG).unwrap(), [1]);
        answers.send(refusal).unwrap();
    }
    assert_eq!(requests.recv_timeout(LONG).unwrap(), [1]);
    answers.send(answer(200, r#"{"partialSuccess":{"rejectedSpans":"1"}}"#)).unwrap();
    queue.offer(vec![span(2), span(3)]);
    assert_eq!(requests.recv_timeout(LONG).unwrap(), [2, 3]);
    answers.send(answer(400, "")).unwrap();
    assert!(exporter.finish(LONG));
    let counters = queue.counters();
    assert_eq!((counters.rejected(), counters.failed(), counters.exported()), (1, 2, 0));
    assert_eq!((counters.requests_failed(), queue.waiting()), (4, 0));
}

#[test]
fn a_batch_is_not_repeated_for_ever() {
    let most = ExporterOptions { retry_max: Duration::ZERO, ..options() };
    let (exporter, answers, requests) = exporter(most);
    let queue = exporter.queue().clone();
    queue.offer(vec![span(1)]);
    answers.send(answer(503, "")).unwrap();
    requests.recv_timeout(LONG).unwrap();
    answers.send(answer(200, "")).unwrap();
    queue.offer(vec![span(2)]);
    assert_eq!(requests.recv_timeout(LONG).unwrap(), [2]);
    assert!(exporter.finish(LONG));
    assert_eq!((queue.counters().failed(), queue.counters().exported()), (1, 1));
}

#[test]
fn the_end_of_the_server_ends_a_pause_and_exports_what_waits() {
    let (exporter, answers, requests) = exporter(options());
    let queue = exporter.queue().clone();
    queue.offer(vec![span(1)]);
    requests.recv_timeout(LONG).unwrap();
    queue.offer(vec![span(2)]);
    answers.send(answer(503, "")).unwrap();
    answers.send(answer(200, "")).unwrap();
    answers.send(answer(200, "")).unwrap();
    assert!(exporter.finish(LONG));
    assert_eq!(queue.waiting(), 0);
    assert_eq!(queue.counters().failed() + queue.counters().exported(), 2);
}
