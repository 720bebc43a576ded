//! Polling by script elements (revision 3): payloads as arguments of a call, and as fields of a form.
//!
//! ```text
//!   answer  ___eio[3]("6:4hello");
//!   body    d=6%3A4hello
//! ```
//! Clients escape line feeds twice, since forms change them: a line feed is sent as `\n`, and a
//! backslash with an `n` behind it as `\\n`.

use crate::packet::PacketError;

/// Appends the call that hands a payload to the page; `payload` is UTF-8.
pub fn write(index: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"___eio[");
    out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
    out.extend_from_slice(b"](");
    let mut quoted = Vec::with_capacity(payload.len() + 2);
    tiderace_value::append_text_lossy(&mut quoted, payload);
    // Two characters that strings of JSON may hold end a line of older JavaScript.
    let mut rest = &*String::from_utf8_lossy(&quoted);
    while let Some(at) = rest.find(['\u{2028}', '\u{2029}']) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let paragraph = special.starts_with('\u{2029}');
        out.extend_from_slice(if paragraph { b"\\u2029" } else { b"\\u2028" });
        rest = special.get('\u{2028}'.len_utf8()..).unwrap_or_default();
    }
    out.extend_from_slice(rest.as_bytes());
    out.extend_from_slice(b");");
}

/// The payload in a form.
///
/// # Errors
/// When there is none, or it is not encoded as forms are.
pub fn read(form: &[u8]) -> Result<Vec<u8>, PacketError> {
    let field = form.split(|byte| *byte == b'&').find_map(|pair| pair.strip_prefix(b"d="));
    Ok(unescape(&percent_decode(field.ok_or(PacketError::NoField)?)?))
}

fn percent_decode(text: &[u8]) -> Result<Vec<u8>, PacketError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || {
                    let digit = char::from(*bytes.next()?).to_digit(16)?;
                    u8::try_from(digit).ok()
                };
                let (high, low) = (digit(), digit());
                high.zip(low).map(|(high, low)| high << 4 | low).ok_or(PacketError::NoField)?
            }
            byte => *byte,
        });
    }
    Ok(out)
}

/// Takes the client's escapes back.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [b'\\', b'\\', b'n', tail @ ..] => {
                out.extend_from_slice(b"\\n");
                tail
            }
            [b'\\', b'n', tail @ ..] => {
                out.push(b'\n');
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
            [] => return out,
        };
    }
}
