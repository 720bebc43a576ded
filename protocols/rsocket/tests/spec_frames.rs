//! The rules of RSocket 1.0 that concern bytes, one test each. Above each test stands the section of
//! <https://rsocket.io/about/protocol> (Protocol.md, 1.0) and what it demands, in our words.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use tiderace_base::Time;
use tiderace_rsocket::fragment::{Assemblies, FragmentError, FragmentLimits, Fragments, Taken};
use tiderace_rsocket::frame::{
    Body, ErrorCode, FRAME_BYTES_MAX, Failure, Frame, FrameError, Header, Interaction, Item,
    KeepAlive, Lease, Payload, Request, Resume, Setup, Split, VERSION, flag, split,
};
use tiderace_rsocket::position::{Received, Retained};
use tiderace_wire::{Framing, MessageFraming};

fn bytes(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.write_bare(&mut out);
    out
}

/// Both ways.
fn is(frame: Frame<'_>, expected: &[u8]) {
    assert_eq!(bytes(&frame).escape_ascii().to_string(), expected.escape_ascii().to_string());
    assert_eq!(Frame::read(expected), Ok(frame));
}

const SETUP: Setup<'_> = Setup {
    version: VERSION,
    interval_ms: 500,
    lifetime_ms: 2000,
    token: None,
    lease: false,
    metadata_mime: b"a/b",
    data_mime: b"c/d",
    payload: Payload { metadata: None, data: b"" },
};

const LIMITS: FragmentLimits = FragmentLimits {
    message_bytes_max: 1000,
    total_bytes_max: 1500,
    messages_max: 3,
    fragments_max: 10,
    fragment_bytes_min: 16,
};

fn request(interaction: Interaction, payload: Payload<'_>) -> Request<'_> {
    let credit = if interaction.has_credit() { 258 } else { 0 };
    Request { interaction, follows: false, complete: false, credit, payload }
}

// "Introduction": all fields are big endian.
#[test]
fn numbers_are_big_endian() {
    is(Frame::request_n(0x0102_0304, 0x0506_0708), b"\x01\x02\x03\x04\x20\0\x05\x06\x07\x08");
}

// "Framing Protocol Usage": the length stands before each frame where the transport does not keep
// boundaries (TCP, HTTP/2), and must not where it does (WebSocket).
#[test]
fn the_length_stands_before_frames_on_streams_alone() {
    static MESSAGES: MessageFraming =
        MessageFraming { id: 1, text: |_, _| panic!(), binary: |_, _| {}, armour: None };
    let (mut stream, mut messages) = (Vec::new(), Vec::new());
    Frame::cancel(1).write(Framing::Stream, &mut stream);
    Frame::cancel(1).write(Framing::Messages(&MESSAGES), &mut messages);
    assert_eq!(messages, b"\0\0\0\x01\x24\0");
    assert_eq!(stream, [b"\0\0\x06", &messages[..]].concat());
}

// "Framing Format": the length has 24 bits and does not count itself.
#[test]
fn the_length_does_not_count_itself() {
    assert_eq!(split(b"\0\0\x06\0\0\0\x01\x24\0", 100), Ok(Split::Frame(b"\0\0\0\x01\x24\0")));
}

// "Max Frame Size": a frame has at most 16,777,215 bytes on every transport.
#[test]
fn the_longest_frame_is_what_24_bits_can_say() {
    let data = vec![0; FRAME_BYTES_MAX - 6];
    let frame = Frame::item(1, Payload::data(&data), false);
    let mut out = Vec::new();
    frame.write(Framing::Stream, &mut out);
    assert_eq!(out[..3], [0xff; 3]);
    let longer = vec![0; data.len() + 1];
    let cut = Fragments::new(Frame::item(1, Payload::data(&longer), false), usize::MAX);
    assert_eq!(cut.count(), 2);
}

// "Frame Header Format": the stream has 31 bits; the bit before is 0.
#[test]
fn the_bit_before_the_stream_is_not_part_of_it() {
    assert_eq!(Frame::read(b"\xff\xff\xff\xff\x24\0"), Ok(Frame::cancel(0x7fff_ffff)));
    is(Frame::cancel(0x7fff_ffff), b"\x7f\xff\xff\xff\x24\0");
}

// "Frame Header Format": 6 bits of type, 10 bits of flags, of which the first say "ignore" and
// "metadata".
#[test]
fn type_and_flags_share_two_bytes() {
    let (header, rest) = Header::read(b"\0\0\0\x02\x2b\xe0rest").unwrap();
    assert_eq!(header, Header { stream: 2, kind: 0x0a, flags: 0x3e0 });
    assert!(header.has(flag::IGNORE) && header.has(flag::METADATA) && rest == b"rest");
    assert_eq!(Frame::read(b"\0\0\0\x02\x28"), Err(FrameError::NoHeader(5)));
}

// "Frame Header Format", "Handling the Unexpected" 8: bits without a meaning are not interpreted.
#[test]
fn flags_without_a_meaning_are_skipped() {
    assert_eq!(Frame::read(b"\0\0\0\x01\x25\xff"), Ok(Frame::cancel(1)));
    let all = Frame::read(b"\0\0\0\x01\x10\x1fx").unwrap();
    let asked = request(Interaction::Response, Payload::data(b"x"));
    assert_eq!(all, Frame { stream: 1, body: Body::Request(asked) });
    let stream = Frame::read(b"\0\0\0\x01\x18\x40\0\0\x01\x02").unwrap();
    let asked = request(Interaction::Stream, Payload::data(b""));
    assert_eq!(stream, Frame { stream: 1, body: Body::Request(asked) }, "streams have no C");
}

// "Handling Ignore Flag": what is not understood and not to be ignored may end the connection.
#[test]
fn unknown_types_are_refused_unless_they_may_be_ignored() {
    for kind in (0x0f..0x3f).chain([0]) {
        let unknown = [0, 0, 0, 0, kind << 2, 0];
        assert_eq!(Frame::read(&unknown), Err(FrameError::UnknownType(kind)));
        let ignored = [0, 0, 0, 0, kind << 2 | 2, 0];
        assert_eq!(Frame::read(&ignored), Ok(Frame::connection(Body::Ignored)));
    }
}

// "Metadata Optional Header": 24 bits of length, the metadata, the data.
#[test]
fn metadata_stands_before_data() {
    let payload = Payload::new(b"meta", b"data");
    is(Frame::item(1, payload, false), b"\0\0\0\x01\x29\x20\0\0\x04metadata");
    is(Frame::item(1, Payload::new(b"meta", b""), false), b"\0\0\0\x01\x29\x20\0\0\x04meta");
    is(Frame::item(1, Payload::new(b"", b"data"), false), b"\0\0\0\x01\x29\x20\0\0\0data");
    is(Frame::item(1, Payload::data(b"data"), false), b"\0\0\0\x01\x28\x20data");
}

// "Metadata Optional Header": a length that does not fit the frame ends the connection, unless the
// frame may be ignored.
#[test]
fn metadata_longer_than_its_frame_is_refused() {
    let error = FrameError::MetadataLength { declared: 5, there: 4 };
    for kind in [4, 5, 10] {
        let mut frame = vec![0, 0, 0, 1, kind << 2 | 1, 0x20, 0, 0, 5, b'm', b'e', b't', b'a'];
        assert_eq!(Frame::read(&frame), Err(error), "{kind}");
        frame[4] |= 2;
        assert_eq!(Frame::read(&frame).unwrap().body, Body::Ignored, "{kind}");
        frame.truncate(8);
        frame[4] &= !2;
        assert_eq!(Frame::read(&frame), Err(FrameError::Cut("metadata length")), "{kind}");
    }
}

// "SETUP Frame": version, interval, lifetime, MIME types behind their lengths, payload.
#[test]
fn setup_has_its_fields_in_order() {
    let head = b"\0\0\0\0\x04\0\0\x01\0\0\0\0\x01\xf4\0\0\x07\xd0";
    is(Frame::connection(Body::Setup(SETUP)), &[&head[..], b"\x03a/b\x03c/d"].concat());
}

// "SETUP Frame": the token stands behind the times, if R is set; L and M are flags.
#[test]
fn setup_has_a_token_if_it_is_to_be_resumed() {
    let payload = Payload::new(b"m", b"hello");
    let setup = Setup { token: Some(b"tok"), lease: true, payload, ..SETUP };
    let head = b"\0\0\0\0\x05\xc0\0\x01\0\0\0\0\x01\xf4\0\0\x07\xd0\0\x03tok";
    let rest = b"\x03a/b\x03c/d\0\0\x01mhello";
    is(Frame::connection(Body::Setup(setup)), &[&head[..], rest].concat());
}

// "SETUP Frame": every field has to be there.
#[test]
fn setup_that_is_cut_off_is_refused() {
    let setup = Setup { token: Some(b"tok"), ..SETUP };
    let whole = bytes(&Frame::connection(Body::Setup(setup)));
    for len in 6..whole.len() {
        assert!(matches!(Frame::read(&whole[..len]), Err(FrameError::Cut(_))), "{len}");
    }
}

// "ERROR Frame": a code and text.
#[test]
fn error_has_a_code_and_text() {
    is(Frame::error(0, ErrorCode::REJECTED_SETUP, "no"), b"\0\0\0\0\x2c\0\0\0\0\x03no");
    is(Frame::error(7, ErrorCode(0x301), ""), b"\0\0\0\x07\x2c\0\0\0\x03\x01");
}

// "Error Codes": each has its number.
#[test]
fn error_codes_have_their_numbers() {
    let numbers = [
        (ErrorCode::INVALID_SETUP, 0x001),
        (ErrorCode::UNSUPPORTED_SETUP, 0x002),
        (ErrorCode::REJECTED_SETUP, 0x003),
        (ErrorCode::REJECTED_RESUME, 0x004),
        (ErrorCode::CONNECTION_ERROR, 0x101),
        (ErrorCode::CONNECTION_CLOSE, 0x102),
        (ErrorCode::APPLICATION_ERROR, 0x201),
        (ErrorCode::REJECTED, 0x202),
        (ErrorCode::CANCELED, 0x203),
        (ErrorCode::INVALID, 0x204),
    ];
    for (code, number) in numbers {
        assert_eq!(code.0, number);
        assert_eq!(code.is_of_connections(), number < 0x200);
        assert_eq!(code.is_of_setup(), number < 0x100);
    }
}

// "LEASE Frame": time and number, then metadata without a length, even if M is set.
#[test]
fn lease_has_metadata_without_a_length() {
    let lease = Lease { ttl_ms: 1000, requests: 5, metadata: Some(b"meta") };
    let frame = Frame::connection(Body::Lease(lease));
    is(frame, b"\0\0\0\0\x09\0\0\0\x03\xe8\0\0\0\x05meta");
    let lease = Lease { ttl_ms: 0, requests: 0, metadata: None };
    is(Frame::connection(Body::Lease(lease)), b"\0\0\0\0\x08\0\0\0\0\0\0\0\0\0");
}

// "KEEPALIVE Frame": R, 63 bits of position, data.
#[test]
fn keepalive_has_a_position_of_63_bits() {
    let sign = KeepAlive { respond: true, position: 0x0102_0304_0506_0708, data: b"hi" };
    let expected = b"\0\0\0\0\x0c\x80\x01\x02\x03\x04\x05\x06\x07\x08hi";
    is(Frame::connection(Body::KeepAlive(sign)), expected);
    let reserved = b"\0\0\0\0\x0c\0\x80\0\0\0\0\0\0\x01";
    let sign = KeepAlive { respond: false, position: 1, data: b"" };
    assert_eq!(Frame::read(reserved), Ok(Frame::connection(Body::KeepAlive(sign))));
}

// "REQUEST_RESPONSE Frame", "REQUEST_FNF Frame": the payload alone.
#[test]
fn requests_without_credit_have_their_payload_alone() {
    let payload = Payload::new(b"m", b"d");
    let response = Body::Request(request(Interaction::Response, payload));
    is(Frame { stream: 1, body: response }, b"\0\0\0\x01\x11\0\0\0\x01md");
    let forget = Request { follows: true, ..request(Interaction::FireAndForget, payload) };
    is(Frame { stream: 3, body: Body::Request(forget) }, b"\0\0\0\x03\x15\x80\0\0\x01md");
}

// "REQUEST_STREAM Frame", "REQUEST_CHANNEL Frame": 31 bits of credit before the payload.
#[test]
fn requests_with_credit_have_it_before_their_payload() {
    let payload = Payload::data(b"d");
    let stream = Body::Request(request(Interaction::Stream, payload));
    is(Frame { stream: 5, body: stream }, b"\0\0\0\x05\x18\0\0\0\x01\x02d");
    let channel = Request { complete: true, ..request(Interaction::Channel, payload) };
    is(Frame { stream: 7, body: Body::Request(channel) }, b"\0\0\0\x07\x1c\x40\0\0\x01\x02d");
    let reserved = Frame::read(b"\0\0\0\x05\x18\0\x80\0\x01\x02d").unwrap();
    assert_eq!(reserved.body, stream);
    assert_eq!(Frame::read(b"\0\0\0\x05\x18\0\0\0\x01"), Err(FrameError::Cut("initial credit")));
}

// "REQUEST_N Frame", "CANCEL Frame".
#[test]
fn credit_and_cancel_are_short() {
    is(Frame::request_n(1, 0x7fff_ffff), b"\0\0\0\x01\x20\0\x7f\xff\xff\xff");
    is(Frame::cancel(1), b"\0\0\0\x01\x24\0");
    assert_eq!(Frame::read(b"\0\0\0\x01\x20\0\0\0\0"), Err(FrameError::Cut("credit")));
}

// "PAYLOAD Frame": F, C and N; an item of no bytes is an item.
#[test]
fn payload_says_whether_it_is_an_item() {
    is(Frame::item(1, Payload::data(b""), false), b"\0\0\0\x01\x28\x20");
    is(Frame::item(1, Payload::data(b"x"), true), b"\0\0\0\x01\x28\x60x");
    is(Frame::complete(1), b"\0\0\0\x01\x28\x40");
    let (follows, complete, next) = (true, false, true);
    let item = Item { follows, complete, next, payload: Payload::data(b"x") };
    is(Frame { stream: 1, body: Body::Payload(item) }, b"\0\0\0\x01\x28\xa0x");
}

// "METADATA_PUSH Frame": metadata without a length.
#[test]
fn metadata_push_has_no_length() {
    is(Frame::connection(Body::MetadataPush(b"push")), b"\0\0\0\0\x31\0push");
}

// "EXT (Extension) Frame": 31 bits of extended type.
#[test]
fn extensions_have_a_type_of_their_own() {
    let read = Frame::read(b"\0\0\0\0\xfe\0\x80\0\0\x09rest").unwrap();
    let Body::Extension(extension) = read.body else { panic!("{read:?}") };
    assert_eq!((extension.kind, extension.bytes, extension.ignore), (9, &b"rest"[..], true));
    assert_eq!(Frame::read(b"\0\0\0\0\xfc\0\0\0"), Err(FrameError::Cut("extended type")));
}

// "RESUME Frame": version, token behind its length, two positions of 63 bits.
#[test]
fn resume_has_its_fields_in_order() {
    let resume = Resume { version: VERSION, token: b"tok", received: 258, available: 1 };
    let expected = b"\0\0\0\0\x34\0\0\x01\0\0\0\x03tok\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x01";
    is(Frame::connection(Body::Resume(resume)), expected);
    for len in 6..expected.len() {
        assert!(Frame::read(&expected[..len]).is_err(), "{len}");
    }
}

// "RESUME_OK Frame": one position.
#[test]
fn resume_ok_has_a_position() {
    is(Frame::connection(Body::ResumeOk(258)), b"\0\0\0\0\x38\0\0\0\0\0\0\0\x01\x02");
}

// "Implied Position": positions begin at 0 and count the bytes of frames without their length, after
// they were cut into fragments.
#[test]
fn positions_count_bytes_of_fragments() {
    let data = [b'd'; 100];
    let frame = Frame::item(1, Payload::data(&data), false);
    let mut received = Received::default();
    assert_eq!(received.position(), 0);
    for fragment in Fragments::new(frame, 64) {
        received.count(fragment.header(), fragment.len());
    }
    assert_eq!(received.position(), 6 + 58 + 6 + 42);
}

// "Implied Position": frames of other types have no position.
#[test]
fn frames_of_the_connection_have_no_position() {
    let mut retained = Retained::new();
    for body in [
        Body::Setup(SETUP),
        Body::MetadataPush(b"x"),
        Body::ResumeOk(1),
        Body::Error(Failure { code: ErrorCode::CONNECTION_ERROR, text: b"" }),
    ] {
        retained.keep(&bytes(&Frame::connection(body)), 1000);
    }
    assert_eq!((retained.next(), retained.bytes()), (0, 0));
    retained.keep(&bytes(&Frame::cancel(1)), 1000);
    assert_eq!(retained.next(), 6);
}

// "Resume Operation": all frames from the position on are sent again, if they are still there.
#[test]
fn what_follows_a_position_can_be_sent_again() {
    let mut retained = Retained::new();
    let frames: Vec<_> = (1..=4).map(|stream| bytes(&Frame::request_n(stream, 1))).collect();
    frames.iter().for_each(|frame| retained.keep(frame, 39));
    assert_eq!((retained.first(), retained.next()), (10, 40), "one was too many");
    assert!(!retained.reaches(0) && retained.reaches(10) && retained.reaches(40));
    assert!(!retained.reaches(15), "no frame begins there");
    assert!(!retained.reaches(50), "nobody has come so far");
    retained.trim(20);
    let mut again = Vec::new();
    retained.each(|frame| again.push(frame.to_vec()));
    assert_eq!(again, frames[2..]);
}

// "Fragmentation And Reassembly": metadata is sent completely before data; the first frame is the
// request, those that follow are PAYLOAD.
#[test]
fn a_request_is_cut_metadata_first() {
    let (metadata, data) = ([b'm'; 100], [b'd'; 20]);
    let asked = request(Interaction::Stream, Payload::new(&metadata, &data));
    let cut: Vec<_> = Fragments::new(Frame { stream: 1, body: Body::Request(asked) }, 64).collect();
    let [Frame { body: Body::Request(first), .. }, Frame { body: Body::Payload(second), .. }, last] =
        &cut[..]
    else {
        panic!("{cut:?}")
    };
    assert!(first.follows && first.credit == 258);
    assert_eq!(first.payload, Payload::new(&metadata[..51], b""));
    assert!(second.follows && second.next);
    assert_eq!(second.payload, Payload::new(&metadata[51..], &data[..6]));
    assert_eq!(*last, Frame::item(1, Payload::data(&data[6..]), false));
}

/// Takes frames in order and gives what became of the last.
fn take(frames: &[Frame<'_>]) -> Result<Option<Vec<u8>>, FragmentError> {
    let mut assemblies = Assemblies::new();
    let mut whole = None;
    for frame in frames {
        whole = match assemblies.take(Time::ZERO, frame, &LIMITS)? {
            Taken::Whole => Some(bytes(frame)),
            Taken::Kept => None,
            Taken::Complete(message) => Some(bytes(&message.frame())),
        };
    }
    Ok(whole)
}

fn fragment(follows: bool, payload: Payload<'_>) -> Frame<'_> {
    let item = Item { follows, complete: false, next: true, payload };
    Frame { stream: 1, body: Body::Payload(item) }
}

fn beginning(data: &[u8]) -> Frame<'_> {
    let asked = request(Interaction::Response, Payload::data(data));
    Frame { stream: 1, body: Body::Request(Request { follows: true, ..asked }) }
}

// "Fragmentation And Reassembly": F says that more follows.
#[test]
fn fragments_become_one_message() {
    let whole = take(&[beginning(b"one "), fragment(false, Payload::data(b"two"))]);
    let asked = request(Interaction::Response, Payload::data(b"one two"));
    let expected = bytes(&Frame { stream: 1, body: Body::Request(asked) });
    assert_eq!(whole, Ok(Some(expected)));
    assert_eq!(take(&[beginning(b"one ")]), Ok(None));
}

// "Fragmentation And Reassembly": metadata is complete before data begins.
#[test]
fn metadata_behind_data_is_refused() {
    let late = fragment(false, Payload::new(b"late", b""));
    assert_eq!(take(&[beginning(b"data"), late]), Err(FragmentError::LateMetadata));
}

// "Fragmentation And Reassembly": CANCEL gives an incomplete message up.
#[test]
fn cancel_ends_an_incomplete_message() {
    let mut assemblies = Assemblies::new();
    assemblies.take(Time::ZERO, &beginning(b"one"), &LIMITS).unwrap();
    assemblies.take(Time::ZERO, &Frame::cancel(1), &LIMITS).unwrap();
    assert!(assemblies.is_empty());
    let error = Frame::error(1, ErrorCode::APPLICATION_ERROR, "");
    assemblies.take(Time::ZERO, &beginning(b"one"), &LIMITS).unwrap();
    assemblies.take(Time::ZERO, &error, &LIMITS).unwrap();
    assert!(assemblies.is_empty());
}

// "Handling the Unexpected" 7: of F and C in a PAYLOAD, C holds.
#[test]
fn what_is_complete_has_no_further_fragments() {
    let item = Item { follows: true, complete: true, next: true, payload: Payload::data(b"x") };
    let both = Frame { stream: 1, body: Body::Payload(item) };
    assert!(take(&[both]).unwrap().is_some());
    assert!(take(&[beginning(b"a"), both]).unwrap().is_some());
}

// "Handling the Unexpected" 6: what is put together may never end, so that it needs limits.
#[test]
fn messages_without_end_are_refused() {
    let (piece, short) = ([b'x'; 400], [b'x'; 20]);
    let more = fragment(true, Payload::data(&piece));
    assert_eq!(take(&[beginning(b""), more, more, more]), Err(FragmentError::TooLong(1000)));
    let mut many = vec![beginning(b"")];
    many.extend([fragment(true, Payload::data(&short)); 20]);
    assert_eq!(take(&many), Err(FragmentError::TooMany(10)));
    let tiny = [beginning(b""), fragment(true, Payload::data(b""))];
    assert_eq!(take(&tiny), Err(FragmentError::TooShort { bytes: 6, min: 16 }));
    let streams: Vec<_> = (1..9).map(|stream| Frame { stream, ..beginning(&short) }).collect();
    assert_eq!(take(&streams), Err(FragmentError::TooManyMessages(3)));
    let large = [b'x'; 900];
    let two = [beginning(&large), Frame { stream: 3, ..beginning(&large) }];
    assert_eq!(take(&two), Err(FragmentError::TotalTooLong(1500)));
}

// "Handling the Unexpected" 9: what makes no sense is left to the session, which ignores it; the codec
// reads it.
#[test]
fn frames_on_the_wrong_stream_can_be_read() {
    for frame in [
        Frame { stream: 9, body: Body::MetadataPush(b"x") },
        Frame { stream: 9, body: Body::Setup(SETUP) },
        Frame::cancel(0),
        Frame::complete(0),
        Frame::request_n(0, 0),
    ] {
        assert_eq!(Frame::read(&bytes(&frame)), Ok(frame));
    }
}
