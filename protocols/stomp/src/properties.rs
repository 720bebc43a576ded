//! Header lines of a SEND that become message properties, in the neutral form of
//! [`tiderace_wire::properties`].
//!
//! Relies on `header`. Invariants: no reserved name passes; every line that passes reads the same
//! for receivers of all versions that can say it.

use memchr::{memchr, memchr_iter, memchr2, memchr3};

use tiderace_wire::TemporaryName;

use crate::destination::publish_reply_to;
use crate::header::{Headers, Unreadable, split};
use crate::version::Version;

/// Appends the properties of a SEND but for names that are left out; says whether any of them holds an escape.
pub(crate) fn append(
    headers: Headers<'_>,
    session: &TemporaryName,
    is_left_out: &dyn Fn(&[u8]) -> bool,
    out: &mut Vec<u8>,
) -> Result<bool, Unreadable> {
    let mut escaped = false;
    let mut reply_to_seen = false;
    for line in headers.lines() {
        let Some((name, value)) = split(line, headers.version) else { continue };
        if is_reserved(name) || is_left_out(name) {
            continue;
        }
        if name == b"reply-to" {
            if std::mem::replace(&mut reply_to_seen, true) {
                continue;
            }
            if value.starts_with(b"/temp-") {
                let text = headers.decode(value)?;
                let public = publish_reply_to(&text, session);
                let text = public.as_deref().unwrap_or(&text);
                tiderace_wire::properties::append(out, "reply-to", text);
                continue;
            }
        }
        if headers.version != Version::V10 && is_plain(line, value) {
            out.extend_from_slice(line);
            out.push(b'\n');
            escaped |= memchr(b'\\', line).is_some();
            continue;
        }
        let start = out.len();
        let (name, value) = (headers.decode(name)?, headers.decode(value)?);
        tiderace_wire::properties::append(out, &name, &value);
        escaped |= memchr(b'\\', out.get(start..).unwrap_or_default()).is_some();
    }
    Ok(escaped)
}

/// Whether every line of a block of 1.1 or 1.2 is its own neutral form: no escape to check, no
/// carriage return, no colon but the one behind each name.
pub(crate) fn is_neutral(headers: Headers<'_>, lines: usize) -> bool {
    headers.version != Version::V10
        && memchr2(b'\\', b'\r', headers.block).is_none()
        && memchr_iter(b':', headers.block).count() == lines
}

/// Whether receivers may get this name from nobody but the server, or the server has used it up.
/// Padding does not help: clients of 1.0 trim, and would take `content-length ` for the length.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    let name = name.trim_ascii();
    match name.len() {
        3 => matches!(name, b"ack" | b"ttl"),
        4 => name == b"code",
        5 => name == b"patch",
        6 => name == b"retain",
        7 => name == b"receipt",
        9 => name == b"if-absent",
        10 => matches!(name, b"message-id" | b"if-version"),
        11 => matches!(name, b"destination" | b"transaction" | b"redelivered"),
        12 => matches!(name, b"subscription" | b"redeliveries"),
        14 => name == b"content-length",
        _ => false,
    }
}

/// Whether a line of 1.1 or 1.2 needs no rewriting: no escape to check, no raw colon in the value,
/// no carriage return.
fn is_plain(line: &[u8], value: &[u8]) -> bool {
    memchr3(b'\\', b'\r', b':', value).is_none()
        && memchr3(b'\\', b'\r', b'\n', line.get(..line.len() - value.len()).unwrap_or(line))
            .is_none()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn neutral(block: &str, version: Version) -> Result<(String, bool), Unreadable> {
        let mut out = Vec::new();
        let headers = Headers { block: block.as_bytes(), version, escaped: true };
        let escaped = append(headers, &TemporaryName::default(), &|_| false, &mut out)?;
        Ok((String::from_utf8(out).unwrap(), escaped))
    }

    #[test]
    fn strips_what_only_the_server_may_say() {
        let block = "destination:/topic/a\nfoo:1\nreceipt:r\ntransaction:t\nack:x\nmessage-id:y\n\
            subscription:z\nredelivered:true\nredeliveries:9\ncode:c\ncontent-length:3\nttl:5\n\
            retain:set\ncontent-length :1\n ack:x\nbar:2\npersistent:true\n";
        let expected = ("foo:1\nbar:2\npersistent:true\n".to_owned(), false);
        assert_eq!(neutral(block, Version::V12), Ok(expected));
    }

    #[test]
    fn says_the_same_whatever_the_version() {
        for (block, version, expected) in [
            ("a:b\\cc\n", Version::V12, "a:b\\cc\n"),
            ("a:b:c\n", Version::V12, "a:b\\cc\n"),
            ("a: b\\\\ \r\n", Version::V11, "a: b\\\\ \n"),
            ("a:b\rc\n", Version::V11, "a:b\\rc\n"),
            (" a : b\\n:c \n", Version::V10, "a:b\\\\n\\cc\n"),
        ] {
            assert_eq!(neutral(block, version), Ok((expected.to_owned(), expected.contains('\\'))));
        }
        assert_eq!(neutral("a:\\t\n", Version::V12), Err(Unreadable::Escape));
        assert_eq!(neutral("a\\r:b\n", Version::V11), Err(Unreadable::Escape));
        assert_eq!(neutral("a:b\rc\n", Version::V12), Err(Unreadable::CarriageReturn));
    }

    #[test]
    fn a_reply_to_is_said_once_and_so_that_others_can_use_it() {
        let block = "reply-to:/temp-queue/r\nreply-to:/queue/second\n";
        let expected =
            ("reply-to:/queue/temp.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.r\n".to_owned(), false);
        assert_eq!(neutral(block, Version::V12), Ok(expected));
    }
}
