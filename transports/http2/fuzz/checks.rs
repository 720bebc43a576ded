//! What must hold for arbitrary bytes; shared by the fuzz targets and the corpus replay.
//!
//! Relies on panics to report. Invariant: no request becomes more than one head.

use tiderace_base::Time;
use tiderace_http2::{Engine, Limits, PREFACE, Received, Stream, Watch, write_request};

/// A connection whose preface has come: what it makes of the bytes is bounded, and every request that it
/// accepts is one head.
pub fn connection(data: &[u8]) {
    let limits = Limits { header_bytes_max: 2048, streams_max: 16, ..Limits::default() };
    let (mut watch, mut engine) = (Watch::default(), Engine::new(&limits));
    let (mut output, mut streams) = (Vec::new(), Vec::new());
    let bytes = [PREFACE, data].concat();
    let (mut at, mut now) = (0, Time::from_nanos(1));
    while at < bytes.len() {
        let scanned = watch.scan(&bytes[at..], now, &limits);
        let mut left = &bytes[at..at + scanned.bytes];
        loop {
            let driven = engine.drive(left, &mut output, OUTPUT_BYTES_MAX, |it| streams.push(it));
            left = &left[driven.consumed..];
            assert!(output.len() <= OUTPUT_BYTES_MAX);
            output.clear();
            if driven.over.is_some() {
                return;
            }
            streams.retain_mut(|it| look(&it.request, it.protocol.as_deref(), &mut it.stream));
            assert!(streams.len() <= 16 + 1, "{} streams", streams.len());
            if left.is_empty() {
                break;
            }
        }
        if scanned.flood.is_some() {
            return;
        }
        at += scanned.bytes;
        now = now + std::time::Duration::from_millis(1);
    }
}

/// Whether the stream goes on.
fn look(request: &tiderace_http2::Request, protocol: Option<&str>, stream: &mut Stream) -> bool {
    let mut head = Vec::new();
    match write_request(request, protocol, stream.is_ended(), &mut head) {
        Ok(_) => {
            let ends = head.windows(4).filter(|four| four == b"\r\n\r\n").count();
            assert!(head.ends_with(b"\r\n\r\n") && ends == 1, "{}", head.escape_ascii());
            let lines = head.iter().filter(|byte| **byte == b'\n').count();
            assert!(lines <= request.headers().len() + 7, "{}", head.escape_ascii());
        }
        Err(_) => assert!(head.is_empty()),
    }
    let mut count = 0;
    let received = stream.receive(|data| count += data.len());
    stream.release(count);
    received == Received::Open
}

const OUTPUT_BYTES_MAX: usize = 4096;
