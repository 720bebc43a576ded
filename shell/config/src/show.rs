//! The effective configuration with the origin of each value, for `config show`.
//!
//! Relies on `Value`'s `Display`, which masks secrets. Invariant: the TOML form can be saved and read
//! back as a configuration file, but for masked hashes.

use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use crate::kind::Value;
use crate::load::Loaded;
use crate::problem::Origin;
use crate::table::Setting;

/// As TOML, each line with the origin of its value as a comment.
pub fn show_toml(loaded: &Loaded) -> String {
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
            .filter(|setting| is_shown(loaded, setting))
            .map(|setting| {
                (format!("{} = {}", setting.spec.name(), setting.value), &setting.origin)
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
        for setting in table.settings.iter().filter(|setting| is_shown(loaded, setting)) {
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

/// The default of `server.listen` does not hold when the file describes listeners.
fn is_shown(loaded: &Loaded, setting: &Setting) -> bool {
    let has_listeners = loaded.tables.iter().any(|table| table.section.name == "listener");
    !(has_listeners && setting.spec.key == "server.listen" && setting.origin == Origin::Default)
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
