//! What is said of a message besides its properties and its body.

use std::ops::BitOr;

/// The priority of messages whose publishers say none.
pub const PRIORITY_USUAL: u8 = 4;
/// The highest priority.
pub const PRIORITY_MAX: u8 = 9;
/// Where the bits of the priority begin.
const PRIORITY_SHIFT: u32 = 9;

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
    /// The bits of the priority that the properties say, one more than that; none if they say none: see
    /// [`crate::QueueFields`].
    pub const PRIORITY: Flags = Flags(0b1111 << PRIORITY_SHIFT);

    /// As bits, for what is kept beyond this life of the server: they never change their meaning.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The marks of these bits.
    pub fn from_bits(bits: u16) -> Flags {
        Flags(bits)
    }

    /// The mark of a priority, of 0 to 9.
    pub(crate) fn of_priority(priority: u8) -> Flags {
        Flags((u16::from(priority.min(PRIORITY_MAX)) + 1) << PRIORITY_SHIFT)
    }

    /// The priority that is marked, of 0 to 9; of messages that say none, the usual one.
    pub fn priority(self) -> u8 {
        match (self.0 & Flags::PRIORITY.0) >> PRIORITY_SHIFT {
            0 => PRIORITY_USUAL,
            marked => (marked - 1).min(u16::from(PRIORITY_MAX)) as u8,
        }
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

    /// The marks by which messages for a queue may not differ if they are to share a run: what becomes of a run becomes of
    /// each of its messages, which are in the order of its queue together.
    pub const OF_RUN: Flags = Flags(Flags::PERSISTENT.0 | Flags::PRIORITY.0);

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
