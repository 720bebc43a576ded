//! Strings of JSON: written and read.
//!
//! Relies on nothing. Invariant: what is written is valid JSON on one line, and reading gives back what
//! was written. Scripts and pages need more escapes than JSON: their writers add them.

use std::borrow::Cow;

/// Appends a text as a JSON string, with its quotes.
pub fn append_text(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = special(rest) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, tail)) = special.split_first() else { break };
        escape(out, *byte);
        rest = tail;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The same for bytes that may not be UTF-8; what is not is replaced.
pub fn append_text_lossy(out: &mut Vec<u8>, bytes: &[u8]) {
    append_text(out, &String::from_utf8_lossy(bytes));
}

/// Where the first byte stands that needs an escape. Most texts have few: blocks without any are passed
/// over whole, which the compiler does with vectors.
fn special(text: &[u8]) -> Option<usize> {
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let mut passed = 0;
    for block in text.chunks_exact(BLOCK_BYTES) {
        if block.iter().fold(false, |any, byte| any | is_special(*byte)) {
            break;
        }
        passed += BLOCK_BYTES;
    }
    let rest = text.get(passed..).unwrap_or_default();
    Some(passed + rest.iter().position(|byte| is_special(*byte))?)
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Resolves the escapes of what stands between the quotes of a valid string.
pub(crate) fn decode(raw: &str) -> Cow<'_, str> {
    let Some((mut plain, mut rest)) = raw.split_once('\\') else {
        return Cow::Borrowed(raw);
    };
    let mut text = String::with_capacity(raw.len());
    loop {
        text.push_str(plain);
        let mut letters = rest.chars();
        let letter = letters.next();
        rest = letters.as_str();
        match letter {
            Some('u') => text.push(unicode(&mut rest)),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some(other) => text.push(other),
            None => return Cow::Owned(text),
        }
        match rest.split_once('\\') {
            Some((before, after)) => (plain, rest) = (before, after),
            None => {
                text.push_str(rest);
                return Cow::Owned(text);
            }
        }
    }
}

/// The character of four hexadecimal digits, or of two such halves.
fn unicode(rest: &mut &str) -> char {
    let Some(high) = digits(rest) else { return char::REPLACEMENT_CHARACTER };
    if (0xd800..0xdc00).contains(&high)
        && let Some(mut tail) = rest.strip_prefix("\\u")
        && let Some(low @ 0xdc00..0xe000) = digits(&mut tail)
    {
        *rest = tail;
        let pair = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        return char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn digits(rest: &mut &str) -> Option<u32> {
    let (four, tail) = rest.split_at_checked(4)?;
    *rest = tail;
    u32::from_str_radix(four, 16).ok()
}

/// How much is looked at together for bytes that need an escape.
const BLOCK_BYTES: usize = 32;
