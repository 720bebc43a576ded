//! What must hold for any bytes: no panic, and a value taken apart is the value. Shared by the fuzz
//! target and by the test that replays the corpus.
#![allow(dead_code)]

use tiderace_value::{Json, JsonKind, append_text};

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
