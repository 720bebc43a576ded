//! Spans as OTLP/JSON: `ExportTraceServiceRequest` of the OpenTelemetry protocol 1, in its JSON form.
//!
//! Ids are hexadecimal and 64-bit integers are strings, as that form wants. Names are those of the semantic conventions of
//! OpenTelemetry for messaging. Relies on nothing. Invariant: nothing of a body or a property is in it.

use serde_json::{Value, json};
use tiderace_wire::Kind;

use crate::span::{Operation, Span};

/// Who exports.
#[derive(Clone, Debug)]
pub struct Resource {
    /// `service.name`.
    pub service: String,
    /// `service.instance.id`.
    pub instance: String,
    /// `service.version`.
    pub version: &'static str,
}

/// A request that exports these spans.
pub fn encode(resource: &Resource, spans: &[Span]) -> String {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                text("service.name", &resource.service),
                text("service.instance.id", &resource.instance),
                text("service.version", resource.version),
            ] },
            "scopeSpans": [{
                "scope": { "name": "tiderace", "version": resource.version },
                "spans": spans,
            }],
        }],
    })
    .to_string()
}

/// How many spans an answer says that the collector did not take.
pub fn rejected(answer: &str) -> u64 {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let Some(rejected) = answer.pointer("/partialSuccess/rejectedSpans") else { return 0 };
    let number = rejected.as_u64();
    number.or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0)
}

fn span(of: &Span) -> Value {
    let (name, kind) = match of.operation {
        Operation::Publish if of.destination.kind == Kind::Queue => ("send", SERVER),
        Operation::Publish => ("publish", SERVER),
        Operation::Deliver { .. } => ("deliver", PRODUCER),
        Operation::Request => ("request", SERVER),
    };
    let path = of.destination.path.as_str();
    let mut attributes = vec![
        text("messaging.system", "tiderace"),
        text("messaging.operation.name", name),
        text("messaging.destination.name", path),
        text("tiderace.destination.kind", kind_name(of.destination.kind)),
        integer("messaging.message.body.size", of.bytes),
        text("network.protocol.name", of.protocol),
        integer("tiderace.shard", u64::from(of.shard)),
    ];
    // The conventions have no type for what a broker does with a message that it has taken.
    if !matches!(of.operation, Operation::Deliver { .. }) {
        attributes.push(text("messaging.operation.type", "send"));
    }
    if let Operation::Deliver { deliveries, waiting, redeliveries } = of.operation {
        attributes.push(integer("tiderace.deliveries", deliveries));
        if waiting > 0 {
            attributes.push(integer("tiderace.deliveries.waiting", waiting));
        }
        if redeliveries > 0 {
            attributes.push(integer("tiderace.redeliveries", u64::from(redeliveries)));
        }
    }
    let mut status = json!({});
    if let Some(code) = of.error {
        attributes.push(text("error.type", code));
        status = json!({ "code": ERROR, "message": code });
    }
    let mut span = json!({
        "traceId": of.context.trace.to_string(),
        "spanId": of.context.span.to_string(),
        "flags": SAMPLED,
        "name": format!("{name} {path}"),
        "kind": kind,
        "startTimeUnixNano": of.start_nanos.to_string(),
        "endTimeUnixNano": of.end_nanos.to_string(),
        "attributes": attributes,
        "status": status,
    });
    if let (Some(parent), Some(span)) = (of.context.parent, span.as_object_mut()) {
        span.insert("parentSpanId".to_owned(), parent.to_string().into());
    }
    span
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Topic => "topic",
        Kind::Queue => "queue",
        Kind::Service => "service",
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn integer(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// `SPAN_KIND_SERVER`.
const SERVER: u8 = 2;
/// `SPAN_KIND_PRODUCER`.
const PRODUCER: u8 = 4;
/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;
/// The trace flag of spans that are recorded.
const SAMPLED: u8 = 1;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, SpanContext, TraceParent};

    use super::*;

    #[test]
    fn a_span_is_written_as_the_protocol_wants_it() {
        let text = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceParent::parse(text).unwrap();
        let context =
            SpanContext { trace: parent.trace, span: parent.span, parent: Some(parent.span) };
        let span = Span {
            context,
            operation: Operation::Deliver { deliveries: 3, waiting: 1, redeliveries: 0 },
            destination: Destination { kind: Kind::Topic, path: Path::parse("fx/\"é").unwrap() },
            protocol: "stomp",
            bytes: 12,
            start_nanos: 1_700_000_000_123_456_789,
            end_nanos: u64::MAX,
            shard: 2,
            error: Some("not-authorised"),
        };
        let resource =
            Resource { service: "prices".into(), instance: "node-1".into(), version: "0.1.0" };
        let value: Value = serde_json::from_str(&encode(&resource, &[span])).unwrap();
        let resource = &value["resourceSpans"][0];
        let attribute = |of: &Value, key: &str| {
            let of = of["attributes"].as_array().unwrap();
            let found = of.iter().find(|it| it["key"] == key);
            found.map(|it| it["value"].clone()).unwrap_or_default()
        };
        assert_eq!(attribute(&resource["resource"], "service.name")["stringValue"], "prices");
        let span = &resource["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(span["spanId"], "00f067aa0ba902b7");
        assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
        assert_eq!(span["name"], "deliver fx/\"é");
        assert_eq!(span["kind"], 4);
        assert_eq!(span["startTimeUnixNano"], "1700000000123456789");
        assert_eq!(span["endTimeUnixNano"], "18446744073709551615");
        assert_eq!(span["status"]["code"], 2);
        assert_eq!(attribute(span, "messaging.system")["stringValue"], "tiderace");
        assert_eq!(attribute(span, "messaging.message.body.size")["intValue"], "12");
        assert_eq!(attribute(span, "tiderace.deliveries")["intValue"], "3");
        assert_eq!(attribute(span, "tiderace.deliveries.waiting")["intValue"], "1");
        assert_eq!(attribute(span, "tiderace.redeliveries"), Value::Null);
        assert_eq!(attribute(span, "error.type")["stringValue"], "not-authorised");
    }

    #[test]
    fn what_a_collector_did_not_take_is_read() {
        assert_eq!(rejected(r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#), 3);
        assert_eq!(rejected(r#"{"partialSuccess":{"rejectedSpans":4}}"#), 4);
        for nothing in ["", "{}", r#"{"partialSuccess":null}"#, "[1]", "\u{1}binary"] {
            assert_eq!(rejected(nothing), 0);
        }
    }
}
