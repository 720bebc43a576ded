//! What has to hold of any bytes; shared by the fuzz targets and the replay of their corpora.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, dead_code, unreachable_pub)]

use std::sync::Arc;

use tiderace_base::{Span, Time};
use tiderace_rsocket::fragment::{Assemblies, FragmentLimits, Fragments, Taken};
use tiderace_rsocket::frame::{Frame, PREFIX_BYTES, Payload, Split, split};
use tiderace_rsocket::metadata::{
    Authentication, Described, Entries, Mime, MimeTypes, Tags, Tracing,
};
use tiderace_rsocket::requester::{Requester, RequesterOptions};
use tiderace_wire::Framing;

/// Each frame of a stream, until one is too long or cut off.
fn each(data: &[u8], mut give: impl FnMut(&[u8])) {
    let mut rest = data;
    while let Ok(Split::Frame(frame)) = split(rest, 4096) {
        rest = &rest[PREFIX_BYTES + frame.len()..];
        give(frame);
    }
}

/// A stream of frames, and all of the bytes as one frame.
pub fn frames(data: &[u8]) {
    let alone = |bytes: &[u8]| {
        let Ok(frame) = Frame::read(bytes) else { return };
        let mut again = Vec::new();
        frame.write_bare(&mut again);
        assert_eq!(again.len(), frame.len());
        assert_eq!(Frame::read(&again).unwrap(), frame);
        let whole: usize = Fragments::new(frame, 64).map(|part| payload(&part)).sum();
        assert_eq!(whole, payload(&frame));
    };
    alone(data);
    each(data, alone);
}

fn payload(frame: &Frame<'_>) -> usize {
    use tiderace_rsocket::frame::Body;
    match &frame.body {
        Body::Payload(item) => item.payload.len(),
        Body::Request(request) => request.payload.len(),
        _ => 0,
    }
}

/// Metadata: the first byte says of which type.
pub fn metadata(data: &[u8]) {
    let [which, bytes @ ..] = data else { return };
    let mime = Mime::Id(which & 0x7f);
    let mut others = 0;
    if let Ok(described) = Described::read_with(mime, bytes, |_, _| others += 1) {
        if let Some(tags) = described.tags {
            let first = Tags::new(tags).next().transpose().unwrap();
            assert_eq!(first, described.route);
        }
        let read = [described.tags, described.accepted, described.tracing];
        assert!(read.iter().flatten().all(|part| part.len() <= bytes.len()));
    }
    let entries = Entries::new(bytes).inspect(|entry| {
        let Ok(entry) = entry else { return };
        let mut again = Vec::new();
        tiderace_rsocket::metadata::write_entry(entry.mime, entry.bytes, &mut again);
        assert_eq!(Entries::new(&again).next().unwrap().unwrap(), *entry);
    });
    assert!(entries.count() <= bytes.len());
    assert!(MimeTypes::new(bytes).count() <= bytes.len());
    assert!(Tags::new(bytes).count() <= bytes.len());
    if let Ok(authentication) = Authentication::read(bytes) {
        let mut again = Vec::new();
        authentication.write(&mut again);
        assert_eq!(Authentication::read(&again).unwrap(), authentication);
    }
    if let Ok(tracing) = Tracing::read(bytes) {
        let mut again = Vec::new();
        tracing.write(&mut again);
        assert_eq!(Tracing::read(&again).unwrap(), tracing);
    }
    let _ = std::str::from_utf8(bytes).map(Tracing::from_b3);
}

const LIMITS: FragmentLimits = FragmentLimits {
    message_bytes_max: 300,
    total_bytes_max: 500,
    messages_max: 3,
    fragments_max: 6,
    fragment_bytes_min: 20,
};

/// A stream of frames, of which those in fragments are put together.
pub fn fragments(data: &[u8]) {
    let mut assemblies = Assemblies::new();
    each(data, |bytes| {
        let Ok(frame) = Frame::read(bytes) else { return };
        let before = assemblies.bytes();
        match assemblies.take(Time::ZERO, &frame, &LIMITS) {
            Ok(Taken::Whole) => {}
            Ok(Taken::Kept) => {
                assert!(assemblies.is_open(frame.stream));
                assert_eq!(assemblies.bytes(), before + payload(&frame));
            }
            Ok(Taken::Complete(message)) => {
                assert!(payload(&message.frame()) <= LIMITS.message_bytes_max);
                let mut again = Vec::new();
                message.frame().write_bare(&mut again);
                assert_eq!(Frame::read(&again).unwrap(), message.frame());
            }
            Err(_) => assert!(assemblies.bytes() <= before),
        }
        assert!(assemblies.bytes() <= LIMITS.total_bytes_max);
        assert_eq!(assemblies.is_empty(), assemblies.oldest().is_none());
    });
    while let Some((stream, _)) = assemblies.oldest() {
        assert!(assemblies.forget(stream));
    }
    assert_eq!(assemblies.bytes(), 0);
}

/// What a server says to a client that has one request of each kind open and comes back once.
pub fn requester(data: &[u8]) {
    let options = RequesterOptions {
        lease: data.len() % 2 == 1,
        token: (!data.len().is_multiple_of(3)).then(|| vec![1; 16]),
        fragment_bytes_max: 64,
        retained_bytes_max: 200,
        frame_bytes_max: 1000,
        fragments: LIMITS,
        requests_max: 3,
        ..RequesterOptions::default()
    };
    let (mut now, mut out) = (Time::ZERO, Vec::new());
    let mut client = Requester::new(Arc::new(options), Framing::Stream);
    client.begin(now, &mut out);
    let mut rest = data;
    for round in 0..100 {
        let payload = Payload::data(b"what is to be known");
        let asked = [
            client.request_response(now, payload, &mut out),
            client.request_stream(now, 3, payload, &mut out),
            client.request_channel(now, 3, payload, false, &mut out),
        ];
        let Ok((done, told)) = client.next(now, rest, &mut out) else { break };
        rest = &rest[done..];
        let Some(stream) = told.map(|frame| frame.stream) else { break };
        let _ = match round % 4 {
            0 => client.send(stream, payload, false, &mut out),
            1 => client.request_n(stream, 2, &mut out),
            2 => client.cancel(stream, &mut out),
            _ => client.complete(stream, &mut out),
        };
        if round == 10 {
            client.resume(now, Framing::Stream, &mut out);
        }
        now = now + Span::from_secs(1);
        let _ = client.expire(now, &mut out);
        assert!(client.streams() <= 3 * (round + 1) + 3 && asked.len() == 3);
    }
    // Whatever it said can be read.
    let mut rest = &out[..];
    while !rest.is_empty() {
        let Ok(Split::Frame(frame)) = split(rest, 1 << 20) else { panic!("half a frame was said") };
        Frame::read(frame).unwrap();
        rest = &rest[PREFIX_BYTES + frame.len()..];
    }
}
