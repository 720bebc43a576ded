//! Delta codec 1 of docs/protocol.md as a client applies it.
//!
//! Written from the specification and not shared with the server, so that a fault in the server's codec
//! cannot hide itself. Invariant: what it makes has at most `VALUE_BYTES_MAX` bytes.

/// Writes into `new` what a delta makes of `old`; `None` when it cannot be applied.
pub fn apply(old: &[u8], delta: &[u8], new: &mut Vec<u8>) -> Option<()> {
    new.clear();
    let mut rest = delta;
    let (prefix, suffix) = (number(&mut rest)?, number(&mut rest)?);
    old.len().checked_sub(prefix.checked_add(suffix)?)?;
    take(old.get(..prefix)?, new)?;
    let mut cursor = prefix;
    while !rest.is_empty() {
        let operation = number(&mut rest)?;
        let length = operation >> 2;
        match operation & 3 {
            _ if length == 0 => return None,
            REPLACE => {
                let (bytes, after) = rest.split_at_checked(length)?;
                take(bytes, new)?;
                rest = after;
                cursor = (cursor + length).min(old.len());
                continue;
            }
            COPY => {}
            MOVE_AND_COPY => {
                let distance = number(&mut rest)?;
                cursor = match distance & 1 {
                    0 => cursor.checked_add(distance / 2)?,
                    _ => cursor.checked_sub(distance / 2 + 1)?,
                };
            }
            _ => return None,
        }
        let end = cursor.checked_add(length)?;
        take(old.get(cursor..end)?, new)?;
        cursor = end;
    }
    take(old.get(old.len() - suffix..)?, new)
}

fn take(bytes: &[u8], new: &mut Vec<u8>) -> Option<()> {
    let room = VALUE_BYTES_MAX - new.len();
    (bytes.len() <= room).then(|| new.extend_from_slice(bytes))
}

fn number(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

const COPY: usize = 0;
const REPLACE: usize = 1;
const MOVE_AND_COPY: usize = 2;
const VALUE_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(old: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
        let mut new = b"left over".to_vec();
        apply(old, delta, &mut new).map(|()| new)
    }

    #[test]
    fn the_examples_of_the_specification() {
        let old = br#"{"bid":1.0845,"ask":1.0847}"#;
        let delta = b"\x0c\x01\x056\x30\x058";
        assert_eq!(applied(old, delta).as_deref(), Some(&br#"{"bid":1.0846,"ask":1.0848}"#[..]));
        assert_eq!(applied(b"abcd", b"\x01\x01").as_deref(), Some(&b"ad"[..]));
        assert_eq!(applied(b"abcd", b"\x00\x00\x0a\x04\x0a\x07").as_deref(), Some(&b"cdab"[..]));
    }

    #[test]
    fn nonsense_is_refused() {
        for delta in [
            &b""[..],
            b"\x03\x02",
            b"\x00\x00\x00",
            b"\x00\x00\x14",
            b"\x00\x00\x09a",
            b"\x00\x00\x06\x03",
            b"\x00\x00\x07",
        ] {
            assert_eq!(applied(b"abcd", delta), None, "{delta:02x?}");
        }
    }
}
