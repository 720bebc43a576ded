//! What reading, writing and streams cost, counted by the allocator.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tiderace_base::Time;
use tiderace_heap::{own_bytes, own_calls};
use tiderace_rsocket::fragment::{Assemblies, FragmentLimits, Fragments};
use tiderace_rsocket::frame::{
    Body, Frame, Interaction, PREFIX_BYTES, Payload, Request, Split, split,
};
use tiderace_rsocket::metadata::{Described, Mime, write_entry, write_tag};
use tiderace_rsocket::requester::{Requester, RequesterOptions};
use tiderace_wire::Framing;

#[test]
fn frames_are_read_and_written_without_allocating() {
    let (mut route, mut metadata) = (Vec::new(), Vec::new());
    write_tag("prices/eur", &mut route);
    write_entry(Mime::ROUTING, &route, &mut metadata);
    let data = [b'd'; 1024];
    let payload = Payload::new(&metadata, &data);
    let (interaction, credit) = (Interaction::Stream, 5);
    let (follows, complete) = (false, false);
    let request = Request { interaction, follows, complete, credit, payload };
    let frames = [
        Frame { stream: 1, body: Body::Request(request) },
        Frame::item(1, payload, false),
        Frame::request_n(1, 7),
        Frame::cancel(1),
    ];
    let mut out = Vec::with_capacity(8192);
    let allocated = own_calls(|| {
        for frame in &frames {
            frame.write(Framing::Stream, &mut out);
        }
        for fragment in Fragments::new(frames[0], 200) {
            fragment.write(Framing::Stream, &mut out);
        }
        let mut rest = &out[..];
        while let Ok(Split::Frame(bytes)) = split(rest, 1 << 20) {
            let frame = Frame::read(bytes).unwrap();
            if let Body::Request(Request {
                payload: Payload { metadata: Some(metadata), .. }, ..
            }) = frame.body
                && let Ok(described) = Described::read(Mime::COMPOSITE, metadata)
            {
                assert_eq!(described.route, Some("prices/eur"));
            }
            rest = &rest[PREFIX_BYTES + bytes.len()..];
        }
    });
    assert_eq!(allocated, 0);
}

#[test]
fn declared_lengths_allocate_nothing() {
    let limits = FragmentLimits {
        message_bytes_max: 1 << 30,
        total_bytes_max: 1 << 30,
        messages_max: 1000,
        fragments_max: 1000,
        fragment_bytes_min: 0,
    };
    let before = own_bytes();
    let mut assemblies = Assemblies::new();
    // 16 MiB of metadata are said to follow, then fragments of ten bytes come.
    assert!(Frame::read(b"\0\0\0\x01\x11\x80\xff\xff\xff").is_err());
    for stream in 0..100 {
        let (follows, complete, credit) = (true, false, 0);
        let (interaction, payload) = (Interaction::Response, Payload::data(b"0123456789"));
        let request = Request { interaction, follows, complete, credit, payload };
        let frame = Frame { stream, body: Body::Request(request) };
        assemblies.take(Time::ZERO, &frame, &limits).unwrap();
    }
    let held = own_bytes() - before;
    assert!(held < 100 * 300, "100 messages of 10 bytes hold {held} bytes");
    (0..100).for_each(|stream| assert!(assemblies.forget(stream)));
    assert_eq!(own_bytes(), before, "what is forgotten holds nothing");
}

#[test]
fn a_stream_of_a_client_takes_little() {
    const STREAMS: usize = 100;
    let options = Arc::new(RequesterOptions::default());
    let mut out = Vec::with_capacity(64 * 1024);
    let before = own_bytes();
    let mut client = Requester::new(options, Framing::Stream);
    client.begin(Time::ZERO, &mut out);
    assert_eq!(own_bytes(), before, "a client without streams holds nothing but itself");
    for _ in 0..STREAMS {
        client.request_stream(Time::ZERO, 5, Payload::data(b"x"), &mut out).unwrap();
    }
    let stream = (own_bytes() - before) as usize / STREAMS;
    assert!(stream <= 40, "a stream takes {stream} bytes of heap");
    let mut items = Vec::with_capacity(64 * 1024);
    for stream in 0..STREAMS as u32 {
        Frame::item(2 * stream + 1, Payload::data(b"y"), false).write(Framing::Stream, &mut items);
    }
    let allocated = own_calls(|| {
        let (mut rest, mut received) = (&items[..], 0);
        while let (done, Some(_)) = client.next(Time::ZERO, rest, &mut out).unwrap() {
            rest = &rest[done..];
            received += 1;
        }
        assert_eq!(received, STREAMS);
    });
    assert_eq!(allocated, 0);
    assert!(size_of::<Requester>() <= 256, "{}", size_of::<Requester>());
}
