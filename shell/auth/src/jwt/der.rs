//! The two structures of DER (ITU-T X.690) that public keys come in: `SubjectPublicKeyInfo` (RFC 5280) and
//! `RSAPublicKey` (RFC 8017).
//!
//! Relies on nothing. Invariant: every length is checked against what is there; indefinite lengths are refused.

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// The object identifiers of the algorithm and of its curve, if it has one, and the key itself.
pub(super) struct PublicKeyInfo<'a> {
    pub(super) algorithm: &'a [u8],
    pub(super) curve: Option<&'a [u8]>,
    pub(super) key: &'a [u8],
}

/// Reads a `SubjectPublicKeyInfo`.
pub(super) fn public_key_info(bytes: &[u8]) -> Option<PublicKeyInfo<'_>> {
    let (body, []) = value(SEQUENCE, bytes)? else { return None };
    let (identifier, rest) = value(SEQUENCE, body)?;
    let (algorithm, parameters) = value(OBJECT_ID, identifier)?;
    let curve = value(OBJECT_ID, parameters).map(|(curve, _)| curve);
    let (bits, []) = value(BIT_STRING, rest)? else { return None };
    // The first byte counts the bits that the last byte has too many.
    let key = bits.strip_prefix(&[0])?;
    Some(PublicKeyInfo { algorithm, curve, key })
}

/// Modulus and exponent of an `RSAPublicKey`, big endian without leading zeros.
pub(super) fn rsa_public_key(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (body, []) = value(SEQUENCE, bytes)? else { return None };
    let (modulus, rest) = value(INTEGER, body)?;
    let (exponent, []) = value(INTEGER, rest)? else { return None };
    let trim = |number: &'_ [u8]| number.iter().take_while(|byte| **byte == 0).count();
    Some((modulus.get(trim(modulus)..)?, exponent.get(trim(exponent)..)?))
}

/// The value of the first element, which has that tag, and what follows the element.
fn value(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        // Keys have less than 64 KiB: two bytes of length are enough.
        0x81 | 0x82 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_is_refused() {
        let whole = [0x30, 6, 0x02, 1, 5, 0x02, 1, 3];
        assert_eq!(rsa_public_key(&whole), Some((&[5][..], &[3][..])));
        for end in 0..whole.len() {
            assert_eq!(rsa_public_key(whole.get(..end).unwrap_or_default()), None, "{end}");
        }
        assert_eq!(rsa_public_key(&[0x30, 0x80, 0x02, 1, 5, 0x02, 1, 3, 0, 0]), None);
        assert_eq!(rsa_public_key(&[0x30, 0x82, 0xff, 0xff, 0x02]), None);
    }
}
