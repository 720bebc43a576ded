//! The receipts that are owed: they leave in the order of the frames that asked for them (STOMP 1.2,
//! "RECEIPT": a receipt confirms all frames before it).
//!
//! A persistent message whose sender asks for no receipt is waited for all the same, by the receipts behind it: that of DISCONNECT
//! says that all of them are stored.
//!
//! Relies on tokens rising by one per action. Invariant: a receipt waits for every action of its
//! frame and for every entry before it.

use std::collections::VecDeque;

use tiderace_wire::{Confirm, Token};

use crate::limits::{RECEIPT_BYTES_MAX, RECEIPTS_WAITING_MAX, UNASKED_MAX};

/// Receipts that are owed, first asked for first, and between them what they wait for.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    entries: VecDeque<Entry>,
    /// The texts of the entries, one behind the other.
    texts: VecDeque<u8>,
    /// The first token of the first entry.
    base: Token,
}

#[derive(Debug)]
struct Entry {
    /// The token behind the entry's last.
    end: Token,
    /// Actions not yet confirmed.
    open: u32,
    /// Bytes of its text.
    text: u32,
    /// Whether there is a receipt when it is due.
    is_asked: bool,
}

impl Receipts {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether so many receipts wait that no further frame should be read.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= RECEIPTS_WAITING_MAX || self.texts.len() >= RECEIPT_BYTES_MAX
    }

    /// Owes a receipt for the `actions` whose tokens begin at `first`.
    #[inline]
    pub(super) fn owe(&mut self, text: &[u8], first: Token, actions: u32) {
        if self.entries.is_empty() {
            self.base = first;
        }
        let end = first.wrapping_add(actions);
        let text_bytes = text.len() as u32;
        self.entries.push_back(Entry { end, open: actions, text: text_bytes, is_asked: true });
        self.texts.extend(text);
    }

    /// Has later receipts wait for the `actions` whose tokens begin at `first`. Very many that follow one another are
    /// one entry.
    pub(super) fn await_unasked(&mut self, first: Token, actions: u32) {
        let end = first.wrapping_add(actions);
        let before = self.entries.len().checked_sub(2).and_then(|at| self.entries.get(at));
        let start = before.map_or(self.base, |before| before.end);
        // Not without end: tokens come round again.
        let may_grow =
            |last: &&mut Entry| !last.is_asked && last.end.wrapping_sub(start) < UNASKED_MAX;
        match self.entries.back_mut().filter(may_grow) {
            Some(last) => {
                last.end = end;
                last.open += actions;
            }
            None => {
                if self.entries.is_empty() {
                    self.base = first;
                }
                self.entries.push_back(Entry { end, open: actions, text: 0, is_asked: false });
            }
        }
    }

    /// Takes note of what was done.
    pub(super) fn confirm(&mut self, confirm: Confirm) {
        let base = self.base;
        let from = confirm.from.wrapping_sub(base);
        let to = confirm.to.wrapping_sub(base).saturating_add(1);
        let first = self.entries.partition_point(|entry| entry.end.wrapping_sub(base) <= from);
        let mut start = from;
        for entry in self.entries.range_mut(first.min(self.entries.len())..) {
            if start >= to {
                break;
            }
            let end = entry.end.wrapping_sub(base).min(to);
            entry.open = entry.open.saturating_sub(end.saturating_sub(start));
            start = end;
        }
    }

    /// The text of the receipt that covers a token.
    pub(super) fn text_of(&mut self, token: Token) -> Option<&[u8]> {
        let offset = token.wrapping_sub(self.base);
        let base = self.base;
        let index = self.entries.partition_point(|entry| entry.end.wrapping_sub(base) <= offset);
        let start: usize = self.entries.iter().take(index).map(|entry| entry.text as usize).sum();
        let entry = self.entries.get(index).filter(|entry| entry.is_asked)?;
        self.texts.make_contiguous().get(start..start + entry.text as usize)
    }

    /// Appends lines to the receipt that covers a token.
    pub(super) fn say_more(&mut self, token: Token, lines: &[u8]) {
        let base = self.base;
        let offset = token.wrapping_sub(base);
        let index = self.entries.partition_point(|entry| entry.end.wrapping_sub(base) <= offset);
        let Some(entry) = self.entries.get_mut(index) else { return };
        entry.text += lines.len() as u32;
        let end: usize = self.entries.iter().take(index + 1).map(|entry| entry.text as usize).sum();
        self.texts.extend(lines);
        let texts = self.texts.make_contiguous();
        if let Some(behind) = texts.get_mut(end - lines.len()..) {
            behind.rotate_right(lines.len());
        }
    }

    /// Shows the texts of receipts that are due, and forgets them.
    pub(super) fn settle(&mut self, mut write: impl FnMut(&[u8])) {
        while let Some(entry) = self.entries.front() {
            if entry.open > 0 {
                return;
            }
            let len = entry.text as usize;
            self.base = entry.end;
            if !entry.is_asked {
                self.entries.pop_front();
                continue;
            }
            match self.texts.as_slices().0.get(..len) {
                Some(text) => write(text),
                None => write(self.texts.make_contiguous().get(..len).unwrap_or_default()),
            }
            self.texts.drain(..len);
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn due(receipts: &mut Receipts) -> Vec<String> {
        let mut list = Vec::new();
        receipts.settle(|text| list.push(String::from_utf8(text.to_vec()).unwrap()));
        list
    }

    #[test]
    fn leave_in_order_whatever_is_confirmed_first() {
        let mut receipts = Receipts::default();
        receipts.owe(b"a", 10, 1);
        receipts.owe(b"b", 11, 0);
        receipts.owe(b"c", 11, 2);
        receipts.confirm(Confirm { from: 11, to: 12 });
        assert_eq!(due(&mut receipts), Vec::<String>::new());
        assert_eq!(receipts.text_of(10), Some(&b"a"[..]));
        assert_eq!(receipts.text_of(12), Some(&b"c"[..]));
        assert_eq!(receipts.text_of(13), None);
        receipts.confirm(Confirm::one(10));
        assert_eq!(due(&mut receipts), ["a", "b", "c"]);
        assert!(receipts.is_empty());
        assert!(receipts.texts.is_empty());
    }

    #[test]
    fn say_more_where_there_is_more_to_say() {
        let mut receipts = Receipts::default();
        for (text, token) in [(b"a", 1), (b"b", 2), (b"c", 3)] {
            receipts.owe(text, token, 1);
        }
        for token in [2, 3, 1] {
            receipts.say_more(token, format!("\nversion:{token}").as_bytes());
            receipts.confirm(Confirm::one(token));
        }
        receipts.say_more(9, b"lost");
        assert_eq!(due(&mut receipts), ["a\nversion:1", "b\nversion:2", "c\nversion:3"]);
        assert!(receipts.texts.is_empty());
    }

    #[test]
    fn what_nobody_asked_for_is_waited_for_and_not_said() {
        let mut receipts = Receipts::default();
        for token in 1..=3 {
            receipts.await_unasked(token, 1);
        }
        receipts.owe(b"a", 4, 0);
        receipts.await_unasked(4, 2);
        receipts.owe(b"b", 6, 1);
        assert_eq!(receipts.entries.len(), 4);
        assert_eq!(receipts.text_of(2), None);
        assert_eq!(receipts.text_of(6), Some(&b"b"[..]));
        receipts.confirm(Confirm { from: 2, to: 6 });
        assert_eq!(due(&mut receipts), Vec::<String>::new());
        receipts.confirm(Confirm::one(1));
        assert_eq!(due(&mut receipts), ["a", "b"]);
        // One is always open, and all the same the first token moves on.
        for token in 7..7 + 10 * UNASKED_MAX {
            receipts.await_unasked(token, 1);
            receipts.confirm(Confirm::one(token.wrapping_sub(1)));
            assert_eq!(due(&mut receipts), Vec::<String>::new());
            assert!(
                token.wrapping_sub(receipts.base) <= 2 * UNASKED_MAX && receipts.entries.len() <= 2
            );
        }
        receipts.confirm(Confirm::one(6 + 10 * UNASKED_MAX));
        assert_eq!(due(&mut receipts), Vec::<String>::new());
        assert!(receipts.is_empty());
    }

    proptest! {
        #[test]
        fn each_leaves_once_and_in_order(
            actions in proptest::collection::vec(0u32..4, 1..30),
            start in prop_oneof![Just(1u32), Just(u32::MAX - 5)],
            order in any::<u64>(),
            asked in any::<u32>(),
        ) {
            let mut receipts = Receipts::default();
            let mut tokens = Vec::new();
            let mut next = start;
            let is_asked = |index: &usize| asked >> index & 1 == 1;
            for (index, count) in actions.iter().enumerate() {
                if is_asked(&index) {
                    receipts.owe(index.to_string().as_bytes(), next, *count);
                } else {
                    receipts.await_unasked(next, *count);
                }
                for _ in 0..*count {
                    tokens.push(next);
                    next = next.wrapping_add(1);
                }
            }
            let mut seen = due(&mut receipts);
            let mut order = order;
            while !tokens.is_empty() {
                order = order.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let token = tokens.swap_remove((order >> 33) as usize % tokens.len());
                receipts.confirm(Confirm::one(token));
                seen.extend(due(&mut receipts));
            }
            let asked = (0..actions.len()).filter(is_asked);
            let expected: Vec<String> = asked.map(|n| n.to_string()).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
