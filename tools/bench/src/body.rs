//! The first twenty bytes of every body: run, producer, sequence, time, in fixed-width digits.
//!
//! Digits are the 64 characters from `0` to `o`, six bits each, least significant first: printable,
//! never NUL or LF, and packed or unpacked eight at a time without a loop. Invariant: the width
//! never depends on the value, so a batch of messages is stamped in place.

/// Bytes of the head; also the smallest body.
pub const HEAD_BYTES: usize = 20;
/// Producers that can be told apart: two digits.
pub const PRODUCERS_MAX: usize = 1 << 12;

const TAG_END: usize = 4;
const SEQUENCE_END: usize = 12;
const ZERO_DIGITS: u64 = 0x3030_3030_3030_3030;

/// Run and producer as four digits; both are cut to twelve bits.
pub fn tag(run: u16, producer: u16) -> [u8; TAG_END] {
    let value = u64::from(run & 0xFFF) | (u64::from(producer & 0xFFF) << 12);
    let [a, b, c, d, ..] = digits(value);
    [a, b, c, d]
}

/// The producer in a head, if the head belongs to `run`.
#[inline]
pub fn producer_of(head: &[u8; HEAD_BYTES], run: u16) -> Option<usize> {
    let [a, b, c, d, ..] = *head;
    let digit = |byte: u8| usize::from(byte.wrapping_sub(b'0'));
    let (found, producer) = (digit(a) | (digit(b) << 6), digit(c) | (digit(d) << 6));
    (found == usize::from(run & 0xFFF) && producer < PRODUCERS_MAX).then_some(producer)
}

/// Writes sequence and time digits into a head.
#[inline]
pub fn stamp(head: &mut [u8; HEAD_BYTES], sequence: u64, time: [u8; 8]) {
    head[TAG_END..SEQUENCE_END].copy_from_slice(&digits(sequence));
    head[SEQUENCE_END..].copy_from_slice(&time);
}

/// The sequence number in a head.
#[inline]
pub fn sequence_of(head: &[u8; HEAD_BYTES]) -> u64 {
    let [_, _, _, _, a, b, c, d, e, f, g, h, ..] = *head;
    value(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
}

/// The time digits in a head, undecoded: equal digits mean equal times.
#[inline]
pub fn time_digits_of(head: &[u8; HEAD_BYTES]) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = *head;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Eight digits for the low 48 bits of a value.
#[inline]
pub fn digits(value: u64) -> [u8; 8] {
    let x = (value & 0x00FF_FFFF) | ((value << 8) & 0x00FF_FFFF_0000_0000);
    let x = (x & 0x0000_0FFF_0000_0FFF) | ((x << 4) & 0x0FFF_0000_0FFF_0000);
    let x = (x & 0x003F_003F_003F_003F) | ((x << 2) & 0x3F00_3F00_3F00_3F00);
    (x + ZERO_DIGITS).to_le_bytes()
}

/// The value of eight digits read little-endian; nonsense in, nonsense out, never a panic.
#[inline]
pub fn value(digits: u64) -> u64 {
    let x = digits.wrapping_sub(ZERO_DIGITS) & 0x3F3F_3F3F_3F3F_3F3F;
    let x = (x & 0x003F_003F_003F_003F) | ((x & 0x3F00_3F00_3F00_3F00) >> 2);
    let x = (x & 0x0000_0FFF_0000_0FFF) | ((x & 0x0FFF_0000_0FFF_0000) >> 4);
    (x & 0x00FF_FFFF) | ((x & 0x00FF_FFFF_0000_0000) >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_round_trip(number in 0_u64..1 << 48) {
            let text = digits(number);
            prop_assert!(text.iter().all(|byte| (b'0'..=b'o').contains(byte)));
            prop_assert_eq!(value(u64::from_le_bytes(text)), number);
        }

        #[test]
        fn head_round_trips(run in 0_u16..4096, producer in 0_u16..4096, sequence in 0_u64..1 << 48, time in 0_u64..1 << 48) {
            let mut head = [b'?'; HEAD_BYTES];
            head[..4].copy_from_slice(&tag(run, producer));
            stamp(&mut head, sequence, digits(time));
            prop_assert_eq!(producer_of(&head, run), Some(usize::from(producer)));
            prop_assert_eq!(producer_of(&head, run ^ 1), None);
            prop_assert_eq!(sequence_of(&head), sequence);
            prop_assert_eq!(value(time_digits_of(&head)), time);
        }
    }
}
