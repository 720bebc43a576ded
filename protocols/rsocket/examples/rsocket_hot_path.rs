//! Nanoseconds per frame of the paths that every frame takes: reading one from a stream, writing one,
//! and a client that hears one.
//!
//! `cargo run --release -p tiderace-rsocket --example rsocket_hot_path`
// It measures, so it reads the clock.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tiderace_base::Time;
use tiderace_rsocket::frame::{Frame, PREFIX_BYTES, Payload, Split, split};
use tiderace_rsocket::metadata::{Described, Mime, write_entry, write_tag};
use tiderace_rsocket::requester::{Requester, RequesterOptions};
use tiderace_wire::Framing;

const FRAMES: u32 = 1_000;
const TURNS: u32 = 2_000;

fn measure(what: &str, bytes: usize, mut turn: impl FnMut()) {
    turn();
    let begun = Instant::now();
    (0..TURNS).for_each(|_| turn());
    let nanos = begun.elapsed().as_nanos() as f64 / f64::from(FRAMES * TURNS);
    println!("{what} of {bytes} bytes: {nanos:.1} ns");
}

fn main() {
    for len in [8, 128, 1024] {
        let data = vec![b'x'; len];
        let frames = |out: &mut Vec<u8>| {
            for stream in 0..FRAMES {
                let item = Frame::item(2 * stream + 1, Payload::data(black_box(&data)), false);
                item.write(Framing::Stream, out);
            }
        };
        let mut out = Vec::new();
        measure("write an item", len, || {
            out.clear();
            frames(&mut out);
            black_box(&out);
        });
        let stream = out.clone();
        measure("read an item", len, || {
            let mut rest = &stream[..];
            while let Ok(Split::Frame(bytes)) = split(rest, 1 << 20) {
                black_box(Frame::read(bytes).unwrap());
                rest = &rest[PREFIX_BYTES + bytes.len()..];
            }
        });
        let mut client = Requester::new(Arc::new(RequesterOptions::default()), Framing::Stream);
        client.begin(Time::ZERO, &mut out);
        for _ in 0..FRAMES {
            let credit = u32::MAX;
            client.request_stream(Time::ZERO, credit, Payload::data(b""), &mut out).unwrap();
            let last = client.streams() as u32 * 2 - 1;
            client.request_n(last, credit, &mut out).unwrap();
            client.request_n(last, credit, &mut out).unwrap();
        }
        measure("hear an item", len, || {
            let mut rest = &stream[..];
            while let (done, Some(frame)) = client.next(Time::ZERO, rest, &mut out).unwrap() {
                black_box(frame);
                rest = &rest[done..];
            }
        });
    }
    let (mut route, mut metadata) = (Vec::new(), Vec::new());
    write_tag("prices/eur", &mut route);
    write_entry(Mime::ROUTING, &route, &mut metadata);
    write_entry(Mime::TYPE, b"\x85", &mut metadata);
    measure("describe a request", metadata.len(), || {
        for _ in 0..FRAMES {
            black_box(Described::read(Mime::COMPOSITE, black_box(&metadata)).unwrap());
        }
    });
}
