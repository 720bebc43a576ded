//! How transports mark the frames of protocols: WebSocket messages, and for streamed answers HTTP chunks
//! (RFC 9112 section 7.1), so that clients and proxies pass every piece on as it comes and can tell the end
//! of the answer from a cut.
//!
//! Invariant: no piece becomes an empty chunk, which would end the answer.

use std::io::Write;

use tiderace_websocket::{MessageKind, Opcode, write_header};
use tiderace_wire::MessageFraming;

/// How protocols mark their frames on WebSocket.
pub(crate) static FRAMING: MessageFraming = MessageFraming {
    id: 1,
    text: |len, out| write_header(out, Opcode::from(MessageKind::Text), len, None),
    binary: |len, out| write_header(out, Opcode::from(MessageKind::Binary), len, None),
    armour: None,
};

/// One chunk for each piece that a session writes.
pub(crate) static CHUNKS: MessageFraming =
    MessageFraming { id: 9, text: |_, _| {}, binary: |_, _| {}, armour: Some(chunk) };

/// What ends a chunked answer.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn chunk(out: &mut Vec<u8>, start: usize, _text: bool) {
    let len = out.len().saturating_sub(start);
    if len == 0 {
        return;
    }
    let mut head = Vec::with_capacity(10);
    // Writing to memory does not fail.
    let _ = write!(head, "{len:x}\r\n");
    out.splice(start..start, head);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiderace_wire::Framing;

    #[test]
    fn pieces_become_chunks() {
        let mut out = b"head".to_vec();
        for piece in [&b"hello"[..], b"", &[b'x'; 17]] {
            Framing::Messages(&CHUNKS).write(piece, true, &mut out);
        }
        out.extend_from_slice(LAST_CHUNK);
        assert_eq!(out, b"head5\r\nhello\r\n11\r\nxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n");
    }
}
