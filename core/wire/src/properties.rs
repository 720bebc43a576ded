//! The neutral form of message properties: lines of `name:value\n`.
//!
//! Names and values are UTF-8 with four escapes, those of STOMP 1.2: `\\`, `\n`, `\r` and `\c` for a
//! colon. The form is chosen because the most common consumers can be sent it as it is, and because
//! reading it needs no table. Lines keep their order; of equal names the first counts.

use std::borrow::Cow;

/// Appends one property, escaping where needed.
pub fn append(block: &mut Vec<u8>, name: &str, value: &str) {
    append_escaped(block, name);
    block.push(b':');
    append_escaped(block, value);
    block.push(b'\n');
}

/// The properties of a block with their escapes still in place, in order.
pub fn raw(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    block.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((line.get(..colon)?, line.get(colon + 1..)?))
    })
}

/// The first value of that name, decoded.
pub fn find<'a>(block: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    raw(block)
        .find(|(known, _)| {
            *known == name.as_bytes() || (known.contains(&b'\\') && decode(known) == name)
        })
        .map(|(_, value)| decode(value))
}

/// Resolves the escapes; what is not UTF-8 is replaced.
pub fn decode(text: &[u8]) -> Cow<'_, str> {
    if !text.contains(&b'\\') {
        return String::from_utf8_lossy(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => plain.push(b'\n'),
            Some(b'r') => plain.push(b'\r'),
            Some(b'c') => plain.push(b':'),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

fn append_escaped(block: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'\\' => block.extend_from_slice(b"\\\\"),
            b'\n' => block.extend_from_slice(b"\\n"),
            b'\r' => block.extend_from_slice(b"\\r"),
            b':' => block.extend_from_slice(b"\\c"),
            _ => block.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_appended_is_found(rows in proptest::collection::vec((".{0,12}", ".{0,12}"), 0..8)) {
            let mut block = Vec::new();
            for (name, value) in &rows {
                append(&mut block, name, value);
            }
            for (name, _) in &rows {
                let first = rows.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
                let found = find(&block, name);
                prop_assert_eq!(found.as_deref(), first);
            }
            prop_assert_eq!(raw(&block).count(), rows.len());
        }
    }
}
