//! Asks all objects of a value, however deep, in one pass.
//!
//! Relies on the text being valid. Invariant: time linear in the text, whatever the nesting, and
//! memory in proportion to the nesting; nothing recurses.

use crate::Json;
use crate::look::{is_bare, pass_string};

impl<'a> Json<'a> {
    /// Whether the test holds for every object in it, itself included: it is given the values of
    /// those names. Takes one pass, whatever the nesting, and asks in the order in which the objects
    /// end.
    pub fn all_objects<const N: usize>(
        self,
        names: [&str; N],
        test: impl FnMut([Option<Json<'a>>; N]) -> bool,
    ) -> bool {
        all(self.text(), names, test)
    }
}

/// An open bracket.
struct Open<'a, const N: usize> {
    object: bool,
    /// Whether a string here is a name.
    names: bool,
    /// Which of the names has the value that comes or is open.
    wanted: Option<usize>,
    /// Where the value that is open begins.
    value_at: usize,
    found: [Option<Json<'a>>; N],
}

/// Whether the test holds for the fields of these names of every object in the text, asked in the
/// order in which the objects end. Of equal names the last counts.
fn all<'a, const N: usize>(
    text: &'a str,
    names: [&str; N],
    mut test: impl FnMut([Option<Json<'a>>; N]) -> bool,
) -> bool {
    let bytes = text.as_bytes();
    let mut open: Vec<Open<'a, N>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => {
                at = pass_string(bytes, start);
                let piece = known(text, start, at);
                match open.last_mut() {
                    Some(top) if top.names => {
                        top.wanted = names.iter().position(|name| piece.is_text(name));
                    }
                    top => note(top, piece),
                }
            }
            b'{' | b'[' => {
                if let Some(top) = open.last_mut() {
                    top.value_at = start;
                }
                let object = *byte == b'{';
                let found = [None; N];
                open.push(Open { object, names: object, wanted: None, value_at: start, found });
            }
            b'}' | b']' => {
                if let Some(closed) = open.pop()
                    && closed.object
                    && !test(closed.found)
                {
                    return false;
                }
                if let Some(top) = open.last_mut() {
                    let piece = known(text, top.value_at, at);
                    note(Some(top), piece);
                }
            }
            b':' | b',' => {
                if let Some(top) = open.last_mut() {
                    top.names = top.object && *byte == b',';
                }
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => {
                let rest = bytes.get(at..).unwrap_or_default();
                at += rest.iter().take_while(|byte| is_bare(**byte)).count();
                note(open.last_mut(), known(text, start, at));
            }
        }
    }
    true
}

fn known(text: &str, start: usize, end: usize) -> Json<'_> {
    Json::known(text.get(start..end).unwrap_or_default())
}

/// Keeps a value if it has one of the names.
fn note<'a, const N: usize>(top: Option<&mut Open<'a, N>>, value: Json<'a>) {
    if let Some(top) = top
        && let Some(place) = top.wanted
        && let Some(place) = top.found.get_mut(place)
    {
        *place = Some(value);
    }
}
