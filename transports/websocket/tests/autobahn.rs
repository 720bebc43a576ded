//! The case families 1 to 7, 9 and 10 of the Autobahn test suite, restated against the decoder
//! and an echo server of a few lines. Families 12 and 13 are about compression, which is never
//! negotiated; 8 does not exist. Sizes of family 9 are scaled down sixteenfold.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common;

use common::*;
use tiderace_websocket::{
    Decoder, Limits, Role, close_code, encode_close, encode_message, encode_pong,
};

/// An echo server's protocol side.
struct Echo {
    decoder: Decoder,
    pending: Vec<u8>,
    out: Vec<u8>,
    closed: bool,
}

impl Echo {
    fn new() -> Self {
        let decoder = Decoder::new(Role::Server);
        Self { decoder, pending: Vec::new(), out: Vec::new(), closed: false }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut seen = Vec::new();
        self.pending.extend_from_slice(bytes);
        let limits = Limits { message_bytes_max: 16 << 20, ..Limits::default() };
        let outcome = drain(&mut self.decoder, &limits, &mut self.pending, &mut seen);
        for event in seen {
            match event {
                Seen::Message(kind, payload) => encode_message(&mut self.out, kind, &payload, None),
                Seen::Ping(payload) => encode_pong(&mut self.out, &payload, None),
                Seen::Pong(_) => {}
                Seen::Close(code, _) => self.close(code),
            }
        }
        if let Err(error) = outcome {
            self.close(Some(error.close_code()));
        }
    }

    fn close(&mut self, code: Option<u16>) {
        if !self.closed {
            encode_close(&mut self.out, code, "", None);
        }
        self.closed = true;
    }
}

/// What the client of the echo server sees.
fn answers(pieces: &[&[u8]]) -> Vec<Seen> {
    let mut echo = Echo::new();
    for piece in pieces {
        echo.receive(piece);
    }
    let limits = Limits { message_bytes_max: 16 << 20, ..Limits::default() };
    let (seen, error) = drive(Role::Client, &limits, [&echo.out[..]]);
    assert_eq!(error, None, "the server obeys the protocol");
    seen
}

/// Whole, and octet by octet if that is feasible.
fn expect(bytes: &[u8], expected: &[Seen]) {
    assert_eq!(answers(&[bytes]), expected);
    if bytes.len() < 100_000 {
        let octets: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(answers(&octets), expected, "octet by octet");
    }
}

fn fails(code: u16) -> Seen {
    Seen::Close(Some(code), String::new())
}

const PROTOCOL: u16 = close_code::PROTOCOL_ERROR;

#[test]
fn family_1_framing() {
    for len in [0, 125, 126, 127, 128, 65_535, 65_536] {
        let (star, bytes) = (vec![b'*'; len], vec![0xFE; len]);
        expect(&masked(FIN | TEXT, &star), &[text(&star)]);
        expect(&masked(FIN | BINARY, &bytes), &[binary(&bytes)]);
    }
    // 1.1.8 and 1.2.8: 65,536 octets in chops of 997.
    let (star, bytes) = (vec![b'*'; 65_536], masked(FIN | TEXT, vec![b'*'; 65_536]));
    assert_eq!(answers(&bytes.chunks(997).collect::<Vec<_>>()), [text(star)]);
}

#[test]
fn family_2_pings_and_pongs() {
    for payload in [&b""[..], b"Hello, world!", b"\x00\xFF\xFE\xFD\xFC\xFB\x00\xFF", &[0xFE; 125]] {
        expect(&masked(FIN | PING, payload), &[Seen::Pong(payload.to_vec())]);
    }
    // 2.5: 126 octets.
    expect(&masked(FIN | PING, [0xFE; 126]), &[fails(PROTOCOL)]);
    // 2.7 to 2.9: unsolicited pongs, alone and before a ping.
    expect(&masked(FIN | PONG, ""), &[]);
    expect(&masked(FIN | PONG, "unsolicited"), &[]);
    let both = [masked(FIN | PONG, "unsolicited"), masked(FIN | PING, "our ping")].concat();
    expect(&both, &[Seen::Pong(b"our ping".into())]);
    // 2.10 and 2.11: ten pings, answered in order.
    let pings: Vec<u8> = (0..10).flat_map(|n| masked(FIN | PING, format!("payload-{n}"))).collect();
    let pongs: Vec<_> = (0..10).map(|n| Seen::Pong(format!("payload-{n}").into())).collect();
    expect(&pings, &pongs);
}

#[test]
fn family_3_reserved_bits() {
    for bits in 1..=7u8 {
        for opcode in [TEXT, BINARY, PING, CLOSE] {
            let bad = masked(FIN | (bits << 4) | opcode, "Hello, world!");
            expect(&bad, &[fails(PROTOCOL)]);
            let (good, ping) = (masked(FIN | TEXT, "Hello, world!"), masked(FIN | PING, ""));
            expect(&[good, bad, ping].concat(), &[text("Hello, world!"), fails(PROTOCOL)]);
        }
    }
}

#[test]
fn family_4_opcodes() {
    for opcode in (3..=7).chain(11..=15) {
        for payload in ["", "reserved opcode"] {
            let bad = masked(FIN | opcode, payload);
            expect(&bad, &[fails(PROTOCOL)]);
            let (good, ping) = (masked(FIN | TEXT, "Hello, world!"), masked(FIN | PING, ""));
            expect(&[good, bad, ping].concat(), &[text("Hello, world!"), fails(PROTOCOL)]);
        }
    }
}

#[test]
fn family_5_fragmentation() {
    let (one, two) = ("fragment1", "fragment2");
    let both = text("fragment1fragment2");
    let ping = masked(FIN | PING, "ping");
    let pong = Seen::Pong(b"ping".into());
    // 5.1 and 5.2: control frames in two fragments.
    for opcode in [PING, PONG] {
        let bytes = [masked(opcode, one), masked(FIN, two)].concat();
        expect(&bytes, &[fails(PROTOCOL)]);
    }
    // 5.3 to 5.8: two fragments, then with a ping between.
    expect(&[masked(TEXT, one), masked(FIN, two)].concat(), std::slice::from_ref(&both));
    let between = [masked(TEXT, one), ping.clone(), masked(FIN, two)].concat();
    expect(&between, &[pong.clone(), both.clone()]);
    // 5.9 to 5.14: a continuation of nothing, then text.
    for fin in [FIN, 0] {
        let bytes = [masked(fin, "non-continuation"), masked(FIN | TEXT, "Hello")].concat();
        expect(&bytes, &[fails(PROTOCOL)]);
    }
    // 5.15: a good message, then a continuation of nothing.
    let bytes =
        [masked(TEXT, one), masked(FIN, two), masked(0, "fragment3"), masked(FIN | TEXT, "4")];
    expect(&bytes.concat(), &[both.clone(), fails(PROTOCOL)]);
    // 5.16 and 5.17: continuations before the beginning.
    for fin in [0, FIN] {
        let bytes = [masked(fin, one), masked(TEXT, two), masked(FIN, "fragment3")].concat();
        expect(&bytes, &[fails(PROTOCOL)]);
    }
    // 5.18: two beginnings.
    expect(&[masked(TEXT, one), masked(FIN | TEXT, two)].concat(), &[fails(PROTOCOL)]);
    // 5.19 and 5.20: five fragments and two pings.
    let bytes = [
        masked(TEXT, one),
        masked(0, two),
        ping.clone(),
        masked(0, "fragment3"),
        masked(0, "fragment4"),
        ping,
        masked(FIN, "fragment5"),
    ];
    let whole = text("fragment1fragment2fragment3fragment4fragment5");
    expect(&bytes.concat(), &[pong.clone(), pong, whole]);
}

#[test]
fn family_6_valid_text() {
    // 6.1: empty messages and empty fragments.
    expect(&masked(FIN | TEXT, ""), &[text("")]);
    expect(&[masked(TEXT, ""), masked(0, ""), masked(FIN, "")].concat(), &[text("")]);
    let middle = [masked(TEXT, ""), masked(0, "middle frame payload"), masked(FIN, "")].concat();
    expect(&middle, &[text("middle frame payload")]);
    // 6.2: in one frame, in two at a character's border, one octet per frame.
    let greeting = "Hello-µ@ßöäüàá-UTF-8!!";
    expect(&masked(FIN | TEXT, greeting), &[text(greeting)]);
    let (head, tail) = greeting.split_at(8);
    expect(&[masked(TEXT, head), masked(FIN, tail)].concat(), &[text(greeting)]);
    // 6.2.3, 6.2.4 and the sequences of 6.5 to 6.9, 6.11, 6.22, 6.23.
    let edges = [
        "κόσμε",
        "\u{0}",
        "\u{80}",
        "\u{800}",
        "\u{10000}",
        "\u{7F}",
        "\u{7FF}",
        "\u{FFFF}",
        "\u{10FFFF}",
        "\u{D7FF}",
        "\u{E000}",
        "\u{FFFD}",
        "\u{FFFE}",
        "\u{FDD0}",
        "\u{1FFFE}",
    ];
    for valid in edges.into_iter().chain([greeting]) {
        expect(&masked(FIN | TEXT, valid), &[text(valid)]);
        expect(&in_octet_fragments(valid.as_bytes()), &[text(valid)]);
    }
}

#[test]
fn family_6_invalid_text() {
    let kosme = "κόσμε".as_bytes();
    let mut invalid: Vec<Vec<u8>> = [
        // 6.10, 6.12: beyond U+10FFFF and five- and six-byte forms.
        &[0xF7, 0xBF, 0xBF, 0xBF][..],
        &[0xF4, 0x90, 0x80, 0x80],
        &[0xF8, 0x88, 0x80, 0x80, 0x80],
        &[0xFC, 0x84, 0x80, 0x80, 0x80, 0x80],
        // 6.13 and 6.14: lone continuation bytes and lone starts.
        &[0x80],
        &[0xBF, 0x80, 0xBF],
        &[0xC0, b' ', 0xDF, b' '],
        &[0xE0, b' '],
        &[0xF0, b' '],
        // 6.15 to 6.17: the last byte missing, and impossible bytes.
        &[0xC3],
        &[0xE2, 0x82],
        &[0xF0, 0x90, 0x8D],
        &[0xE2, 0x82, 0xC3, 0xB1],
        &[0xFE],
        &[0xFF],
        &[0xFE, 0xFE, 0xFF, 0xFF],
        // 6.18 and 6.19: overlong forms.
        &[0xC0, 0xAF],
        &[0xC1, 0xBF],
        &[0xE0, 0x80, 0xAF],
        &[0xE0, 0x9F, 0xBF],
        &[0xF0, 0x80, 0x80, 0xAF],
        &[0xF0, 0x8F, 0xBF, 0xBF],
        &[0xC0, 0x80],
        // 6.20 and 6.21: surrogates, alone and in pairs.
        &[0xED, 0xA0, 0x80],
        &[0xED, 0xBF, 0xBF],
        &[0xED, 0xA0, 0x80, 0xED, 0xB0, 0x80],
    ]
    .iter()
    .map(|bytes| bytes.to_vec())
    .collect();
    // 6.3: valid, then invalid, then valid.
    invalid.push([kosme, b"\xED\xA0\x80edited"].concat());
    for bytes in &invalid {
        let failed = [fails(close_code::INVALID_PAYLOAD)];
        expect(&masked(FIN | TEXT, bytes), &failed);
        expect(&in_octet_fragments(bytes), &failed);
        let between = [&b"*".repeat(200)[..], bytes, &b"*".repeat(200)].concat();
        expect(&masked(FIN | TEXT, between), &failed);
        expect(&masked(FIN | BINARY, bytes), &[binary(bytes)]);
    }
}

/// 6.4.1 and 6.4.2: invalid text is refused with the fragment that makes it so, before the
/// message ends. (6.4.3 and 6.4.4, within one frame, are judged when the frame is whole.)
#[test]
fn family_6_4_fails_fast_on_fragments() {
    let kosme = "κόσμε".as_bytes();
    for (second, last) in [(&b"\xF4\x90\x80\x80"[..], &b"edited"[..]), (b"\xF4", b"\x90")] {
        let mut echo = Echo::new();
        echo.receive(&masked(TEXT, kosme));
        assert!(echo.out.is_empty());
        echo.receive(&masked(0, second));
        if second.len() == 1 {
            assert!(echo.out.is_empty(), "F4 alone may still become a character");
            echo.receive(&masked(0, last));
        }
        assert!(echo.closed, "refused although the message has not ended");
    }
}

#[test]
fn family_7_close_handshake() {
    let close = masked(FIN | CLOSE, [0x03, 0xE8]);
    let closed = Seen::Close(Some(1000), String::new());
    // 7.1.1 to 7.1.6: nothing is answered after the close.
    let hello = masked(FIN | TEXT, "Hello World!");
    expect(&[hello.clone(), close.clone()].concat(), &[text("Hello World!"), closed.clone()]);
    for after in [close.clone(), masked(FIN | PING, ""), hello, masked(FIN, "fragment2")] {
        expect(&[close.clone(), after].concat(), std::slice::from_ref(&closed));
    }
    let within = [masked(TEXT, "fragment1"), close.clone(), masked(FIN, "fragment2")].concat();
    expect(&within, std::slice::from_ref(&closed));
    let large = vec![b'B'; 256 * 1024];
    let bytes = [masked(FIN | TEXT, &large), close, masked(FIN | PING, "")].concat();
    expect(&bytes, &[text(&large), closed.clone()]);
    // 7.3: bodies of every kind of length.
    expect(&masked(FIN | CLOSE, ""), &[Seen::Close(None, String::new())]);
    expect(&masked(FIN | CLOSE, "a"), &[fails(PROTOCOL)]);
    let reason = |len| [&[0x03, 0xE8][..], &vec![b'*'; len]].concat();
    expect(&masked(FIN | CLOSE, reason(12)), std::slice::from_ref(&closed));
    expect(&masked(FIN | CLOSE, reason(123)), std::slice::from_ref(&closed));
    expect(&masked(FIN | CLOSE, reason(124)), &[fails(PROTOCOL)]);
    // 7.5.1: a reason that is not UTF-8.
    let invalid = [&[0x03, 0xE8][..], "κόσμε".as_bytes(), b"\xED\xA0\x80edited"].concat();
    expect(&masked(FIN | CLOSE, invalid), &[fails(close_code::INVALID_PAYLOAD)]);
}

#[test]
fn family_7_close_codes() {
    // 7.7: valid codes are echoed.
    let valid = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014];
    for code in valid.into_iter().chain([3000, 3999, 4000, 4999u16]) {
        let echoed = Seen::Close(Some(code), String::new());
        expect(&masked(FIN | CLOSE, code.to_be_bytes()), &[echoed]);
    }
    // 7.9 and 7.13: invalid ones are not.
    for code in [0u16, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        expect(&masked(FIN | CLOSE, code.to_be_bytes()), &[fails(PROTOCOL)]);
    }
}

#[test]
fn family_9_limits_and_performance() {
    // 9.1 and 9.2: 64 KiB to 1 MiB in one frame, as 64 KiB to 16 MiB there.
    for len in [4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20] {
        let payload = vec![b'*'; len];
        expect(&masked(FIN | TEXT, &payload), &[text(&payload)]);
        expect(&masked(FIN | BINARY, &payload), &[binary(&payload)]);
    }
    // 9.3 and 9.4: one message in fragments of 256 bytes to all of it.
    let payload = vec![b'*'; 256 << 10];
    for size in [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10] {
        expect(&in_fragments(TEXT, &payload, size), &[text(&payload)]);
        expect(&in_fragments(BINARY, &payload, size), &[binary(&payload)]);
    }
    // 9.5 and 9.6: one frame in chops of 64 to 2048 octets.
    let payload = vec![b'*'; 64 << 10];
    let bytes = masked(FIN | TEXT, &payload);
    for size in [64, 128, 256, 512, 1024, 2048] {
        assert_eq!(answers(&bytes.chunks(size).collect::<Vec<_>>()), [text(&payload)]);
    }
    // 9.7 and 9.8: a thousand messages.
    for len in [0, 16, 64, 256, 1024] {
        let payload = vec![b'*'; len];
        let bytes = masked(FIN | BINARY, &payload).repeat(1000);
        assert_eq!(answers(&bytes.chunks(4096).collect::<Vec<_>>()), vec![binary(&payload); 1000]);
    }
}

#[test]
fn family_10_auto_fragmentation() {
    let payload = vec![b'*'; 65_536];
    expect(&in_fragments(TEXT, &payload, 1300), &[text(&payload)]);
}

fn in_octet_fragments(payload: &[u8]) -> Vec<u8> {
    in_fragments(TEXT, payload, 1)
}

fn in_fragments(opcode: u8, payload: &[u8], size: usize) -> Vec<u8> {
    let count = payload.len().div_ceil(size);
    let fragments = payload.chunks(size).enumerate().map(|(index, fragment)| {
        let opcode = if index == 0 { opcode } else { CONTINUATION };
        let fin = if index + 1 == count { FIN } else { 0 };
        masked(fin | opcode, fragment)
    });
    fragments.collect::<Vec<_>>().concat()
}
