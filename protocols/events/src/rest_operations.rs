//! Requests in the forms of REST, as operations on topics.
//!
//! ```text
//!   PUT /topics/a  If-Match: "7"        {"do":"update","path":"a","if":{"version":7}}  and the body
//!   PATCH /topics/a                     {"do":"update","path":"a","patch":[…]}
//!   GET /topics/a?history&last=10       {"do":"history","path":"a","last":10}
//! ```
//! Relies on `Operation::parse` for what may stand there. Invariant: whatever a client writes ends up
//! in a JSON string or has been checked to be JSON, so it cannot add names of its own.

use tiderace_value::{Json, append_text};
use tiderace_wire::{DURABLE, Request, properties, shown};

use crate::answer::{Fault, HttpFault};
use crate::content::essence;
use crate::limits::JSON_DEPTH_MAX;
use crate::limits::TAGS_MAX;
use crate::parameters::undecodable;
use crate::uri::values;

/// An operation that is being written down.
#[derive(Debug)]
pub(crate) struct Operating {
    /// JSON without the last brace.
    text: Vec<u8>,
    /// The value, if there is one beside the text.
    pub(crate) body: Option<Vec<u8>>,
    /// The entity tags of which the topic must have one: what they mean depends on the node's epoch.
    tags: Option<String>,
    /// Whether it is about one session, which is missing if the answer counts none.
    pub(crate) of_one_session: bool,
}

impl Operating {
    pub(crate) fn begin(what: &str) -> Operating {
        let text = format!("{{\"do\":\"{what}\"").into_bytes();
        Operating { text, body: None, tags: None, of_one_session: false }
    }

    /// One that is written in JSON already.
    pub(crate) fn written(body: &[u8]) -> Result<Operating, Fault> {
        let json = Json::parse(body, JSON_DEPTH_MAX);
        let json =
            json.map_err(|wrong| Fault::bad_request(format!("the body is no JSON: {wrong}")))?;
        let what = json.field("do").and_then(Json::as_text).unwrap_or_default();
        if matches!(&*what, "lock" | "unlock" | "claim" | "release" | "will" | "session") {
            let text = format!(
                "`{what}` is about a session, and that of a request ends with its answer; use the native protocol or Socket.IO"
            );
            return Err(Fault::bad_request(text));
        }
        let inner = json.text().strip_suffix('}');
        let inner = inner.ok_or_else(|| Fault::bad_request("an operation is a JSON object"))?;
        let text = inner.as_bytes().to_vec();
        Ok(Operating { text, body: None, tags: None, of_one_session: false })
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Operating {
        self.name(name);
        append_text(&mut self.text, value);
        self
    }

    pub(crate) fn raw(mut self, name: &str, json: &str) -> Operating {
        self.name(name);
        self.text.extend_from_slice(json.as_bytes());
        self
    }

    fn name(&mut self, name: &str) {
        self.text.push(b',');
        append_text(&mut self.text, name);
        self.text.push(b':');
    }

    /// Adds what the request depends on; nothing if that is nothing.
    fn condition(self, request: &Request<'_>) -> Result<Option<Operating>, Fault> {
        let known = |name| {
            let text = request.field(name).map(std::str::from_utf8).transpose();
            text.map_err(|_| bad_condition())
        };
        Ok(match (known("if-match")?.map(str::trim), known("if-none-match")?.map(str::trim)) {
            (None, None) => None,
            (None, Some("*")) => Some(self.raw("if", "{\"absent\":true}")),
            (Some("*"), None) => Some(self.raw("if", "{\"present\":true}")),
            (Some(tags), None) if tags.split(',').count() <= TAGS_MAX => {
                Some(Operating { tags: Some(tags.to_owned()), ..self })
            }
            _ => return Err(bad_condition()),
        })
    }

    /// The whole text, once it is known which life of the node this is.
    pub(crate) fn finish(self, epoch: u64) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut text = self.text;
        if let Some(tags) = &self.tags {
            // A tag of another life names a version that is none.
            let version = |tag| version_of(tag, epoch).unwrap_or(0);
            let conditions: Vec<String> =
                tags.split(',').map(|tag| format!("{{\"version\":{}}}", version(tag))).collect();
            let condition = match &*conditions {
                [one] => one.clone(),
                several => format!("{{\"any\":[{}]}}", several.join(",")),
            };
            text.extend_from_slice(format!(",\"if\":{condition}").as_bytes());
        }
        text.push(b'}');
        (text, self.body)
    }
}

/// The entity tag of a topic's version.
pub(crate) fn tag(epoch: u64, version: u64) -> String {
    format!("\"{epoch:x}-{version:x}\"")
}

/// The version that a tag, or a plain number in quotes, names.
fn version_of(tag: &str, epoch: u64) -> Option<u64> {
    let tag = tag.trim();
    let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag);
    match tag.split_once('-') {
        Some((life, version)) => {
            let life = u64::from_str_radix(life, 16).ok()?;
            u64::from_str_radix(version, 16).ok().filter(|_| life == epoch)
        }
        None => tag.parse().ok(),
    }
}

/// A `PUT` or `POST` that depends on what the topic is now; `block` are its properties.
pub(crate) fn conditional(
    name: &str,
    request: &Request<'_>,
    block: &[u8],
) -> Result<Option<Operating>, Fault> {
    let Some(mut operating) = begin_conditional(name, request)? else { return Ok(None) };
    let mut named = Vec::new();
    for (known, value) in properties::raw(block) {
        let (known, value) = (properties::decode(known), properties::decode(value));
        if known == "content-type" {
            operating = operating.text("type", &value);
            continue;
        }
        named.push(if named.is_empty() { b'{' } else { b',' });
        append_text(&mut named, &known);
        named.push(b':');
        append_text(&mut named, &value);
    }
    if !named.is_empty() {
        named.push(b'}');
        operating = operating.raw("properties", &String::from_utf8_lossy(&named));
    }
    operating.body = Some(request.body.to_vec());
    Ok(Some(operating))
}

/// Whether what a request publishes depends on a condition.
pub(crate) fn is_conditional(request: &Request<'_>) -> Result<bool, Fault> {
    begin_conditional("", request).map(|operating| operating.is_some())
}

fn begin_conditional(name: &str, request: &Request<'_>) -> Result<Option<Operating>, Fault> {
    Operating::begin("update").text("path", name).condition(request)
}

/// `PATCH /topics/NAME`.
pub(crate) fn patch(name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let kind = request.text_field("content-type").map(essence).unwrap_or_default();
    let what = match &*kind {
        "application/json-patch+json" => "patch",
        "application/merge-patch+json" => "merge",
        _ => {
            let text =
                "a patch is of type application/json-patch+json or application/merge-patch+json";
            // The answer names the types (`PATCH_TYPES`).
            return Err(Fault::of_http(HttpFault::UnsupportedMediaType, text));
        }
    };
    let begin = || Operating::begin("update").text("path", name);
    if request.field("if-none-match").is_some() {
        let text = "a patch wants a value to be there: its condition is `If-Match`";
        return Err(Fault::bad_request(text));
    }
    let operating = begin().condition(request)?.unwrap_or_else(begin);
    Ok(operating.raw(what, json(request)?.text()))
}

/// Refuses a condition where none can be looked at: what is done in spite of it could not be undone.
pub(crate) fn unconditional(request: &Request<'_>) -> Result<(), Fault> {
    if request.field("if-match").is_none() && request.field("if-none-match").is_none() {
        return Ok(());
    }
    let text = "this takes no condition: leave `If-Match` and `If-None-Match` out";
    Err(Fault::bad_request(text))
}

fn bad_condition() -> Fault {
    Fault::bad_request(format!(
        "a condition is `If-Match` with at most {TAGS_MAX} tags or `*`, or `If-None-Match: *`"
    ))
}

/// Whether a value's tag is among those that `If-Match` wants (RFC 9110 section 13.1.1): they are compared
/// strongly, so a weak one never is. A plain number is a version.
pub(crate) fn is_wanted(tags: &str, epoch: u64, version: u64) -> bool {
    let mut tags = tags.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || version_of(tag, epoch) == Some(version))
}

/// `PUT /topics/NAME?create`, with a specification as its body.
pub(crate) fn create(name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let operating = Operating::begin("create").text("path", name);
    if request.body.trim_ascii().is_empty() {
        return Ok(operating);
    }
    Ok(operating.raw("spec", json(request)?.text()))
}

/// `GET /topics/NAME?history`.
pub(crate) fn history(name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let mut operating = Operating::begin("history").text("path", name);
    for known in ["last", "version", "since", "to", "limit"] {
        operating = number(operating, known, request)?;
    }
    truth(operating, "amended", request)
}

/// `GET /topics?selector=…`.
pub(crate) fn fetch(selector: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let mut operating = Operating::begin("fetch").text("selector", selector);
    operating = after(operating, request)?;
    for known in ["limit", "depth"] {
        operating = number(operating, known, request)?;
    }
    for known in ["values", "specs"] {
        operating = truth(operating, known, request)?;
    }
    Ok(operating)
}

/// `DELETE /topics?selector=…`.
pub(crate) fn remove(selector: &str) -> Operating {
    Operating::begin("remove").text("selector", selector)
}

/// `GET /sessions`, `GET /queues` and `GET /services`.
pub(crate) fn browse(what: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let operating = match what {
        "queues" => text(Operating::begin("queues"), "pattern", request)?,
        _ => Operating::begin("browse").text("what", what),
    };
    number(after(operating, request)?, "limit", request)
}

/// `GET /queues/NAME`.
pub(crate) fn queue(name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let operating = number(Operating::begin("queue").text("path", name), "after", request)?;
    number(operating, "limit", request)
}

/// `GET /queues/NAME?messages`.
pub(crate) fn peek(name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let mut operating = text(Operating::begin("peek").text("path", name), "selector", request)?;
    for known in ["from", "limit", "body_bytes"] {
        operating = number(operating, known, request)?;
    }
    Ok(operating)
}

/// `DELETE /queues/NAME?messages`.
pub(crate) fn purge(name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    unconditional(request)?;
    if values(request.query, "messages").next().is_none() {
        let text = "a queue goes by itself when it is idle; `?messages` removes the messages that are ready in it";
        return Err(Fault::bad_request(text));
    }
    text(Operating::begin("purge").text("path", name), "selector", request)
}

/// `GET /views`, `PUT /views/NAME` and `DELETE /views/NAME`.
pub(crate) fn views(name: Option<&str>, request: &Request<'_>) -> Result<Operating, Fault> {
    match (name, request.method) {
        (None, _) => Ok(Operating::begin("views")),
        (Some(name), "DELETE") => Ok(Operating::begin("unview").text("name", name)),
        (Some(name), _) => {
            let text = std::str::from_utf8(request.body)
                .map_err(|_| Fault::bad_request("a view is UTF-8 text"))?;
            Ok(Operating::begin("view").text("name", name).text("text", text))
        }
    }
}

/// `GET /subscriptions`, `GET`, `PUT` and `DELETE /subscriptions/NAME`: durable subscriptions, which are queues.
pub(crate) fn subscriptions(name: Option<&str>, request: &Request<'_>) -> Result<Operating, Fault> {
    let Some(name) = name else {
        let pattern = values(request.query, "pattern").next();
        let pattern =
            pattern.map_or(Ok("**".into()), |it| it.ok_or_else(|| undecodable("pattern")));
        let pattern = format!("{DURABLE}/{}", pattern?);
        let operating = Operating::begin("queues").text("pattern", &pattern);
        return number(after(operating, request)?, "limit", request);
    };
    match request.method {
        "DELETE" => {
            unconditional(request)?;
            Ok(Operating::begin("delete-subscription").text("name", name))
        }
        "PUT" => {
            let mut operating = Operating::begin("create-subscription").text("name", name);
            let about = json(request)?;
            for (known, value) in about.fields() {
                let known = known.as_text().unwrap_or_default();
                if !matches!(&*known, "topics" | "selector") {
                    let text = format!(
                        "`{}` is not said of a durable subscription, which has `topics` and perhaps a `selector`",
                        shown(&known)
                    );
                    return Err(Fault::bad_request(text));
                }
                operating = operating.raw(&known, value.text());
            }
            Ok(operating)
        }
        _ => queue(&format!("{DURABLE}/{name}"), request),
    }
}

pub(crate) fn json<'a>(request: &Request<'a>) -> Result<Json<'a>, Fault> {
    Json::parse(request.body, JSON_DEPTH_MAX)
        .map_err(|wrong| Fault::bad_request(format!("the body is no JSON: {wrong}")))
}

/// Where a page begins, if the request says so.
fn after(operating: Operating, request: &Request<'_>) -> Result<Operating, Fault> {
    text(operating, "after", request)
}

fn text(operating: Operating, name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    match values(request.query, name).next() {
        Some(text) => Ok(operating.text(name, &text.ok_or_else(|| undecodable(name))?)),
        None => Ok(operating),
    }
}

fn number(operating: Operating, name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let Some(value) = values(request.query, name).next() else { return Ok(operating) };
    match value.as_ref().and_then(|value| value.parse::<u64>().ok()) {
        Some(number) => Ok(operating.raw(name, &number.to_string())),
        None => Err(Fault::bad_request(format!("`{name}` is a whole number"))),
    }
}

fn truth(operating: Operating, name: &str, request: &Request<'_>) -> Result<Operating, Fault> {
    let Some(value) = values(request.query, name).next() else { return Ok(operating) };
    match value.as_deref() {
        Some("true" | "1" | "") => Ok(operating.raw(name, "true")),
        Some("false" | "0") => Ok(operating.raw(name, "false")),
        _ => Err(Fault::bad_request(format!("`{name}` is `true` or `false`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_a_version_of_this_life_alone() {
        assert_eq!(version_of(&tag(7, 300), 7), Some(300));
        assert_eq!(version_of(&tag(8, 300), 7), None);
        assert_eq!(version_of("\"12\"", 7), Some(12));
        assert_eq!(version_of("12", 7), Some(12));
        assert_eq!(version_of("\"x-y\"", 7), None);
    }

    #[test]
    fn wanted_tags_are_compared_strongly() {
        let tag = tag(7, 300);
        for tags in ["*", &tag, &format!("\"x\", {tag}"), "\"300\""] {
            assert!(is_wanted(tags, 7, 300), "{tags}");
        }
        for tags in ["", "\"x\"", &format!("W/{tag}"), "\"301\""] {
            assert!(!is_wanted(tags, 7, 300), "{tags}");
        }
        assert!(!is_wanted(&tag, 8, 300), "of another life");
    }
}
