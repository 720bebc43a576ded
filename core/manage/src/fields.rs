//! What rows of the table are made of: ways by REST and fields, and those fields that users, tokens and rules have.

use crate::Right;
use crate::verb::{Field, FieldKind, Rest};

pub(crate) const fn get(path: &'static str) -> Rest {
    Rest { method: "GET", path }
}

pub(crate) const fn post(path: &'static str) -> Rest {
    Rest { method: "POST", path }
}

pub(crate) const fn put(path: &'static str) -> Rest {
    Rest { method: "PUT", path }
}

pub(crate) const fn delete(path: &'static str) -> Rest {
    Rest { method: "DELETE", path }
}

pub(crate) const fn text(
    name: &'static str,
    bytes_max: usize,
    says: &'static str,
    example: &'static str,
) -> Field {
    Field { name, kind: FieldKind::Text(bytes_max), required: false, says, example }
}

pub(crate) const fn word(
    name: &'static str,
    words: &'static [&'static str],
    says: &'static str,
    example: &'static str,
) -> Field {
    Field { name, kind: FieldKind::Word(words), required: false, says, example }
}

pub(crate) const fn texts(name: &'static str, says: &'static str, example: &'static str) -> Field {
    Field { name, kind: FieldKind::Texts(64), required: false, says, example }
}

pub(crate) const fn number(
    name: &'static str,
    most: u64,
    says: &'static str,
    example: &'static str,
) -> Field {
    Field { name, kind: FieldKind::Number(most), required: false, says, example }
}

pub(crate) const fn span(
    name: &'static str,
    seconds_max: u64,
    says: &'static str,
    example: &'static str,
) -> Field {
    Field { name, kind: FieldKind::Span(seconds_max), required: false, says, example }
}

pub(crate) const fn truth(name: &'static str, says: &'static str) -> Field {
    Field { name, kind: FieldKind::Truth, required: false, says, example: "true" }
}

/// What users, tokens and rules are looked after by.
pub(crate) const IDENTITY: &[Right] = &[Right::node("admin", "$sys/identities")];
pub(crate) const USER: Field = text("name", 128, "Its name.", "\"ann\"");
pub(crate) const TOKEN: Field = text("name", 128, "Its name.", "\"feed\"");
pub(crate) const RULE: Field = text("name", 128, "Its name.", "\"sales-send\"");
pub(crate) const NUMBER_AFTER: Field =
    number("after", 0, "What `next` was in the page before.", "100");
pub(crate) const IDENTITY_LIMIT: Field = number("limit", 500, "How many, at most.", "100");
pub(crate) const GROUPS: Field = texts("groups", "Groups, for rules.", "[\"sales\"]");
pub(crate) const HOST: Field = text(
    "host",
    1024,
    "The virtual host that it is bound to, or `*` for the whole tree.",
    "\"shop\"",
);
