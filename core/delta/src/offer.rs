//! What a server offers of the codecs, for all its protocols.
//!
//! Relies on the table of codecs. Invariant: only what is built in is ever offered.

use crate::{CODECS, Codec};

/// The codecs that may be used, best first, and for which values.
#[derive(Clone, Debug)]
pub struct Offer {
    codecs: Vec<&'static Codec>,
    /// Bytes of the largest value of which a difference is made: making one takes time in proportion.
    pub bytes_max: usize,
}

impl Offer {
    /// Those of these names that are built in.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>, bytes_max: usize) -> Offer {
        Offer { codecs: names.into_iter().filter_map(Codec::named).collect(), bytes_max }
    }

    /// The codec of that number, if it is offered.
    pub fn numbered(&self, number: u64) -> Option<&'static Codec> {
        self.codecs.iter().find(|codec| u64::from(codec.number) == number).copied()
    }

    /// The codec of that name, if it is offered.
    pub fn named(&self, name: &str) -> Option<&'static Codec> {
        self.codecs.iter().find(|codec| codec.name == name).copied()
    }
}

impl Default for Offer {
    fn default() -> Offer {
        Offer { codecs: CODECS.iter().collect(), bytes_max: 64 << 10 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_offered_that_is_not_named_and_built_in() {
        let offer = Offer::of(["bsdiff", "vcdiff"], 10);
        assert_eq!(offer.named("vcdiff").is_some(), cfg!(feature = "vcdiff"));
        assert_eq!(offer.numbered(2).is_some(), cfg!(feature = "vcdiff"));
        assert!(offer.numbered(1).is_none() && offer.named("bsdiff").is_none());
        assert!(CODECS.iter().all(|codec| Offer::default().named(codec.name).is_some()));
    }
}
