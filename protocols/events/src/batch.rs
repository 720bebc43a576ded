//! Batches: a JSON array of messages, and an array of what became of each.
//!
//! ```json
//! [{"topic": "fx/EUR", "value": {"bid": 1.07}, "retain": true},
//!  {"queue": "orders", "text": "…", "contentType": "text/csv", "headers": {"region": "eu"}},
//!  {"topic": "icon", "base64": "iVBORw0…", "contentType": "image/png", "ttl": 5000}]
//! ```
//! Relies on `tiderace-value` for JSON. Invariant: one bad item spoils itself alone; a body that is
//! no array of objects spoils the batch.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tiderace_base::CloseCode;
use tiderace_value::{Json, JsonKind};
use tiderace_wire::{Flags, Kind, QueueFields, properties};

use crate::answer::Fault;
use crate::content::{CONTENT_TYPE, is_field_value};
use crate::limits::{JSON_DEPTH_MAX, PROPERTIES_MAX};
use crate::options::EventsOptions;
use crate::publication::Publication;

/// One message of a batch, or what is wrong with it.
pub(crate) type Item = Result<Publication, Fault>;

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not known yet.
    Waiting,
    /// Published.
    Accepted,
    /// Not published.
    Refused(Fault),
}

/// Reads a batch.
pub(crate) fn read(options: &EventsOptions, body: &[u8]) -> Result<Vec<Item>, Fault> {
    if body.len() > options.batch_bytes_max {
        let text = format!("a batch may have {} bytes", options.batch_bytes_max);
        return Err(Fault::new(CloseCode::FrameTooLarge, text));
    }
    let json = Json::parse(body, JSON_DEPTH_MAX)
        .map_err(|error| Fault::bad_request(format!("the body is no JSON: {error}")))?;
    if json.kind() != JsonKind::Array {
        return Err(Fault::bad_request("a batch is a JSON array of objects"));
    }
    let mut items = Vec::new();
    for element in json.elements() {
        if items.len() == options.batch_items_max {
            let text = format!("a batch may have {} messages", options.batch_items_max);
            return Err(Fault::new(CloseCode::FrameTooLarge, text));
        }
        items.push(item(options, element));
    }
    Ok(items)
}

/// Writes what became of the items.
pub(crate) fn results(outcomes: &[Outcome]) -> Vec<u8> {
    let accepted = outcomes.iter().filter(|outcome| **outcome == Outcome::Accepted).count();
    let refused = outcomes.len() - accepted;
    let mut out =
        format!("{{\"accepted\":{accepted},\"refused\":{refused},\"results\":[").into_bytes();
    for (index, outcome) in outcomes.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match outcome {
            Outcome::Refused(fault) => fault.append(&mut out),
            Outcome::Accepted | Outcome::Waiting => out.extend_from_slice(b"{\"accepted\":1}"),
        }
    }
    out.extend_from_slice(b"]}\n");
    out
}

fn item(options: &EventsOptions, json: Json<'_>) -> Item {
    if json.kind() != JsonKind::Object {
        return Err(Fault::bad_request("an item of a batch is an object"));
    }
    let (mut place, mut body, mut kind) = (None, None, None);
    let (mut retain, mut persistent, mut ttl_ms) = (false, false, None);
    let (mut headers, mut queue) = (Vec::new(), QueueFields::default());
    for (name, value) in json.fields() {
        let name = name.as_text().unwrap_or_default();
        match &*name {
            "topic" => set(&mut place, (Kind::Topic, text(value, &name)?), "topic or queue")?,
            "queue" => set(&mut place, (Kind::Queue, text(value, &name)?), "topic or queue")?,
            "value" => set(&mut body, (value.text().as_bytes().to_vec(), Some(JSON)), BODY)?,
            "text" => set(&mut body, (text(value, &name)?.into_bytes(), None), BODY)?,
            "base64" => {
                let bytes = STANDARD.decode(text(value, &name)?);
                let bytes = bytes.map_err(|_| Fault::bad_request("`base64` is malformed"))?;
                set(&mut body, (bytes, Some(BINARY)), BODY)?;
            }
            "contentType" => {
                let text = text(value, &name)?;
                if !is_field_value(&text) {
                    return Err(Fault::bad_request("`contentType` is malformed"));
                }
                kind = Some(text);
            }
            "retain" => {
                retain = value
                    .as_bool()
                    .ok_or_else(|| Fault::bad_request("`retain` is `true` or `false`"))?;
            }
            "persistent" => {
                persistent = value
                    .as_bool()
                    .ok_or_else(|| Fault::bad_request("`persistent` is `true` or `false`"))?;
            }
            "ttl" => {
                let number = value.as_unsigned().filter(|number| *number > 0);
                let text = "`ttl` is a number of milliseconds";
                ttl_ms = Some(number.ok_or_else(|| Fault::bad_request(text))?);
            }
            "group" => queue.group = Some(text(value, &name)?.into()),
            "priority" => {
                let number = QueueFields::check_priority(value.as_unsigned(), value.text());
                queue.priority = Some(number?);
            }
            "delay" | "deliverAt" => {
                let Some(number) = value.as_unsigned() else {
                    let text = format!("`{name}` is a number of milliseconds");
                    return Err(Fault::new(CloseCode::BadSchedule, text));
                };
                let field = match &*name {
                    "delay" => &mut queue.delay_ms,
                    _ => &mut queue.deliver_at_ms,
                };
                *field = Some(number);
            }
            "headers" => read_headers(value, &mut headers)?,
            _ => return Err(Fault::bad_request("an item has a member that is not known")),
        }
    }
    let Some((destination, name)) = place else {
        return Err(Fault::bad_request("an item needs `topic` or `queue`"));
    };
    let Some((body, own_kind)) = body else {
        return Err(Fault::bad_request("an item needs `value`, `text` or `base64`"));
    };
    if body.len() > options.message_bytes_max {
        let text = format!("a message may have {} bytes", options.message_bytes_max);
        return Err(Fault::new(CloseCode::FrameTooLarge, text));
    }
    let mut block = Vec::new();
    let kind = match (own_kind, kind.as_deref()) {
        (Some(JSON), _) => Some(JSON),
        (own, told) => told.or(own),
    };
    if let Some(kind) = kind {
        properties::append(&mut block, CONTENT_TYPE, kind);
    }
    block.append(&mut headers);
    let mark = |on, mark| if on { mark } else { Flags::NONE };
    let flags = mark(retain && destination == Kind::Topic, Flags::RETAIN)
        | mark(persistent, Flags::PERSISTENT);
    let (kind, properties, file) = (destination, block, None);
    Ok(Publication { kind, name, properties, body, file, flags, ttl_ms, queue })
}

fn read_headers(json: Json<'_>, block: &mut Vec<u8>) -> Result<(), Fault> {
    if json.kind() != JsonKind::Object {
        return Err(Fault::bad_request("`headers` is an object of texts"));
    }
    for (index, (name, value)) in json.fields().enumerate() {
        if index == PROPERTIES_MAX {
            return Err(Fault::bad_request(format!("at most {PROPERTIES_MAX} headers")));
        }
        let name = name.as_text().unwrap_or_default();
        if name.is_empty() || *name == *CONTENT_TYPE {
            let text = "a header needs a name, and the content type is `contentType`";
            return Err(Fault::bad_request(text));
        }
        properties::append(block, &name, &text(value, "headers")?);
    }
    Ok(())
}

fn set<T>(place: &mut Option<T>, value: T, what: &str) -> Result<(), Fault> {
    if place.is_some() {
        return Err(Fault::bad_request(format!("an item has one {what} only")));
    }
    *place = Some(value);
    Ok(())
}

fn text(json: Json<'_>, name: &str) -> Result<String, Fault> {
    let text = json.as_text().ok_or_else(|| Fault::bad_request(format!("`{name}` is text")))?;
    Ok(text.into_owned())
}

const BODY: &str = "value, text or base64";
const JSON: &str = "application/json";
const BINARY: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Item {
        let mut items = read(&EventsOptions::default(), format!("[{text}]").as_bytes()).unwrap();
        items.remove(0)
    }

    #[test]
    fn items_say_where_and_what() {
        let item =
            one(r#"{"topic": "a/b", "value": {"x": [1, 2]}, "retain": true, "ttl": 5}"#).unwrap();
        assert_eq!((item.kind, &*item.name), (Kind::Topic, "a/b"));
        assert_eq!(item.body, br#"{"x": [1, 2]}"#);
        assert_eq!(item.properties, b"content-type:application/json\n");
        assert_eq!((item.flags, item.ttl_ms), (Flags::RETAIN, Some(5)));
        let item = one(r#"{"queue":"q","text":"x","persistent":true}"#).unwrap();
        assert_eq!(item.flags, Flags::PERSISTENT);
        let item = one(r#"{"queue":"q","text":"h\u00fc","headers":{"a:b":"c"}}"#).unwrap();
        assert_eq!((item.kind, &*item.body), (Kind::Queue, "hü".as_bytes()));
        assert_eq!(item.properties, b"a\\cb:c\n");
        let item = one(r#"{"topic":"t","base64":"/w==","contentType":"image/png"}"#).unwrap();
        assert_eq!(
            (&*item.body, &*item.properties),
            (&b"\xff"[..], &b"content-type:image/png\n"[..])
        );
    }

    #[test]
    fn a_bad_item_spoils_itself_alone() {
        for bad in [
            "1",
            "{}",
            r#"{"topic":"a"}"#,
            r#"{"value":1}"#,
            r#"{"topic":"a","queue":"b","value":1}"#,
            r#"{"topic":"a","value":1,"text":"x"}"#,
            r#"{"topic":1,"value":1}"#,
            r#"{"topic":"a","value":1,"retain":1}"#,
            r#"{"queue":"a","value":1,"persistent":"yes"}"#,
            r#"{"topic":"a","value":1,"ttl":-1}"#,
            r#"{"topic":"a","base64":"???"}"#,
            r#"{"topic":"a","value":1,"headers":{"a":1}}"#,
            r#"{"topic":"a","text":"","contentType":"a\nb"}"#,
            r#"{"topic":"a","value":1,"other":1}"#,
        ] {
            assert!(one(bad).is_err(), "{bad}");
            let text = format!("[{bad},{{\"topic\":\"a\",\"value\":null}}]");
            assert!(read(&EventsOptions::default(), text.as_bytes()).unwrap()[1].is_ok());
        }
    }

    #[test]
    fn batches_are_bounded_arrays() {
        let options =
            EventsOptions { batch_items_max: 2, batch_bytes_max: 50, ..EventsOptions::default() };
        let status = |body: &[u8]| {
            read(&options, body).map(|items| items.len()).map_err(|fault| fault.status)
        };
        assert_eq!(status(b"[]"), Ok(0));
        assert_eq!(status(b"[1,2]"), Ok(2));
        assert_eq!(status(b"[1,2,3]"), Err(413));
        assert_eq!(status(&[b' '; 51]), Err(413));
        for bad in [&b"{}"[..], b"", b"[", b"\xff", b"[] []"] {
            assert_eq!(status(bad), Err(400));
        }
    }

    #[test]
    fn results_are_counted() {
        let outcomes = [Outcome::Accepted, Outcome::Refused(Fault::bad_request("no"))];
        let text = String::from_utf8(results(&outcomes)).unwrap();
        assert_eq!(
            text,
            "{\"accepted\":1,\"refused\":1,\"results\":[{\"accepted\":1},\
             {\"code\":\"bad-request\",\"message\":\"no\"}]}\n"
        );
    }
}
