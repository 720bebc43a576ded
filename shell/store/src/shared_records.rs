//! Records that several streams have in common, and how many of these still need each.
//!
//! Relies on nothing. Invariants: of a record, every byte is given up once, the last with the last stream that needs it;
//! a record that one stream alone has is not here.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::messages::Place;

/// A record of several streams.
#[derive(Clone, Copy, Debug)]
struct SharedRecord {
    /// Streams that need it.
    left: u32,
    /// Bytes of it that were not given up.
    live: u32,
    /// Bytes that are given up with each stream but the last: a copy is that much shorter.
    each: u32,
    /// Bytes that it would have for one stream.
    alone: u32,
}

/// The records that several streams share, and what messages of queues take.
#[derive(Debug, Default)]
pub(crate) struct SharedRecords {
    shared: HashMap<u64, SharedRecord, RandomState>,
    /// Bytes of the records of messages of queues.
    queue_bytes: u64,
}

impl SharedRecords {
    /// A record at a place has messages of so many streams, whose list has so many bytes.
    pub(crate) fn insert(&mut self, place: Place, streams: u32, list_bytes: usize) {
        let list = u32::try_from(list_bytes).unwrap_or(u32::MAX).min(place.bytes);
        let each = list / streams.max(1);
        let alone = place.bytes - list + each;
        self.shared
            .insert(key(place), SharedRecord { left: streams, live: place.bytes, each, alone });
        self.queue_bytes += u64::from(place.bytes);
    }

    /// Whether several streams have what lies at a place, or had it when it was written.
    pub(crate) fn are_at(&self, place: Place) -> bool {
        !self.shared.is_empty() && self.shared.contains_key(&key(place))
    }

    /// Bytes of a record as if one stream had it alone.
    pub(crate) fn bytes_alone(&self, place: Place) -> u32 {
        match self.shared.is_empty() {
            true => place.bytes,
            false => self.shared.get(&key(place)).map_or(place.bytes, |body| body.alone),
        }
    }

    /// Bytes of a record that count for the stream alone.
    fn own_bytes(&self, place: Place) -> u64 {
        if self.are_at(place) { 0 } else { u64::from(place.bytes) }
    }

    /// A stream of which these are records has become a queue, or is none any more.
    pub(crate) fn set_queue(&mut self, places: impl Iterator<Item = Place>, is_queue: bool) {
        let bytes: u64 = places.map(|place| self.own_bytes(place)).sum();
        match is_queue {
            true => self.queue_bytes += bytes,
            false => self.queue_bytes -= bytes,
        }
    }

    /// A queue has a record that is its own.
    pub(crate) fn note_own(&mut self, place: Place) {
        self.queue_bytes += u64::from(place.bytes);
    }

    /// One stream does not need the record at a place any more: what is given up of it.
    pub(crate) fn release(&mut self, place: Place, is_queue: bool) -> Place {
        let bytes = match self.release_shared(place) {
            Some(bytes) => bytes,
            None if is_queue => place.bytes,
            None => return place,
        };
        self.queue_bytes -= u64::from(bytes);
        Place { bytes, ..place }
    }

    fn release_shared(&mut self, place: Place) -> Option<u32> {
        if self.shared.is_empty() {
            return None;
        }
        let body = self.shared.get_mut(&key(place))?;
        body.left -= 1;
        if body.left == 0 {
            let live = body.live;
            self.shared.remove(&key(place));
            if self.shared.is_empty() {
                self.shared.shrink_to_fit();
            }
            return Some(live);
        }
        body.live -= body.each;
        Some(body.each)
    }

    /// Bytes of the records of messages of queues, volatile ones too. What several have counts once.
    pub(crate) fn queue_bytes(&self) -> u64 {
        self.queue_bytes
    }
}

fn key(place: Place) -> u64 {
    u64::from(place.segment) << 32 | u64::from(place.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_given_up_once() {
        for (streams, list) in [(1, 3), (2, 5), (7, 7), (100, 250), (3, 0), (3, 1000)] {
            let place = Place { segment: 3, offset: 40, bytes: 300 };
            let mut bodies = SharedRecords::default();
            bodies.insert(place, streams, list);
            assert_eq!(bodies.queue_bytes(), 300);
            let mut given_up = 0;
            for left in (0..streams).rev() {
                assert!(bodies.are_at(place));
                given_up += bodies.release(place, true).bytes;
                assert_eq!(bodies.queue_bytes() + u64::from(given_up), 300);
                assert!(left == 0 || given_up < 300, "it is needed");
            }
            assert!(given_up == 300 && !bodies.are_at(place));
        }
    }
}
