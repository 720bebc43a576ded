//! What must hold for any bytes: no panic, and a value taken apart is the value. Shared by the fuzz
//! target and by the test that replays the corpus.
#![allow(dead_code)]

use tiderace_value::schema::Schema;
use tiderace_value::{Json, JsonKind, Limits, Patch, Pointer, append_text, edit, equal, merge};

/// Limits that inputs of fuzzing can reach.
const LIMITS: Limits = Limits { bytes_max: 4096, depth_max: 24, steps_max: 20_000 };

/// Checks bytes as JSON, and takes them apart if they are.
pub(crate) fn json(data: &[u8]) {
    let Ok(value) = Json::parse(data, 32) else { return };
    let mut again = Vec::new();
    rebuild(value, &mut again);
    let copy = Json::parse(&again, 32).expect("what is rebuilt is JSON");
    let mut twice = Vec::new();
    rebuild(copy, &mut twice);
    assert_eq!(again, twice);
    let (mut one_pass, mut one_by_one) = (Vec::new(), Vec::new());
    value.all_objects(NAMES, |found| {
        one_pass.push(found);
        true
    });
    objects(value, &mut one_by_one);
    assert_eq!(one_pass, one_by_one);
}

/// The fields of all objects, in the order in which the objects end.
fn objects<'a>(value: Json<'a>, out: &mut Vec<[Option<Json<'a>>; NAMES.len()]>) {
    value.elements().for_each(|element| objects(element, out));
    value.fields().for_each(|(_, field)| objects(field, out));
    if value.kind() == JsonKind::Object {
        out.push(NAMES.map(|name| value.field(name)));
    }
}

const NAMES: [&str; 2] = ["a", "num"];

/// Writes a value without white space, out of its parts.
pub(crate) fn rebuild(value: Json<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        JsonKind::Array => {
            out.push(b'[');
            for (index, element) in value.elements().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                rebuild(element, out);
            }
            out.push(b']');
        }
        JsonKind::Object => {
            out.push(b'{');
            for (index, (name, field)) in value.fields().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                append_text(out, &name.as_text().expect("names are texts"));
                out.push(b':');
                rebuild(field, out);
            }
            out.push(b'}');
        }
        JsonKind::Text => append_text(out, &value.as_text().expect("a text")),
        JsonKind::Null | JsonKind::Bool | JsonKind::Number => {
            out.extend_from_slice(value.text().as_bytes());
        }
    }
}

/// The lines of an input; what is missing is empty.
fn lines<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut lines = data.splitn(N, |byte| *byte == b'\n');
    [(); N].map(|()| lines.next().unwrap_or_default())
}

fn parsed(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes(), tiderace_value::DEPTH_MAX).expect("what is made is JSON")
}

/// A pointer and a value: what is set there is found there, and what is removed is not.
pub(crate) fn pointer(data: &[u8]) {
    let [pointer, value] = lines(data);
    let Ok(Ok(pointer)) = std::str::from_utf8(pointer).map(Pointer::parse) else { return };
    assert_eq!(Pointer::parse(pointer.as_str()).as_ref(), Ok(&pointer));
    let Ok(value) = Json::parse(value, 24) else { return };
    let new = parsed("[\"new\"]");
    if let Ok(text) = edit::set(value, &pointer, new) {
        assert_eq!(pointer.resolve(parsed(&text)), Some(new));
    }
    if let Ok(text) = edit::insert(value, &pointer, new) {
        let found = pointer.resolve(parsed(&text));
        assert!(found == Some(new) || pointer.as_str().ends_with("/-"));
    }
    if let Ok(text) = edit::remove(value, &pointer) {
        assert!(pointer.resolve(value).is_some());
        assert!(text.len() < value.text().len());
        parsed(&text);
    }
}

/// A value and a patch: the result is JSON within the limits.
pub(crate) fn patch(data: &[u8]) {
    let [value, patch] = lines(data);
    let (Ok(value), Ok(patch)) = (Json::parse(value, 24), Patch::parse(patch)) else { return };
    match patch.apply(value, LIMITS) {
        Ok(text) => {
            assert!(text.len() <= LIMITS.bytes_max || patch.is_empty());
            assert!(Json::parse(text.as_bytes(), LIMITS.depth_max).is_ok());
        }
        Err(error) => assert!(error.operation.is_none_or(|number| number < patch.len())),
    }
}

/// A value and two merge patches: both at once do what they do one after the other.
pub(crate) fn merge(data: &[u8]) {
    let [value, first, second] = lines(data);
    let (Ok(value), Ok(first)) = (Json::parse(value, 24), Json::parse(first, 24)) else { return };
    let Ok(once) = merge::apply(value, first, LIMITS) else { return };
    assert!(once.len() <= LIMITS.bytes_max);
    if let Ok(twice) = merge::apply(parsed(&once), first, LIMITS) {
        assert!(equal(parsed(&once), parsed(&twice)));
    }
    for depth in [merge::MergeDepth::Top, merge::MergeDepth::All] {
        let _ = merge::fields(value, first, depth, LIMITS).map(|text| parsed(&text).kind());
    }
    let Ok(second) = Json::parse(second, 24) else { return };
    let Ok(apart) = merge::apply(parsed(&once), second, LIMITS) else { return };
    if let Ok(Some(both)) = merge::compose(first, second, LIMITS)
        && let Ok(together) = merge::apply(value, parsed(&both), LIMITS)
    {
        assert!(equal(parsed(&apart), parsed(&together)));
    }
}

/// A schema and a value: compiling and checking end, and agree with the schema's opposite.
pub(crate) fn schema(data: &[u8]) {
    let [text, value] = lines(data);
    let Ok(schema) = Schema::parse(text) else { return };
    let Ok(value) = Json::parse(value, 24) else { return };
    let verdict = schema.check(value, LIMITS.steps_max);
    assert_eq!(verdict, schema.check(value, LIMITS.steps_max));
    if let Err(error) = verdict {
        assert!(!error.to_string().is_empty());
    }
}
