//! The JSON Schema of the configuration file, for editors that complete and check TOML.
//!
//! Relies on the table of options. Invariant: it accepts every file that [`crate::load()`] accepts; checks
//! that concern several options are beyond it.

use serde_json::{Map, Value as Json, json};

use crate::kind::Kind;
use crate::sections::SECTIONS;
use crate::spec::{DefaultValue, OptionSpec, SectionSpec};

/// The schema as a JSON value (draft 2020-12).
pub fn schema() -> Json {
    let properties: Map<String, Json> =
        SECTIONS.iter().map(|section| (section.name.to_owned(), section_schema(section))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tiderace configuration",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn section_schema(section: &SectionSpec) -> Json {
    let properties: Map<String, Json> = section
        .options
        .iter()
        .map(|option| (option.name().to_owned(), option_schema(option)))
        .collect();
    let required: Vec<&str> = section
        .options
        .iter()
        .filter(|option| matches!(option.default, DefaultValue::Required))
        .map(OptionSpec::name)
        .collect();
    let mut table = json!({
        "description": section.doc.trim(),
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    if let (Some(object), false) = (table.as_object_mut(), required.is_empty()) {
        object.insert("required".to_owned(), json!(required));
    }
    match section.repeated {
        true => json!({ "type": "array", "items": table }),
        false => table,
    }
}

fn option_schema(option: &OptionSpec) -> Json {
    let mut schema = kind_schema(&option.kind, option.zero.is_some());
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), json!(option.doc.trim()));
        if let DefaultValue::Is(text) = option.default {
            object.insert("default".to_owned(), default_schema(&option.kind, text));
        }
    }
    schema
}

fn default_schema(kind: &Kind, text: &str) -> Json {
    match kind {
        Kind::Boolean => json!(text == "true"),
        Kind::Integer { .. } => {
            text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
        }
        Kind::List(element) => text
            .split(',')
            .filter(|item| !item.is_empty())
            .map(|item| default_schema(element, item))
            .collect(),
        _ => json!(text),
    }
}

fn kind_schema(kind: &Kind, zero: bool) -> Json {
    match kind {
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Bytes { max, .. } => json!({ "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": max },
            { "type": "string", "pattern": "^[0-9][0-9_.]* *([KMGTkmgt]([Ii]?[Bb])?|[Bb]|[Bb][Yy][Tt][Ee][Ss]?)?$" },
        ] }),
        Kind::Choice(words) => {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            json!({ "type": "string", "enum": words })
        }
        Kind::Duration { .. } => json!({ "anyOf": [
            { "type": "string", "pattern": "^[0-9][0-9_.]* *([a-zµA-Z]+)?$" },
            { "const": 0 },
        ] }),
        Kind::Integer { min, max } => {
            json!({ "type": "integer", "minimum": if zero { 0 } else { *min }, "maximum": max })
        }
        Kind::List(element) => json!({ "type": "array", "items": kind_schema(element, false) }),
        Kind::Memory => json!({ "type": ["string", "integer"] }),
        Kind::Secret { hash: Some(prefix) } => {
            let prefix = prefix.replace('$', "\\$");
            json!({ "type": "string", "pattern": format!("^({prefix}|file:|env:)") })
        }
        Kind::Secret { hash: None } => json!({ "type": "string", "pattern": "^(file:|env:)" }),
        Kind::Name => json!({ "type": "string", "minLength": 1, "maxLength": 128 }),
        Kind::UrlPath => json!({ "type": "string", "pattern": "^/" }),
        Kind::Moment => json!({ "type": "string", "format": "date-time" }),
        Kind::Listen | Kind::Network | Kind::Pattern | Kind::Text => {
            json!({ "type": "string", "minLength": 1 })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Every object closes itself, every default lies in its own schema's type.
    #[test]
    fn the_schema_describes_every_option() {
        let schema = schema();
        for section in SECTIONS {
            let table = &schema["properties"][section.name];
            let table = if section.repeated { &table["items"] } else { table };
            assert_eq!(table["additionalProperties"], json!(false), "{}", section.name);
            for option in section.options {
                let property = &table["properties"][option.name()];
                assert!(property["description"].as_str().unwrap().ends_with('.'), "{}", option.key);
                let is_typed = ["type", "anyOf"].iter().any(|key| property.get(key).is_some());
                assert!(is_typed, "{}", option.key);
                if let (Some(kind), Some(default)) =
                    (property["type"].as_str(), property.get("default"))
                {
                    let actual = match default {
                        Json::Array(_) => "array",
                        Json::Bool(_) => "boolean",
                        Json::Number(_) => "integer",
                        _ => "string",
                    };
                    assert_eq!(kind, actual, "{}", option.key);
                }
            }
        }
        assert_eq!(schema["properties"]["rule"]["items"]["required"], json!(["principals"]));
    }
}
