//! MESSAGE frames: the bytes that subscribers of one wire form share.
//!
//! Relies on the run's neutral properties being what STOMP 1.2 sends. Invariants: the length given
//! to a message framing is the length of the frame that follows; no publisher of another protocol
//! says where a frame ends.

use std::borrow::Cow;

use memchr::memchr;
use tiderace_wire::{Flags, Framing, Message, properties};

use crate::header::append_value;
use crate::limits::FIXED_BYTES_MAX;
use crate::properties::is_reserved;
use crate::version::Version;

/// What the MESSAGE frames of one delivery have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<'a> {
    pub(crate) framing: Framing,
    pub(crate) version: Version,
    /// Header lines of the subscription that come first.
    pub(crate) prefix: &'a [u8],
    /// The `destination` line of subscriptions to more than one destination; else empty.
    pub(crate) destination: &'a [u8],
    /// The shard that numbered the messages.
    pub(crate) home: u16,
    /// How often they were delivered before.
    pub(crate) redeliveries: u32,
    /// Of subscriptions that want it: how a message says which number it has in its destination.
    pub(crate) sequence: Option<Sequence<'a>>,
    /// Of subscriptions with deltas: which version a message is and how its body is to be read.
    pub(crate) update: Option<Update>,
}

/// How messages say which number they have in their destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence<'a> {
    /// The header.
    pub(crate) name: &'a [u8],
    /// By how much that number is larger than the one that its home gave; wraps.
    pub(crate) ahead: u64,
}

/// A number with what stands around it.
const NUMBER_BYTES: usize = 22;

/// A message as a version of its topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    pub(crate) version: u64,
    /// The codec by which the body is a difference to the version before; none if it is whole.
    pub(crate) codec: Option<&'static str>,
}

/// Names one delivered message to the client that has to acknowledge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The subscription's key.
    pub(crate) key: u32,
    /// Rising within the session.
    pub(crate) number: u64,
}

/// Appends one whole MESSAGE frame, framed.
#[inline]
pub(crate) fn message(form: &Form<'_>, message: &Message<'_>, tag: Option<Tag>, out: &mut Vec<u8>) {
    let sequence = form.sequence.map_or(0, |it| it.name.len() + NUMBER_BYTES);
    let fixed = form.prefix.len() + form.destination.len() + message.properties.len() + sequence;
    out.reserve(fixed + message.body.len() + FIXED_BYTES_MAX);
    if form.framing.is_message() {
        let text = simdutf8::basic::from_utf8(message.body).is_ok();
        framed_head(form, message, tag, text, out);
    } else {
        head(form, message, tag, out);
    }
    out.extend_from_slice(message.body);
    out.push(0);
}

/// Appends a MESSAGE frame up to its body, which follows by other means, as does the NUL.
pub(crate) fn framed_head(
    form: &Form<'_>,
    message: &Message<'_>,
    tag: Option<Tag>,
    text: bool,
    out: &mut Vec<u8>,
) {
    if !form.framing.is_message() {
        return head(form, message, tag, out);
    }
    // The framing's header has a length of its own and comes first, so the head is written behind
    // its largest possible form and moved forward once.
    let start = out.len();
    head(form, message, tag, out);
    let len = out.len() - start + message.body.len() + 1;
    let end = out.len();
    form.framing.begin(len, text, out);
    let header = out.len() - end;
    if let Some(frame) = out.get_mut(start..) {
        frame.rotate_right(header);
    }
}

/// Appends everything from the command to the blank line.
#[inline]
fn head(form: &Form<'_>, message: &Message<'_>, tag: Option<Tag>, out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"MESSAGE\n");
    out.extend_from_slice(form.prefix);
    out.extend_from_slice(b"message-id:");
    out.extend_from_slice(number.format(form.home).as_bytes());
    out.push(b'-');
    out.extend_from_slice(number.format(message.sequence).as_bytes());
    if let Some(tag) = tag {
        out.extend_from_slice(if form.version == Version::V12 { b"\nack:" } else { b"-" });
        out.extend_from_slice(number.format(tag.key).as_bytes());
        out.push(b'-');
        out.extend_from_slice(number.format(tag.number).as_bytes());
    }
    out.push(b'\n');
    out.extend_from_slice(form.destination);
    if let Some(Sequence { name, ahead }) = form.sequence {
        out.extend_from_slice(name);
        out.push(b':');
        out.extend_from_slice(number.format(message.sequence.wrapping_add(ahead)).as_bytes());
        out.push(b'\n');
    }
    if form.redeliveries > 0 {
        out.extend_from_slice(b"redelivered:true\nredeliveries:");
        out.extend_from_slice(number.format(form.redeliveries).as_bytes());
        out.push(b'\n');
    }
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        out.extend_from_slice(b"retain:remove\n");
    }
    let properties = properties_for(form.version, message);
    match form.update {
        None => out.extend_from_slice(&properties),
        Some(update) => {
            out.extend_from_slice(b"version:");
            out.extend_from_slice(number.format(update.version).as_bytes());
            if let Some(codec) = update.codec {
                out.extend_from_slice(b"\ndelta:");
                out.extend_from_slice(codec.as_bytes());
                out.extend_from_slice(b"\nbase-version:");
                out.extend_from_slice(number.format(update.version.wrapping_sub(1)).as_bytes());
            }
            out.push(b'\n');
            append_without_updates(&properties, out);
        }
    }
    out.extend_from_slice(b"content-length:");
    out.extend_from_slice(number.format(message.body.len()).as_bytes());
    out.extend_from_slice(b"\n\n");
}

/// Appends properties but for those that only the server may say where it says versions.
fn append_without_updates(block: &[u8], out: &mut Vec<u8>) {
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        // Clients of 1.0 trim.
        if !matches!(name.trim_ascii(), b"version" | b"delta" | b"base-version") {
            out.extend_from_slice(line);
        }
    }
}

/// The properties as that version says them.
#[inline]
fn properties_for<'a>(version: Version, message: &Message<'a>) -> Cow<'a, [u8]> {
    if !message.flags.contains(Flags::CHECKED) {
        return foreign_properties(version, message.properties);
    }
    if version == Version::V12 || !message.flags.contains(Flags::ESCAPED) {
        return Cow::Borrowed(message.properties);
    }
    Cow::Owned(spelled_properties(version, message.properties))
}

/// Properties that did not come by STOMP, where some names mean nothing and NUL is a character like
/// any other: here they would end the frame somewhere else.
fn foreign_properties(version: Version, block: &[u8]) -> Cow<'_, [u8]> {
    let plain = memchr(0, block).is_none()
        && (version == Version::V12 || memchr(b'\\', block).is_none())
        && properties::raw(block).all(|(name, _)| !is_reserved(name));
    if plain { Cow::Borrowed(block) } else { Cow::Owned(spelled_properties(version, block)) }
}

/// 1.0 knows no escapes: names with a colon or a line break cannot be said and are left out, line
/// breaks in values become spaces. 1.1 lacks the escape of the carriage return alone.
#[cold]
fn spelled_properties(version: Version, block: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.len());
    for (name, value) in properties::raw(block) {
        let start = out.len();
        let name = properties::decode(name);
        if is_reserved(name.as_bytes()) {
            continue;
        }
        append_value(&mut out, version, &name);
        if version == Version::V10 && name.contains([':', '\n', '\r']) {
            out.truncate(start);
            continue;
        }
        out.push(b':');
        append_value(&mut out, version, &properties::decode(value));
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_wire::MessageFraming;

    static MESSAGES: MessageFraming = MessageFraming {
        id: 1,
        text: |len, out| out.extend_from_slice(format!("<t{len}>").as_bytes()),
        binary: |len, out| out.extend_from_slice(format!("<b{len}>").as_bytes()),
        armour: None,
    };

    fn encoded(form: &Form<'_>, properties: &str, body: &[u8], tag: Option<Tag>) -> String {
        let escaped = if properties.contains('\\') { Flags::ESCAPED } else { Flags::NONE };
        let flags = Flags::CHECKED | escaped;
        let row = Message {
            sequence: 42,
            properties: properties.as_bytes(),
            body,
            flags,
            expires_ms: None,
        };
        let mut out = b"before".to_vec();
        message(form, &row, tag, &mut out);
        String::from_utf8_lossy(out.strip_prefix(b"before").unwrap()).into_owned()
    }

    fn form(version: Version) -> Form<'static> {
        Form {
            framing: Framing::Stream,
            version,
            prefix: b"subscription:0\ndestination:/topic/a\n",
            destination: b"",
            home: 1,
            redeliveries: 0,
            sequence: None,
            update: None,
        }
    }

    #[test]
    fn writes_the_headers_in_their_order() {
        let tag = Some(Tag { key: 3, number: 9 });
        assert_eq!(
            encoded(&form(Version::V12), "k:v\n", b"hi", tag),
            "MESSAGE\nsubscription:0\ndestination:/topic/a\nmessage-id:1-42\nack:3-9\nk:v\n\
             content-length:2\n\nhi\0"
        );
        let form = Form { redeliveries: 2, ..form(Version::V11) };
        assert_eq!(
            encoded(&form, "k:v\n", b"hi", tag),
            "MESSAGE\nsubscription:0\ndestination:/topic/a\nmessage-id:1-42-3-9\n\
             redelivered:true\nredeliveries:2\nk:v\ncontent-length:2\n\nhi\0"
        );
    }

    #[test]
    fn a_removal_is_no_empty_message() {
        for version in [Version::V10, Version::V11, Version::V12] {
            let written = |flags: Flags| {
                // Whatever another protocol's publisher says of itself.
                let row = Message {
                    sequence: 42,
                    properties: b"retain:remove\n",
                    body: b"",
                    flags,
                    expires_ms: None,
                };
                let mut out = Vec::new();
                message(&form(version), &row, None, &mut out);
                String::from_utf8(out).unwrap()
            };
            assert!(!written(Flags::NONE).contains("retain"), "{version:?}");
            assert!(!written(Flags::RETAIN).contains("retain"), "{version:?}");
            let removal = written(Flags::RETAIN_REMOVE);
            assert_eq!(removal.matches("\nretain:remove\n").count(), 1, "{version:?}: {removal}");
        }
    }

    #[test]
    fn a_framing_gets_the_true_length_and_kind() {
        let form =
            Form { framing: Framing::Messages(&MESSAGES), prefix: b"", ..form(Version::V12) };
        let text = encoded(&form, "", "ü".as_bytes(), None);
        let (header, frame) = text.split_once('>').unwrap();
        assert_eq!(header, format!("<t{}", frame.len()));
        assert!(encoded(&form, "", b"\xff", None).starts_with("<b"));
    }

    #[test]
    fn older_versions_get_what_they_can_say() {
        let block = "a\\cb:1\nc:x\\ny\\cz\nd:r\\rs\\\\\n";
        let text = encoded(&form(Version::V10), block, b"", None);
        assert!(text.contains("\nc:x y:z\nd:r s\\\ncontent-length"), "{text}");
        let text = encoded(&form(Version::V11), block, b"", None);
        assert!(text.contains("\na\\cb:1\nc:x\\ny\\cz\nd:r s\\\\\ncontent-length"), "{text}");
    }

    #[test]
    fn publishers_of_other_protocols_do_not_say_where_a_frame_ends() {
        for (given, expected) in [
            ("k:v\ncontent-length:0\nmessage-id:1\n x:y\n", "k:v\n x:y\n"),
            ("k:a\0b\n", "k:a?b\n"),
            ("subscription:7\na\\cb:c\\nd\n content-length :0\n", "a\\cb:c\\nd\n"),
            ("a\\cb:c\\nd\n", "a\\cb:c\\nd\n"),
        ] {
            let row = Message {
                sequence: 42,
                properties: given.as_bytes(),
                body: b"",
                flags: Flags::NONE,
                expires_ms: None,
            };
            assert_eq!(properties_for(Version::V12, &row), expected.as_bytes(), "{given}");
        }
        let row = Message {
            sequence: 1,
            properties: b"a:b\\cc\n",
            body: b"",
            flags: Flags::NONE,
            expires_ms: None,
        };
        assert_eq!(&*properties_for(Version::V10, &row), b"a:b:c\n");
    }
}
