//! Known attacks on RSocket servers, each played against a session with its default limits: what it
//! costs in memory is counted by the allocator, and the end has its code.
//!
//! What the event loop sees to (clients that do not read, idle connections) is tested there.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::rig::{Rig, route, setup};
use tiderace_base::{CloseCode, Span};
use tiderace_heap::own_peak;
use tiderace_rsocket::frame::{
    Body, Frame, Interaction, Item, KeepAlive, Payload, Request, Resume, Setup, VERSION,
};
use tiderace_rsocket::{EchoOptions, RSocketOptions};
use tiderace_wire::Framing;

/// What an attack came to.
#[derive(Debug)]
struct Outcome {
    /// Frames that were sent before the end, or all.
    frames: usize,
    /// Bytes that were held at most, beyond those before the attack.
    held: isize,
    /// How the connection ended, if it did.
    end: Option<CloseCode>,
    /// Bytes of what was said.
    said: usize,
}

fn echoing() -> RSocketOptions {
    let echo = Some(EchoOptions { interval: Span::from_secs(1), bytes_max: 1 << 20 });
    RSocketOptions { echo, ..RSocketOptions::default() }
}

/// Sends a frame again and again, its number given, to a client's session whose answers are read.
fn attack(rig: &mut Rig, count: usize, mut write: impl FnMut(u32, &mut Vec<u8>)) -> Outcome {
    let mut bytes = Vec::with_capacity(1 << 20);
    let (mut said, mut frames) = (0, 0);
    let held = own_peak(|| {
        for number in 0..count {
            bytes.clear();
            write(number as u32, &mut bytes);
            rig.send_bytes(&bytes);
            said += rig.queue.take_bytes().len();
            // Those who ask the broker are not to be charged for what it does.
            rig.commands = Vec::new();
            frames = number + 1;
            if rig.end.is_some() {
                break;
            }
        }
    });
    let end = rig.end.as_ref().map(|close| close.code);
    Outcome { frames, held, end, said }
}

fn write(frame: Frame<'_>, out: &mut Vec<u8>) {
    frame.write(Framing::Stream, out);
}

fn begin(stream: u32, interaction: Interaction, follows: bool, payload: Payload<'_>) -> Frame<'_> {
    let credit = if interaction.has_credit() { 1 } else { 0 };
    let body = Body::Request(Request { interaction, follows, complete: false, credit, payload });
    Frame { stream, body }
}

fn fragment(stream: u32, data: &[u8]) -> Frame<'_> {
    let payload = Payload::data(data);
    Frame {
        stream,
        body: Body::Payload(Item { follows: true, complete: false, next: true, payload }),
    }
}

#[test]
fn a_flood_of_metadata_pushes_ends_the_connection() {
    let metadata = vec![b'm'; 9000];
    let outcome = attack(&mut Rig::with(echoing()), 1000, |_, out| {
        write(Frame::connection(Body::MetadataPush(&metadata)), out);
    });
    assert_eq!(outcome.end, Some(CloseCode::TooManySigns), "{outcome:?}");
    assert!(outcome.frames < 20 && outcome.held < 64 << 10, "{outcome:?}");
}

#[test]
fn frames_before_setup_are_not_kept() {
    let data = vec![b'x'; 1 << 20];
    let outcome = attack(&mut Rig::fresh(echoing()), 10, |number, out| {
        write(begin(2 * number + 1, Interaction::Response, false, Payload::data(&data)), out);
    });
    assert_eq!((outcome.end, outcome.frames), (Some(CloseCode::FrameTooLarge), 1), "{outcome:?}");
    let outcome = attack(&mut Rig::fresh(echoing()), 10, |number, out| {
        write(begin(2 * number + 1, Interaction::Response, false, Payload::data(b"x")), out);
    });
    assert_eq!((outcome.end, outcome.frames), (Some(CloseCode::UnexpectedFrame), 1), "{outcome:?}");
}

#[test]
fn items_beyond_the_demand_end_stream_and_then_connection() {
    let mut rig = Rig::with(echoing());
    rig.request(Interaction::Channel, 1, 1, None, b"x");
    rig.frames();
    let data = vec![b'x'; 1 << 10];
    let outcome = attack(&mut rig, 100_000, |_, out| {
        write(Frame::item(1, Payload::data(&data), false), out);
    });
    assert_eq!(outcome.end, Some(CloseCode::TooManyFaults), "{outcome:?}");
    assert!(outcome.frames < 1000 && outcome.held < 64 << 10, "{outcome:?}");
    assert!(outcome.said < 1000, "{outcome:?}");
}

#[test]
fn tiny_fragments_end_the_connection() {
    for data in [&b""[..], b"x"] {
        let outcome = attack(&mut Rig::with(echoing()), 100_000, |number, out| {
            let stream = 2 * number + 1;
            write(begin(stream, Interaction::Response, true, Payload::data(data)), out);
            (0..50).for_each(|_| write(fragment(stream, data), out));
        });
        assert_eq!(outcome.end, Some(CloseCode::TooManyFaults), "{outcome:?}");
        assert!(outcome.frames < 1000 && outcome.held < 256 << 10, "{outcome:?}");
    }
}

#[test]
fn ids_in_use_change_nothing_and_end_the_connection() {
    let mut rig = Rig::with(echoing());
    rig.request(Interaction::Stream, 1, 5, None, b"the first");
    let outcome = attack(&mut rig, 99, |_, out| {
        write(begin(1, Interaction::Stream, false, Payload::data(b"another")), out);
    });
    assert_eq!((outcome.end, outcome.said), (None, 0), "{outcome:?}");
    rig.wait(Span::from_millis(1100));
    assert_eq!(rig.received(), ["1 PAYLOAD N the first"]);
    let outcome = attack(&mut rig, 10, |_, out| {
        write(begin(1, Interaction::Stream, false, Payload::data(b"another")), out);
    });
    assert_eq!(outcome.end, Some(CloseCode::TooManyFaults), "{outcome:?}");
}

#[test]
fn messages_without_end_hold_no_more_than_the_limit() {
    let options = RSocketOptions { message_bytes_max: 1 << 20, ..echoing() };
    let limit = options.fragments_bytes_max as isize;
    let data = vec![b'x'; 60 << 10];
    let mut rig = Rig::with(options.clone());
    rig.send(&begin(1, Interaction::Response, true, Payload::data(b"x")));
    let outcome = attack(&mut rig, 2000, |_, out| write(fragment(1, &data), out));
    assert_eq!(outcome.end, Some(CloseCode::TooManyFaults), "{outcome:?}");
    assert!(outcome.held < 4 << 20, "one message holds what it may: {outcome:?}");
    // Many at a time, none of which is too long.
    let outcome = attack(&mut Rig::with(options), 5000, |number, out| {
        let stream = 2 * (number / 15) + 1;
        match number % 15 {
            0 => write(begin(stream, Interaction::Response, true, Payload::data(&data)), out),
            _ => write(fragment(stream, &data), out),
        }
    });
    assert!(outcome.end.is_some(), "{outcome:?}");
    assert!(outcome.held < 2 * limit + (2 << 20), "{outcome:?}");
}

#[test]
fn demand_without_end_does_not_overflow() {
    let mut rig = Rig::with(echoing());
    rig.request(Interaction::Stream, 1, 0x7fff_ffff, None, b"x");
    let outcome = attack(&mut rig, 100_000, |_, out| write(Frame::request_n(1, 0x7fff_ffff), out));
    assert!(outcome.end.is_none() && outcome.said == 0 && outcome.held < 4096, "{outcome:?}");
    rig.wait(Span::from_millis(1100));
    assert_eq!(rig.received(), ["1 PAYLOAD N x"]);
}

#[test]
fn requests_without_limit_are_rejected() {
    let options = RSocketOptions { streams_max: 100, ..echoing() };
    let metadata = route("fx/EUR");
    let outcome = attack(&mut Rig::with(options), 50_000, |number, out| {
        let payload = Payload::new(&metadata, b"x");
        write(begin(2 * number + 1, Interaction::Response, false, payload), out);
    });
    assert_eq!(outcome.end, None, "being refused is no fault: {outcome:?}");
    assert!(outcome.held < 128 << 10, "{outcome:?}");
    assert!(outcome.said < 50_000 * 100, "{outcome:?}");
}

#[test]
fn echo_streams_hold_no_more_than_their_limit() {
    let data = vec![b'x'; 10 << 10];
    let outcome = attack(&mut Rig::with(echoing()), 5000, |number, out| {
        write(begin(2 * number + 1, Interaction::Stream, false, Payload::data(&data)), out);
    });
    assert_eq!(outcome.end, None, "{outcome:?}");
    assert!(outcome.held < (1 << 20) + (256 << 10), "{outcome:?}");
}

#[test]
fn a_flood_of_keepalives_ends_the_connection() {
    let large = vec![b'x'; 9000];
    for (data, code) in [(&large[..], CloseCode::FrameTooLarge), (b"ping", CloseCode::TooManySigns)]
    {
        let outcome = attack(&mut Rig::with(echoing()), 1000, |_, out| {
            let sign = KeepAlive { respond: true, position: 0, data };
            write(Frame::connection(Body::KeepAlive(sign)), out);
        });
        assert_eq!(outcome.end, Some(code), "{outcome:?}");
        assert!(outcome.frames < 20 && outcome.said < 1000, "{outcome:?}");
    }
}

#[test]
fn a_client_that_says_nothing_is_gone_in_time() {
    let mut rig = Rig::fresh(echoing());
    rig.wait(Span::from_secs(4));
    assert!(rig.end.is_none());
    // A trickle does not help.
    rig.send_bytes(b"\0\0");
    rig.wait(Span::from_millis(1100));
    assert_eq!(rig.end.as_ref().map(|close| close.code), Some(CloseCode::LoginTimeout));
}

#[test]
fn malformed_frames_end_the_connection_without_a_word_of_ours() {
    let cases: [(&[u8], CloseCode); 5] = [
        (b"\0\0\x0a\0\0\0\x01\x11\0\0\0\x64x", CloseCode::BadFrame),
        (b"\0\0\x05\0\0\0\x01\x11", CloseCode::BadFrame),
        (b"\0\0\x00", CloseCode::BadFrame),
        (b"\0\0\x06\0\0\0\x01\x80\0", CloseCode::BadFrame),
        (b"\xff\xff\xff\0\0\0\x01\x10\0", CloseCode::FrameTooLarge),
    ];
    for (bytes, code) in cases {
        let options = RSocketOptions { message_bytes_max: 1 << 20, ..echoing() };
        let mut rig = Rig::with(options);
        let outcome = attack(&mut rig, 1, |_, out| out.extend_from_slice(bytes));
        assert_eq!(outcome.end, Some(code), "{bytes:?}");
        assert!(outcome.said < 200 && outcome.held < 16 << 10, "{outcome:?}");
        let reason = &rig.end.unwrap().reason;
        assert!(!reason.contains(".rs") && !reason.contains("panick"), "{reason}");
    }
}

#[test]
fn even_ids_and_demand_of_zero_end_the_connection() {
    let outcome = attack(&mut Rig::with(echoing()), 1000, |number, out| {
        write(begin(2 * number + 2, Interaction::Response, false, Payload::data(b"x")), out);
    });
    assert_eq!((outcome.end, outcome.frames), (Some(CloseCode::TooManyFaults), 101), "{outcome:?}");
    let mut rig = Rig::with(echoing());
    rig.request(Interaction::Stream, 1, 1, None, b"x");
    let outcome = attack(&mut rig, 1000, |_, out| write(Frame::request_n(1, 0), out));
    assert_eq!((outcome.end, outcome.frames), (Some(CloseCode::TooManyFaults), 101), "{outcome:?}");
}

#[test]
fn repeated_setups_are_not_answered() {
    let outcome = attack(&mut Rig::with(echoing()), 1000, |_, out| {
        write(Frame::connection(Body::Setup(setup())), out);
    });
    assert_eq!((outcome.end, outcome.frames), (Some(CloseCode::TooManyFaults), 101), "{outcome:?}");
    assert!(outcome.said < 200, "one ERROR in the end: {outcome:?}");
}

#[test]
fn setups_and_resumes_have_small_first_frames() {
    let token = vec![b't'; 60_000];
    for body in [
        Body::Setup(Setup { token: Some(&token), ..setup() }),
        Body::Resume(Resume { version: VERSION, token: &token, received: 0, available: 0 }),
    ] {
        let mut rig = Rig::fresh(echoing());
        let outcome = attack(&mut rig, 1, |_, out| write(Frame::connection(body), out));
        assert_eq!(outcome.end, Some(CloseCode::FrameTooLarge), "{outcome:?}");
    }
}

#[test]
fn a_client_that_ignores_leases_is_refused_and_gone() {
    let mut rig = Rig::set_up(echoing(), &Setup { lease: true, ..setup() });
    rig.frames();
    let outcome = attack(&mut rig, 20_000, |number, out| {
        write(begin(2 * number + 1, Interaction::Response, false, Payload::data(b"x")), out);
    });
    // Ten thousand are allowed.
    assert_eq!(outcome.end, Some(CloseCode::TooManyFaults), "{outcome:?}");
    assert_eq!(outcome.frames, 10_101);
}

#[test]
fn channels_begun_and_given_up_hold_nothing() {
    let metadata = route("service:a");
    let outcome = attack(&mut Rig::with(echoing()), 20_000, |number, out| {
        let (stream, payload) = (2 * number + 1, Payload::new(&metadata, b"x"));
        write(begin(stream, Interaction::Channel, false, payload), out);
        write(Frame::cancel(stream), out);
    });
    assert_eq!(outcome.end, None, "{outcome:?}");
    assert!(outcome.held < 64 << 10, "{outcome:?}");
}
