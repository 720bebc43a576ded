//! What work on foreign values may cost.
//!
//! Relies on nothing. Invariant: work is paid for before it is done; a [`Budget`] that is empty stays empty.

/// The most bytes of the text of a [`Pointer`](crate::Pointer).
pub const POINTER_BYTES_MAX: usize = 1024;

/// The most tokens of a [`Pointer`](crate::Pointer).
pub const POINTER_TOKENS_MAX: usize = 32;

/// The most bytes of the text of a [`Patch`](crate::Patch).
pub const PATCH_BYTES_MAX: usize = 1 << 20;

/// The most operations of a [`Patch`](crate::Patch).
pub const PATCH_OPERATIONS_MAX: usize = 4096;

/// Bytes passed over that count as one step.
const STEP_BYTES: usize = 16;

/// What making a new value of others may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of the result, and of anything on the way to it.
    pub bytes_max: usize,
    /// The deepest nesting of the result; never more than [`DEPTH_MAX`](crate::DEPTH_MAX).
    pub depth_max: usize,
    /// The most steps: a field or an element looked at is one, and so are 16 bytes passed over.
    pub steps_max: usize,
}

impl Limits {
    /// A megabyte, 64 levels, and steps for a tenth of a second at worst.
    pub const DEFAULT: Limits = Limits { bytes_max: 1 << 20, depth_max: 64, steps_max: 4_000_000 };

    /// The same with another size.
    pub const fn with_bytes(self, bytes_max: usize) -> Limits {
        Limits { bytes_max, ..self }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

/// Steps that are left of what some work may cost.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: usize,
}

/// The budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent;

impl Budget {
    /// So many.
    pub fn new(steps_max: usize) -> Budget {
        Budget { left: steps_max }
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// A budget for trusted work, which never ends.
    pub(crate) fn endless() -> Budget {
        Budget::new(usize::MAX)
    }

    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), Spent> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Spent)
            }
        }
    }

    /// Pays for passing over a text once.
    pub(crate) fn pass(&mut self, text: &str) -> Result<(), Spent> {
        self.spend(1 + text.len() / STEP_BYTES)
    }
}
