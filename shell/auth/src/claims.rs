//! Groups and claims of somebody, from JSON that others have written: of tokens, and of answers of a call-out.
//!
//! Relies on the caller having believed the JSON. Invariant: every group is a text that no rule takes for a wildcard, and
//! none is left out silently, since a rule may deny something to it.

use serde_json::Value;

/// Groups of one client at most.
const GROUPS_MAX: usize = 256;
/// Bytes of a group's name, or of the value of a claim that rules name.
const VALUE_BYTES_MAX: usize = 256;

/// The claim of that name, or the one that dots lead to.
pub(crate) fn find<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        find(claims.get(first)?, rest)
    })
}

/// The groups that a value lists, or has as words, behind others; `None` if it is something else, or one is no group.
pub(crate) fn groups_of<'a>(
    value: Option<&'a Value>,
    others: &'a [String],
) -> Option<Vec<&'a str>> {
    let mut groups: Vec<&str> = others.iter().map(String::as_str).collect();
    match value {
        None | Some(Value::Null) => {}
        Some(Value::String(words)) => groups.extend(words.split_whitespace()),
        Some(Value::Array(names)) => {
            groups.extend(names.iter().map(|name| name.as_str().unwrap_or_default()))
        }
        Some(_) => return None,
    }
    let are_groups = groups.len() <= GROUPS_MAX && groups.iter().all(|group| is_group(group));
    are_groups.then_some(groups)
}

/// Of these names, those that the object has, with their values: a list has several.
pub(crate) fn claims_of<'a>(object: &Value, names: &'a [String]) -> Vec<(&'a str, String)> {
    let mut known = Vec::new();
    for name in names {
        let values = match find(object, name) {
            None => continue,
            Some(Value::Array(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
        };
        known.extend(values.iter().filter_map(text).map(|value| (name.as_str(), value)));
    }
    known
}

fn is_group(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= VALUE_BYTES_MAX
        && !text.chars().any(|c| c.is_control() || "*#+>".contains(c))
}

/// The value of a claim as rules compare it; lists and objects have none.
fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty() && text.len() <= VALUE_BYTES_MAX).then_some(text)
}
