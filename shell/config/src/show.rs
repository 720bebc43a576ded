//! The effective configuration with the origin of each value, for `config show`, and values as others may see them.
//!
//! Relies on `Value`'s `Display`, which masks secrets; of addresses, `places_of` alone says what may be seen. Invariant: the TOML form can be saved and read
//! back as a configuration file, but for masked hashes.

use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use crate::kind::Value;
use crate::load::Loaded;
use crate::problem::Origin;
use crate::table::{Setting, Table};

/// As TOML, each line with the origin of its value as a comment.
pub fn show_toml(loaded: &Loaded) -> String {
    toml_of(loaded, Value::to_string)
}

/// The same for others to see: of each text with an address in it no more than the place where that leads to.
pub fn show_places(loaded: &Loaded) -> String {
    toml_of(loaded, |value| places_of(value).to_string())
}

fn toml_of(loaded: &Loaded, shown: impl Fn(&Value) -> String) -> String {
    let mut out = String::new();
    for table in &loaded.tables {
        let name = table.section.name;
        let separator = if out.is_empty() { "" } else { "\n" };
        let head = if table.section.repeated { format!("[[{name}]]") } else { format!("[{name}]") };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{separator}{head}");
        let lines: Vec<(String, &Origin)> = table
            .settings
            .iter()
            .filter(|setting| holds(&loaded.tables, table, setting))
            .map(|setting| {
                (format!("{} = {}", setting.spec.name(), shown(&setting.value)), &setting.origin)
            })
            .collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0).min(60);
        for (line, origin) in lines {
            let _ = writeln!(out, "{line:width$}  # {origin}");
        }
    }
    out
}

/// As JSON: an array of objects with `key`, `value`, `origin` and, for repeated sections, `table`.
pub fn show_json(loaded: &Loaded) -> Json {
    let mut settings = Vec::new();
    let mut previous = ("", 0);
    for table in &loaded.tables {
        let index = if previous.0 == table.section.name { previous.1 + 1 } else { 0 };
        previous = (table.section.name, index);
        for setting in table.settings.iter().filter(|setting| holds(&loaded.tables, table, setting))
        {
            let mut object = Map::new();
            object.insert("key".to_owned(), json!(setting.spec.key));
            if table.section.repeated {
                object.insert("table".to_owned(), json!(index));
            }
            object.insert("value".to_owned(), to_json(&setting.value));
            object.insert("origin".to_owned(), json!(setting.origin.to_string()));
            settings.push(Json::Object(object));
        }
    }
    Json::Array(settings)
}

/// Whether an option of a table holds. The default of `server.listen` does not when the file describes listeners.
pub(crate) fn holds(tables: &[Table], table: &Table, setting: &Setting) -> bool {
    let is_default = setting.spec.key == "server.listen" && setting.origin == Origin::Default;
    let has_listeners = || tables.iter().any(|table| table.section.name == "listener");
    table.holds(setting) && !(is_default && has_listeners())
}

/// Bytes of a value that is shown to others, at most.
const SHOWN_BYTES_MAX: usize = 16 << 10;

/// A value as others may see it.
pub(crate) struct Shown {
    /// As JSON.
    pub(crate) json: String,
    /// So many parts of a list are left out at its end.
    pub(crate) left_out: u64,
}

/// A value for others to see, as JSON: without secrets, and of a very long list only the beginning.
pub(crate) fn shown(value: &Value) -> Shown {
    let json = |value: &Value| to_json(&places_of(value)).to_string();
    let Value::List(values) = value else { return Shown { json: json(value), left_out: 0 } };
    let mut out = String::from("[");
    for (count, value) in values.iter().enumerate() {
        let part = json(value);
        if out.len() + part.len() > SHOWN_BYTES_MAX {
            out.push(']');
            return Shown { json: out, left_out: (values.len() - count) as u64 };
        }
        if count > 0 {
            out.push(',');
        }
        out.push_str(&part);
    }
    out.push(']');
    Shown { json: out, left_out: 0 }
}

fn places_of(value: &Value) -> Value {
    match value {
        Value::Text(text) => Value::Text(place_of(text)),
        Value::List(values) => Value::List(values.iter().map(places_of).collect()),
        other => other.clone(),
    }
}

/// A text without what an address may have beside its place. Where a user ends and a password, a host or a query begins is a
/// matter of who reads it, so that nothing is left of one that has an `@`.
fn place_of(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    if rest.contains('@') {
        return format!("{scheme}://***");
    }
    match rest.find(['?', '#']) {
        Some(end) => format!("{scheme}://{}?***", rest.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Boolean(flag) => json!(flag),
        Value::Integer(number) => json!(number),
        Value::List(values) => values.iter().map(to_json).collect(),
        Value::Pattern(pattern) => json!(pattern.as_str()),
        Value::Text(text) => json!(text),
        // Sizes, times and masked secrets as they would be written, without the quotes.
        other => json!(other.to_string().trim_matches('"')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_addresses_no_more_than_the_place_is_shown() {
        for (text, expected) in [
            ("https://example.org:1/keys", "https://example.org:1/keys"),
            ("https://ann:p,w'd@example.org/keys", "https://***"),
            ("https://ann:p/w?d#x@example.org", "https://***"),
            ("https://h/login?mail=a@b&token=x", "https://***"),
            ("https://h/login?a=1,token='x'", "https://h/login?***"),
            ("tls://d#e", "tls://d?***"),
            ("map a/* to b/<path(1)>", "map a/* to b/<path(1)>"),
        ] {
            assert_eq!(place_of(text), expected);
            let list = Value::List(vec![Value::Text(text.to_owned())]);
            assert_eq!(places_of(&list), Value::List(vec![Value::Text(expected.to_owned())]));
        }
    }
}
