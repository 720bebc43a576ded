//! What is said of a message besides its properties and its body.

use std::ops::BitOr;

/// Marks on a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// No marks.
    pub const NONE: Flags = Flags(0);
    /// Must survive a restart.
    pub const PERSISTENT: Flags = Flags(1);
    /// Becomes the topic's retained value.
    pub const RETAIN: Flags = Flags(2);
    /// Removes the topic's retained value.
    pub const RETAIN_REMOVE: Flags = Flags(4);
    /// Has an expiry date.
    pub const EXPIRES: Flags = Flags(8);
    /// The properties contain at least one escape.
    pub const ESCAPED: Flags = Flags(16);
    /// Has come back from a consumer at least once.
    pub const DEAD_LETTER: Flags = Flags(32);
    /// The properties hold no NUL and no name by which protocols of text say how a frame is to be
    /// read: set by a protocol that has made sure of it.
    pub const CHECKED: Flags = Flags(64);
    /// The properties say when its queue is to deliver it: see [`crate::QueueFields`].
    pub const DELAYED: Flags = Flags(128);
    /// The properties say to which group it belongs: see [`crate::QueueFields`].
    pub const GROUPED: Flags = Flags(256);

    /// As bits, for what is kept beyond this life of the server: they never change their meaning.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The marks of these bits.
    pub fn from_bits(bits: u16) -> Flags {
        Flags(bits)
    }

    /// These marks without [`Flags::EXPIRES`], which only the builder of a run may set.
    pub(crate) fn without_stamp(self) -> Flags {
        Flags(self.0 & !Flags::EXPIRES.0)
    }

    /// Whether one of some marks is set here and not there, or there and not here.
    #[inline]
    pub(crate) fn differs(self, other: Flags, marks: Flags) -> bool {
        (self.0 ^ other.0) & marks.0 != 0
    }

    /// These marks without those of `other`.
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Whether all marks of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// What a publisher says about a message besides properties and body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta {
    /// Marks; [`Flags::EXPIRES`] is set by the builder.
    pub flags: Flags,
    /// When it stops being worth delivering, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

impl Meta {
    /// With the mark of properties that have escapes, if these have.
    pub(crate) fn with_escapes(self, properties: &[u8]) -> Meta {
        let escaped = if properties.contains(&b'\\') { Flags::ESCAPED } else { Flags::NONE };
        Meta { flags: self.flags | escaped, ..self }
    }
}
