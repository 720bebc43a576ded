//! Many places of one value, found in one pass over its text.
//!
//! Relies on the text being valid. Invariants: the answers are those of [`Pointer::resolve`] for each
//! pointer by itself; each byte is passed over once, however many pointers there are, and nesting is
//! followed no more deeply than pointers are long.

use std::borrow::Cow;

use crate::items::slice;
use crate::look::{pass, pass_string};
use crate::pointer::element_index;
use crate::scan::space;
use crate::{Json, Pointer};

/// The values at these places, in the order of the pointers; nothing where there is none.
pub fn resolve_all<'a>(json: Json<'a>, pointers: &[Pointer]) -> Vec<Option<Json<'a>>> {
    let tokens: Vec<Vec<Cow<'_, str>>> =
        pointers.iter().map(|pointer| pointer.tokens().collect()).collect();
    let mut wanted: Vec<Wanted<'_>> =
        (0..).zip(&tokens).map(|(at, tokens)| (at, &**tokens)).collect();
    // So those that begin alike stand side by side, the shorter ones first.
    wanted.sort_by(|one, other| one.1.cmp(other.1));
    let mut walk = Walk { text: json.text(), found: vec![None; pointers.len()] };
    walk.value(0, 0, &wanted);
    walk.found
}

/// The number of a pointer, and its tokens.
type Wanted<'t> = (usize, &'t [Cow<'t, str>]);

struct Walk<'a> {
    text: &'a str,
    found: Vec<Option<Json<'a>>>,
}

impl Walk<'_> {
    /// Looks into the value at a place of the text, to which the first tokens of these lead; where it
    /// ends.
    fn value(&mut self, start: usize, depth: usize, wanted: &[Wanted<'_>]) -> usize {
        for (number, _) in wanted {
            // Of equal names the last counts.
            if let Some(found) = self.found.get_mut(*number) {
                *found = None;
            }
        }
        let ended = wanted.partition_point(|(_, tokens)| tokens.len() <= depth);
        let (here, below) = wanted.split_at_checked(ended).unwrap_or_default();
        let end = match self.text.as_bytes().get(start) {
            Some(b'{') if !below.is_empty() => self.object(start + 1, depth, below),
            Some(b'[') if !below.is_empty() => self.array(start + 1, depth, below),
            _ => pass(self.text.as_bytes(), start),
        };
        let value = Json::known(slice(self.text, start..end));
        for (number, _) in here {
            if let Some(found) = self.found.get_mut(*number) {
                *found = Some(value);
            }
        }
        end
    }

    /// The same of the fields of an object, behind its bracket.
    fn object(&mut self, inside: usize, depth: usize, wanted: &[Wanted<'_>]) -> usize {
        let (text, bytes) = (self.text, self.text.as_bytes());
        let mut at = space(bytes, inside);
        while bytes.get(at) == Some(&b'"') {
            let end = pass_string(bytes, at);
            let name = Json::known(slice(text, at..end)).as_text().unwrap_or_default();
            // Behind the colon.
            at = space(bytes, space(bytes, end) + 1);
            let named = group(wanted, depth, &name);
            at = if named.is_empty() { pass(bytes, at) } else { self.value(at, depth + 1, named) };
            at = behind_comma(bytes, at);
        }
        at + 1
    }

    /// The same of the elements of an array.
    fn array(&mut self, inside: usize, depth: usize, wanted: &[Wanted<'_>]) -> usize {
        let bytes = self.text.as_bytes();
        let token =
            |(_, tokens): &Wanted<'_>| tokens.get(depth).and_then(|token| element_index(token));
        let groups = wanted.chunk_by(|one, other| one.1.get(depth) == other.1.get(depth));
        let mut groups: Vec<(usize, &[Wanted<'_>])> =
            groups.filter_map(|group| Some((token(group.first()?)?, group))).collect();
        groups.sort_unstable_by_key(|(index, _)| *index);
        let mut groups = groups.into_iter().peekable();
        let mut at = space(bytes, inside);
        for number in 0usize.. {
            if matches!(bytes.get(at), None | Some(b']')) {
                break;
            }
            at = match groups.next_if(|(index, _)| *index == number) {
                Some((_, group)) => self.value(at, depth + 1, group),
                None => pass(bytes, at),
            };
            at = behind_comma(bytes, at);
        }
        at + 1
    }
}

/// Those whose token there is this.
fn group<'w, 't>(wanted: &'w [Wanted<'t>], depth: usize, token: &str) -> &'w [Wanted<'t>] {
    let of = |wanted: &Wanted<'t>| wanted.1.get(depth).map_or("", |token| &**token).cmp(token);
    let start = wanted.partition_point(|wanted| of(wanted).is_lt());
    let rest = wanted.get(start..).unwrap_or_default();
    let count = rest.partition_point(|wanted| of(wanted).is_eq());
    rest.get(..count).unwrap_or_default()
}

/// Where the next item begins, or the closing bracket stands.
fn behind_comma(bytes: &[u8], at: usize) -> usize {
    let at = space(bytes, at);
    if bytes.get(at) == Some(&b',') { space(bytes, at + 1) } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pointers: &[&str]) {
        let json = Json::parse(text.as_bytes(), 64).unwrap();
        let pointers: Vec<Pointer> =
            pointers.iter().map(|it| Pointer::parse(it).unwrap()).collect();
        let each: Vec<_> = pointers.iter().map(|pointer| pointer.resolve(json)).collect();
        assert_eq!(resolve_all(json, &pointers), each, "{text} {pointers:?}");
    }

    #[test]
    fn all_are_found_as_each_is_by_itself() {
        let text = r#" { "a" : [ {"b":1} , [ ] , "x\"]" ,2.5e1 ], "" :{"": {}}, "a/b":{"~":0},"c":null,
            "d\u0065":[[["deep"]]], "a":[{"b":{"c":[1,2,3]}},"last"] , "n":-1 }"#;
        let pointers = [
            "",
            "/a",
            "/a/0",
            "/a/0/b",
            "/a/0/b/c",
            "/a/0/b/c/2",
            "/a/0/b/c/3",
            "/a/1",
            "/a/2",
            "/a/-",
            "/a/01",
            "/a/1/x",
            "/",
            "//",
            "///",
            "/a~1b/~0",
            "/c",
            "/c/d",
            "/de/0/0/0",
            "/n",
            "/missing",
            "/a",
            "/a/0/b/c/0",
            "/d\\u0065",
        ];
        check(text, &pointers);
        for pointer in pointers {
            check(text, &[pointer]);
        }
        for text in ["1", "[]", "{}", "\"a\"", "[1,2]", "{\"a\":{\"a\":{}},\"a\":1}"] {
            check(text, &["", "/a", "/a/a", "/0", "/1", "/0/0"]);
        }
    }

    #[test]
    fn of_equal_names_the_last_counts_also_where_it_has_less() {
        check(r#"{"a":{"b":1},"a":{"c":2}}"#, &["/a/b", "/a/c", "/a"]);
        check(r#"{"a":{"b":1},"a":2}"#, &["/a/b", "/a"]);
        check(r#"{"a":1,"\u0061":{"b":[5]}}"#, &["/a/b/0", "/a"]);
    }
}
