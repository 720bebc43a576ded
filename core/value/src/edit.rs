//! One change at one place of a value, by splicing its text.
//!
//! Relies on `items` for places in the text. Invariant: what is not named by the pointer stays as it
//! was written, byte for byte, white space included; the result is one valid value. It may be nested
//! more deeply than its parts were, which the next parse will notice.

use std::borrow::Cow;
use std::ops::Range;

use crate::items::{Item, Items, slice};
use crate::pointer::element_index;
use crate::write::append_text;
use crate::{Json, Pointer};

/// Why there is nothing to change at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Nothing is there.
    #[error("there is nothing at {0:?}")]
    Missing(String),
    /// Something is there that has no parts.
    #[error("what stands at {0:?} is neither an object nor an array")]
    Scalar(String),
    /// The last token cannot name an element.
    #[error("{token:?} is no index of the array at {at:?}: write digits without leading zeros")]
    Index {
        /// The array's place.
        at: String,
        /// What is no index.
        token: String,
    },
    /// The index is greater than the number of elements.
    #[error("the array at {at:?} has {elements} elements; nothing can be inserted at {index}")]
    Beyond {
        /// The array's place.
        at: String,
        /// How many it has.
        elements: usize,
        /// Where something was to be inserted.
        index: usize,
    },
    /// Everything was to be removed.
    #[error("the whole value cannot be removed, only replaced")]
    Root,
}

/// Writes a value to a place: replaces what is there, or adds a field to an object that is there.
/// Elements must exist; [`insert`] makes new ones.
///
/// # Errors
/// If the place is neither there nor a new field of an object.
pub fn set(json: Json<'_>, pointer: &Pointer, value: Json<'_>) -> Result<String, EditError> {
    let Some((parent, token)) = parent(json, pointer)? else { return Ok(value.text().into()) };
    let found = parent.find(&token)?;
    match found {
        Some(item) => Ok(parent.splice(item.value, &[value.text()])),
        None if parent.is_object() => Ok(parent.append_field(&token, value)),
        None => Err(EditError::Missing(pointer.as_str().into())),
    }
}

/// Adds a value, as "add" of RFC 6902 does: before the element of that index, behind the last one
/// with `-`, or as a field, whose former value it replaces.
///
/// # Errors
/// If the parent is missing or has no parts, or the index is no number or too great.
pub fn insert(json: Json<'_>, pointer: &Pointer, value: Json<'_>) -> Result<String, EditError> {
    let Some((parent, token)) = parent(json, pointer)? else { return Ok(value.text().into()) };
    if parent.is_object() {
        return Ok(match parent.find(&token)? {
            Some(item) => parent.splice(item.value, &[value.text()]),
            None => parent.append_field(&token, value),
        });
    }
    let elements = Items::of(parent.inner()).count();
    let index = if token == "-" { elements } else { parent.index(&token)? };
    if index > elements {
        return Err(EditError::Beyond { at: parent.at.into(), elements, index });
    }
    Ok(match parent.items().nth(index) {
        Some(next) => parent.splice(next.whole.start..next.whole.start, &[value.text(), ","]),
        None => parent.append(&[value.text()]),
    })
}

/// Takes away what is at a place.
///
/// # Errors
/// If nothing is there, or it is the whole value.
pub fn remove(json: Json<'_>, pointer: &Pointer) -> Result<String, EditError> {
    let Some((parent, token)) = parent(json, pointer)? else { return Err(EditError::Root) };
    let Some(found) = parent.find(&token)? else {
        return Err(EditError::Missing(pointer.as_str().into()));
    };
    let gone = |item: &Item| {
        let equal = parent.is_object() && item.is_named(parent.text, &token);
        equal || item.whole == found.whole
    };
    let inside = parent.inside();
    let mut out = String::with_capacity(parent.text.len());
    out.push_str(slice(parent.text, 0..inside.start));
    let kept = parent.items().filter(|item| !gone(item));
    for (place, item) in kept.enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push_str(slice(parent.text, item.whole));
    }
    out.push_str(slice(parent.text, inside.end..parent.text.len()));
    Ok(out)
}

/// A container in the text of the whole value.
struct Parent<'a> {
    text: &'a str,
    /// Where the container stands in the text.
    range: Range<usize>,
    /// The pointer to it.
    at: &'a str,
}

/// The container in which the pointer's last token names a part, and the token; nothing for the root.
fn parent<'a>(
    json: Json<'a>,
    pointer: &'a Pointer,
) -> Result<Option<(Parent<'a>, Cow<'a, str>)>, EditError> {
    let text = json.text();
    let mut here: Option<(Parent<'a>, Cow<'a, str>)> = None;
    for (place, token) in pointer.tokens().enumerate() {
        let range = match here {
            None => 0..text.len(),
            Some((parent, token)) => match parent.find(&token)? {
                Some(item) => item.value,
                None => return Err(EditError::Missing(pointer.prefix(place).into())),
            },
        };
        let at = pointer.prefix(place);
        if !slice(text, range.clone()).starts_with(['{', '[']) {
            return Err(EditError::Scalar(at.into()));
        }
        here = Some((Parent { text, range, at }, token));
    }
    Ok(here)
}

impl<'a> Parent<'a> {
    fn inner(&self) -> &'a str {
        slice(self.text, self.range.clone())
    }

    /// The places between its brackets.
    fn inside(&self) -> Range<usize> {
        self.range.start + 1..self.range.end.saturating_sub(1)
    }

    fn is_object(&self) -> bool {
        self.inner().starts_with('{')
    }

    /// Its items, by their places in the whole text.
    fn items(&self) -> impl Iterator<Item = Item> + use<'a> {
        let start = self.range.start;
        let shift = move |range: Range<usize>| range.start + start..range.end + start;
        Items::of(self.inner()).map(move |item| Item {
            whole: shift(item.whole),
            name: shift(item.name),
            value: shift(item.value),
        })
    }

    fn index(&self, token: &str) -> Result<usize, EditError> {
        element_index(token)
            .ok_or_else(|| EditError::Index { at: self.at.into(), token: token.to_owned() })
    }

    /// The item that a token names; of fields with equal names the last.
    fn find(&self, token: &str) -> Result<Option<Item>, EditError> {
        if self.is_object() {
            return Ok(self.items().filter(|item| item.is_named(self.text, token)).last());
        }
        if token == "-" {
            return Ok(None);
        }
        Ok(self.items().nth(self.index(token)?))
    }

    /// The whole text with a part replaced.
    fn splice(&self, range: Range<usize>, new: &[&str]) -> String {
        let added: usize = new.iter().map(|part| part.len()).sum();
        let mut out = String::with_capacity(self.text.len() - range.len() + added);
        out.push_str(slice(self.text, 0..range.start));
        new.iter().for_each(|part| out.push_str(part));
        out.push_str(slice(self.text, range.end..self.text.len()));
        out
    }

    /// The whole text with an item behind the last one.
    fn append(&self, new: &[&str]) -> String {
        let last = self.items().last();
        let (at, comma) = last.map_or((self.inside().start, ""), |item| (item.value.end, ","));
        let parts: Vec<&str> = [comma].iter().chain(new).copied().collect();
        self.splice(at..at, &parts)
    }

    fn append_field(&self, name: &str, value: Json<'_>) -> String {
        self.append(&[&quoted(name), ":", value.text()])
    }
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    append_text(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text.as_bytes(), 16).unwrap()
    }

    fn at(text: &str) -> Pointer {
        Pointer::parse(text).unwrap()
    }

    #[test]
    fn what_is_not_named_keeps_every_byte() {
        let text = "{ \"a\" : [ 1 ,2.50 ],\n \"b\":{ } }";
        for (result, wanted) in [
            (set(json(text), &at("/a/1"), Json::NULL), "{ \"a\" : [ 1 ,null ],\n \"b\":{ } }"),
            (
                set(json(text), &at("/b/~1"), json("0")),
                "{ \"a\" : [ 1 ,2.50 ],\n \"b\":{\"/\":0 } }",
            ),
            (set(json(text), &at("/c"), json("0")), "{ \"a\" : [ 1 ,2.50 ],\n \"b\":{ },\"c\":0 }"),
            (insert(json(text), &at("/a/0"), json("0")), "{ \"a\" : [0, 1 ,2.50 ],\n \"b\":{ } }"),
            (insert(json(text), &at("/a/-"), json("0")), "{ \"a\" : [ 1 ,2.50,0 ],\n \"b\":{ } }"),
            (insert(json(text), &at("/a/2"), json("0")), "{ \"a\" : [ 1 ,2.50,0 ],\n \"b\":{ } }"),
            (insert(json(text), &at("/b"), json("0")), "{ \"a\" : [ 1 ,2.50 ],\n \"b\":0 }"),
            (remove(json(text), &at("/a/0")), "{ \"a\" : [2.50 ],\n \"b\":{ } }"),
            (remove(json(text), &at("/a")), "{\n \"b\":{ } }"),
            (remove(json(text), &at("/b")), "{ \"a\" : [ 1 ,2.50 ]}"),
            (set(json(text), &at(""), json("0")), "0"),
            (insert(json(text), &at(""), json("0")), "0"),
        ] {
            assert_eq!(result.as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn what_cannot_be_changed_is_told_with_its_place() {
        let text = r#"{"a":[1,{"b":2}]}"#;
        let missing = |place: &str| Err(EditError::Missing(place.to_owned()));
        let index =
            |token: &str| Err(EditError::Index { at: "/a".to_owned(), token: token.to_owned() });
        assert_eq!(set(json(text), &at("/a/2"), Json::NULL), missing("/a/2"));
        assert_eq!(set(json(text), &at("/a/-"), Json::NULL), missing("/a/-"));
        assert_eq!(set(json(text), &at("/x/y/z"), Json::NULL), missing("/x"));
        assert_eq!(set(json(text), &at("/a/7/z"), Json::NULL), missing("/a/7"));
        assert_eq!(remove(json(text), &at("/a/1/c")), missing("/a/1/c"));
        assert_eq!(remove(json(text), &at("/a/-")), missing("/a/-"));
        assert_eq!(insert(json(text), &at("/a/01"), Json::NULL), index("01"));
        assert_eq!(set(json(text), &at("/a/x/y"), Json::NULL), index("x"));
        let scalar = Err(EditError::Scalar("/a/0".to_owned()));
        assert_eq!(insert(json(text), &at("/a/0/x"), Json::NULL), scalar);
        let beyond = Err(EditError::Beyond { at: "/a".to_owned(), elements: 2, index: 3 });
        assert_eq!(insert(json(text), &at("/a/3"), Json::NULL), beyond);
        assert_eq!(remove(json(text), &at("")), Err(EditError::Root));
    }

    #[test]
    fn of_equal_names_the_last_is_set_and_all_are_removed() {
        let text = r#"{"a":1,"b":2,"\u0061":3}"#;
        assert_eq!(set(json(text), &at("/a"), json("4")).unwrap(), r#"{"a":1,"b":2,"\u0061":4}"#);
        assert_eq!(remove(json(text), &at("/a")).unwrap(), r#"{"b":2}"#);
        let name = r#"{"\\u0061":1}"#;
        assert_eq!(remove(json(name), &at("/a")), Err(EditError::Missing("/a".to_owned())));
        assert_eq!(remove(json(name), &at("/\\u0061")).unwrap(), "{}");
        let written = r#"{"\u0061":1}"#;
        assert!(remove(json(written), &at("/\\u0061")).is_err());
    }
}
