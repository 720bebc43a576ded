//! Texts that an evaluation makes, kept until it ends, so that values can be slices of them.
//!
//! Relies on nothing. Invariant: a text that is kept does not move; keeping one has been paid for.

use std::cell::{Cell, OnceCell};

/// Texts, in blocks each twice as large as the one before.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    blocks: [OnceCell<Box<[OnceCell<String>]>>; BLOCKS],
    count: Cell<usize>,
}

impl Texts {
    /// Keeps a text; nothing if there are too many, which the work of an evaluation does not allow.
    pub(crate) fn keep(&self, text: String) -> Option<&str> {
        let number = self.count.get() + 1;
        self.count.set(number);
        let block = number.ilog2();
        let slots = self.blocks.get(block as usize)?;
        let slots = slots.get_or_init(|| (0..1usize << block).map(|_| OnceCell::new()).collect());
        let slot = slots.get(number - (1 << block))?;
        Some(slot.get_or_init(|| text))
    }
}

/// A million texts; an evaluation has units of work for fewer.
const BLOCKS: usize = 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_kept_stays_as_it_is() {
        let texts = Texts::default();
        let kept: Vec<&str> =
            (0..100).map(|number: usize| texts.keep(number.to_string()).unwrap()).collect();
        assert!(kept.iter().enumerate().all(|(number, text)| *text == number.to_string()));
    }
}
