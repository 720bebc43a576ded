//! The streams of the index by their number: millions of records without room between them.
//!
//! Relies on `hashbrown`. Records lie in pages that never move; a table of 32-bit places finds them. So a
//! stream costs its record and some ten bytes, also just after the table has doubled. Invariant: each number
//! has at most one record, and a place that was given up is used again before a new page is made.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::messages::{Messages, Place};
use crate::record::{Mark, StreamId, StreamKind};

/// Records of a page.
const PAGE: usize = 1024;

/// What the index knows of one stream. Of these there are millions.
#[derive(Debug)]
pub(crate) struct Stream {
    id: StreamId,
    pub(crate) mark: Mark,
    pub(crate) messages: Messages,
    /// What it was declared as; of no meaning before.
    pub(crate) kind: StreamKind,
    /// Where it is declared; none while only its messages have been seen.
    pub(crate) declaration: Place,
}

const _: () = assert!(size_of::<Stream>() <= 72, "a stream is small");

impl Stream {
    fn undeclared(id: StreamId) -> Stream {
        let (mark, messages, kind) = (Mark::default(), Messages::None, StreamKind::Topic);
        Stream { id, mark, messages, kind, declaration: Place::NONE }
    }

    /// Whether its messages are those of a queue. Volatile streams need no declaration.
    pub(crate) fn is_queue(&self) -> bool {
        self.kind == StreamKind::Queue || self.id.is_volatile()
    }

    /// The mark rises and never falls.
    pub(crate) fn advance(&mut self, mark: Mark) {
        if mark.sequence >= self.mark.sequence {
            self.mark = mark;
        }
    }
}

/// Streams by their number.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    table: HashTable<u32>,
    hasher: RandomState,
    pages: Vec<Vec<Stream>>,
    /// Places without a stream.
    free: Vec<u32>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        let place = self.find(id)?;
        at(&self.pages, place)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let place = self.find(id)?;
        self.pages.get_mut(place as usize / PAGE)?.get_mut(place as usize % PAGE)
    }

    /// The stream of that number, made if there is none.
    pub(crate) fn get_or_insert(&mut self, id: StreamId) -> &mut Stream {
        let place = match self.find(id) {
            Some(place) => place,
            None => self.insert(id),
        };
        &mut self.pages[place as usize / PAGE][place as usize % PAGE]
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let (pages, hash) = (&self.pages, self.hasher.hash_one(id));
        let is_it = |place: &u32| at(pages, *place).is_some_and(|stream| stream.id == id);
        let (place, _) = self.table.find_entry(hash, is_it).ok()?.remove();
        self.free.push(place);
        let stream = self.pages.get_mut(place as usize / PAGE)?.get_mut(place as usize % PAGE)?;
        Some(std::mem::replace(stream, Stream::undeclared(StreamId(0))))
    }

    /// All streams, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        self.table.iter().filter_map(|place| at(&self.pages, *place)).map(|found| (found.id, found))
    }

    fn find(&self, id: StreamId) -> Option<u32> {
        let is_it = |place: &u32| at(&self.pages, *place).is_some_and(|stream| stream.id == id);
        self.table.find(self.hasher.hash_one(id), is_it).copied()
    }

    fn insert(&mut self, id: StreamId) -> u32 {
        let stream = Stream::undeclared(id);
        let place = match self.free.pop() {
            Some(place) => {
                self.pages[place as usize / PAGE][place as usize % PAGE] = stream;
                place
            }
            None => self.append(stream),
        };
        let (pages, hasher) = (&self.pages, &self.hasher);
        self.table.insert_unique(hasher.hash_one(id), place, |place| {
            at(pages, *place).map_or(0, |stream| hasher.hash_one(stream.id))
        });
        place
    }

    fn append(&mut self, stream: Stream) -> u32 {
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            // The first page grows as it is needed: most stores of tests are small.
            let capacity = if self.pages.is_empty() { 0 } else { PAGE };
            self.pages.push(Vec::with_capacity(capacity));
        }
        let page = self.pages.len() - 1;
        self.pages[page].push(stream);
        (page * PAGE + self.pages[page].len() - 1) as u32
    }
}

fn at(pages: &[Vec<Stream>], place: u32) -> Option<&Stream> {
    pages.get(place as usize / PAGE)?.get(place as usize % PAGE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_numbers_does_the_same(
            steps in proptest::collection::vec((0u8..3, 0u64..3000), 0..4000)
        ) {
            let mut streams = Streams::default();
            let mut model = BTreeSet::new();
            let mut most = 0;
            for (step, number) in steps {
                let id = StreamId(number);
                if step == 0 {
                    prop_assert_eq!(streams.remove(id).is_some(), model.remove(&number));
                } else {
                    let stream = streams.get_or_insert(id);
                    prop_assert_eq!(stream.mark.sequence == number + 1, model.contains(&number));
                    stream.advance(Mark { sequence: number + 1, version: 0 });
                    model.insert(number);
                }
                prop_assert_eq!(streams.len(), model.len());
                most = most.max(model.len());
            }
            let found: BTreeSet<u64> = streams.iter().map(|(id, _)| id.0).collect();
            prop_assert_eq!(&found, &model);
            prop_assert!(found.iter().all(|n| streams.get_mut(StreamId(*n)).is_some()));
            let records: usize = streams.pages.iter().map(Vec::len).sum();
            prop_assert_eq!(records, most);
        }
    }
}
