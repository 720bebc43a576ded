//! Random edits and the differences that each codec makes of them, for decoders in other languages:
//! `cargo run -p tiderace-delta --example edits -- 100000`.
//!
//! Standard output is a sequence of cases, each of four byte strings behind their lengths (four
//! bytes, the lowest first): the old value, the new one, and the difference by codec 1 and by codec
//! 2. The same seed makes the same cases. Each difference is decoded here before it is written.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a tool around the pure crate"
)]

use std::io::{BufWriter, Write};

use tiderace_delta::CODECS;

fn main() {
    let count: usize = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let mut old = Vec::new();
    for case in 0..count {
        if case % 64 == 0 {
            old = chance.value();
        }
        let new = chance.edited(&old);
        let mut parts = vec![old, new.clone()];
        for codec in CODECS {
            let mut delta = Vec::new();
            assert!((codec.encode)(&parts[0], &new, &mut delta, usize::MAX));
            let made = (codec.decode)(&parts[0], &delta, new.len());
            assert_eq!(made.as_ref(), Ok(&new), "case {case}, {codec:?}");
            parts.push(delta);
        }
        for part in &parts {
            out.write_all(&(part.len() as u32).to_le_bytes()).unwrap();
            out.write_all(part).unwrap();
        }
        old = new;
    }
    out.flush().unwrap();
    eprintln!("{count} cases by {} codecs", CODECS.len());
}

/// A small generator (xorshift), the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    /// Bytes of one sort: digits, few letters, or any.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (first, most) = [(b'0', 10), (b'a', 3), (0, 256)][self.below(3)];
        (0..len).map(|_| first.wrapping_add(self.below(most) as u8)).collect()
    }

    /// A value to begin with; few are long.
    fn value(&mut self) -> Vec<u8> {
        let most = if self.below(100) == 0 { 70_000 } else { 600 };
        let len = self.below(most);
        if self.below(2) == 0 {
            return self.bytes(len);
        }
        let mut text = Vec::new();
        while text.len() < len {
            let (name, value) = (self.below(20), self.below(100_000));
            text.extend_from_slice(format!("\"name{name}\":\"{value}\",").as_bytes());
        }
        text
    }

    /// One edit to several of them.
    fn edited(&mut self, old: &[u8]) -> Vec<u8> {
        if self.below(200) == 0 {
            return self.value();
        }
        let mut new = old.to_vec();
        for _ in 0..1 + self.below(5) {
            let at = self.below(new.len() + 1);
            let end = (at + self.below(24)).min(new.len());
            match self.below(7) {
                // As many bytes, other ones.
                0 | 1 => {
                    let bytes = self.bytes(end - at);
                    new.splice(at..end, bytes);
                }
                // More or fewer bytes.
                2 => {
                    let len = self.below(24);
                    let bytes = self.bytes(len);
                    new.splice(at..end, bytes);
                }
                3 => drop(new.drain(at..end)),
                // A block goes elsewhere, or comes again.
                4 | 5 => {
                    let end = (at + self.below(200)).min(new.len());
                    let block = new[at..end].to_vec();
                    if self.below(2) == 0 {
                        new.drain(at..end);
                    }
                    let to = self.below(new.len() + 1);
                    new.splice(to..to, block);
                }
                // One byte, repeated.
                _ => {
                    let byte = self.bytes(1)[0];
                    new.splice(at..end, std::iter::repeat_n(byte, end - at));
                }
            }
        }
        // Copies make it grow; it begins anew before it becomes long.
        new.truncate(100_000);
        new
    }
}
