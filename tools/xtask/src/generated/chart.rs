//! The schema of the values of the chart for Helm: what is written by hand, and the server's own options as `config`.

use serde_json::{Value, json};

/// What is written by hand.
const VALUES: &str = include_str!("../../../../deploy/helm/values.schema.in.json");
/// What the chart itself says, so that Services, probes (which do not log in) and the time that a pod gets agree with it:
/// the options of a section, or the whole of it.
const MANAGED: [(&str, &[&str]); 5] = [
    (
        "server",
        &["listen", "node", "drain_over", "drain_delay", "shutdown_grace", "reload_interval"],
    ),
    ("store", &["directory"]),
    ("monitoring", &["health_access"]),
    ("listener", &[]),
    ("development", &[]),
];
/// Instead of a hash: who may read the ConfigMap could try passwords against it.
const REFERENCE: &str = "^(file:|env:)";
/// Objects deeper than these stand on one line: an option each.
const DEPTH_MAX: usize = 6;

/// The schema, with one line for each option.
pub(super) fn schema() -> String {
    let mut values: Value = serde_json::from_str(VALUES).unwrap_or_default();
    values["properties"]["config"] = config();
    let mut text = String::new();
    write(&values, 0, &mut text);
    text + "\n"
}

/// The schema of the server's configuration, less what the chart says.
fn config() -> Value {
    let mut sections = tiderace_config::schema()["properties"].take();
    for (name, managed) in MANAGED {
        let options = sections[name].pointer_mut("/properties").and_then(Value::as_object_mut);
        match options {
            Some(options) if !managed.is_empty() => {
                options.retain(|key, _| !managed.contains(&key.as_str()))
            }
            _ => drop(sections.as_object_mut().and_then(|sections| sections.remove(name))),
        }
    }
    for section in sections.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        let many = section.get("items").is_some();
        let options = section.pointer_mut(if many { "/items/properties" } else { "/properties" });
        for option in
            options.and_then(Value::as_object_mut).into_iter().flat_map(|all| all.values_mut())
        {
            if option["pattern"].as_str().is_some_and(|pattern| pattern.contains("file:")) {
                option["pattern"] = json!(REFERENCE);
            }
        }
    }
    json!({"type": "object", "additionalProperties": false, "properties": sections})
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let object = value.as_object().filter(|object| !object.is_empty() && depth < DEPTH_MAX);
    let Some(object) = object else {
        *text += &value.to_string();
        return;
    };
    text.push('{');
    for (place, (key, part)) in object.iter().enumerate() {
        *text += if place == 0 { "\n" } else { ",\n" };
        *text += &format!("{}{}: ", " ".repeat(depth + 1), json!(key));
        write(part, depth + 1, text);
    }
    *text += &format!("\n{}}}", " ".repeat(depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_chart_says_and_hashes_are_no_values() {
        let schema: Value = serde_json::from_str(&schema()).expect("JSON");
        let sections = &schema["properties"]["config"]["properties"];
        assert!(sections["server"]["properties"]["origins"].is_object());
        assert!(sections["store"]["properties"]["sync"].is_object());
        for (name, options) in MANAGED {
            assert_eq!(sections[name].is_object(), !options.is_empty(), "{name}");
            for option in options {
                assert!(
                    tiderace_config::schema()["properties"][name]["properties"][option].is_object()
                );
                assert!(sections[name]["properties"][option].is_null(), "{name}.{option}");
            }
        }
        for (section, option) in [("user", "password_hash"), ("token", "secret"), ("jwt", "secret")]
        {
            assert_eq!(sections[section]["items"]["properties"][option]["pattern"], REFERENCE);
        }
    }
}
