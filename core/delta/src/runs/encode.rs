//! Encoding: what the matcher finds, written as it comes.
//!
//! Relies on `matching`. Invariant: it stops as soon as the difference is as long as the limit.

use tiderace_base::write_varint;

use super::{COPY, MOVE_AND_COPY, REPLACE};
use crate::common::common_ends;
use crate::matching::{Sink, walk};

/// Appends the difference that makes `new` of `old`. `false`, and nothing appended, when it would have
/// `limit` bytes or more.
pub fn encode(old: &[u8], new: &[u8], out: &mut Vec<u8>, limit: usize) -> bool {
    let start = out.len();
    let (prefix, suffix) = common_ends(old, new);
    write_varint(out, prefix as u64);
    write_varint(out, suffix as u64);
    let new = new.get(..new.len() - suffix).unwrap_or_default();
    let mut writer =
        Writer { out, full: start.saturating_add(limit), cursor: prefix, len: old.len() };
    walk(old, new, prefix, &mut writer);
    if !writer.is_full() {
        return true;
    }
    out.truncate(start);
    false
}

/// Writes operations.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// The length that is too much.
    full: usize,
    cursor: usize,
    /// Of the old value.
    len: usize,
}

impl Sink for Writer<'_> {
    #[inline]
    fn literal(&mut self, bytes: &[u8]) {
        write_varint(self.out, (bytes.len() << 2 | REPLACE) as u64);
        self.out.extend_from_slice(bytes);
        self.cursor = (self.cursor + bytes.len()).min(self.len);
    }

    #[inline]
    fn copy(&mut self, source: usize, len: usize) {
        if source == self.cursor {
            write_varint(self.out, (len << 2 | COPY) as u64);
        } else {
            write_varint(self.out, (len << 2 | MOVE_AND_COPY) as u64);
            write_varint(self.out, zigzag(source as isize - self.cursor as isize) as u64);
        }
        self.cursor = source + len;
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.out.len() >= self.full
    }
}

fn zigzag(distance: isize) -> usize {
    (distance << 1 ^ distance >> (isize::BITS - 1)) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::super::decode;
    use super::*;

    fn delta(old: &str, new: &str) -> Vec<u8> {
        let mut out = b"before".to_vec();
        assert!(encode(old.as_bytes(), new.as_bytes(), &mut out, 1 << 20));
        let delta = out.strip_prefix(b"before").unwrap().to_vec();
        assert_eq!(decode(old.as_bytes(), &delta, new.len()).unwrap(), new.as_bytes());
        delta
    }

    #[test]
    fn a_changed_digit_costs_its_byte_and_a_few_more() {
        assert_eq!(delta("price 1.0845!", "price 1.0846!"), b"\x0b\x01\x056");
        assert_eq!(delta("same", "same"), b"\x04\x00");
        assert_eq!(delta("", ""), b"\x00\x00");
        assert_eq!(delta("ab", "abcd"), b"\x02\x00\x09cd");
        assert_eq!(delta("abcd", "ad"), b"\x01\x01");
    }

    #[test]
    fn a_longer_number_and_a_moved_block_are_found() {
        let filler = "\"some\":\"field that stays\",\"other\":[1,2,3]";
        let old = format!("{{\"bid\":9.99,{filler},\"ask\":10.0,\"x\":1}}");
        let new = format!("{{\"bid\":10.01,{filler},\"ask\":9.98,\"x\":2}}");
        assert!(delta(&old, &new).len() < 30);
        let other: String = ('a'..='z').chain('A'..='Z').collect();
        assert!(delta(&format!("{filler}{other}"), &format!("{other}{filler}")).len() < 16);
    }

    #[test]
    fn what_is_not_smaller_is_not_made() {
        let mut out = b"x".to_vec();
        assert!(!encode(b"abcdefgh", b"ijklmnop", &mut out, 8));
        assert_eq!(out, b"x");
        assert!(!encode(b"abc", b"abd", &mut out, 4));
        assert!(encode(b"abc", b"abd", &mut out, 5));
    }
}
