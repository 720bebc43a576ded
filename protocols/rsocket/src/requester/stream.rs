//! The streams of a connection, those of both sides.
//!
//! Relies on nothing but a table. Invariants: a stream takes 16 bytes of it; numbers of credit stop at
//! the largest there is; an id in use is not given twice.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::frame::{Interaction, NUMBER_MAX};

/// One stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Items that the other side may still send; from [`ENDLESS`] on they are not counted.
    pub(super) granted: u32,
    /// Items that we may still send; in the same way.
    pub(super) credit: u32,
    pub(super) interaction: Interaction,
    /// Whether the server has begun it.
    pub(super) theirs: bool,
    /// Whether we may not send any more.
    pub(super) sent: bool,
    /// Whether nothing comes any more.
    pub(super) received_last: bool,
}

/// Credit of so many items or more is never used up.
pub(super) const ENDLESS: u32 = u32::MAX;

/// The streams that live.
#[derive(Debug)]
pub(super) struct Streams {
    table: HashMap<u32, Stream, FixedState>,
    /// The last id that was given.
    last: u32,
    theirs: usize,
}

impl Default for Streams {
    fn default() -> Streams {
        // Ids are given by us, or by a server within a limit, so nobody can aim at the hash.
        Streams {
            table: HashMap::with_hasher(FixedState::with_seed(0)),
            last: NUMBER_MAX,
            theirs: 0,
        }
    }
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many the server has begun.
    pub(super) fn theirs(&self) -> usize {
        self.theirs
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.table.contains_key(&id)
    }

    pub(super) fn find(&mut self, id: u32) -> Option<&mut Stream> {
        self.table.get_mut(&id)
    }

    /// The next id that is free: odd, rising, from 1 again after the largest.
    pub(super) fn next_id(&mut self) -> Option<u32> {
        // As many steps as there are streams find a free one.
        for _ in 0..=self.table.len() {
            self.last = if self.last >= NUMBER_MAX { 1 } else { self.last + 2 };
            if !self.table.contains_key(&self.last) {
                return Some(self.last);
            }
        }
        None
    }

    pub(super) fn insert(&mut self, id: u32, stream: Stream) {
        self.theirs += usize::from(stream.theirs);
        self.table.insert(id, stream);
    }

    pub(super) fn remove(&mut self, id: u32) -> bool {
        let Some(stream) = self.table.remove(&id) else { return false };
        self.theirs -= usize::from(stream.theirs);
        true
    }

    /// Removes a stream if both sides are done.
    pub(super) fn remove_ended(&mut self, id: u32) {
        if self.table.get(&id).is_some_and(|stream| stream.sent && stream.received_last) {
            self.remove(id);
        }
    }
}

/// Adds credit, as much as the number can hold.
pub(super) fn add(credit: &mut u32, items: u32) {
    *credit = credit.saturating_add(items);
}

/// Uses credit for an item; whether there was any.
pub(super) fn take(credit: &mut u32) -> bool {
    match *credit {
        0 => false,
        ENDLESS => true,
        _ => {
            *credit -= 1;
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        let (granted, credit, theirs, sent, received_last) = (1, 0, false, true, false);
        Stream { granted, credit, interaction: Interaction::Response, theirs, sent, received_last }
    }

    #[test]
    fn ids_are_odd_rise_and_begin_again() {
        let mut streams = Streams::default();
        assert_eq!((streams.next_id(), streams.next_id()), (Some(1), Some(3)));
        streams.insert(1, stream());
        streams.insert(3, stream());
        streams.last = NUMBER_MAX - 2;
        assert_eq!(streams.next_id(), Some(NUMBER_MAX));
        assert_eq!(streams.next_id(), Some(5), "those in use are skipped");
    }

    #[test]
    fn credit_stops_at_the_largest_number() {
        let mut credit = NUMBER_MAX;
        add(&mut credit, 1);
        assert!(take(&mut credit));
        assert_eq!(credit, NUMBER_MAX);
        add(&mut credit, NUMBER_MAX);
        add(&mut credit, NUMBER_MAX);
        assert!(take(&mut credit));
        assert_eq!(credit, ENDLESS);
        let mut none = 0;
        assert!(!take(&mut none));
    }

    #[test]
    fn a_stream_takes_16_bytes() {
        assert_eq!(size_of::<(u32, Stream)>(), 16);
    }
}
