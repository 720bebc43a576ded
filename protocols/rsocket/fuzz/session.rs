//! What has to hold of a server's session, whatever a client sends: no panic, all that is said can be
//! read, and nothing is kept without end. Shared by the fuzz target and the replay of its corpus.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, dead_code, unreachable_pub)]

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_rsocket::frame::{
    Body, Frame, Interaction, PREFIX_BYTES, Payload, Request, Setup, Split, VERSION, split,
};
use tiderace_rsocket::metadata::{Mime, write_entry, write_tag};
use tiderace_rsocket::{EchoOptions, RSocketOptions, protocol};
use tiderace_testkit::Neighbours;
use tiderace_wire::Framing;

const FRAMES_BYTES_MAX: usize = 1 << 20;

/// A conversation behind a SETUP with the broker: the first byte says what SETUP asks for, the second how long
/// each piece is. Another client publishes and serves meanwhile; some paths are refused.
pub fn session(data: &[u8]) {
    let [choices, piece, bytes @ ..] = data else { return };
    let has = |bit: u8| choices & bit != 0;
    let options = RSocketOptions {
        message_bytes_max: 1000,
        streams_max: 20,
        subscriptions_max: 10,
        faults_max: 10,
        fragments_bytes_max: 2000,
        fragmented_max: 3,
        channel_window: 4,
        waiting_max: 3,
        waiting_bytes_max: 1000,
        fragment_bytes: if has(1) { 64 } else { 0 },
        echo: has(2).then_some(EchoOptions { interval: Span::from_secs(1), bytes_max: 500 }),
        ..RSocketOptions::default()
    };
    let registered = protocol(Arc::new(options), [].into());
    let mut clients = Neighbours::open(Framing::Stream, |opening| (registered.open)(opening));
    clients.prepare(|other, world| other.receive(world, &helpful()));
    check(&mut clients);
    if !has(4) {
        let setup = Setup {
            token: has(8).then_some(&b"0123456789abcdef"[..]),
            lease: has(16),
            metadata_mime: if has(32) {
                b"message/x.rsocket.routing.v0"
            } else {
                b"message/x.rsocket.composite-metadata.v0"
            },
            ..setup(1000)
        };
        let mut first = Vec::new();
        Frame::connection(Body::Setup(setup)).write(Framing::Stream, &mut first);
        clients.act(|client, world| client.receive(world, &first));
    }
    for part in bytes.chunks(usize::from(*piece).max(1)) {
        clients.act(|client, world| client.receive(world, part));
        clients.wait(Span::from_millis(400));
        check(&mut clients);
    }
}

fn setup(interval_ms: u32) -> Setup<'static> {
    Setup {
        version: VERSION,
        interval_ms,
        lifetime_ms: 60_000,
        token: None,
        lease: false,
        metadata_mime: b"message/x.rsocket.composite-metadata.v0",
        data_mime: b"text/plain",
        payload: Payload::default(),
    }
}

/// What the other client says: values are there, and it serves.
fn helpful() -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::connection(Body::Setup(setup(1000))).write(Framing::Stream, &mut bytes);
    let requests = [
        (Interaction::FireAndForget, 0, "a"),
        (Interaction::FireAndForget, 0, "fx/EUR-USD"),
        (Interaction::Stream, 1_000, "**"),
        (Interaction::Stream, 1_000, "serve:a"),
        (Interaction::Stream, 1_000, "serve:quotes"),
    ];
    for ((interaction, credit, name), stream) in requests.into_iter().zip((1..).step_by(2)) {
        let (mut metadata, mut tag) = (Vec::new(), Vec::new());
        write_tag(name, &mut tag);
        write_entry(Mime::ROUTING, &tag, &mut metadata);
        let payload = Payload { metadata: Some(&metadata), data: b"x" };
        let (follows, complete) = (false, false);
        let request = Request { interaction, follows, complete, credit, payload };
        let frame = Frame { stream, body: Body::Request(request) };
        frame.write(Framing::Stream, &mut bytes);
    }
    bytes
}

/// All that was said can be read.
fn check(clients: &mut Neighbours) {
    for bytes in clients.take_outputs() {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Ok(Split::Frame(frame)) = split(rest, FRAMES_BYTES_MAX) else {
                panic!("half a frame was said")
            };
            Frame::read(frame).unwrap();
            rest = &rest[PREFIX_BYTES + frame.len()..];
        }
    }
}
