//! Masking of RFC 6455 section 5.3, a word at a time.
//!
//! Relies on the compiler to turn the block loop into vector instructions. Invariant: applying
//! the same key twice restores the payload.

/// XORs `payload` with `key` repeated, starting at the key's first byte.
///
/// Masking and unmasking are the same operation (section 5.3).
#[inline]
pub fn mask(payload: &mut [u8], key: [u8; 4]) {
    let [a, b, c, d] = key;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    // Blocks of four words become two 16-byte vector operations each; eight and thirty-two are
    // multiples of four, so the key never has to be rotated.
    let (blocks, rest) = payload.as_chunks_mut::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks_mut::<8>();
        for bytes in words {
            *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
        }
    }
    let (words, rest) = rest.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, key_byte) in rest.iter_mut().zip(word.to_ne_bytes()) {
        *byte ^= key_byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 5.3: octet i of the output is octet i XOR key octet i modulo 4.
    #[test]
    fn equals_the_octet_by_octet_definition_at_every_length() {
        let key = [0x37, 0xFA, 0x21, 0x3D];
        for len in 0..200usize {
            let original: Vec<u8> = (0..len).map(|index| (index * 7) as u8).collect();
            let expected: Vec<u8> =
                original.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
            let mut actual = original.clone();
            mask(&mut actual, key);
            assert_eq!(actual, expected, "{len}");
            mask(&mut actual, key);
            assert_eq!(actual, original, "{len}");
        }
    }

    /// Section 5.7: the masked "Hello" of the specification.
    #[test]
    fn example_of_section_5_7() {
        let mut payload = *b"Hello";
        mask(&mut payload, [0x37, 0xFA, 0x21, 0x3D]);
        assert_eq!(payload, [0x7F, 0x9F, 0x4D, 0x51, 0x58]);
    }
}
