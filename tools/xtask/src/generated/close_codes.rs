//! `docs/close-codes.md`, made from the table of close codes.

use std::fmt::Write as _;

use tiderace_base::{CLOSE_CODES, ErrorClass, Severity};

/// The page.
pub(super) fn page() -> String {
    let mut text = String::from(
        "# Codes of errors and ends\n\n\
         <!-- Made by `cargo xtask docs` from core/base/src/close.rs; do not edit. -->\n\n\
         Every error and every way a connection ends has a code. Codes are stable: they are never\n\
         renumbered or used again. Clients see the short name (in a STOMP `ERROR` frame's `code` header,\n\
         before the sentence of an RSocket error, as `code` in answers of Socket.IO and HTTP, in ERROR,\n\
         ENDED and CLOSE of the native protocol beside the number, in a WebSocket close reason); logs and\n\
         metrics carry it too.\n\n\
         **Ends** is the least that ends by it. *Operation*: what was asked for is refused, and all else\n\
         goes on, if the protocol can answer that alone. STOMP cannot, so its `ERROR` frame ends the\n\
         connection; in no protocol can bytes be answered alone that belong to nothing that was asked\n\
         for: those end the session. *Connection*: a session waits for its client, if its protocol lets\n\
         clients come back. *Session*: the session ends with its connection.\n\n\
         **Class** says what became of the request, and is the error code of RSocket: `INVALID` (the\n\
         request makes no sense), `REJECTED` (it was not begun and may succeed later), `CANCELED`,\n\
         `APPLICATION_ERROR` (it could not be done). Before the login is done it is `INVALID_SETUP`,\n\
         `UNSUPPORTED_SETUP` or `REJECTED_SETUP`.\n\n\
         **HTTP** is the status of a request that is refused with it. **Again** says whether a client\n\
         does well to try again by itself, after a pause that grows: to connect, or to ask for the same.\n\n\
         | code | name | ends | class | WebSocket | HTTP | again | meaning | what to do |\n\
         |---:|---|---|---|---:|---:|---|---|---|\n",
    );
    for row in CLOSE_CODES {
        let again = if row.reconnect { "yes" } else { "no" };
        let (ends, class) = (name(row.severity), class(row.class));
        let _ = writeln!(
            text,
            "| {} | `{}` | {ends} | {class} | {} | {} | {again} | {} | {} |",
            row.number, row.slug, row.websocket, row.http, row.meaning, row.remedy
        );
    }
    text
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Operation => "operation",
        Severity::Connection => "connection",
        Severity::Session => "session",
    }
}

fn class(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Invalid => "invalid",
        ErrorClass::Unsupported => "unsupported",
        ErrorClass::Rejected => "rejected",
        ErrorClass::Cancelled => "cancelled",
        ErrorClass::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_close_code_has_its_line() {
        let text = page();
        for row in CLOSE_CODES {
            assert_eq!(text.matches(&format!("| `{}` |", row.slug)).count(), 1);
        }
    }
}
