//! Sizes and times of delta codecs on a message of quotes, over six patterns of change:
//! `cargo bench -p tiderace-delta`. Prints one table in Markdown.
//!
//! Every difference is applied and compared before anything is measured. Times are the least of
//! many rounds over the same 400 pairs of successive values, all codecs in one process.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it measures and reports"
)]

mod codecs;
mod hostile;
mod quotes;

use std::hint::black_box;
use std::time::{Duration, Instant};

use codecs::{CODECS, Codec};
use quotes::{PATTERNS, values};

/// What was found of one codec and pattern.
struct Cell {
    bytes: f64,
    encode: f64,
    decode: f64,
}

fn main() {
    let patterns: Vec<(&str, Vec<Vec<u8>>)> =
        PATTERNS.iter().map(|pattern| (pattern.name, values(pattern, PAIRS + 1))).collect();
    println!(
        "Mean bytes of a difference, then ns to encode / decode; {PAIRS} successive values.\n"
    );
    let names = patterns.iter().map(|(name, _)| format!(" {name} |")).collect::<String>();
    println!("| codec |{names}\n|---|{}", "--:|".repeat(patterns.len()));
    let whole = patterns.iter().map(|(_, values)| {
        let bytes: usize = values.iter().skip(1).map(Vec::len).sum();
        format!(" {:.0} |", bytes as f64 / PAIRS as f64)
    });
    println!("| the whole value |{}", whole.collect::<String>());
    for codec in CODECS {
        let row = patterns.iter().map(|(_, values)| {
            let cell = measure(codec, values);
            let digits = if cell.bytes < 100.0 { 1 } else { 0 };
            format!(" {:.digits$} · {:.0} / {:.0} |", cell.bytes, cell.encode, cell.decode)
        });
        println!("| {} |{}", codec.name, row.collect::<String>());
    }
    println!("\nHostile deltas to a value of 1,000 bytes, where 1 MiB may be made.\n");
    println!("| delta | its bytes | makes | µs |\n|---|--:|---|--:|");
    for attack in hostile::attacks() {
        let made = match (attack.decode)(&attack.delta) {
            Ok(made) => format!("{} bytes", made.len()),
            Err(error) => format!("{error:?}"),
        };
        let span = least(&[()], |()| {
            let _ = black_box((attack.decode)(black_box(&attack.delta)));
        });
        let micros = span.as_nanos() as f64 / 1e3;
        println!("| {} | {} | {made} | {micros:.1} |", attack.name, attack.delta.len());
    }
}

fn measure(codec: &Codec, values: &[Vec<u8>]) -> Cell {
    let pairs = || values.iter().zip(values.iter().skip(1));
    let deltas: Vec<Vec<u8>> = pairs().map(|(old, new)| (codec.encode)(old, new)).collect();
    for ((old, new), delta) in pairs().zip(&deltas) {
        let made = (codec.decode)(old, delta);
        assert!((codec.same)(&made, new), "{} does not make the value again", codec.name);
    }
    let bytes: usize = deltas.iter().map(Vec::len).sum();
    let cases: Vec<_> = pairs().zip(&deltas).map(|((old, new), delta)| (old, new, delta)).collect();
    let encode = least(&cases, |(old, new, _)| {
        black_box((codec.encode)(black_box(old), black_box(new)));
    });
    let decode = least(&cases, |(old, _, delta)| {
        black_box((codec.decode)(black_box(old), black_box(delta)));
    });
    let each = |span: Duration| span.as_nanos() as f64 / PAIRS as f64;
    Cell { bytes: bytes as f64 / PAIRS as f64, encode: each(encode), decode: each(decode) }
}

/// The time of all cases: the sum, over stretches of them, of the least of many rounds. Stretches are
/// short, so that other programs on the machine spoil few of them.
fn least<T>(cases: &[T], run: impl Fn(&T)) -> Duration {
    let mut least = vec![Duration::MAX; cases.len().div_ceil(STRETCH)];
    let (begin, mut rounds) = (Instant::now(), 0);
    while rounds < ROUNDS_MIN || begin.elapsed() < SPAN {
        for (stretch, least) in cases.chunks(STRETCH).zip(&mut least) {
            let before = Instant::now();
            stretch.iter().for_each(&run);
            *least = before.elapsed().min(*least);
        }
        rounds += 1;
    }
    least.into_iter().sum()
}

const PAIRS: usize = 400;
const STRETCH: usize = 20;
const ROUNDS_MIN: usize = 10;
const SPAN: Duration = Duration::from_millis(200);
