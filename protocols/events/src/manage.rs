//! The resources below `/manage`: each is a verb of the table, and so an operation.
//!
//! Relies on [`tiderace_manage`] for what there is and on `rest_operations` for how operations are written. Invariants: a name
//! that means nothing is an error that says which are known; what a value may be is decided where operations are read.

use tiderace_manage::{Effect, Field, FieldKind, Place, Verb};
use tiderace_value::{JsonKind, append_text};
use tiderace_wire::{Request, Response};

use crate::answer::Fault;
use crate::parameters::{undecodable, undecodable_path};
use crate::rest_operations::{Operating, json, unconditional};
use crate::uri::{decode_path, pairs, values};

/// The document of OpenAPI; `cargo xtask docs` makes it of the table.
const OPENAPI: &str = include_str!("../openapi.json");
/// The parameter that says who asks.
const ACCESS_TOKEN: &str = "access_token";
/// What stands in front of the path of a verb.
const MANAGE: &str = "/manage";

/// The answer to who wants to know what there is.
pub(crate) fn openapi() -> Response {
    Response::new(200, "application/json", OPENAPI).with("Cache-Control", "no-cache")
}

/// What is said of a path below `/manage` that names nothing.
pub(crate) fn nothing() -> Fault {
    let text = "nothing is here; /manage/openapi.json says what there is, and a `/` in a name is written as %2F";
    Fault::not_found(text)
}

/// What a request for a resource asks for.
pub(crate) fn operating(place: Place<'_>, request: &Request<'_>) -> Result<Operating, Fault> {
    let verb = place.verb(request.method).ok_or_else(nothing)?;
    if verb.effect == Effect::Changes {
        unconditional(request)?;
    }
    let mut operating = Operating::begin(verb.operation);
    for (name, json) in verb.fixed {
        operating = operating.raw(name, json);
    }
    let named = verb.rest.field().and_then(|name| verb.field(name)).zip(place.value);
    if let Some((field, value)) = named {
        let value = decode_path(value).ok_or_else(undecodable_path)?;
        operating = written(operating, field, &value)?;
        operating.of_one_session = field.name == "id";
    }
    if verb.rest.has_body() {
        no_query(verb, request)?;
        return body(verb, operating, request);
    }
    query(verb, operating, request)
}

/// Fields that stand in the query.
fn query(
    verb: &'static Verb,
    mut operating: Operating,
    request: &Request<'_>,
) -> Result<Operating, Fault> {
    if !request.body.trim_ascii().is_empty() {
        return Err(Fault::bad_request(format!("{} takes no body: {}", shown(verb), known(verb))));
    }
    let mut given = Vec::new();
    for (name, value) in pairs(request.query).filter(|(name, _)| *name != ACCESS_TOKEN) {
        let field = verb.other_fields().find(|field| field.name == name);
        let field = field.ok_or_else(|| unknown(verb, name))?;
        if matches!(field.kind, FieldKind::Texts(_)) {
            if !given.contains(&field.name) {
                given.push(field.name);
                operating = operating.raw(field.name, &texts(field.name, request.query)?);
            }
            continue;
        }
        if given.contains(&field.name) {
            return Err(Fault::bad_request(format!("`{}` is given twice", field.name)));
        }
        given.push(field.name);
        operating = written(operating, field, &value.ok_or_else(|| undecodable(field.name))?)?;
    }
    Ok(operating)
}

/// A list of texts, each of which stands in the query under the same name.
fn texts(name: &str, query: Option<&str>) -> Result<String, Fault> {
    let mut list = Vec::new();
    for value in values(query, name) {
        list.push(if list.is_empty() { b'[' } else { b',' });
        append_text(&mut list, &value.ok_or_else(|| undecodable(name))?);
    }
    list.push(b']');
    Ok(String::from_utf8_lossy(&list).into_owned())
}

/// Fields that stand in the body, as an object of JSON.
fn body(
    verb: &'static Verb,
    mut operating: Operating,
    request: &Request<'_>,
) -> Result<Operating, Fault> {
    if request.body.trim_ascii().is_empty() {
        return Ok(operating);
    }
    let given = json(request)?;
    if given.kind() != JsonKind::Object {
        let text = format!("the body is an object of JSON: {}", known(verb));
        return Err(Fault::bad_request(text));
    }
    let mut names = Vec::new();
    for (name, value) in given.fields() {
        let name = name.as_text().unwrap_or_default();
        let field = verb.other_fields().find(|field| field.name == name);
        let field = field.ok_or_else(|| unknown(verb, &name))?;
        if names.contains(&field.name) {
            return Err(Fault::bad_request(format!("`{}` is given twice", field.name)));
        }
        names.push(field.name);
        operating = operating.raw(field.name, value.text());
    }
    Ok(operating)
}

/// Adds a field whose value is a text of the path or the query.
fn written(operating: Operating, field: &Field, value: &str) -> Result<Operating, Fault> {
    let wrong = |what: &str| Fault::bad_request(format!("`{}` is {what}", field.name));
    Ok(match field.kind {
        FieldKind::Text(_) | FieldKind::Word(_) => operating.text(field.name, value),
        FieldKind::Number(_) => {
            let number: u64 = value.parse().map_err(|_| wrong("a whole number"))?;
            operating.raw(field.name, &number.to_string())
        }
        FieldKind::Fraction => {
            let share: f64 = value.parse().map_err(|_| wrong("a number, such as 0.1"))?;
            if !share.is_finite() {
                return Err(wrong("a number, such as 0.1"));
            }
            operating.raw(field.name, &share.to_string())
        }
        FieldKind::Truth => match value {
            "true" | "1" | "" => operating.raw(field.name, "true"),
            "false" | "0" => operating.raw(field.name, "false"),
            _ => return Err(wrong("`true` or `false`")),
        },
        FieldKind::Span(_) => match value.parse::<u64>() {
            Ok(milliseconds) => operating.raw(field.name, &milliseconds.to_string()),
            Err(_) => operating.text(field.name, value),
        },
        FieldKind::Texts(_) => {
            let mut list = b"[".to_vec();
            append_text(&mut list, value);
            list.push(b']');
            operating.raw(field.name, &String::from_utf8_lossy(&list))
        }
    })
}

/// Refuses a query where fields stand in the body: a wish that is passed over may be a dry run.
fn no_query(verb: &Verb, request: &Request<'_>) -> Result<(), Fault> {
    let mut others = pairs(request.query).filter(|(name, _)| *name != ACCESS_TOKEN);
    match others.next() {
        None => Ok(()),
        Some((name, _)) => {
            let (name, shown, known) = (short(name), shown(verb), known(verb));
            let text =
                format!("{shown} takes no `{name}` in the query; in the body, as JSON: {known}");
            Err(Fault::bad_request(text))
        }
    }
}

fn unknown(verb: &Verb, name: &str) -> Fault {
    let (name, shown, known) = (short(name), shown(verb), known(verb));
    Fault::bad_request(format!("{shown} knows no `{name}`; known are {known}"))
}

/// A verb as it is asked for.
fn shown(verb: &Verb) -> String {
    format!("{} {MANAGE}{}", verb.rest.method, verb.rest.path)
}

/// The fields that may be given beside that of the path.
fn known(verb: &Verb) -> String {
    let names: Vec<&str> = verb.other_fields().map(|field| field.name).collect();
    if names.is_empty() { "nothing else".to_owned() } else { names.join(", ") }
}

fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
