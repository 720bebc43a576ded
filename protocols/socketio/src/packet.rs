//! Packets of Socket.IO: `<type>[<attachments>-][<namespace>,][<ack id>][JSON]`.
//!
//! Relies on `tiderace-value` for JSON. Invariant: a packet that is given is one the protocol allows
//! a client to send, so nothing behind this module checks shapes again.

use tiderace_base::{Close, CloseCode};
use tiderace_value::{Json, JsonKind};

use crate::limits::{ACK_MAX, NAMESPACE_BYTES_MAX};
use crate::options::SocketOptions;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketKind {
    /// Asks for a namespace.
    Connect,
    /// Leaves one.
    Disconnect,
    /// An event, with attachments or without.
    Event,
    /// An answer, with attachments or without.
    Ack,
}

/// One packet of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) kind: PacketKind,
    /// How many binary messages follow.
    pub(crate) attachments: usize,
    /// With its slash; `/` if none was named.
    pub(crate) namespace: &'a str,
    /// What followed a `?` of the namespace.
    pub(crate) query: Option<&'a str>,
    pub(crate) ack: Option<u64>,
    /// The array of an event or answer, the object of a CONNECT.
    pub(crate) data: Option<Json<'a>>,
}

/// What a decoder allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) attachments_max: usize,
    pub(crate) depth_max: usize,
}

impl SocketOptions {
    /// What a packet may be, from either side.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { attachments_max: self.attachments_max, depth_max: self.depth_max }
    }
}

/// Reads one packet.
pub(crate) fn decode(text: &[u8], bounds: Bounds) -> Result<Packet<'_>, Close> {
    let (kind, binary, rest) = match text.split_first() {
        Some((b'0', rest)) => (PacketKind::Connect, false, rest),
        Some((b'1', rest)) => (PacketKind::Disconnect, false, rest),
        Some((b'2', rest)) => (PacketKind::Event, false, rest),
        Some((b'3', rest)) => (PacketKind::Ack, false, rest),
        Some((b'5', rest)) => (PacketKind::Event, true, rest),
        Some((b'6', rest)) => (PacketKind::Ack, true, rest),
        Some((b'4', _)) => return Err(bad("CONNECT_ERROR is sent by servers only")),
        _ => return Err(bad("a packet begins with a type from 0 to 6")),
    };
    let (attachments, rest) = if binary { attachments(rest, bounds)? } else { (0, rest) };
    let (namespace, query, rest) = namespace(rest)?;
    let (ack, rest) = ack(rest)?;
    let data = match rest {
        [] => None,
        rest => Some(Json::parse(rest, bounds.depth_max).map_err(|error| {
            Close::new(CloseCode::BadFrame, format!("the JSON of a packet is wrong: {error}"))
        })?),
    };
    let packet = Packet { kind, attachments, namespace, query, ack, data };
    check(&packet)?;
    Ok(packet)
}

fn check(packet: &Packet<'_>) -> Result<(), Close> {
    let kind = packet.data.map(Json::kind);
    match packet.kind {
        PacketKind::Connect if packet.ack.is_some() => Err(bad("CONNECT has no ack id")),
        PacketKind::Connect if !matches!(kind, None | Some(JsonKind::Object)) => {
            Err(bad("the payload of CONNECT is an object"))
        }
        PacketKind::Disconnect if kind.is_some() || packet.ack.is_some() => {
            Err(bad("DISCONNECT has no payload"))
        }
        PacketKind::Event => check_event(packet),
        PacketKind::Ack if packet.ack.is_none() => Err(bad("an ACK names what it answers")),
        PacketKind::Ack if kind != Some(JsonKind::Array) => {
            Err(bad("the payload of an ACK is an array"))
        }
        _ => Ok(()),
    }?;
    if packet.attachments > 0
        && let Some(data) = packet.data
    {
        check_placeholders(data, packet.attachments)?;
    }
    Ok(())
}

fn check_event(packet: &Packet<'_>) -> Result<(), Close> {
    let name = packet.data.filter(|data| data.kind() == JsonKind::Array);
    let name = name.and_then(|data| data.elements().next());
    let Some(name) = name else {
        return Err(bad("the payload of an event is an array that begins with its name"));
    };
    match name.kind() {
        JsonKind::Number => Ok(()),
        JsonKind::Text if name.as_text().is_some_and(|name| is_reserved(&name)) => {
            Err(bad("the event's name is reserved"))
        }
        JsonKind::Text => Ok(()),
        _ => Err(bad("the name of an event is a string or a number")),
    }
}

/// Whether an event's name is one that libraries raise themselves.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Checks that every placeholder in a value names one of so many attachments.
pub(crate) fn check_placeholders(data: Json<'_>, attachments: usize) -> Result<(), Close> {
    let fits = |[mark, number]: [Option<Json<'_>>; 2]| {
        !is_mark(mark) || index(number).is_some_and(|number| number < attachments)
    };
    if data.all_objects(PLACEHOLDER, fits) {
        return Ok(());
    }
    Err(bad("a placeholder names no attachment of its packet"))
}

/// Whether some object in a value stands for an attachment.
pub(crate) fn has_placeholder(value: Json<'_>) -> bool {
    !value.all_objects(PLACEHOLDER, |[mark, number]| !is_mark(mark) || index(number).is_none())
}

/// The attachment a value stands for as a whole.
pub(crate) fn placeholder(value: Json<'_>) -> Option<usize> {
    let [mark, number] = PLACEHOLDER.map(|name| value.field(name));
    is_mark(mark).then(|| index(number)).flatten()
}

fn is_mark(value: Option<Json<'_>>) -> bool {
    value.and_then(Json::as_bool) == Some(true)
}

fn index(value: Option<Json<'_>>) -> Option<usize> {
    value?.as_unsigned().and_then(|number| usize::try_from(number).ok())
}

fn attachments(text: &[u8], bounds: Bounds) -> Result<(usize, &[u8]), Close> {
    let (count, rest) = digits(text);
    let Some((b'-', rest)) = rest.split_first().map(|(byte, rest)| (*byte, rest)) else {
        return Err(bad("a binary packet says how many attachments follow, and then `-`"));
    };
    match count {
        Some(count) if count <= bounds.attachments_max as u64 => Ok((count as usize, rest)),
        Some(_) => {
            let max = bounds.attachments_max;
            let reason = format!("a packet has more attachments than {max}");
            Err(Close::new(CloseCode::FrameTooLarge, reason))
        }
        None => Err(bad("a binary packet says how many attachments follow, and then `-`")),
    }
}

type Named<'a> = (&'a str, Option<&'a str>, &'a [u8]);

fn namespace(text: &[u8]) -> Result<Named<'_>, Close> {
    if text.first() != Some(&b'/') {
        return Ok(("/", None, text));
    }
    let end = text.iter().position(|byte| *byte == b',').unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
    if name.len() > NAMESPACE_BYTES_MAX {
        return Err(bad("the name of a namespace is too long"));
    }
    let name = std::str::from_utf8(name).map_err(|_| Close::from(CloseCode::BadText))?;
    let rest = rest.get(1..).unwrap_or_default();
    match name.split_once('?') {
        Some((name, query)) => Ok((name, Some(query), rest)),
        None => Ok((name, None, rest)),
    }
}

fn ack(text: &[u8]) -> Result<(Option<u64>, &[u8]), Close> {
    match digits(text) {
        (Some(id), rest) if id <= ACK_MAX => Ok((Some(id), rest)),
        (None, rest) if rest.len() == text.len() => Ok((None, rest)),
        _ => Err(bad("the ack id is too large")),
    }
}

/// A number at the front and what follows; `None` if there are no digits or too many.
fn digits(text: &[u8]) -> (Option<u64>, &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(count).unwrap_or((&[], text));
    (std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()), rest)
}

/// A packet that breaks the protocol.
pub(crate) fn bad(reason: &'static str) -> Close {
    Close::new(CloseCode::BadFrame, reason)
}

/// The fields of an object that stands for an attachment: a mark, and which one.
const PLACEHOLDER: [&str; 2] = ["_placeholder", "num"];
/// Names of events that libraries raise themselves.
const RESERVED: [&str; 6] =
    ["connect", "connect_error", "disconnect", "disconnecting", "newListener", "removeListener"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { attachments_max: 10, depth_max: 16 };

    type Row<'a> = (PacketKind, usize, &'a str, Option<u64>, Option<&'a str>);

    fn read(text: &str) -> Option<Row<'_>> {
        let packet = decode(text.as_bytes(), BOUNDS).ok()?;
        let data = packet.data.map(Json::text);
        Some((packet.kind, packet.attachments, packet.namespace, packet.ack, data))
    }

    #[test]
    fn packets_are_read_as_specified() {
        use PacketKind::*;
        let rows = [
            ("0", (Connect, 0, "/", None, None)),
            ("0/custom", (Connect, 0, "/custom", None, None)),
            ("0/custom,", (Connect, 0, "/custom", None, None)),
            ("0/admin?token=1&uid=2", (Connect, 0, "/admin", None, None)),
            ("0{\"token\":\"t\"}", (Connect, 0, "/", None, Some("{\"token\":\"t\"}"))),
            ("0/a,{}", (Connect, 0, "/a", None, Some("{}"))),
            ("1", (Disconnect, 0, "/", None, None)),
            ("1/admin,", (Disconnect, 0, "/admin", None, None)),
            ("2[\"foo\"]", (Event, 0, "/", None, Some("[\"foo\"]"))),
            ("2[1]", (Event, 0, "/", None, Some("[1]"))),
            ("2/admin,12[\"bar\"]", (Event, 0, "/admin", Some(12), Some("[\"bar\"]"))),
            ("3/admin,13[]", (Ack, 0, "/admin", Some(13), Some("[]"))),
            ("30[\"a\"]", (Ack, 0, "/", Some(0), Some("[\"a\"]"))),
            (
                "51-[\"baz\",{\"_placeholder\":true,\"num\":0}]",
                (Event, 1, "/", None, Some("[\"baz\",{\"_placeholder\":true,\"num\":0}]")),
            ),
            (
                "61-/admin,15[{\"_placeholder\":true,\"num\":0}]",
                (Ack, 1, "/admin", Some(15), Some("[{\"_placeholder\":true,\"num\":0}]")),
            ),
            ("50-[\"a\"]", (Event, 0, "/", None, Some("[\"a\"]"))),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_the_protocol_forbids_is_refused() {
        for text in [
            "",
            "7",
            "a",
            "4{\"message\":\"x\"}",
            "0[]",
            "0\"x\"",
            "01{}",
            "1{}",
            "1[]",
            "12",
            "2",
            "2[]",
            "2{}",
            "2[{}]",
            "2[null]",
            "2[true]",
            "2[\"a\"",
            "2[\"a\"]x",
            "2/a",
            "2[\"connect\"]",
            "2[\"disconnect\"]",
            "2[\"connect_error\"]",
            "2[\"disconnecting\"]",
            "2[\"newListener\"]",
            "2[\"removeListener\"]",
            "2[\"connec\\u0074\"]",
            "3[]",
            "31{}",
            "31",
            "3/admin,[]",
            "2-1[\"a\"]",
            "21-[\"a\"]",
            "2+1[\"a\"]",
            "299999999999999999999[\"a\"]",
            "29007199254740992[\"a\"]",
            "5[\"a\"]",
            "5-[\"a\"]",
            "511-[\"a\"]",
            "5999999999999999999999-[\"a\"]",
            "5x-[\"a\"]",
            "51-[\"a\",{\"_placeholder\":true,\"num\":1}]",
            "51-[\"a\",{\"_placeholder\":true,\"num\":-1}]",
            "51-[\"a\",{\"_placeholder\":true,\"num\":0.5}]",
            "51-[\"a\",{\"_placeholder\":true,\"num\":\"splice\"}]",
            "51-[\"a\",{\"_placeholder\":true}]",
            "51-[\"a\",{\"_placeholder\":true,\"num\":9e99}]",
            "51-[\"a\",[{\"x\":{\"_place\\u0068older\":true,\"num\":7}}]]",
        ] {
            assert!(decode(text.as_bytes(), BOUNDS).is_err(), "{text}");
        }
        let deep = format!("2[\"a\",{}{}]", "[".repeat(20), "]".repeat(20));
        assert!(decode(deep.as_bytes(), BOUNDS).is_err());
        assert!(decode(format!("0/{}", "x".repeat(300)).as_bytes(), BOUNDS).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "[0-7]?[0-9]{0,2}-?(/[a-z?]{0,3},?)?[0-9]{0,3}[\\[\\]{}\",a0]{0,9}") {
            let _ = decode(text.as_bytes(), BOUNDS);
        }

        #[test]
        fn what_is_written_is_read(
            attachments in 0usize..4,
            namespace in "(/[a-z]{1,5})?",
            id in proptest::option::of(0u64..1000),
            name in "[a-z]{1,5}1",
        ) {
            let kind = if attachments > 0 { format!("5{attachments}-") } else { "2".to_owned() };
            let comma = if namespace.is_empty() { "" } else { "," };
            let ack = id.map(|id| id.to_string()).unwrap_or_default();
            let text = format!("{kind}{namespace}{comma}{ack}[\"{name}\"]");
            let packet = decode(text.as_bytes(), BOUNDS).unwrap();
            prop_assert_eq!(packet.attachments, attachments);
            prop_assert_eq!(packet.namespace, if namespace.is_empty() { "/" } else { &*namespace });
            prop_assert_eq!(packet.ack, id);
        }
    }
}
