//! Looks into a valid value: the elements of an array, the fields of an object.
//!
//! Relies on the text being valid. Invariant: each step takes time linear in what it passes over,
//! and a step never ends before a value does, however deep the value is.

use crate::Json;
use crate::scan::space;

/// The values of an array.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    text: &'a str,
    at: usize,
}

/// The names and values of an object.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Json<'a> {
    /// The values of an array in order; nothing of any other value.
    pub fn elements(self) -> Elements<'a> {
        Elements::of(self.text())
    }

    /// The names and values of an object in order; nothing of any other value.
    pub fn fields(self) -> Fields<'a> {
        Fields::of(self.text())
    }

    /// The value of that name; of equal names the last counts, as in JavaScript.
    pub fn field(self, name: &str) -> Option<Json<'a>> {
        self.fields().filter(|(known, _)| known.is_text(name)).last().map(|(_, value)| value)
    }
}

impl<'a> Elements<'a> {
    fn of(text: &'a str) -> Elements<'a> {
        Elements { text, at: inside(text, b'[') }
    }

    /// What has not been given yet, as it was written: elements joined by commas, and the bracket.
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        take(self.text, &mut self.at)
    }
}

impl<'a> Fields<'a> {
    fn of(text: &'a str) -> Fields<'a> {
        Fields { text, at: inside(text, b'{') }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Json<'a>, Json<'a>);

    fn next(&mut self) -> Option<(Json<'a>, Json<'a>)> {
        let name = take(self.text, &mut self.at)?;
        Some((name, take(self.text, &mut self.at)?))
    }
}

/// Where the inside of a value with that bracket begins; its end if it has another.
fn inside(text: &str, bracket: u8) -> usize {
    if text.as_bytes().first() == Some(&bracket) { 1 } else { text.len() }
}

/// Takes a value and the comma or colon behind it.
fn take<'a>(text: &'a str, at: &mut usize) -> Option<Json<'a>> {
    let bytes = text.as_bytes();
    let start = space(bytes, *at);
    if matches!(bytes.get(start), None | Some(b']' | b'}')) {
        *at = bytes.len();
        return None;
    }
    let end = pass(bytes, start);
    let after = space(bytes, end);
    *at = if matches!(bytes.get(after), Some(b',' | b':')) { after + 1 } else { after };
    text.get(start..end).map(Json::known)
}

/// The end of the valid value at `start`.
pub(crate) fn pass(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0usize;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = pass_string(bytes, at),
            b'[' | b'{' => {
                depth += 1;
                at += 1;
                continue;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => {
                at += 1;
                continue;
            }
            _ => {
                let rest = bytes.get(at..).unwrap_or_default();
                at += rest.iter().take_while(|byte| is_bare(**byte)).count().max(1);
            }
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The place behind the string at `start`.
pub(crate) fn pass_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(rest) = bytes.get(at..) {
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(found) if rest.get(found) == Some(&b'"') => return at + found + 1,
            Some(found) => at += found + 2,
            None => break,
        }
    }
    bytes.len()
}

/// A byte of a number or of a word.
pub(crate) fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}
