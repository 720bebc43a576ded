//! Header lines: splitting, finding, escaping (STOMP 1.2, "Value Encoding" and "Repeated Header
//! Entries").
//!
//! Relies on `memchr`. Invariants: of repeated headers the first counts; an undefined escape is
//! never passed over.

use std::borrow::Cow;

use memchr::memchr;

use crate::version::Version;

/// The header lines of one frame as they arrived: each ends in LF or CRLF, none is blank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers<'a> {
    pub(crate) block: &'a [u8],
    pub(crate) version: Version,
    /// CONNECT and STOMP know no escapes in any version.
    pub(crate) escaped: bool,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// An escape that the version does not define.
    Escape,
    /// A carriage return inside a line of STOMP 1.2.
    CarriageReturn,
}

impl<'a> Headers<'a> {
    /// The lines, without their EOLs.
    pub(crate) fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.block;
        std::iter::from_fn(move || {
            let end = memchr(b'\n', rest)?;
            let (line, tail) = rest.split_at_checked(end)?;
            rest = tail.get(1..).unwrap_or_default();
            Some(strip_carriage_return(line))
        })
    }

    /// Names and values with their escapes still in place; trimmed in 1.0, whose specification
    /// pads headers in its own examples.
    pub(crate) fn raw(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.lines().filter_map(move |line| split(line, self.version))
    }

    /// The first value of that name, escapes in place.
    pub(crate) fn find_raw(self, name: &str) -> Option<&'a [u8]> {
        let mut rows = self.raw();
        rows.find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    /// The first value of that name, decoded.
    pub(crate) fn find(self, name: &str) -> Result<Option<Cow<'a, str>>, Unreadable> {
        self.find_raw(name).map(|value| self.decode(value)).transpose()
    }

    /// Resolves the escapes of a name or value.
    pub(crate) fn decode(self, text: &'a [u8]) -> Result<Cow<'a, str>, Unreadable> {
        if !self.escaped || self.version == Version::V10 {
            return Ok(String::from_utf8_lossy(text));
        }
        decode(text, self.version)
    }
}

/// Splits a line at its first colon; `None` if there is none or no name before it.
pub(crate) fn split(line: &[u8], version: Version) -> Option<(&[u8], &[u8])> {
    let colon = memchr(b':', line)?;
    let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
    let (name, value) = match version {
        Version::V10 => (name.trim_ascii(), value.trim_ascii()),
        _ => (name, value),
    };
    (!name.is_empty()).then_some((name, value))
}

/// As [`split`] for 1.1 and 1.2; `tail` is the line and what follows it in memory, which makes the
/// scan for the colon of a short line fast.
#[inline]
pub(crate) fn split_fast<'a>(line: &'a [u8], tail: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    match memchr(b':', tail.get(..FAST_BYTES)?) {
        Some(colon) if colon > 0 && colon < line.len() => {
            Some((line.get(..colon)?, line.get(colon + 1..)?))
        }
        _ => None,
    }
}

/// Two vector registers.
const FAST_BYTES: usize = 64;

/// The line without one carriage return at its end.
pub(crate) fn strip_carriage_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Resolves escapes as 1.1 and 1.2 define them.
pub(crate) fn decode(text: &[u8], version: Version) -> Result<Cow<'_, str>, Unreadable> {
    if version == Version::V12 && text.contains(&b'\r') {
        return Err(Unreadable::CarriageReturn);
    }
    if memchr(b'\\', text).is_none() {
        return Ok(String::from_utf8_lossy(text));
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'c') => b':',
                Some(b'\\') => b'\\',
                Some(b'r') if version == Version::V12 => b'\r',
                _ => return Err(Unreadable::Escape),
            },
            byte => byte,
        });
    }
    Ok(Cow::Owned(String::from_utf8_lossy(&plain).into_owned()))
}

/// Appends `name:value` and an EOL for a client of that version. The name needs no escapes.
pub(crate) fn append(out: &mut Vec<u8>, version: Version, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.push(b':');
    append_value(out, version, value);
    out.push(b'\n');
}

/// Appends a value for a client of that version: escaped from 1.1 on; 1.0 has no way to say a line
/// break, and 1.1 none to say a carriage return, so they get spaces.
pub(crate) fn append_value(out: &mut Vec<u8>, version: Version, value: &str) {
    for byte in value.bytes() {
        match (byte, version) {
            (0, _) => out.push(b'?'),
            (b'\n' | b'\r', Version::V10) | (b'\r', Version::V11) => out.push(b' '),
            (_, Version::V10) => out.push(byte),
            (b'\\', _) => out.extend_from_slice(b"\\\\"),
            (b'\n', _) => out.extend_from_slice(b"\\n"),
            (b'\r', _) => out.extend_from_slice(b"\\r"),
            (b':', _) => out.extend_from_slice(b"\\c"),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn headers(block: &[u8], version: Version) -> Headers<'_> {
        Headers { block, version, escaped: true }
    }

    #[test]
    fn the_first_of_repeated_headers_counts() {
        let block = b"foo:World\r\nfoo:Hello\n";
        assert_eq!(headers(block, Version::V12).find_raw("foo"), Some(&b"World"[..]));
    }

    #[test]
    fn only_1_0_trims() {
        let block = b" foo : bar \n";
        assert_eq!(headers(block, Version::V10).find_raw("foo"), Some(&b"bar"[..]));
        assert_eq!(headers(block, Version::V11).find_raw(" foo "), Some(&b" bar "[..]));
        assert_eq!(headers(block, Version::V12).find_raw("foo"), None);
    }

    #[test]
    fn undefined_escapes_are_errors() {
        for (text, version, bad) in [
            (&b"a\\tb"[..], Version::V12, true),
            (b"a\\", Version::V12, true),
            (b"a\\r", Version::V11, true),
            (b"a\\r", Version::V12, false),
            (b"\\c\\n\\\\", Version::V11, false),
        ] {
            assert_eq!(decode(text, version).is_err(), bad, "{}", text.escape_ascii());
        }
        assert_eq!(decode(b"a\rb", Version::V12), Err(Unreadable::CarriageReturn));
    }

    proptest! {
        #[test]
        fn what_is_appended_is_read_again(name in "[a-z]{1,8}", value in "[^\0]{0,20}") {
            for version in [Version::V11, Version::V12] {
                let mut block = Vec::new();
                append(&mut block, version, &name, &value);
                let found = headers(&block, version).find(&name).unwrap().unwrap();
                let said = if version == Version::V11 { value.replace('\r', " ") } else { value.clone() };
                prop_assert_eq!(&*found, &*said);
            }
        }
    }
}
