//! The sentences of errors: what happened, where, what to do.
//!
//! Relies on the table of close codes. Invariant: text of a client's that goes into a sentence is
//! shortened and printable. The first sentence becomes the ERROR frame's `message` header, all of
//! them its body.

use tiderace_base::{Close, CloseCode};

use crate::header::Unreadable;
use crate::limits::SHOWN_CHARS_MAX;

/// An end because of a header.
pub(crate) fn bad_header(command: &str, what: impl std::fmt::Display) -> Close {
    Close::new(CloseCode::BadHeader, format!("{command}: {what}"))
}

/// A header that must be there is not.
pub(crate) fn missing(command: &str, name: &str) -> Close {
    bad_header(command, format_args!("the header `{name}` is missing. Add it."))
}

/// A header that cannot be decoded.
pub(crate) fn unreadable(command: &str, why: Unreadable) -> Close {
    let what = match why {
        Unreadable::Escape => {
            "a header holds an undefined escape sequence. Write a backslash as `\\\\`, \
             a colon as `\\c`, a line feed as `\\n` and, in STOMP 1.2, a carriage return as `\\r`."
        }
        Unreadable::CarriageReturn => "a header holds a raw carriage return. Write it as `\\r`.",
    };
    bad_header(command, what)
}

/// An end with any code.
pub(crate) fn fault(code: CloseCode, command: &str, what: impl std::fmt::Display) -> Close {
    Close::new(code, format!("{command}: {what}"))
}

/// A client's text as an error shows it: at most [`SHOWN_CHARS_MAX`] characters, escaped.
pub(crate) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut characters = text.chars();
    let mut shown: String =
        characters.by_ref().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_is_short_and_printable() {
        assert_eq!(shown(b"SEND\r\x00"), "SEND\\r\\0");
        assert_eq!(shown(&[b'x'; 100]), format!("{}…", "x".repeat(64)));
        assert_eq!(shown(b"\xff"), "\u{fffd}");
    }
}
