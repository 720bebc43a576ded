//! Measures masking: bytes per second and nanoseconds per call, by payload length, beside the
//! octet-by-octet definition.
//!
//! `cargo run --release -p tiderace-websocket --example mask_speed`

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the codec is pure; this example measures it and reports"
)]

use std::hint::black_box;
use std::time::Instant;

use tiderace_websocket::mask;

fn main() {
    println!("{:>8} {:>12} {:>10} {:>16}", "bytes", "ns/call", "GB/s", "octet-wise GB/s");
    for len in [20, 64, 125, 256, 1024, 16 * 1024, 1024 * 1024] {
        let (fast_ns, slow_ns) = (measure(len, mask), measure(len, mask_octets));
        let gigabytes = |ns: f64| len as f64 / ns;
        println!(
            "{len:>8} {fast_ns:>12.1} {:>10.1} {:>16.1}",
            gigabytes(fast_ns),
            gigabytes(slow_ns)
        );
    }
}

fn measure(len: usize, apply: fn(&mut [u8], [u8; 4])) -> f64 {
    let mut payload = vec![0xA5; len];
    // A quarter of a gigabyte of work per figure keeps the run below a second or two.
    let rounds = ((1 << 28) / len).min(5_000_000);
    let start = Instant::now();
    for round in 0..rounds {
        apply(black_box(&mut payload), (round as u32).to_ne_bytes());
    }
    start.elapsed().as_nanos() as f64 / rounds as f64
}

fn mask_octets(payload: &mut [u8], key: [u8; 4]) {
    for (byte, key_byte) in payload.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key_byte;
    }
}
