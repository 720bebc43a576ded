//! The table of verbs in `docs/management.md`, and the document of OpenAPI that the server gives.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tiderace_base::SPAN_UNITS;
use tiderace_manage::{Danger, Field, FieldKind, Rest, Role, VERBS, Verb};

/// The table of `docs/management.md`.
pub(super) fn table() -> String {
    let mut text = String::from(
        "| verb | what it does | role | by rights | REST | command line | operation |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for verb in VERBS {
        let Verb { name, says, command, role, .. } = verb;
        let Rest { method, path } = verb.rest;
        let rights: Vec<String> = verb.rights.iter().map(ToString::to_string).collect();
        let (role, rights, operation) = (role.name(), rights.join(", "), operation(verb));
        let fields = fields(verb);
        let _ = writeln!(
            text,
            "| {name} | {says}{fields} | {role} | {rights} | `{method} /manage{path}` | `tiderace {command}` | `{operation}` |"
        );
    }
    text
}

/// The rules that make the roles, as the configuration has them.
pub(super) fn roles() -> String {
    let rules = Role::ALL.iter().map(|role| {
        let who = format!("group:{}s", role.name());
        let rules: String = role.rules().iter().map(|rule| rule.to_toml(&[&who]) + "\n").collect();
        format!("# {}s\n{rules}", role.name())
    });
    format!("```toml\n{}```\n", rules.collect::<String>().trim_end().to_owned() + "\n")
}

/// What may be given beside what stands in the path.
fn fields(verb: &Verb) -> String {
    let name = |field: &Field| match field.required {
        true => format!("**`{}`**", field.name),
        false => format!("`{}`", field.name),
    };
    let names: Vec<String> = verb.other_fields().map(name).collect();
    if names.is_empty() { String::new() } else { format!(" With {}.", names.join(", ")) }
}

/// The operation, with what is always said with it.
fn operation(verb: &Verb) -> String {
    let mut text = format!("{{\"do\": \"{}\"", verb.operation);
    for (name, json) in verb.fixed {
        let _ = write!(text, ", \"{name}\": {json}");
    }
    for field in verb.fields.iter().filter(|field| field.required) {
        let _ = write!(text, ", \"{}\": …", field.name);
    }
    text + "}"
}

/// The document of OpenAPI.
pub(super) fn openapi() -> String {
    let mut paths = Map::new();
    for verb in VERBS {
        let path = paths.entry(verb.rest.path.to_owned()).or_insert_with(|| json!({}));
        path[verb.rest.method.to_ascii_lowercase()] = resource(verb);
    }
    paths.insert("/openapi.json".to_owned(), json!({"get": {
        "operationId": "openapi",
        "summary": "This document.",
        "security": [{}],
        "responses": {"200": {"description": "It.", "content": {"application/json": {"schema": {"type": "object"}}}}},
    }}));
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tiderace: management",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What can be asked of a running server by those who look after it. Each resource is an operation that every protocol has; answers are those of the operations, errors have the codes of docs/close-codes.md. Made by `cargo xtask docs` from core/manage.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        // The document lies there, wherever that is. An address that ends with a slash would have two before each path.
        "servers": [{"url": "../manage"}],
        "security": [{"token": []}, {"password": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
            "schemas": {"Error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {
                    "code": {"type": "string", "description": "A short name that stays."},
                    "message": {"type": "string", "description": "What is wrong, for people."},
                },
            }},
            "responses": {"Error": {
                "description": "It was not done.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            }},
        },
    });
    // Writing a value to a text cannot fail.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn resource(verb: &Verb) -> Value {
    let in_path = verb.rest.field();
    let is_parameter = |field: &&Field| Some(field.name) == in_path || !verb.rest.has_body();
    let parameters: Vec<Value> = verb
        .fields
        .iter()
        .filter(is_parameter)
        .map(|field| parameter(field, Some(field.name) == in_path))
        .collect();
    let rights: Vec<String> =
        verb.rights.iter().map(|right| right.to_string().replace('`', "")).collect();
    let mut resource = json!({
        "operationId": verb.name,
        "summary": verb.says,
        "parameters": parameters,
        "responses": {
            "200": {"description": "What came of it.", "content": {"application/json": {"schema": {"type": "object"}}}},
            "default": {"$ref": "#/components/responses/Error"},
        },
        "x-tiderace-operation": verb.operation,
        "x-tiderace-command": format!("tiderace {}", verb.command),
        "x-tiderace-role": verb.role.name(),
        "x-tiderace-rights": rights,
        "x-tiderace-confirm": verb.danger == Danger::Confirm,
    });
    let members: Vec<&Field> = verb.other_fields().collect();
    if verb.rest.has_body() && !members.is_empty() {
        let properties: Map<String, Value> =
            members.iter().map(|field| (field.name.to_owned(), schema(field))).collect();
        let required: Vec<&str> =
            members.iter().filter(|field| field.required).map(|field| field.name).collect();
        let mut schema = json!({
            "type": "object", "properties": properties, "additionalProperties": false,
        });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if !verb.some_of.is_empty() {
            let one = |name: &&str| json!({"required": [name]});
            schema["anyOf"] = verb.some_of.iter().map(one).collect();
        }
        resource["requestBody"] = json!({
            "required": !required.is_empty() || !verb.some_of.is_empty(),
            "content": {"application/json": {"schema": schema}},
        });
    }
    resource
}

fn parameter(field: &Field, in_path: bool) -> Value {
    let place = if in_path { "path" } else { "query" };
    json!({
        "name": field.name, "in": place, "required": field.required,
        "description": field.says, "schema": schema(field),
    })
}

/// What a field may be, as a JSON Schema.
pub(super) fn schema(field: &Field) -> Value {
    let mut schema = match field.kind {
        FieldKind::Text(0) => json!({"type": "string"}),
        // The bound is one of bytes, of which a character has one at least.
        FieldKind::Text(most) => json!({"type": "string", "maxLength": most}),
        FieldKind::Word(words) => json!({"type": "string", "enum": words}),
        FieldKind::Number(0) => json!({"type": "integer", "minimum": 0}),
        FieldKind::Number(most) => json!({"type": "integer", "minimum": 0, "maximum": most}),
        FieldKind::Fraction => json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        FieldKind::Truth => json!({"type": "boolean"}),
        FieldKind::Span(seconds) => json!({"anyOf": [
            {"type": "string", "pattern": span_pattern()},
            {"type": "integer", "minimum": 0, "maximum": seconds * 1000, "description": "Milliseconds."},
        ]}),
        FieldKind::Texts(0) => json!({"type": "array", "items": {"type": "string"}}),
        FieldKind::Texts(most) => {
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": most})
        }
    };
    schema["description"] = match field.kind {
        FieldKind::Text(most @ 1..) => {
            json!(format!("{} At most {most} bytes of UTF-8.", field.says))
        }
        _ => json!(field.says),
    };
    schema["examples"] = json!([serde_json::from_str::<Value>(field.example).ok()]);
    schema
}

/// What a span looks like as a text.
fn span_pattern() -> String {
    let units: Vec<String> =
        SPAN_UNITS.iter().flat_map(|unit| [unit.name, unit.long]).map(str::to_owned).collect();
    format!("^[0-9]+ ?({})$", units.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_its_line_and_its_resource() {
        let (text, document) = (table(), openapi());
        let document: Value = serde_json::from_str(&document).unwrap_or_default();
        for verb in VERBS {
            assert_eq!(text.matches(&format!("\n| {} |", verb.name)).count(), 1);
            let resource =
                &document["paths"][verb.rest.path][verb.rest.method.to_ascii_lowercase()];
            assert_eq!(resource["operationId"], verb.name);
            for field in verb.fields {
                let is_example = serde_json::from_str::<Value>(field.example).is_ok();
                assert!(is_example, "{}.{}", verb.name, field.name);
            }
        }
    }
}
