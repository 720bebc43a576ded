//! The table of codecs: what each is called and does.
//!
//! Relies on the codecs that are built in. Invariants: numbers and names are those of
//! `docs/protocol.md`, and never change their meaning; the table lists the best first.

use crate::DeltaError;

/// What makes differences.
pub type Encode = fn(old: &[u8], new: &[u8], out: &mut Vec<u8>, limit: usize) -> bool;
/// What makes values of them.
pub type Decode = fn(old: &[u8], delta: &[u8], max: usize) -> Result<Vec<u8>, DeltaError>;

/// A way to say differences.
#[derive(Clone, Copy)]
pub struct Codec {
    /// By which the native protocol knows it.
    pub number: u8,
    /// By which configuration and text protocols know it.
    pub name: &'static str,
    /// Appends the difference that makes the second value of the first. `false`, and nothing
    /// appended, when it would have as many bytes as the limit or more.
    pub encode: Encode,
    /// The value that a difference makes of the first one, of at most so many bytes.
    pub decode: Decode,
}

impl Codec {
    /// The codec of that number, if it is built in.
    pub fn numbered(number: u64) -> Option<&'static Codec> {
        CODECS.iter().find(|codec| u64::from(codec.number) == number)
    }

    /// The codec of that name, if it is built in.
    pub fn named(name: &str) -> Option<&'static Codec> {
        CODECS.iter().find(|codec| codec.name == name)
    }
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "codec {} ({})", self.number, self.name)
    }
}

/// The names of all codecs, also of those that are not built in.
pub const NAMES: &[&str] = &["tiderace", "vcdiff"];

/// Those that are built in, best first.
pub const CODECS: &[Codec] = &[
    #[cfg(feature = "runs")]
    Codec { number: 1, name: "tiderace", encode: crate::runs::encode, decode: crate::runs::decode },
    #[cfg(feature = "vcdiff")]
    Codec {
        number: 2,
        name: "vcdiff",
        encode: crate::vcdiff::encode,
        decode: crate::vcdiff::decode,
    },
];

/// The value that a difference of a codec makes of `old`, of at most `max` bytes.
///
/// # Errors
/// When the codec is not built in, the bytes are no difference to that value, or what they make is
/// too large.
pub fn apply(codec: u64, old: &[u8], delta: &[u8], max: usize) -> Result<Vec<u8>, DeltaError> {
    let codec = Codec::numbered(codec).ok_or(DeltaError::UnknownCodec)?;
    (codec.decode)(old, delta, max)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_codec_is_found_and_undoes_itself() {
        for codec in CODECS {
            assert_eq!(Codec::named(codec.name).unwrap().number, codec.number);
            assert!(NAMES.contains(&codec.name));
            let mut delta = Vec::new();
            assert!((codec.encode)(b"price 1.0845", b"price 1.0846", &mut delta, 100));
            assert_eq!(
                apply(codec.number.into(), b"price 1.0845", &delta, 12).unwrap(),
                b"price 1.0846"
            );
        }
        assert!(Codec::named("bsdiff").is_none());
        assert_eq!(apply(9, b"", b"", 1), Err(DeltaError::UnknownCodec));
    }
}
