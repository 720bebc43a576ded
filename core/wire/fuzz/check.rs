//! What must hold for any bytes taken as an operation, a specification, a position, a ticket, or
//! properties.

use tiderace_base::{Close, CloseCode, Time};
use tiderace_topics::{Path, Selector};
use tiderace_wire::{
    Operation, Position, Reading, Removal, Ticket, TopicSpec, TraceParent, properties,
};

/// An operation as JSON, and behind a zero byte the value beside it.
pub(crate) fn operation(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (text, body) = (parts.next().unwrap_or_default(), parts.next());
    let refused = |reason: String| Close::new(CloseCode::BadRequest, reason);
    let path = |text: &str| Path::parse(text).map_err(|error| refused(error.to_string()));
    let selector = |text: &str| match Selector::parse(text) {
        Ok(selector) => Ok(selector.patterns().to_vec()),
        Err(error) => Err(refused(error.to_string())),
    };
    let reading = Reading { body, now: Time::ZERO, path: &path, selector: &selector };
    match Operation::parse(text, &reading) {
        Ok(operation) => {
            // Nothing in it is larger than what was sent, but for what each part costs.
            assert!(operation.bytes() <= data.len() * 64 + 4096, "{operation:?}");
            assert!(!format!("{operation:?}").is_empty());
        }
        // What is wrong is said in a sentence that does not repeat everything.
        Err(close) => assert!(!close.reason.is_empty() && close.reason.len() < 2048, "{close:?}"),
    }
}

/// A specification as JSON.
pub(crate) fn spec(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(removal) = Removal::parse(text)
    {
        assert_eq!(Removal::parse(&removal.to_text()), Ok(removal));
    }
    let base = TopicSpec::default();
    match TopicSpec::parse(data, &base) {
        Ok(spec) => {
            let again = TopicSpec::parse(&spec.to_json(), &TopicSpec::default());
            assert_eq!(again.as_ref(), Ok(&spec));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What clients bring back as text, and properties in their neutral form.
pub(crate) fn texts(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        if let Some(position) = Position::decode(text) {
            assert_eq!(Position::decode(&position.encode()), Some(position));
        }
        if let Some(ticket) = Ticket::decode(text) {
            assert_eq!(Ticket::decode(&ticket.encode()), Some(ticket));
        }
    }
    if let Some((position, rest)) = Position::read(data) {
        assert!(rest.len() < data.len());
        let mut bytes = Vec::new();
        position.write(&mut bytes);
        assert_eq!(Position::read(&bytes), Some((position, &[][..])));
    }
    let mut block = Vec::new();
    let mut first: Vec<(String, String)> = Vec::new();
    for (name, value) in properties::raw(data) {
        let (name, value) = (properties::decode(name), properties::decode(value));
        properties::append(&mut block, &name, &value);
        if !first.iter().any(|(known, _)| *known == name) {
            first.push((name.into_owned(), value.into_owned()));
        }
    }
    for (name, value) in first {
        assert_eq!(properties::find(&block, &name).as_deref(), Some(value.as_str()));
    }
}

/// What a client says of the trace that its message is a part of, alone and among properties.
pub(crate) fn traceparent(data: &[u8]) {
    if let Some(parent) = TraceParent::parse(data) {
        let text = parent.to_string();
        assert_eq!(TraceParent::parse(text.as_bytes()), Some(parent));
        assert_eq!(text.as_bytes().get(3..52), data.get(3..52));
        assert!(data.get(..2) != Some(b"ff"));
    }
    let found = TraceParent::of(data);
    let named = |(name, _): &(&[u8], &[u8])| *name == b"traceparent";
    assert_eq!(found, properties::raw(data).find(named).and_then(|it| TraceParent::parse(it.1)));
}
