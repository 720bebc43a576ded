//! `docs/close-codes.md`, made from the table of close codes.

use std::fmt::Write as _;

use tiderace_base::CLOSE_CODES;

/// The page.
pub(super) fn page() -> String {
    let mut text = String::from(
        "# Close codes\n\n\
         <!-- Made by `cargo xtask docs` from core/base/src/close.rs; do not edit. -->\n\n\
         Every way a connection ends has a code. Codes are stable: they are never renumbered or used\n\
         again. Clients see the short name (in a STOMP `ERROR` frame's `code` header, in a WebSocket\n\
         close reason); logs and metrics carry it too. *Again* says whether a client does well to\n\
         connect again by itself, after a pause that grows.\n\n\
         | code | name | WebSocket | again | meaning |\n\
         |---:|---|---:|---|---|\n",
    );
    for row in CLOSE_CODES {
        let again = if row.reconnect { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {again} | {} |",
            row.number, row.slug, row.websocket, row.meaning
        );
    }
    text
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
