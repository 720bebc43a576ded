//! Recognises STOMP by the first bytes of a connection.
//!
//! Relies on nothing. Invariant: the first line of an HTTP request, `CONNECT host:443 HTTP/1.1`
//! included, is never taken for STOMP.

use tiderace_wire::Detect;

/// Whether these are the first bytes of a STOMP client: EOLs, then `CONNECT` or `STOMP` alone on
/// the first line.
pub(crate) fn detect(bytes: &[u8]) -> Detect {
    let mut rest = bytes;
    loop {
        rest = match rest {
            [] | [b'\r'] => return Detect::More,
            [b'\n', tail @ ..] | [b'\r', b'\n', tail @ ..] => tail,
            _ => break,
        };
    }
    for command in [&b"CONNECT"[..], b"STOMP"] {
        match rest.strip_prefix(command) {
            Some([b'\n', ..] | [b'\r', b'\n', ..]) => return Detect::Yes,
            Some([] | [b'\r']) => return Detect::More,
            Some(_) => return Detect::No,
            None if command.starts_with(rest) => return Detect::More,
            None => {}
        }
    }
    Detect::No
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_stomp_from_everything_else() {
        let rows: &[(&[u8], Detect)] = &[
            (b"", Detect::More),
            (b"\r", Detect::More),
            (b"\n\r\nCON", Detect::More),
            (b"CONNECT", Detect::More),
            (b"CONNECT\r", Detect::More),
            (b"CONNECT\n", Detect::Yes),
            (b"CONNECT\r\nhost:a\r\n", Detect::Yes),
            (b"\n\nSTOMP\n", Detect::Yes),
            (b"S", Detect::More),
            (b"CONNECT host:443 HTTP/1.1\r\n", Detect::No),
            (b"CONNECTED\n", Detect::No),
            (b"CONNECT\rx", Detect::No),
            (b"GET / HTTP/1.1\r\n", Detect::No),
            (b"SEND\n", Detect::No),
            (b"connect\n", Detect::No),
            (b"\x16\x03\x01", Detect::No),
            (b"\rCONNECT\n", Detect::No),
        ];
        for (bytes, expected) in rows {
            assert_eq!(detect(bytes), *expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn never_changes_its_mind_as_bytes_arrive() {
        for whole in [&b"\r\n\nCONNECT\r\n"[..], b"STOMP\n", b"CONNECT h:1 HTTP/1.1\r\n"] {
            let last = detect(whole);
            for end in 0..whole.len() {
                let early = detect(whole.get(..end).unwrap_or_default());
                assert!(early == Detect::More || early == last);
            }
        }
    }
}
