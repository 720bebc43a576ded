//! The verbs as the TypeScript SDK has them: a function, a type of its fields and a line of a table for each.
//!
//! Relies on `verbs` for what a field may be: the types here are made of the schemas that `openapi.json` has, so a new row of
//! the table, or a new kind of field, needs nothing here. Invariant: what is given as a field is typed as the server reads it.

use std::fmt::Write as _;

use serde_json::Value;
use tiderace_manage::{Danger, Effect, Field, VERBS, Verb};

use super::verbs::schema;

/// `clients/typescript/src/verbs.ts`.
pub(super) fn module() -> String {
    let mut text = String::from(
        "// Made by `cargo xtask docs` from core/manage; do not edit.\n\
         import type { AnswerOf, List, SomeOf, Verb } from \"./management.js\";\n",
    );
    for verb in VERBS.iter().filter(|verb| !verb.fields.is_empty()) {
        text += &fields(verb);
    }
    text +=
        "\n/** A function for each verb that a server knows. */\nexport interface Management {\n";
    for (at, verb) in VERBS.iter().enumerate() {
        text += if at == 0 { "" } else { "\n" };
        text += &function(verb);
    }
    text += "}\n\n/** The verbs by the names of their functions. */\nexport const verbs = {\n";
    for verb in VERBS {
        text += &row(verb);
    }
    text + "} as const satisfies Record<keyof Management, Verb>;\n"
}

/// The type of what may be given to a verb.
fn fields(verb: &Verb) -> String {
    let members: String = verb.fields.iter().map(|field| member(verb, field)).collect();
    let name = fields_name(verb);
    if verb.some_of.is_empty() {
        return format!("\nexport interface {name} {{\n{members}}}\n");
    }
    let some: Vec<String> = verb.some_of.iter().map(|name| format!("\"{name}\"")).collect();
    format!("\nexport type {name} = SomeOf<{{\n{members}}}, {}>;\n", some.join(" | "))
}

fn member(verb: &Verb, field: &Field) -> String {
    let schema = schema(field);
    let says = schema["description"].as_str().unwrap_or_default();
    // A loop asks for page after page, so it is no bound of how many there are in all.
    let is_of_page = field.name == "limit" && verb.pages_by().is_some();
    let says = match says.split_at_checked(1) {
        Some((first, rest)) if is_of_page => {
            format!("In one page: {}{rest}", first.to_ascii_lowercase())
        }
        _ => says.to_owned(),
    };
    let is_optional = if field.required { "" } else { "?" };
    let (bound, kind) = (bound(&schema), kind(&schema));
    format!("  /** {}{bound} */\n  {}{is_optional}: {kind};\n", comment(&says), field.name)
}

/// What the type cannot say of a value.
fn bound(schema: &Value) -> String {
    let milliseconds = &schema["anyOf"][1]["maximum"];
    if let Some(most) = milliseconds.as_u64() {
        return format!(" A span such as `10m`, or milliseconds: at most {most}.");
    }
    let most = schema["maximum"].as_u64().or_else(|| schema["maxItems"].as_u64());
    most.map_or_else(String::new, |most| format!(" At most {most}."))
}

/// A text where it does not end the comment that it stands in.
fn comment(text: &str) -> String {
    text.replace("*/", "*\\/")
}

/// A schema as a type.
fn kind(schema: &Value) -> String {
    let all = |schemas: &[Value], show: fn(&Value) -> String| -> String {
        schemas.iter().map(show).collect::<Vec<_>>().join(" | ")
    };
    if let Some(words) = schema["enum"].as_array() {
        return all(words, Value::to_string);
    }
    if let Some(either) = schema["anyOf"].as_array() {
        return all(either, kind);
    }
    match schema["type"].as_str() {
        Some("string") => "string".to_owned(),
        Some("integer" | "number") => "number".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("array") => match kind(&schema["items"]) {
            item if item.contains(' ') => format!("({item})[]"),
            item => format!("{item}[]"),
        },
        Some("object") => "Record<string, unknown>".to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// What is done by a verb, as a function.
fn function(verb: &Verb) -> String {
    let Verb { name, says, operation, role, .. } = verb;
    let (method, says) = (method_name(verb), comment(says));
    let mut doc = format!(
        "  /**\n   * {says}\n   *\n   * Verb `{name}`, operation `{operation}`; from the role {} on.",
        role.name()
    );
    if verb.hides {
        doc += " Who may not is shown nothing.";
    }
    if verb.danger == Danger::Confirm {
        doc += " It cannot be taken back: a person is to agree.";
    }
    doc += "\n   */\n";
    let wants_some = verb.fields.iter().any(|field| field.required) || !verb.some_of.is_empty();
    let given = match (verb.fields.is_empty(), wants_some) {
        (true, _) => String::new(),
        (_, true) => format!("fields: {}", fields_name(verb)),
        (_, false) => format!("fields?: {}", fields_name(verb)),
    };
    let result = if verb.pages_by().is_some() { "List" } else { "Promise" };
    format!("{doc}  {method}<T = AnswerOf<\"{method}\">>({given}): {result}<T>;\n")
}

/// What has to be known of a verb to ask for it, and before it.
fn row(verb: &Verb) -> String {
    let Verb { name, operation, role, .. } = verb;
    let method = method_name(verb);
    let mut text =
        format!("  {method}: {{ name: \"{name}\", do: \"{operation}\", role: \"{}\"", role.name());
    if !verb.fixed.is_empty() {
        let fixed: Vec<String> =
            verb.fixed.iter().map(|(name, json)| format!("{name}: {json}")).collect();
        let _ = write!(text, ", with: {{ {} }}", fixed.join(", "));
    }
    if let Some(field) = verb.pages_by() {
        let _ = write!(text, ", pages: \"{}\"", field.name);
    }
    for (is, name) in [
        (verb.effect == Effect::Changes, "changes"),
        (verb.danger == Danger::Confirm, "confirm"),
        (verb.hides, "hides"),
    ] {
        text += &if is { format!(", {name}: true") } else { String::new() };
    }
    text + " },\n"
}

/// The name of a verb as functions are called: `show-session` is `showSession`.
fn method_name(verb: &Verb) -> String {
    let mut words = verb.name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &capital(word))
}

fn fields_name(verb: &Verb) -> String {
    capital(&method_name(verb)) + "Fields"
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_verb_has_its_function_its_fields_and_its_row() {
        let module = module();
        let mut names: Vec<String> = VERBS.iter().map(method_name).collect();
        for (verb, name) in VERBS.iter().zip(&names) {
            assert_eq!(module.matches(&format!("\n  {name}<T = ")).count(), 1, "{name}");
            let row = format!("\n  {name}: {{ name: \"{}\", do: \"{}\"", verb.name, verb.operation);
            assert_eq!(module.matches(&row).count(), 1, "{name}");
            let fields = module.matches(&format!(" {} ", fields_name(verb))).count();
            assert_eq!(fields, usize::from(!verb.fields.is_empty()), "{name}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), VERBS.len(), "two verbs have one name");
        assert!(!module.contains("unknown"), "a kind of field has no type");
    }

    #[test]
    fn fields_are_typed_as_their_schemas_say() {
        for (schema, wanted) in [
            (json!({"type": "string", "maxLength": 3}), "string"),
            (json!({"type": "string", "enum": ["a", "b"]}), "\"a\" | \"b\""),
            (json!({"type": "integer"}), "number"),
            (json!({"type": "array", "items": {"type": "string"}}), "string[]"),
            (
                json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}}),
                "(string | boolean)[]",
            ),
            (json!({}), "unknown"),
        ] {
            assert_eq!(kind(&schema), wanted);
        }
        assert_eq!(comment("Such as `a/*/b`."), "Such as `a/*\\/b`.");
        let kick = VERBS.iter().find(|verb| verb.name == "kick").map(fields).unwrap_or_default();
        assert!(kick.contains("SomeOf<{") && kick.contains("}, \"id\" | \"protocol\""), "{kick}");
        let sessions = VERBS.iter().find(|verb| verb.name == "sessions").unwrap();
        assert!(function(sessions).contains("(fields?: SessionsFields): List<T>;"));
        assert!(
            fields(sessions)
                .contains("/** In one page: how many, at most. At most 500. */\n  limit?: number;")
        );
    }

    #[test]
    fn lists_in_pages_are_those_that_say_where_a_page_begins() {
        let by =
            |name| tiderace_manage::verb(name).and_then(Verb::pages_by).map(|field| field.name);
        assert_eq!(by("sessions"), Some("after"));
        assert_eq!(by("peek"), Some("from"));
        assert_eq!(by("show-session"), None);
        assert_eq!(by("backup-read"), None);
    }
}
