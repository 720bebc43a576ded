//! Encoding: one window with the value before as its source, what the matcher finds as instructions.
//!
//! Relies on `matching`. Invariant: it stops as soon as the difference is as long as the limit; what
//! it writes is plain RFC 3284, so that any decoder of that reads it.

use super::addresses::Addresses;
use super::{MAGIC, WINDOW_SOURCE, integer, table};
use crate::common::common_ends;
use crate::matching::{Sink, walk};

/// Appends the difference that makes `new` of `old`. `false`, and nothing appended, when it would have
/// `limit` bytes or more.
pub fn encode(old: &[u8], new: &[u8], out: &mut Vec<u8>, limit: usize) -> bool {
    let (mut prefix, mut suffix) = common_ends(old, new);
    // What is shorter than its instruction is better told.
    if prefix < COPY_MIN {
        prefix = 0;
    }
    if suffix < COPY_MIN {
        suffix = 0;
    }
    let mut writer = Writer::new(old.len(), limit);
    if prefix > 0 {
        writer.copy(0, prefix);
    }
    let middle = new.get(..new.len() - suffix).unwrap_or_default();
    walk(old, middle, prefix, &mut writer);
    if suffix > 0 && !writer.is_full() {
        writer.copy(old.len() - suffix, suffix);
    }
    writer.flush();
    if writer.is_full() {
        return false;
    }
    let start = out.len();
    writer.finish(new.len(), out);
    if out.len() - start < limit {
        return true;
    }
    out.truncate(start);
    false
}

/// The sections of the window.
struct Writer {
    data: Vec<u8>,
    instructions: Vec<u8>,
    addresses: Vec<u8>,
    cache: Addresses,
    /// Bytes at the end of the data for which no instruction was written yet.
    added: usize,
    /// Bytes of the old value.
    source: usize,
    /// Bytes that the instructions make so far.
    made: usize,
    limit: usize,
}

impl Writer {
    fn new(source: usize, limit: usize) -> Writer {
        Writer {
            data: Vec::new(),
            instructions: Vec::with_capacity(SECTION_BYTES),
            addresses: Vec::with_capacity(SECTION_BYTES),
            cache: Addresses::new(),
            added: 0,
            source,
            made: 0,
            limit,
        }
    }

    /// Writes the instruction for what was added to the data.
    fn flush(&mut self) {
        let added = std::mem::take(&mut self.added);
        if added == 0 {
            return;
        }
        let (code, follows) = table::add(added);
        self.instructions.push(code);
        if follows {
            integer::write(&mut self.instructions, added);
        }
    }

    /// Appends header and window.
    fn finish(&self, len: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        // Nothing beyond the standard.
        out.push(0);
        if self.source == 0 {
            out.push(0);
        } else {
            out.push(WINDOW_SOURCE);
            integer::write(out, self.source);
            integer::write(out, 0);
        }
        let sections = [&self.data, &self.instructions, &self.addresses];
        let rest = integer::len(len)
            + 1
            + sections.iter().map(|part| integer::len(part.len()) + part.len()).sum::<usize>();
        integer::write(out, rest);
        integer::write(out, len);
        out.push(0);
        for section in sections {
            integer::write(out, section.len());
        }
        for section in sections {
            out.extend_from_slice(section);
        }
    }
}

impl Sink for Writer {
    #[inline]
    fn literal(&mut self, bytes: &[u8]) {
        self.made += bytes.len();
        if let [first, rest @ ..] = bytes
            && bytes.len() >= RUN_MIN
            && rest.iter().all(|byte| byte == first)
        {
            self.flush();
            self.data.push(*first);
            self.instructions.push(RUN);
            return integer::write(&mut self.instructions, bytes.len());
        }
        self.data.extend_from_slice(bytes);
        self.added += bytes.len();
    }

    #[inline]
    fn copy(&mut self, source: usize, len: usize) {
        let (mode, address) = self.cache.shortest(source, self.source + self.made);
        if let Some(code) = table::add_and_copy(self.added, len, mode) {
            self.added = 0;
            self.instructions.push(code);
        } else {
            self.flush();
            let (code, follows) = table::copy(len, mode);
            self.instructions.push(code);
            if follows {
                integer::write(&mut self.instructions, len);
            }
        }
        integer::write(&mut self.addresses, address);
        self.made += len;
    }

    #[inline]
    fn is_full(&self) -> bool {
        let sections = self.data.len() + self.instructions.len() + self.addresses.len();
        sections + FRAME_BYTES_MIN >= self.limit
    }
}

/// The code of a run.
const RUN: u8 = 0;
/// A run takes three bytes or more.
const RUN_MIN: usize = 6;
/// A copy at an end takes about as much.
const COPY_MIN: usize = 4;
/// What header and window take at least, besides the sections.
const FRAME_BYTES_MIN: usize = 12;
/// Room for a section of the usual difference.
const SECTION_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::decode;
    use super::*;

    fn delta(old: &[u8], new: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        assert!(encode(old, new, &mut out, 1 << 20));
        let delta = out.strip_prefix(b"before").unwrap().to_vec();
        assert_eq!(decode(old, &delta, new.len()).unwrap(), new);
        delta
    }

    #[test]
    fn a_window_is_written_as_the_standard_says() {
        let made = delta(b"price 1.0845!", b"price 1.0846!");
        let expected = [
            &[0xd6, 0xc3, 0xc4, 0, 0][..], // header
            &[1, 13, 0],                   // source: 13 bytes from 0
            &[10, 13, 0, 2, 2, 1],         // 10 bytes more make 13: data, instructions, addresses
            b"6!",                         // one byte behind the difference is not worth a copy
            &[27, 3, 0],                   // copy 11 bytes by mode 0, add 2; from 0
        ];
        assert_eq!(made, expected.concat());
    }

    #[test]
    fn what_repeats_is_a_run_and_what_is_empty_stays_small() {
        assert_eq!(delta(b"", b"").len(), 12);
        assert!(delta(b"", &[7; 1000]).len() < 18);
        assert!(delta(b"abc", b"").len() < 16);
        assert_eq!(delta(b"", b"abc").len(), 16);
    }

    #[test]
    fn what_is_not_smaller_is_not_made() {
        let mut out = b"x".to_vec();
        assert!(!encode(b"abcdefgh", b"ijklmnop", &mut out, 8));
        assert!(!encode(b"abcdefgh", b"ijklmnop", &mut out, 23));
        assert_eq!(out, b"x");
        assert!(encode(b"abcdefgh", b"ijklmnop", &mut out, 40));
    }
}
