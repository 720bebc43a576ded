//! Operations that one node passes on to another: their text, which [`Operation::parse`] reads as the same, and what the
//! answer says.
//!
//! Relies on the text form in `read.rs`. Invariant: an operation that is read back does what the first would have done,
//! whatever the bytes of its value are.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tiderace_value::{Json, JsonKind, append_text};

use super::relayed_queue;
use super::{Change, Comparison, Condition, NewValue, Operation, OperationResult, Update};
use crate::properties;

/// How deeply an answer may be nested.
const DEPTH_MAX: usize = 8;

impl Operation {
    /// Whether it changes topics, or looks at a queue or changes it, and depends on nothing that its session holds, so that
    /// one node may pass it on to another.
    pub fn is_relayed(&self) -> bool {
        match self {
            Operation::Create { .. } | Operation::Remove { .. } | Operation::Amend { .. } => true,
            Operation::Purge { .. } | Operation::Move(_) | Operation::PauseQueue { .. } => true,
            Operation::Update(update) => !update.condition.as_ref().is_some_and(is_of_session),
            _ => false,
        }
    }

    /// Appends the text of an operation that [`Operation::is_relayed`]; the bytes that go beside it, if any. Absent: the
    /// operation is of another kind.
    pub fn write_json<'a>(&'a self, out: &mut Vec<u8>) -> Option<Option<&'a [u8]>> {
        match self {
            Operation::Create { path, spec, value } => {
                begin(out, "create", "path", path.as_str());
                member_of(out, "spec", spec);
                let body = value.as_ref().map(|value| write_value(out, value));
                out.push(b'}');
                Some(body)
            }
            Operation::Remove { selector } => {
                out.extend_from_slice(br#"{"do":"remove","selector":["#);
                for (place, pattern) in selector.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    append_text(out, pattern.as_str());
                }
                out.extend_from_slice(b"]}");
                Some(None)
            }
            Operation::Update(update) => {
                let mut text = Vec::new();
                let body = write_update(&mut text, update)?;
                out.extend_from_slice(&text);
                Some(body)
            }
            Operation::Amend { path, version, value } => {
                begin(out, "amend", "path", path.as_str());
                out.extend_from_slice(format!(r#","version":{version}"#).as_bytes());
                let body = write_value(out, value);
                out.push(b'}');
                Some(Some(body))
            }
            operation => relayed_queue::write(out, operation).then_some(None),
        }
    }
}

impl OperationResult {
    /// What the answer to an operation says that [`Operation::write_json`] writes; absent if it says nothing of the kind.
    pub fn parse(text: &[u8]) -> Option<OperationResult> {
        let json = Json::parse(text, DEPTH_MAX).ok()?;
        let number = |name: &str| json.field(name).and_then(Json::as_unsigned);
        if let Some(existed) = json.field("existed").and_then(Json::as_bool) {
            return Some(OperationResult::Created { existed });
        }
        if let Some(topics) = number("topics") {
            return Some(OperationResult::Removed { topics });
        }
        if let Some(version) = number("version") {
            return Some(OperationResult::Updated { version });
        }
        if let Some(result) = relayed_queue::read(json) {
            return Some(result);
        }
        let is_empty = json.kind() == JsonKind::Object && json.fields().next().is_none();
        is_empty.then_some(OperationResult::Done)
    }
}

fn begin(out: &mut Vec<u8>, what: &str, name: &str, path: &str) {
    out.extend_from_slice(format!(r#"{{"do":"{what}","{name}":"#).as_bytes());
    append_text(out, path);
}

/// A member whose value is JSON already; none for no text.
fn member_of(out: &mut Vec<u8>, name: &str, json: &[u8]) {
    if !json.is_empty() {
        out.extend_from_slice(format!(r#","{name}":"#).as_bytes());
        out.extend_from_slice(json);
    }
}

/// The properties of a value; its body goes beside the text.
fn write_value<'a>(out: &mut Vec<u8>, value: &'a NewValue) -> &'a [u8] {
    write_properties(out, &value.properties);
    &value.body
}

/// `type` and `properties`. Of equal names the first counts, as everywhere.
fn write_properties(out: &mut Vec<u8>, block: &[u8]) {
    const TYPE: &str = "content-type";
    if let Some(kind) = properties::find(block, TYPE) {
        out.extend_from_slice(br#","type":"#);
        append_text(out, &kind);
    }
    out.extend_from_slice(br#","properties":{"#);
    let mut known = std::collections::BTreeSet::new();
    for (name, value) in properties::raw(block) {
        let name = properties::decode(name);
        if name.eq_ignore_ascii_case(TYPE) || known.contains(&name) {
            continue;
        }
        if !known.is_empty() {
            out.push(b',');
        }
        append_text(out, &name);
        out.push(b':');
        append_text(out, &properties::decode(value));
        known.insert(name);
    }
    out.push(b'}');
}

fn write_update<'a>(out: &mut Vec<u8>, update: &'a Update) -> Option<Option<&'a [u8]>> {
    begin(out, "update", "path", update.path.as_str());
    let beside: Option<&[u8]> = match &update.change {
        Change::Value(bytes) => Some(bytes),
        Change::Delta { codec, base, delta } => {
            let text = format!(r#","delta":{{"codec":{codec},"base":{base}}}"#);
            out.extend_from_slice(text.as_bytes());
            Some(delta)
        }
        Change::Patch(json) => {
            member_of(out, "patch", json);
            None
        }
        Change::Merge(json) => {
            member_of(out, "merge", json);
            None
        }
    };
    if let Some(block) = &update.properties {
        write_properties(out, block);
    }
    if let Some(condition) = &update.condition {
        out.extend_from_slice(br#","if":"#);
        write_condition(out, condition)?;
    }
    if let Some(spec) = &update.spec {
        member_of(out, "spec", spec);
    }
    out.push(b'}');
    Some(beside)
}

/// Whether only its own session can fulfil a condition.
fn is_of_session(condition: &Condition) -> bool {
    match condition {
        Condition::Locked(_) => true,
        Condition::All(parts) | Condition::Any(parts) => parts.iter().any(is_of_session),
        _ => false,
    }
}

/// Absent for a condition that only its own session can fulfil.
fn write_condition(out: &mut Vec<u8>, condition: &Condition) -> Option<()> {
    match condition {
        Condition::Absent => out.extend_from_slice(br#"{"absent":true}"#),
        Condition::Present => out.extend_from_slice(br#"{"present":true}"#),
        Condition::Version(version) => {
            out.extend_from_slice(format!(r#"{{"version":{version}}}"#).as_bytes());
        }
        Condition::Value(bytes) => {
            let text = format!(r#"{{"base64":"{}"}}"#, STANDARD.encode(bytes));
            out.extend_from_slice(text.as_bytes());
        }
        Condition::Place { pointer, comparison, value } => {
            let named = Comparison::ALL.iter().find(|(_, known)| known == comparison);
            let (name, _) = named?;
            out.extend_from_slice(br#"{"at":"#);
            append_text(out, pointer);
            out.extend_from_slice(format!(r#","{name}":"#).as_bytes());
            out.extend_from_slice(value);
            out.push(b'}');
        }
        Condition::All(parts) => write_conditions(out, "all", parts)?,
        Condition::Any(parts) => write_conditions(out, "any", parts)?,
        Condition::Locked(_) => return None,
    }
    Some(())
}

fn write_conditions(out: &mut Vec<u8>, name: &str, parts: &[Condition]) -> Option<()> {
    out.extend_from_slice(format!(r#"{{"{name}":["#).as_bytes());
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_condition(out, part)?;
    }
    out.extend_from_slice(b"]}");
    Some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Flags, Reading, parse_path, parse_selector};
    use proptest::prelude::*;
    use tiderace_base::Time;

    fn read(text: &[u8], body: Option<&[u8]>) -> Operation {
        let reading = Reading {
            body,
            now: Time::ZERO,
            path: &|text| parse_path(text, None),
            selector: &|text| Ok(parse_selector(text, None)?.patterns().to_vec()),
        };
        Operation::parse(text, &reading).unwrap()
    }

    fn again(operation: &Operation) -> Operation {
        assert!(operation.is_relayed());
        let mut text = Vec::new();
        let body = operation.write_json(&mut text).unwrap();
        read(&text, body)
    }

    fn block() -> impl Strategy<Value = Vec<u8>> {
        let rows = proptest::collection::vec(("[a-z:\\\\\n]{1,6}", ".{0,9}"), 0..4);
        (rows, any::<bool>()).prop_map(|(rows, typed)| {
            let mut block = Vec::new();
            if typed {
                properties::append(&mut block, "content-type", "text/x");
            }
            for (name, value) in rows {
                if properties::find(&block, &name).is_none() {
                    properties::append(&mut block, &name, &value);
                }
            }
            block
        })
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let leaf = prop_oneof![
            Just(Condition::Absent),
            Just(Condition::Present),
            any::<u64>().prop_map(Condition::Version),
            proptest::collection::vec(any::<u8>(), 0..9)
                .prop_map(|bytes| Condition::Value(bytes.into())),
            ("/[a-z~\"]{0,5}", 0..Comparison::ALL.len(), any::<u8>()).prop_map(
                |(pointer, at, number)| {
                    let (_, comparison) = Comparison::ALL.into_iter().nth(at).unwrap();
                    let value = number.to_string().into_bytes().into();
                    Condition::Place { pointer: pointer.into(), comparison, value }
                }
            ),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            let parts = proptest::collection::vec(inner, 1..4);
            prop_oneof![parts.clone().prop_map(Condition::All), parts.prop_map(Condition::Any),]
        })
    }

    proptest! {
        #[test]
        fn an_update_is_read_back(
            body in proptest::collection::vec(any::<u8>(), 0..20),
            block in block(),
            way in 0usize..4,
            condition in proptest::option::of(condition()),
            with_spec in any::<bool>(),
            base in any::<u64>(),
        ) {
            let json: Box<[u8]> = br#"{"a":1}"#[..].into();
            let change = match way {
                0 => Change::Value(body.clone().into()),
                1 => Change::Delta { codec: 1, base, delta: body.clone().into() },
                2 => Change::Patch(br#"[{"op":"remove","path":"/a"}]"#[..].into()),
                _ => Change::Merge(json),
            };
            let path = parse_path("a/\u{e4}/b", None).unwrap();
            let spec = with_spec.then(|| br#"{"retain":true}"#[..].into());
            // Without properties a plain value has the empty ones.
            let properties = Some(block.clone().into());
            let update = Update { path, change, properties, flags: Flags::NONE, condition, spec };
            let operation = Operation::Update(Box::new(update));
            let read = again(&operation);
            let (Operation::Update(known), Operation::Update(read)) = (&operation, &read) else {
                panic!("{read:?}");
            };
            prop_assert_eq!(&known.path, &read.path);
            prop_assert_eq!(&known.change, &read.change);
            prop_assert_eq!(&known.properties, &read.properties);
            prop_assert_eq!(&known.condition, &read.condition);
            prop_assert_eq!(&known.spec, &read.spec);
        }

        #[test]
        fn a_creation_is_read_back(
            body in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
            block in block(),
        ) {
            let path = parse_path("a/b", None).unwrap();
            let value = body.map(|body| NewValue { properties: block.into(), body: body.into() });
            let spec: Box<[u8]> = br#"{"type":"json"}"#[..].into();
            let created = Operation::Create { path: path.clone(), spec: spec.clone(), value: value.clone() };
            match again(&created) {
                Operation::Create { path: p, spec: s, value: v } => {
                    prop_assert_eq!((p, s, v), (path, spec, value));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_belongs_to_a_session_is_not_passed_on() {
        let locked = br#"{"do":"update","path":"a","value":1,"if":{"all":[{"present":true},{"locked":"l"}]}}"#;
        let lock = br#"{"do":"lock","name":"l"}"#;
        for text in [&locked[..], &lock[..], br#"{"do":"session"}"#] {
            let mut out = Vec::new();
            let operation = read(text, None);
            assert!(operation.write_json(&mut out).is_none() && out.is_empty());
            assert!(!operation.is_relayed());
        }
    }

    #[test]
    fn removals_and_amendments_are_read_back() {
        let text = br#"{"do":"remove","selector":["a/**","b/\"c"]}"#;
        match again(&read(text, None)) {
            Operation::Remove { selector } => {
                let names: Vec<&str> = selector.iter().map(|pattern| pattern.as_str()).collect();
                assert_eq!(names, ["a/**", "b/\"c"]);
            }
            other => panic!("{other:?}"),
        }
        let text = br#"{"do":"amend","path":"a","version":7,"text":"x"}"#;
        match again(&read(text, None)) {
            Operation::Amend { version: 7, value, .. } => {
                assert_eq!(&*value.properties, b"content-type:text/plain\n");
                assert_eq!(&*value.body, b"x");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_are_read() {
        let all = [
            OperationResult::Done,
            OperationResult::Created { existed: true },
            OperationResult::Removed { topics: 3 },
            OperationResult::Updated { version: u64::MAX },
        ];
        for known in all {
            let mut text = Vec::new();
            known.write_json(&mut text, false);
            let read = OperationResult::parse(&text).unwrap();
            assert_eq!(format!("{read:?}"), format!("{known:?}"));
        }
        for text in [&b"{\"topics\":[]}"[..], b"[", b"[1]", b"1", b"{\"version\":-1}"] {
            assert!(OperationResult::parse(text).is_none());
        }
    }
}
