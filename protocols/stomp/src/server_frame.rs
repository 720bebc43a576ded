//! The frames a server sends besides MESSAGE: CONNECTED, RECEIPT, ERROR, and heart-beats.
//!
//! Relies on `header` for escaping. Invariant: one call writes one frame, framed.

use tiderace_base::{Close, ErrorClass, SessionId, Span};
use tiderace_wire::Output;

use crate::encode::Tag;
use crate::header::{append, append_value};
use crate::version::{SUPPORTED, Version};

/// What a CONNECTED frame says.
#[derive(Debug)]
pub(crate) struct Connected<'a> {
    pub(crate) version: Version,
    pub(crate) server: &'a str,
    pub(crate) session: SessionId,
    /// Intervals the server sends and wants; absent in 1.0, which knows no heart-beats.
    pub(crate) heart_beat: Option<(Span, Span)>,
    pub(crate) user: Option<&'a str>,
}

/// Writes CONNECTED. Its values are never escaped ("Value Encoding"), so line breaks are replaced.
pub(crate) fn connected(connected: &Connected<'_>, output: &mut Output<'_>) {
    let mut frame = b"CONNECTED\n".to_vec();
    let mut line = |name: &str, value: &str| append(&mut frame, Version::V10, name, value);
    line("version", connected.version.name());
    line("server", connected.server);
    line("session", &connected.session.to_string());
    if let Some((send, receive)) = connected.heart_beat {
        line("heart-beat", &format!("{},{}", send.as_millis(), receive.as_millis()));
    }
    if let Some(user) = connected.user {
        line("user-name", user);
    }
    frame.extend_from_slice(b"\n\0");
    output.frame(&frame, true);
}

/// Writes RECEIPT; `text` is as the client spelled it, which is how it is spelled back.
pub(crate) fn receipt(text: &[u8], output: &mut Output<'_>) {
    let len = RECEIPT_HEAD.len() + text.len() + RECEIPT_TAIL.len();
    let framing = output.framing;
    let tail = output.queue.tail();
    framing.begin(len, true, tail);
    tail.extend_from_slice(RECEIPT_HEAD);
    tail.extend_from_slice(text);
    tail.extend_from_slice(RECEIPT_TAIL);
}

/// Writes the MESSAGE that ends a browser, whose messages begin with these lines; it is no message, and has a name all the
/// same, by which it is acknowledged where messages are.
pub(crate) fn browser_end(
    version: Version,
    lines: &[u8],
    (key, tag): (u32, Option<Tag>),
    output: &mut Output<'_>,
) {
    let mut frame = b"MESSAGE\n".to_vec();
    frame.extend_from_slice(lines);
    let mut name = format!("message-id:end-{key}");
    if let Some(Tag { key, number }) = tag {
        let separator = if version == Version::V12 { "\nack:" } else { "-" };
        name.push_str(&format!("{separator}{key}-{number}"));
    }
    frame.extend_from_slice(name.as_bytes());
    frame.extend_from_slice(b"\nbrowser:end\ncontent-length:0\n\n\0");
    output.frame(&frame, true);
}

/// The line of ERROR that names the frame to blame, by the text of its receipt as the client spelled it.
pub(crate) fn receipt_line(text: &[u8]) -> Box<[u8]> {
    [b"receipt-id:", text, b"\n"].concat().into()
}

/// Writes ERROR; `blamed` are the lines that name what is to blame for it.
pub(crate) fn error(
    close: &Close,
    version: Version,
    blamed: Option<&[u8]>,
    output: &mut Output<'_>,
) {
    let mut frame = b"ERROR\n".to_vec();
    let sentence = close.reason.split_once(". ").map_or(&*close.reason, |(first, _)| first);
    append(&mut frame, version, "message", sentence.trim_end_matches('.'));
    frame.extend_from_slice(b"code:");
    append_value(&mut frame, version, close.code.slug());
    frame.push(b'\n');
    if let Some(addresses) = &close.addresses {
        append(&mut frame, version, "reconnect-to", &addresses.to_string());
    }
    frame.extend_from_slice(blamed.unwrap_or_default());
    if close.code.class() == ErrorClass::Unsupported {
        append(&mut frame, version, "version", SUPPORTED);
    }
    append(&mut frame, version, "content-type", "text/plain");
    // The body is whole sentences, also where the reason is not one.
    let end = if close.reason.ends_with(['.', '!', '?']) { "" } else { "." };
    append(&mut frame, version, "content-length", &(close.reason.len() + end.len()).to_string());
    frame.push(b'\n');
    frame.extend_from_slice(close.reason.as_bytes());
    frame.extend_from_slice(end.as_bytes());
    frame.push(0);
    output.frame(&frame, true);
}

/// Writes a heart-beat.
pub(crate) fn heart_beat(output: &mut Output<'_>) {
    output.frame(b"\n", true);
}

const RECEIPT_HEAD: &[u8] = b"RECEIPT\nreceipt-id:";
const RECEIPT_TAIL: &[u8] = b"\n\n\0";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::{CloseCode, ShardId};
    use tiderace_wire::{Framing, OutQueue};

    fn written(write: impl FnOnce(&mut Output<'_>)) -> String {
        let mut queue = OutQueue::new();
        write(&mut Output { framing: Framing::Stream, queue: &mut queue });
        String::from_utf8(queue.tail().clone()).unwrap()
    }

    #[test]
    fn an_error_says_it_short_and_long() {
        let close = Close::new(CloseCode::BadHeader, "SEND: wrong: x. Do better.");
        let text =
            written(|output| error(&close, Version::V12, Some(&receipt_line(b"r\\c1")), output));
        assert_eq!(
            text,
            "ERROR\nmessage:SEND\\c wrong\\c x\ncode:bad-header\nreceipt-id:r\\c1\n\
             content-type:text/plain\ncontent-length:26\n\nSEND: wrong: x. Do better.\0"
        );
        let close = Close::new(CloseCode::BadHeader, "wrong: x; do better");
        let text = written(|output| error(&close, Version::V12, None, output));
        assert!(text.ends_with("content-length:20\n\nwrong: x; do better.\0"), "{text}");
        let to = tiderace_base::Addresses::new(["wss://b.example.org", "tcp://b.example.org:1"]);
        let close = Close::from(CloseCode::Draining).to(to.unwrap());
        let text = written(|output| error(&close, Version::V12, None, output));
        let header =
            "\ncode:draining\nreconnect-to:wss\\c//b.example.org,tcp\\c//b.example.org\\c1\n";
        assert!(text.contains(header), "{text}");
    }

    #[test]
    fn connected_is_not_escaped_and_not_broken() {
        let frame = Connected {
            version: Version::V12,
            server: "tiderace/1",
            session: SessionId { shard: ShardId(1), slot: 5, generation: 0 },
            heart_beat: Some((Span::from_secs(1), Span::ZERO)),
            user: Some("a:b\nc"),
        };
        assert_eq!(
            written(|output| connected(&frame, output)),
            "CONNECTED\nversion:1.2\nserver:tiderace/1\nsession:s1-5-0\nheart-beat:1000,0\n\
             user-name:a:b c\n\n\0"
        );
    }
}
