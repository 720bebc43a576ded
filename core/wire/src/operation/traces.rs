//! Traces: what chosen sessions do, or what is done at chosen paths, told for a while as events of a topic.
//!
//! The event loops tell them; the broker says who may ask. Invariant: a trace is bounded in time, in what it shows of a body, and in the
//! number of those that go on at once.

use std::fmt;
use std::sync::Arc;

use tiderace_base::{Network, SessionId, Span};
use tiderace_topics::Pattern;
use tiderace_value::append_text;

use super::spell;

/// Where the rules look for who may trace, and below which the events are.
pub const TRACE: &str = "$sys/trace";
/// Traces that go on at once, at most.
pub const TRACES_MAX: usize = 8;
/// How long a trace lasts if nobody says how long.
pub const TRACE_TIME_DEFAULT: Span = Span::from_secs(60);
/// How long it may last.
pub const TRACE_TIME_MAX: Span = Span::from_secs(600);
/// Bytes that it may show of each body.
pub const TRACE_BODY_BYTES_MAX: u32 = 512;

/// What is asked about traces.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceOperation {
    /// One is to begin; [`TraceResult::Begun`].
    Begin(TraceRequest),
    /// Those that go on; [`TraceResult::List`].
    List,
    /// One is to end; [`TraceResult::Ended`].
    End {
        /// Its number.
        id: u64,
    },
}

impl TraceOperation {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let TraceOperation::Begin(request) = self else { return 0 };
        let paths = request.paths.iter().map(|path| size_of::<Pattern>() + path.as_str().len());
        size_of::<TraceRequest>()
            + request.principal.as_ref().map_or(0, |name| name.len())
            + paths.sum::<usize>()
    }
}

/// What is to be traced: that for which all holds that is given.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRequest {
    /// What that session does.
    pub session: Option<SessionId>,
    /// What sessions do that are logged in as that; of a virtual host: `@HOST/NAME`.
    pub principal: Option<Box<str>>,
    /// What sessions do whose clients have an address in there.
    pub address: Option<Network>,
    /// Only what is about destinations that one of these names; empty: about any, and about none.
    pub paths: Vec<Pattern>,
    /// For how long.
    pub lasts: Span,
    /// Which share of the events of messages is told.
    pub sample: f64,
    /// Bytes that are shown of each body.
    pub bodies: u32,
}

impl TraceRequest {
    /// Whether it says whose sessions are meant, and not only which destinations.
    pub fn chooses_sessions(&self) -> bool {
        self.session.is_some() || self.principal.is_some() || self.address.is_some()
    }
}

impl fmt::Display for TraceRequest {
    /// As it is written into the record of changes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceRequest { session, principal, address, paths, lasts, sample, bodies } = self;
        let paths = paths.iter().map(Pattern::as_str).collect::<Vec<_>>().join(",");
        let parts = [
            session.map(|id| format!("session={}", spell(id))),
            principal.as_ref().map(|name| format!("principal={name}")),
            address.map(|address| format!("address={address}")),
            (!paths.is_empty()).then(|| format!("path={paths}")),
            Some(format!("for={}ms", lasts.as_millis())),
            (*sample < 1.0).then(|| format!("sample={sample}")),
            (*bodies > 0).then(|| format!("bodies={bodies}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// A trace that goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEntry {
    /// Its number.
    pub id: u64,
    /// The topic of its events.
    pub topic: Arc<str>,
    /// What is traced, as the record of changes has it.
    pub what: Arc<str>,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Until when.
    pub until_ms: u64,
    /// Who has asked for it.
    pub by: Arc<str>,
    /// Events that were left out since they came too fast.
    pub left_out: u64,
}

/// What has come of an operation on traces.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceResult {
    /// One has begun.
    Begun {
        /// Its number.
        id: u64,
        /// The topic of its events.
        topic: Arc<str>,
        /// Until when it lasts, in milliseconds since 1970.
        until_ms: u64,
    },
    /// Those that go on.
    List(Vec<TraceEntry>),
    /// One has ended.
    Ended {
        /// How many there were of that number: one, or none.
        traces: u64,
    },
}

impl TraceResult {
    /// Bytes of its texts, with what is written around each trace.
    pub(super) fn bytes(&self) -> usize {
        match self {
            TraceResult::Begun { topic, .. } => topic.len() + ENTRY_BYTES,
            TraceResult::List(traces) => {
                let of =
                    |it: &TraceEntry| ENTRY_BYTES + it.topic.len() + it.what.len() + it.by.len();
                traces.iter().map(of).sum()
            }
            TraceResult::Ended { .. } => 0,
        }
    }

    /// Appends it as JSON.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            TraceResult::Begun { id, topic, until_ms } => {
                out.extend_from_slice(format!("{{\"id\":{id},\"topic\":").as_bytes());
                append_text(out, topic);
                out.extend_from_slice(format!(",\"until\":{until_ms}}}").as_bytes());
            }
            TraceResult::List(traces) => {
                out.extend_from_slice(b"{\"traces\":[");
                for (place, trace) in traces.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    trace.write_json(out);
                }
                out.extend_from_slice(b"]}");
            }
            TraceResult::Ended { traces } => {
                out.extend_from_slice(format!("{{\"traces\":{traces}}}").as_bytes());
            }
        }
    }
}

impl TraceEntry {
    fn write_json(&self, out: &mut Vec<u8>) {
        let TraceEntry { id, since_ms, until_ms, left_out, .. } = self;
        out.extend_from_slice(format!("{{\"id\":{id}").as_bytes());
        for (name, text) in [("topic", &self.topic), ("what", &self.what), ("by", &self.by)] {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            append_text(out, text);
        }
        let rest = format!(r#","since":{since_ms},"until":{until_ms},"left_out":{left_out}}}"#);
        out.extend_from_slice(rest.as_bytes());
    }
}

/// What an entry takes as JSON beside its texts.
const ENTRY_BYTES: usize = 120;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::OperationResult;

    fn json(result: TraceResult) -> String {
        let mut out = Vec::new();
        OperationResult::Traces(Box::new(result)).write_json(&mut out, true);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_has_come_of_it_is_json() {
        let begun = TraceResult::Begun { id: 3, topic: "$sys/trace/3".into(), until_ms: 17 };
        assert_eq!(json(begun), r#"{"id":3,"topic":"$sys/trace/3","until":17}"#);
        assert_eq!(json(TraceResult::Ended { traces: 1 }), r#"{"traces":1}"#);
        let entry = TraceEntry {
            id: 1,
            topic: "$sys/trace/1".into(),
            what: "principal=a\"nn".into(),
            since_ms: 5,
            until_ms: 6,
            by: "oli".into(),
            left_out: 2,
        };
        let expected = concat!(
            r#"{"traces":[{"id":1,"topic":"$sys/trace/1","what":"principal=a\"nn","by":"oli","#,
            r#""since":5,"until":6,"left_out":2}]}"#
        );
        assert_eq!(json(TraceResult::List(vec![entry])), expected);
    }

    #[test]
    fn what_is_traced_is_one_line() {
        let request = TraceRequest {
            session: None,
            principal: Some("ann".into()),
            address: Some("10.0.0.0/8".parse().unwrap()),
            paths: vec![Pattern::parse("fx/**").unwrap()],
            lasts: Span::from_secs(60),
            sample: 0.5,
            bodies: 9,
        };
        let line = "principal=ann address=10.0.0.0/8 path=fx/** for=60000ms sample=0.5 bodies=9";
        assert_eq!(request.to_string(), line);
        assert!(request.chooses_sessions());
        let plain =
            TraceRequest { principal: None, address: None, sample: 1.0, bodies: 0, ..request };
        assert_eq!(plain.to_string(), "path=fx/** for=60000ms");
        assert!(!plain.chooses_sessions());
    }
}
