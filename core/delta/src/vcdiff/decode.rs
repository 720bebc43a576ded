//! Decoding: windows one after the other, each instruction checked against what is there.
//!
//! Relies on the code table and the address caches. Invariants: memory grows with what is made, not
//! with what is announced; an instruction takes a byte of the delta or makes a byte of the value,
//! so there are no more steps than bytes.

use super::addresses::Addresses;
use super::table::{Instruction, TABLE};
use super::{
    HEADER_APPLICATION, HEADER_CODE_TABLE, HEADER_COMPRESSOR, MAGIC, WINDOW_CHECKSUM,
    WINDOW_SOURCE, WINDOW_TARGET, integer,
};
use crate::DeltaError;

/// The value that a difference makes of `old`.
///
/// # Errors
/// When the bytes are no difference to that value, or what they make has more than `max` bytes.
pub fn decode(old: &[u8], delta: &[u8], max: usize) -> Result<Vec<u8>, DeltaError> {
    let mut bytes = delta.strip_prefix(&MAGIC).ok_or(DeltaError::NotVcdiff)?;
    let bytes = &mut bytes;
    let indicator = byte(bytes)?;
    if indicator & HEADER_COMPRESSOR != 0 {
        return Err(DeltaError::SecondaryCompression);
    }
    if indicator & HEADER_CODE_TABLE != 0 {
        return Err(DeltaError::CodeTable);
    }
    if indicator & !HEADER_APPLICATION != 0 {
        return Err(DeltaError::UnknownOperation);
    }
    if indicator & HEADER_APPLICATION != 0 {
        let len = number(bytes)?;
        take(bytes, len)?;
    }
    // What the bytes at hand justify; more comes as it is made.
    let mut new = Vec::with_capacity(max.min(old.len() + bytes.len()));
    while !bytes.is_empty() {
        window(old, bytes, max, &mut new)?;
    }
    Ok(new)
}

/// Where a window's copies come from, besides itself.
enum Source<'a> {
    Old(&'a [u8]),
    /// A stretch of what was made before, from that place on.
    Made(usize, usize),
}

/// A window on its way.
struct Window<'a> {
    source: Source<'a>,
    /// Where it begins in the new value, and where it has to end.
    start: usize,
    end: usize,
    data: &'a [u8],
    addresses: &'a [u8],
    cache: Addresses,
}

/// Takes a window from the front and follows its instructions.
fn window(old: &[u8], bytes: &mut &[u8], max: usize, new: &mut Vec<u8>) -> Result<(), DeltaError> {
    let indicator = byte(bytes)?;
    let source = match indicator & (WINDOW_SOURCE | WINDOW_TARGET) {
        0 => Source::Old(b""),
        WINDOW_SOURCE => {
            let (from, to) = segment(bytes, old.len())?;
            Source::Old(old.get(from..to).ok_or(DeltaError::OutOfRange)?)
        }
        WINDOW_TARGET => {
            let (from, to) = segment(bytes, new.len())?;
            Source::Made(from, to)
        }
        _ => return Err(DeltaError::UnknownOperation),
    };
    if indicator & !(WINDOW_SOURCE | WINDOW_TARGET | WINDOW_CHECKSUM) != 0 {
        return Err(DeltaError::UnknownOperation);
    }
    let len = number(bytes)?;
    let mut rest = take(bytes, len)?;
    let rest = &mut rest;
    let len = number(rest)?;
    if len > max - new.len() {
        return Err(DeltaError::TooLarge);
    }
    if byte(rest)? != 0 {
        return Err(DeltaError::SecondaryCompression);
    }
    let lengths = [number(rest)?, number(rest)?, number(rest)?];
    let checksum = if indicator & WINDOW_CHECKSUM == 0 { None } else { Some(take(rest, 4)?) };
    let data = take(rest, lengths[0])?;
    let instructions = take(rest, lengths[1])?;
    let addresses = take(rest, lengths[2])?;
    if !rest.is_empty() {
        return Err(DeltaError::Contradiction);
    }
    let start = new.len();
    let cache = Addresses::new();
    let mut window = Window { source, start, end: start + len, data, addresses, cache };
    window.follow(instructions, new)?;
    let sum = checksum.map(|sum| sum.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
    if sum.is_some_and(|sum| sum != adler32(new.get(start..).unwrap_or_default())) {
        return Err(DeltaError::Checksum);
    }
    Ok(())
}

impl Window<'_> {
    fn follow(&mut self, mut codes: &[u8], new: &mut Vec<u8>) -> Result<(), DeltaError> {
        while let Some((code, rest)) = codes.split_first() {
            codes = rest;
            let Some((first, second)) = TABLE.get(usize::from(*code)) else { continue };
            self.one(*first, &mut codes, new)?;
            if *second != Instruction::None {
                self.one(*second, &mut codes, new)?;
            }
        }
        if new.len() != self.end || !self.data.is_empty() || !self.addresses.is_empty() {
            return Err(DeltaError::Contradiction);
        }
        Ok(())
    }

    /// Follows one instruction; its length may be the next number among the codes.
    #[inline]
    fn one(
        &mut self,
        instruction: Instruction,
        codes: &mut &[u8],
        new: &mut Vec<u8>,
    ) -> Result<(), DeltaError> {
        let size = match instruction {
            Instruction::Add(size) | Instruction::Copy(size, _) => usize::from(size),
            Instruction::Run | Instruction::None => 0,
        };
        let size = if size == 0 { number(codes)? } else { size };
        // More than was announced.
        if size > self.end - new.len() {
            return Err(DeltaError::Contradiction);
        }
        match instruction {
            Instruction::Add(_) => new.extend_from_slice(take(&mut self.data, size)?),
            Instruction::Run => {
                let repeated = byte(&mut self.data)?;
                new.resize(new.len() + size, repeated);
            }
            Instruction::Copy(_, mode) => self.copy(mode, size, new)?,
            Instruction::None => {}
        }
        Ok(())
    }

    #[inline]
    fn copy(&mut self, mode: u8, mut size: usize, new: &mut Vec<u8>) -> Result<(), DeltaError> {
        let source = match self.source {
            Source::Old(bytes) => bytes.len(),
            Source::Made(from, to) => to - from,
        };
        let here = source + new.len() - self.start;
        let address = self.cache.read(mode, here, &mut self.addresses)?;
        let mut at = address;
        if at < source {
            let end = source.min(at + size);
            match self.source {
                Source::Old(bytes) => new.extend_from_slice(bytes.get(at..end).unwrap_or_default()),
                Source::Made(from, _) => new.extend_from_within(from + at..from + end),
            }
            size -= end - at;
            if size == 0 {
                return Ok(());
            }
            at = end;
        }
        // What remains lies in this window. A copy may read what it writes itself: a pattern that
        // repeats, so each piece may begin where the first one did and be twice as long.
        let from = self.start + at - source;
        while size > 0 {
            let piece = size.min(new.len() - from);
            if piece == 0 {
                return Err(DeltaError::OutOfRange);
            }
            new.extend_from_within(from..from + piece);
            size -= piece;
        }
        Ok(())
    }
}

/// Where a source lies in `len` bytes, from and to.
fn segment(bytes: &mut &[u8], len: usize) -> Result<(usize, usize), DeltaError> {
    let size = number(bytes)?;
    let from = number(bytes)?;
    let to = from.checked_add(size).filter(|to| *to <= len);
    Ok((from, to.ok_or(DeltaError::OutOfRange)?))
}

fn byte(bytes: &mut &[u8]) -> Result<u8, DeltaError> {
    let (first, rest) = bytes.split_first().ok_or(DeltaError::Cut)?;
    *bytes = rest;
    Ok(*first)
}

fn number(bytes: &mut &[u8]) -> Result<usize, DeltaError> {
    integer::read(bytes).ok_or(DeltaError::Cut)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], DeltaError> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or(DeltaError::Cut)?;
    *bytes = rest;
    Ok(taken)
}

/// RFC 1950's checksum.
fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    // The most bytes after which neither sum has overflowed.
    for chunk in bytes.chunks(5552) {
        for byte in chunk {
            a += u32::from(*byte);
            b += a;
        }
        a %= 65_521;
        b %= 65_521;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const OLD: &[u8] = b"abcdefgh";

    /// A window of one-byte numbers: indicator, source, length, data, instructions, addresses.
    fn window(head: &[u8], sum: &[u8], len: u8, sections: [&[u8]; 3]) -> Vec<u8> {
        let lengths = sections.map(|section| section.len() as u8);
        let body = [&[len, 0], &lengths[..], sum, &sections.concat()].concat();
        [head, &[body.len() as u8], &body].concat()
    }

    fn made(windows: &[Vec<u8>]) -> Result<Vec<u8>, DeltaError> {
        decode(OLD, &[&MAGIC, &[0][..], &windows.concat()].concat(), 200)
    }

    const FROM_OLD: &[u8] = &[WINDOW_SOURCE, 8, 0];

    #[test]
    fn what_other_encoders_write_is_read() {
        // Copy 4 from 0; add 1; copy 4 from 4.
        let plain = window(FROM_OLD, b"", 9, [b"X", &[20, 2, 20], &[0, 4]]);
        assert_eq!(made(std::slice::from_ref(&plain)).unwrap(), b"abcdXefgh");
        // The source of the second window is what the first one made.
        let again = window(&[WINDOW_TARGET, 4, 3], b"", 5, [b"!", &[20, 2], &[0]]);
        assert_eq!(made(&[plain.clone(), again]).unwrap(), b"abcdXefghdXef!");
        // A copy that crosses from the source into the window, and one that reads what it writes.
        let across = window(FROM_OLD, b"", 8, [b"xy", &[3, 22], &[6]]);
        assert_eq!(made(&[across]).unwrap(), b"xyghxygh");
        let pattern = window(&[0], b"", 9, [b"ab", &[3, 23], &[0]]);
        assert_eq!(made(&[pattern]).unwrap(), b"ababababa");
        let run = window(&[0], b"", 100, [b"z", &[0, 100], b""]);
        assert_eq!(made(&[run]).unwrap(), [b'z'; 100]);
        // Near, same and backward addresses.
        let near = window(FROM_OLD, b"", 12, [b"", &[20, 52, 116], &[2, 2, 4]]);
        assert_eq!(made(&[near]).unwrap(), b"cdefefghefgh");
        let back = window(FROM_OLD, b"", 4, [b"", &[36], &[5]]);
        assert_eq!(made(&[back]).unwrap(), b"defg");
        // The checksum of `abcd`; data of an application.
        let head = [WINDOW_SOURCE | WINDOW_CHECKSUM, 8, 0];
        let summed = window(&head, &[0x03, 0xd8, 0x01, 0x8b], 4, [b"", &[20], &[0]]);
        assert_eq!(made(&[summed]).unwrap(), b"abcd");
        let headed = [&MAGIC, &[4, 3][..], b"app", &plain].concat();
        assert_eq!(decode(OLD, &headed, 9).unwrap(), b"abcdXefgh");
        assert_eq!(made(&[]).unwrap(), b"");
    }

    #[test]
    fn hostile_deltas_are_refused() {
        for (delta, error) in [
            (&b""[..], DeltaError::NotVcdiff),
            (b"\xd6\xc3\xc4S\x00", DeltaError::NotVcdiff),
            (b"\xd6\xc3\xc4\x00", DeltaError::Cut),
            (b"\xd6\xc3\xc4\x00\x01\x02", DeltaError::SecondaryCompression),
            (b"\xd6\xc3\xc4\x00\x02\x00", DeltaError::CodeTable),
            (b"\xd6\xc3\xc4\x00\x08", DeltaError::UnknownOperation),
            (b"\xd6\xc3\xc4\x00\x04\x7f", DeltaError::Cut),
            (b"\xd6\xc3\xc4\x00\x00\x03", DeltaError::UnknownOperation),
            (b"\xd6\xc3\xc4\x00\x00\x01\x09\x00", DeltaError::OutOfRange),
            (b"\xd6\xc3\xc4\x00\x00\x02\x01\x00", DeltaError::OutOfRange),
            (b"\xd6\xc3\xc4\x00\x00\x00\x09\x04", DeltaError::Cut),
            (
                b"\xd6\xc3\xc4\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                DeltaError::UnknownOperation,
            ),
            (b"\xd6\xc3\xc4\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", DeltaError::Cut),
        ] {
            assert_eq!(decode(OLD, delta, 6), Err(error), "{delta:02x?}");
        }
        let from_old = |len, sections| made(&[window(FROM_OLD, b"", len, sections)]);
        for (made, error) in [
            (from_old(4, [b"", &[20], &[8]]), DeltaError::OutOfRange),
            (from_old(4, [b"", &[36], &[9]]), DeltaError::OutOfRange),
            (from_old(4, [b"", &[20], b""]), DeltaError::Cut),
            (from_old(4, [b"", &[2], b""]), DeltaError::Cut),
            (from_old(4, [b"", &[0, 4], b""]), DeltaError::Cut),
            (from_old(4, [b"", &[19], &[0]]), DeltaError::Cut),
            (from_old(3, [b"", &[20], &[0]]), DeltaError::Contradiction),
            (from_old(5, [b"", &[20], &[0]]), DeltaError::Contradiction),
            (from_old(4, [b"x", &[20], &[0]]), DeltaError::Contradiction),
            (from_old(4, [b"", &[20], &[0, 0]]), DeltaError::Contradiction),
            (
                made(&[window(&[5, 8, 0], &[1, 2, 3, 4], 4, [b"", &[20], &[0]])]),
                DeltaError::Checksum,
            ),
            // A long value, announced and made by a few bytes.
            (
                decode(
                    OLD,
                    &[&MAGIC, &b"\x00\x00\x0a\x87\x68\x00\x01\x03\x00z\x00\x87\x68"[..]].concat(),
                    999,
                ),
                DeltaError::TooLarge,
            ),
            // A window whose own length is another than that of its parts.
            (made(&[b"\x00\x06\x00\x00\x00\x00\x00\x00".to_vec()]), DeltaError::Contradiction),
        ] {
            assert_eq!(made, Err(error));
        }
    }

    #[test]
    fn the_checksum_is_the_standards() {
        assert_eq!(adler32(b""), 1);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        assert_eq!(adler32(&[0xff; 100_000]), adler32_plainly(&[0xff; 100_000]));
    }

    fn adler32_plainly(bytes: &[u8]) -> u32 {
        let sums = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (a + b) % 65_521)
        });
        sums.1 << 16 | sums.0
    }
}
