//! Events on the wire: frames of `text/event-stream` (HTML standard, section 9.2) and lines of
//! NDJSON, without the ends that carry the client's position.
//!
//! Relies on `content` to tell what bodies are. Invariants: what subscribers share holds nothing of
//! one session; a frame's data cannot contain the end of a frame, whatever was published.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tiderace_value::append_text;
use tiderace_wire::{Flags, Message, Run, properties};

use crate::content::{CONTENT_TYPE, Content, content, content_type, essence};

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Server-Sent Events whose data is the body.
    Plain,
    /// Server-Sent Events whose data is a JSON object that names the topic.
    Object,
    /// One JSON object a line.
    Lines,
}

impl Form {
    /// Its place in encoding keys.
    pub(crate) fn id(self) -> u8 {
        match self {
            Form::Plain => 0,
            Form::Object => 1,
            Form::Lines => 2,
        }
    }
}

/// Appends the events of messages `from..to` of a run; the last one is still to be ended.
pub(crate) fn run(form: Form, run: &Run, from: usize, to: usize, out: &mut Vec<u8>) {
    let topic = run.destination().path.as_str();
    for index in from..to {
        let Some(message) = run.message(index) else { return };
        if index > from {
            end(form, None, out);
        }
        let version = if run.version() > 0 { run.version() + index as u64 } else { 0 };
        match form {
            Form::Plain => plain(&message, out),
            Form::Object => {
                out.extend_from_slice(b"data: ");
                object(topic, (version, run.follows_at(index)), &message, out);
                out.extend_from_slice(b"}\n");
            }
            Form::Lines => object(topic, (version, run.follows_at(index)), &message, out),
        }
    }
}

/// Ends an event, with the position it leaves the client at if it is told.
pub(crate) fn end(form: Form, position: Option<&str>, out: &mut Vec<u8>) {
    match (form, position) {
        (Form::Plain | Form::Object, None) => out.push(b'\n'),
        (Form::Plain | Form::Object, Some(position)) => {
            out.extend_from_slice(b"id: ");
            out.extend_from_slice(position.as_bytes());
            out.extend_from_slice(b"\n\n");
        }
        (Form::Lines, None) => out.extend_from_slice(b"}\n"),
        (Form::Lines, Some(position)) => {
            out.extend_from_slice(b",\"position\":");
            append_text(out, position);
            out.extend_from_slice(b"}\n");
        }
    }
}

/// Appends something the server has to say: an event of its own name with a JSON object, whose
/// members stand in `members` without the brackets.
pub(crate) fn notice(
    form: Form,
    event: &str,
    members: &[u8],
    position: Option<&str>,
    out: &mut Vec<u8>,
) {
    match form {
        Form::Plain | Form::Object => {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(event.as_bytes());
            out.extend_from_slice(b"\ndata: {");
            out.extend_from_slice(members);
            out.extend_from_slice(b"}\n");
        }
        Form::Lines => {
            out.extend_from_slice(b"{\"event\":");
            append_text(out, event);
            if !members.is_empty() {
                out.push(b',');
                out.extend_from_slice(members);
            }
        }
    }
    end(form, position, out);
}

/// Appends a sign of life, with the position if it has moved.
pub(crate) fn heart_beat(form: Form, position: Option<&str>, out: &mut Vec<u8>) {
    match form {
        Form::Plain | Form::Object => {
            out.extend_from_slice(b":\n");
            end(form, position, out);
        }
        Form::Lines => notice(form, "heartbeat", b"", position, out),
    }
}

/// Appends a message as a JSON object without its last bracket: of a version, which follows another one
/// if that is not one less.
pub(crate) fn object(
    topic: &str,
    (version, follows): (u64, Option<u64>),
    message: &Message<'_>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"topic\":");
    append_text(out, topic);
    if version > 0 {
        out.extend_from_slice(b",\"version\":");
        out.extend_from_slice(itoa::Buffer::new().format(version).as_bytes());
    }
    if let Some(follows) = follows {
        out.extend_from_slice(b",\"follows\":");
        out.extend_from_slice(itoa::Buffer::new().format(follows).as_bytes());
    }
    append_properties(message, out);
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        out.extend_from_slice(b",\"removed\":true");
        return;
    }
    let kind = content_type(message);
    match content(kind.as_deref(), message.body) {
        Content::Json(json) => {
            out.extend_from_slice(b",\"value\":");
            // Between JSON's parts a line break is white space, and inside its strings there is none.
            let spaced = |byte: u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
            out.extend(json.text().bytes().map(spaced));
        }
        Content::Text(text) => {
            append_type(kind.as_deref().filter(|kind| essence(kind) != "text/plain"), out);
            out.extend_from_slice(b",\"value\":");
            append_text(out, text);
        }
        Content::Binary(bytes) => {
            append_type(kind.as_deref(), out);
            out.extend_from_slice(b",\"base64\":\"");
            append_base64(bytes, out);
            out.push(b'"');
        }
    }
}

fn append_type(kind: Option<&str>, out: &mut Vec<u8>) {
    if let Some(kind) = kind {
        out.extend_from_slice(b",\"contentType\":");
        append_text(out, kind);
    }
}

fn append_properties(message: &Message<'_>, out: &mut Vec<u8>) {
    let mut any = false;
    for (name, value) in properties::raw(message.properties) {
        let name = properties::decode(name);
        if name == CONTENT_TYPE {
            continue;
        }
        out.extend_from_slice(if any { b"," } else { b",\"properties\":{" });
        any = true;
        append_text(out, &name);
        out.push(b':');
        append_text(out, &properties::decode(value));
    }
    if any {
        out.push(b'}');
    }
}

/// The body as data: every line of it on a line of its own, since a line break ends a field.
fn plain(message: &Message<'_>, out: &mut Vec<u8>) {
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        return out.extend_from_slice(b"event: removed\ndata:\n");
    }
    let kind = content_type(message);
    match content(kind.as_deref(), message.body) {
        Content::Json(json) => append_lines(json.text(), out),
        Content::Text(text) => append_lines(text, out),
        Content::Binary(bytes) => {
            out.extend_from_slice(b"event: binary\ndata: ");
            append_base64(bytes, out);
            out.push(b'\n');
        }
    }
}

fn append_lines(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    loop {
        let end = rest.find(['\n', '\r']);
        let (line, tail) = rest.split_at(end.unwrap_or(rest.len()));
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
        if end.is_none() {
            return;
        }
        rest = tail.strip_prefix("\r\n").or_else(|| tail.get(1..)).unwrap_or("");
    }
}

fn append_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    if let Some(place) = out.get_mut(start..) {
        // The place is exactly as large as the text becomes.
        let _ = STANDARD.encode_slice(bytes, place);
    }
}
