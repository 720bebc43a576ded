//! Specifications as JSON text.
//!
//! ```json
//! {"type": "json", "retain": true, "history": {"count": 100, "age": "10m"}, "persistent": true}
//! ```
//! What is not named is as the configuration has it for the path. Relies on `core/value`. Invariant:
//! [`TopicSpec::to_json`] names everything, and [`TopicSpec::parse`] of it gives the same back.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Span, parse_span};
use tiderace_value::{Json, append_text};

use super::{
    Priority, Removal, SPEC_BYTES_MAX, SPEC_SCHEMA_BYTES_MAX, SchemaSpec, SlowConsumer, TopicSpec,
    ValueType,
};

const DEPTH_MAX: usize = 64;
const SPAN_MAX: Span = Span::from_secs(366 * 24 * 3600);

/// Why a text is no specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It is too large.
    #[error("the specification has more than {SPEC_BYTES_MAX} bytes")]
    TooLarge,
    /// It is no JSON.
    #[error("the specification is not JSON: {0}")]
    Json(#[from] tiderace_value::JsonError),
    /// It is no object.
    #[error("a specification is an object, such as {{\"type\": \"json\", \"retain\": true}}")]
    NoObject,
    /// A name that means nothing.
    #[error("`{name}` is nothing that can be chosen for a topic; {advice}")]
    Unknown {
        /// The name.
        name: String,
        /// What to do.
        advice: String,
    },
    /// A value that is not allowed there.
    #[error("`{name}` {problem}")]
    Value {
        /// The name.
        name: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
}

impl From<SpecError> for Close {
    fn from(error: SpecError) -> Close {
        Close::new(CloseCode::BadSpecification, error.to_string())
    }
}

/// Everything that can be named, in the order in which it is written.
const NAMES: [&str; 15] = [
    "type",
    "series",
    "retain",
    "history",
    "persistent",
    "deltas",
    "slow_consumer",
    "grace",
    "conflation",
    "interval",
    "priority",
    "owner",
    "presence",
    "schema",
    "removal",
];

impl TopicSpec {
    /// Reads a specification; what it does not name is taken from `base`.
    ///
    /// # Errors
    /// Says which name or value is wrong, and what would be right.
    pub fn parse(text: &[u8], base: &TopicSpec) -> Result<TopicSpec, SpecError> {
        if text.len() > SPEC_BYTES_MAX {
            return Err(SpecError::TooLarge);
        }
        let mut spec = base.clone();
        let json = Json::parse(text, DEPTH_MAX)?;
        if json.kind() != tiderace_value::JsonKind::Object {
            return Err(SpecError::NoObject);
        }
        for (name, value) in json.fields() {
            let name = name.as_text().unwrap_or_default();
            spec.set(&name, value)?;
        }
        Ok(spec)
    }

    fn set(&mut self, name: &str, value: Json<'_>) -> Result<(), SpecError> {
        match name {
            "type" => match value.as_text().as_deref() {
                Some("timeseries") => self.series = true,
                _ => self.value = choice("type", value, &ValueType::ALL)?,
            },
            "series" => self.series = truth("series", value)?,
            "retain" => self.retain = truth("retain", value)?,
            "history" => self.set_history(value)?,
            "persistent" => self.persistent = truth("persistent", value)?,
            "deltas" => self.deltas = truth("deltas", value)?,
            "slow_consumer" => {
                self.slow_consumer = choice("slow_consumer", value, &SlowConsumer::ALL)?;
            }
            "grace" => self.grace = span("grace", value)?,
            "conflation" => {
                let ways = [("latest", false), ("merge", true)];
                self.conflation.merge = choice("conflation", value, &ways)?;
            }
            "interval" => self.conflation.interval = span("interval", value)?,
            "priority" => self.priority = choice("priority", value, &Priority::ALL)?,
            "owner" if value.is_null() => self.owner = None,
            "owner" => {
                let problem = || wrong("owner", "is the name of a principal, or null".into());
                self.owner = Some(value.as_text().ok_or_else(problem)?.as_ref().into());
            }
            "schema" if value.is_null() => self.schema = None,
            "schema" if value.text().len() > SPEC_SCHEMA_BYTES_MAX => {
                let text = format!("has more than {SPEC_SCHEMA_BYTES_MAX} bytes");
                return Err(wrong("schema", text));
            }
            "schema" => {
                let schema = SchemaSpec::parse(value.text());
                self.schema = Some(schema.map_err(|bad| wrong("schema", format!("is no {bad}")))?);
            }
            "removal" if value.is_null() => self.removal = None,
            "removal" => {
                let text = value.as_text().unwrap_or_default();
                let removal = Removal::parse(&text).map_err(|bad| wrong("removal", bad))?;
                self.removal = Some(Arc::new(removal));
            }
            "presence" => self.presence = truth("presence", value)?,
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    fn set_history(&mut self, value: Json<'_>) -> Result<(), SpecError> {
        let problem = || {
            let text = "is a number of messages, or {\"count\": 100, \"age\": \"10m\"}";
            wrong("history", text.into())
        };
        if let Some(count) = value.as_unsigned() {
            self.history.count = u32::try_from(count).map_err(|_| problem())?;
            return Ok(());
        }
        for (name, value) in value.fields() {
            match name.as_text().as_deref() {
                Some("count") => {
                    let count = value.as_unsigned().and_then(|count| u32::try_from(count).ok());
                    self.history.count = count.ok_or_else(problem)?;
                }
                Some("age") => self.history.age = span("history", value)?,
                _ => return Err(problem()),
            }
        }
        if value.kind() == tiderace_value::JsonKind::Object { Ok(()) } else { Err(problem()) }
    }

    /// Everything that was chosen, as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(320);
        let text = format!(
            r#"{{"type":"{}","series":{},"retain":{},"history":{{"count":{},"age":{}}},"persistent":{},"deltas":{},"slow_consumer":"{}","grace":{},"conflation":"{}","interval":{},"priority":"{}","owner":"#,
            self.value.name(),
            self.series,
            self.retain,
            self.history.count,
            self.history.age.as_millis(),
            self.persistent,
            self.deltas,
            self.slow_consumer.name(),
            self.grace.as_millis(),
            if self.conflation.merge { "merge" } else { "latest" },
            self.conflation.interval.as_millis(),
            self.priority.name(),
        );
        out.extend_from_slice(text.as_bytes());
        match &self.owner {
            Some(owner) => append_text(&mut out, owner),
            None => out.extend_from_slice(b"null"),
        }
        if let Some(removal) = &self.removal {
            out.extend_from_slice(b",\"removal\":");
            append_text(&mut out, &removal.to_text());
        }
        if let Some(schema) = &self.schema {
            out.extend_from_slice(b",\"schema\":");
            out.extend_from_slice(schema.text().as_bytes());
        }
        out.extend_from_slice(format!(r#","presence":{}}}"#, self.presence).as_bytes());
        out
    }
}

fn wrong(name: &'static str, problem: String) -> SpecError {
    SpecError::Value { name, problem }
}

fn unknown(name: &str) -> SpecError {
    let like = |known: &&str| {
        let common = known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        common >= 3 || known.contains(name) && !name.is_empty()
    };
    let advice = match NAMES.iter().find(|known| like(known)) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known are {}", NAMES.join(", ")),
    };
    let name = name.chars().take(64).collect();
    SpecError::Unknown { name, advice }
}

fn truth(name: &'static str, value: Json<'_>) -> Result<bool, SpecError> {
    value.as_bool().ok_or_else(|| wrong(name, "is true or false".into()))
}

fn choice<T: Copy>(
    name: &'static str,
    value: Json<'_>,
    all: &[(&'static str, T)],
) -> Result<T, SpecError> {
    let text = value.as_text().unwrap_or_default();
    let found = all.iter().find(|(known, _)| *known == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        wrong(name, format!("is one of {}", known.join(", ")))
    })
}

/// A span of time: milliseconds, or a number with a unit such as `"10m"`.
fn span(name: &'static str, value: Json<'_>) -> Result<Span, SpecError> {
    let problem = || {
        let text = "is a span of at most a year: milliseconds, or text such as \"250ms\", \"10s\", \"5m\", \"2h\", \"7d\"";
        wrong(name, text.into())
    };
    span_of(value).filter(|span| *span <= SPAN_MAX).ok_or_else(problem)
}

/// A span of time in JSON: milliseconds, or text such as `"10s"`.
pub fn span_of(value: Json<'_>) -> Option<Span> {
    match value.as_unsigned() {
        Some(millis) => Some(Span::from_millis(millis)),
        None => value.as_text().and_then(|text| parse_span(&text)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<TopicSpec, String> {
        TopicSpec::parse(text.as_bytes(), &TopicSpec::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_named_is_as_it_was() {
        let base = TopicSpec { retain: true, ..TopicSpec::default() };
        let spec = TopicSpec::parse(br#"{"type":"json","grace":"5s"}"#, &base).unwrap();
        let wanted = TopicSpec { value: ValueType::Json, grace: Span::from_secs(5), ..base };
        assert_eq!(spec, wanted);
        assert!(parse(r#"{"type":"timeseries"}"#).unwrap().series);
        assert_eq!(parse(r#"{"history":7}"#).unwrap().history.count, 7);
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        let rows = [
            ("[]", "an object"),
            ("{", "not JSON"),
            (r#"{"retian":true}"#, "did you mean `retain`?"),
            (r#"{"x":true}"#, "known are type, series"),
            (r#"{"type":"text"}"#, "one of any, json, string"),
            (r#"{"retain":1}"#, "is true or false"),
            (r#"{"grace":"5 weeks"}"#, "such as \"250ms\""),
            (r#"{"grace":"99999999d"}"#, "at most a year"),
            (r#"{"history":-1}"#, "number of messages"),
            (r#"{"history":{"size":1}}"#, "number of messages"),
            (r#"{"owner":7}"#, "name of a principal"),
            (r#"{"removal":"soon"}"#, "known are `no subscribers for 10m`"),
            (r#"{"schema":{"typ":"x"}}"#, "keyword `typ` is not supported"),
        ];
        for (text, part) in rows {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            value in 0..6usize, flags in any::<[bool; 6]>(), count: u32, age in 0..1_000_000u64,
            policy in 0..5usize, grace in 0..1_000_000u64, interval in 0..100_000u64,
            priority in 0..3usize, owner in proptest::option::of(".{0,12}"),
        ) {
            let spec = TopicSpec {
                value: ValueType::ALL[value].1,
                series: flags[0],
                retain: flags[1],
                history: crate::HistorySpec { count, age: Span::from_millis(age) },
                persistent: flags[2],
                deltas: flags[3],
                slow_consumer: SlowConsumer::ALL[policy].1,
                grace: Span::from_millis(grace),
                conflation: crate::Conflation { merge: flags[4], interval: Span::from_millis(interval) },
                priority: Priority::ALL[priority].1,
                owner: owner.map(|owner| owner.as_str().into()),
                presence: flags[5],
                schema: flags[0].then(|| crate::SchemaSpec::parse(r#"{"type":"object"}"#).unwrap()),
                removal: flags[1].then(|| Arc::new(Removal::parse("after 7d").unwrap())),
            };
            let text = spec.to_json();
            prop_assert_eq!(TopicSpec::parse(&text, &TopicSpec::default()).unwrap(), spec);
        }
    }
}
