//! One test for each normative sentence of RFC 6455 the decoder obeys.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::*;
use tiderace_websocket::{CloseError, Limits, Role};

fn refused(bytes: impl AsRef<[u8]>, error: CloseError) {
    let bytes = bytes.as_ref();
    assert_eq!(serve(bytes).1, Some(error), "whole");
    let octets = drive(Role::Server, &Limits::default(), bytes.chunks(1));
    assert_eq!(octets.1, Some(error), "octet by octet");
}

/// 1.4: "After receiving a control frame indicating the connection should be closed, a peer
/// discards any further data received."
#[test]
fn s1_4_data_after_close_is_discarded() {
    let bytes =
        [masked(FIN | CLOSE, [0x03, 0xE8]), masked(FIN | TEXT, "x"), vec![0xFF; 9]].concat();
    assert_eq!(serve(bytes), (vec![Seen::Close(Some(1000), String::new())], None));
}

/// 5.1: "The server MUST close the connection upon receiving a frame that is not masked."
#[test]
fn s5_1_clients_mask() {
    refused(unmasked(FIN | TEXT, "x"), CloseError::MaskRequired);
}

/// 5.1: "A client MUST close a connection if it detects a masked frame."
#[test]
fn s5_1_servers_do_not_mask() {
    let (_, error) = drive(Role::Client, &Limits::default(), [&masked(FIN | TEXT, "x")[..]]);
    assert_eq!(error, Some(CloseError::MaskForbidden));
}

/// 5.2: RSV "MUST be 0 unless an extension is negotiated".
#[test]
fn s5_2_reserved_bits_are_zero() {
    for bits in 1..=7u8 {
        refused(masked(FIN | (bits << 4) | TEXT, "x"), CloseError::ReservedBitSet);
    }
}

/// 5.2: "If an unknown opcode is received, the receiving endpoint MUST _Fail_".
#[test]
fn s5_2_unknown_opcodes_fail() {
    for opcode in (0x3..=0x7).chain(0xB..=0xF) {
        refused(masked(FIN | opcode, ""), CloseError::OpcodeReserved);
    }
}

/// 5.2: "the minimal number of bytes MUST be used to encode the length".
#[test]
fn s5_2_lengths_are_minimal() {
    refused([FIN | BINARY, 0x80 | 126, 0, 125], CloseError::LengthNotMinimal);
    refused([FIN | BINARY, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], CloseError::LengthNotMinimal);
}

/// 5.2: of a 64-bit length "the most significant bit MUST be 0".
#[test]
fn s5_2_lengths_are_unsigned_63_bits() {
    refused([FIN | BINARY, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0], CloseError::LengthOverflow);
}

/// 5.3: each payload octet is XORed with the key; any key may come, zero included.
#[test]
fn s5_3_every_key_unmasks() {
    for key in [[0; 4], [0xFF; 4], [1, 2, 3, 4]] {
        for len in [0, 1, 3, 4, 7, 8, 31, 32, 33, 100] {
            let payload = vec![0xA5; len];
            let bytes = common::frame(FIN | BINARY, &payload, Some(key));
            assert_eq!(serve(bytes), (vec![binary(&payload)], None));
        }
    }
}

/// 5.4: a fragmented message is its fragments' payloads concatenated in order.
#[test]
fn s5_4_fragments_concatenate() {
    let bytes = [masked(TEXT, "a"), masked(CONTINUATION, "b"), masked(FIN, "c")].concat();
    assert_eq!(serve(bytes), (vec![text("abc")], None));
}

/// 5.4: "Control frames MAY be injected in the middle of a fragmented message."
#[test]
fn s5_4_control_frames_interleave() {
    let bytes = [masked(BINARY, "a"), masked(FIN | PING, "p"), masked(FIN, "b")].concat();
    assert_eq!(serve(bytes), (vec![Seen::Ping(b"p".into()), binary("ab")], None));
}

/// 5.4: "Control frames themselves MUST NOT be fragmented."
#[test]
fn s5_4_control_frames_are_whole() {
    for opcode in [CLOSE, PING, PONG] {
        refused(masked(opcode, ""), CloseError::ControlFragmented);
    }
}

/// 5.4: "The fragments of one message MUST NOT be interleaved between the fragments of another".
#[test]
fn s5_4_messages_do_not_interleave() {
    for first in [TEXT, BINARY, FIN | TEXT, FIN | BINARY] {
        let bytes = [masked(TEXT, "a"), masked(first, "b")].concat();
        refused(bytes, CloseError::MessageInterleaved);
    }
}

/// 5.4: a continuation belongs to a message begun before.
#[test]
fn s5_4_continuations_continue_something() {
    refused(masked(CONTINUATION, "a"), CloseError::ContinuationUnexpected);
    refused(masked(FIN | CONTINUATION, "a"), CloseError::ContinuationUnexpected);
    let after = [masked(TEXT, "a"), masked(FIN, "b"), masked(FIN, "c")].concat();
    refused(after, CloseError::ContinuationUnexpected);
}

/// 5.5: "All control frames MUST have a payload length of 125 bytes or less".
#[test]
fn s5_5_control_frames_are_short() {
    for opcode in [CLOSE, PING, PONG] {
        refused(masked(FIN | opcode, [b'x'; 126]), CloseError::ControlTooLong);
        refused([FIN | opcode, 0xFF], CloseError::ControlTooLong);
    }
    assert_eq!(serve(masked(FIN | PING, [7; 125])), (vec![Seen::Ping(vec![7; 125])], None));
}

/// 5.5.1: "If there is a body, the first two bytes of the body MUST be a 2-byte unsigned integer".
#[test]
fn s5_5_1_close_bodies_begin_with_a_code() {
    refused(masked(FIN | CLOSE, [3]), CloseError::ClosePayloadTruncated);
    let seen = serve(masked(FIN | CLOSE, b"\x03\xE9bye"));
    assert_eq!(seen, (vec![Seen::Close(Some(1001), "bye".into())], None));
    assert_eq!(serve(masked(FIN | CLOSE, "")), (vec![Seen::Close(None, String::new())], None));
}

/// 5.5.1: the reason is "UTF-8-encoded data".
#[test]
fn s5_5_1_close_reasons_are_utf8() {
    refused(masked(FIN | CLOSE, b"\x03\xE8\xFF"), CloseError::TextNotUtf8);
}

/// 5.5.3: "A Pong frame MAY be sent unsolicited."
#[test]
fn s5_5_3_pongs_need_no_ping() {
    assert_eq!(serve(masked(FIN | PONG, "k")), (vec![Seen::Pong(b"k".into())], None));
}

/// 5.6: "a particular text frame might include a partial UTF-8 sequence; however, the whole
/// message MUST contain valid UTF-8".
#[test]
fn s5_6_characters_may_straddle_frames() {
    let bytes = [masked(TEXT, [0xE2]), masked(CONTINUATION, [0x82]), masked(FIN, [0xAC])].concat();
    assert_eq!(serve(bytes), (vec![text("€")], None));
}

/// 7.4.1 and 7.4.2: codes that must not be set as a status code in a close frame.
#[test]
fn s7_4_reserved_codes_are_refused() {
    for code in [0u16, 1, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535] {
        refused(masked(FIN | CLOSE, code.to_be_bytes()), CloseError::CloseCodeInvalid);
    }
}

/// 8.1: "When an endpoint is to interpret a byte stream as UTF-8 but finds that the byte stream
/// is not, in fact, a valid UTF-8 stream, that endpoint MUST _Fail_".
#[test]
fn s8_1_text_is_utf8() {
    refused(masked(FIN | TEXT, [0xFF]), CloseError::TextNotUtf8);
    refused([masked(TEXT, [0xE2, 0x82]), masked(FIN, "")].concat(), CloseError::TextNotUtf8);
}

/// 10.4: "Implementations that have implementation- and/or platform-specific limitations [...]
/// MUST protect themselves against exceeding those limits."
#[test]
fn s10_4_messages_are_limited_before_they_arrive() {
    let limits = Limits { message_bytes_max: 10, ..Limits::default() };
    let too_big = |bytes: &[u8]| drive(Role::Server, &limits, [bytes]).1;
    // The header alone is enough.
    assert_eq!(too_big(&[FIN | BINARY, 0x80 | 11, 0, 0, 0, 0]), Some(CloseError::MessageTooBig));
    let sum = [masked(BINARY, [0; 6]), vec![FIN, 0x80 | 5, 0, 0, 0, 0]].concat();
    assert_eq!(too_big(&sum), Some(CloseError::MessageTooBig));
    let exact = [masked(BINARY, [0; 6]), masked(FIN, [0; 4])].concat();
    assert_eq!(too_big(&exact), None);
    let control = masked(FIN | PING, [0; 100]);
    assert_eq!(too_big(&control), None, "the limit is for messages");
}

/// 10.4: fragments without number or without content are floods.
#[test]
fn s10_4_fragments_are_counted() {
    let limits = Limits { fragments_max: 4, empty_fragments_max: 2, ..Limits::default() };
    let outcome = |fragments: &[&str]| {
        let mut bytes = masked(TEXT, "a");
        for fragment in fragments {
            bytes.extend(masked(CONTINUATION, fragment));
        }
        drive(Role::Server, &limits, [&bytes[..]]).1
    };
    assert_eq!(outcome(&["b", "c", "d"]), None);
    assert_eq!(outcome(&["b", "c", "d", "e"]), Some(CloseError::FragmentsTooMany));
    assert_eq!(outcome(&["", "b", ""]), None);
    assert_eq!(outcome(&["", "", ""]), Some(CloseError::EmptyFragmentFlood));
}

/// 10.4: control frames in a heap are a flood; one by one they are keep-alives.
#[test]
fn s10_4_control_frames_are_counted_until_the_input_is_drained() {
    let limits = Limits { control_run_max: 3, ..Limits::default() };
    let ping = masked(FIN | PING, "");
    assert_eq!(drive(Role::Server, &limits, [&ping.repeat(3)[..]]).1, None);
    assert_eq!(
        drive(Role::Server, &limits, [&ping.repeat(4)[..]]).1,
        Some(CloseError::ControlFlood)
    );
    let one_by_one = ping.repeat(100);
    assert_eq!(drive(Role::Server, &limits, one_by_one.chunks(ping.len())).1, None);
    let mixed = [ping.repeat(3), masked(FIN | TEXT, "x"), ping.repeat(3)].concat();
    assert_eq!(drive(Role::Server, &limits, [&mixed[..]]).1, None);
    let empty_fragments = [ping.repeat(2), masked(TEXT, ""), ping.repeat(2)].concat();
    let error = drive(Role::Server, &limits, [&empty_fragments[..]]).1;
    assert_eq!(error, Some(CloseError::ControlFlood), "an empty fragment is no excuse");
}
