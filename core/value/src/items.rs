//! The items of an array or object with all that stands around them.
//!
//! Relies on the text being valid. Invariant: the brackets, the items and a comma between each two
//! of them are the whole text, byte for byte.

use std::ops::Range;

use crate::Json;
use crate::look::pass;
use crate::scan::space;

/// An element of an array or a field of an object, by its places in the text of its container.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// From behind the bracket or comma before it to the bracket or comma behind it.
    pub(crate) whole: Range<usize>,
    /// The name with its quotes; empty in an array.
    pub(crate) name: Range<usize>,
    /// The value.
    pub(crate) value: Range<usize>,
}

impl Item {
    /// Whether it is the field of that name.
    pub(crate) fn is_named(&self, text: &str, name: &str) -> bool {
        Json::known(slice(text, self.name.clone())).is_text(name)
    }
}

/// The items of a container in order; none of any other value.
#[derive(Clone, Debug)]
pub(crate) struct Items<'a> {
    text: &'a str,
    at: usize,
    object: bool,
}

impl<'a> Items<'a> {
    pub(crate) fn of(text: &'a str) -> Items<'a> {
        let object = text.starts_with('{');
        let at = if object || text.starts_with('[') { 1 } else { text.len() };
        Items { text, at, object }
    }
}

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let first = space(bytes, start);
        if matches!(bytes.get(first), None | Some(b']' | b'}')) {
            self.at = bytes.len();
            return None;
        }
        let (name, value_at) = if self.object {
            let name_end = pass(bytes, first);
            let colon = space(bytes, name_end);
            (first..name_end, space(bytes, colon + 1))
        } else {
            (first..first, first)
        };
        let value_end = pass(bytes, value_at);
        let end = space(bytes, value_end);
        self.at = end + 1;
        Some(Item { whole: start..end, name, value: value_at..value_end })
    }
}

/// A part of a text; nothing if the places are none of it.
pub(crate) fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_commas_are_the_whole_text() {
        for text in ["[ 1 , [2] ,\"]\" ]", "{ \"a\" : 1 ,\"b\":{ \"c\":[ ] }\n}", "[1]", "{\"\":0}"]
        {
            let parts: Vec<&str> = Items::of(text).map(|item| slice(text, item.whole)).collect();
            assert_eq!(slice(text, 1..text.len() - 1), parts.join(","));
        }
        for text in ["[]", "{ }", "1", "\"[1]\"", "null"] {
            assert_eq!(Items::of(text).count(), 0, "{text}");
        }
    }

    #[test]
    fn names_and_values_are_found() {
        let text = "{ \"a\" : 1 ,\"\\u0062\":[ 2, 3 ]}";
        let items: Vec<Item> = Items::of(text).collect();
        assert!(items[0].is_named(text, "a") && items[1].is_named(text, "b"));
        assert_eq!(slice(text, items[0].value.clone()), "1");
        assert_eq!(slice(text, items[1].value.clone()), "[ 2, 3 ]");
    }
}
